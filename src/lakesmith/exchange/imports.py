"""Import foreign contracts as declarations. Each kind of document has one reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakesmith.errors import DeclarationError, Place, UsageError
from lakesmith.exchange.great_expectations.suites import is_suite, read_suite
from lakesmith.exchange.odcs_reader import read_odcs
from lakesmith.exchange.request import ImportRequest, ImportResult

_MAX_BYTES = 4 << 20
_MAX_VALUES = 200_000


def read_document(file: str | Path) -> str:
    """Return the text of a document's file."""
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise _unreadable("the document is not UTF-8", str(file)) from None
    except OSError as error:
        what = f"{file} cannot be read: {error.strerror}"
        raise UsageError("unreadable-file", what, hint="name an existing file") from None


def import_contract(text: str, request: ImportRequest) -> ImportResult:
    """Return the declaration of a document of any supported kind."""
    try:
        suite = json.loads(text, parse_float=Decimal, parse_constant=lambda word: word)
    except (ValueError, ArithmeticError, RecursionError):
        suite = None
    if is_suite(suite):
        return read_suite(suite, request)
    document = _document(text, request.file)
    if document.get("kind") == "DataContract":
        return read_odcs(document, request)
    raise DeclarationError(
        "unknown-document",
        "the document is of a kind that cannot be imported",
        at=Place(request.file),
        hint="supported kinds: Open Data Contract Standard 3, suite of Great Expectations (JSON)",
    )


def _document(text: str, file: str) -> Mapping[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads numbers exactly, dates as text, and the country code NO as text, as YAML 1.2 does."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":bool") or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Decimal | float:
        written = loader.construct_scalar(node).replace("_", "")
        return float(loader.construct_yaml_float(node)) if written.strip("+-").startswith(".") else Decimal(written)

    def text_of(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        return str(loader.construct_scalar(node))

    Loader.add_constructor("tag:yaml.org,2002:float", number)
    Loader.add_constructor("tag:yaml.org,2002:timestamp", text_of)
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise _unreadable(f"the document is larger than {_MAX_BYTES >> 20} MB", file)
    try:
        document = yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, ArithmeticError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0)
        reason = " ".join(str(error).split())
        raise _unreadable(f"the document is neither YAML nor JSON: {reason[:200]}", file, line + 1) from None
    if not isinstance(document, Mapping) or _size(document) > _MAX_VALUES:
        raise _unreadable("the document is not a mapping, or has too many values", file)
    return document


def _size(value: object) -> int:
    """Return the number of values. Counting stops at the limit, so aliases cannot multiply them."""
    waiting, count = [value], 0
    while waiting and count <= _MAX_VALUES:
        count += 1
        match waiting.pop():
            case Mapping() as each:
                waiting.extend(each.values())
            case list() as items:
                waiting.extend(items)
    return count


def _unreadable(what: str, file: str, line: int = 1) -> DeclarationError:
    hint = "give a contract as YAML or JSON, such as `lakesmith contract export` writes"
    return DeclarationError("bad-document", what, at=Place(file, line), hint=hint)
