"""Import foreign contracts as declarations. Each kind of document has one reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from lakesmith.declare import TableName
from lakesmith.errors import DeclarationError, Place, UsageError
from lakesmith.exchange.odcs_reader import read_odcs
from lakesmith.exchange.request import ImportRequest, ImportResult, table_name

_MAX_BYTES = 4 << 20
_MAX_VALUES = 200_000
_SUITES = "suite of Great Expectations (JSON)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentReader:
    """Recognizes and reads one kind of document."""

    kind: str
    """The name of the kind."""
    is_one: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], ImportRequest], ImportResult]


READERS: Mapping[str, DocumentReader] = {
    "odcs": DocumentReader(
        kind="Open Data Contract Standard 3",
        is_one=lambda document: document.get("kind") == "DataContract",
        read=read_odcs,
    ),
}


def read_document(file: str | Path) -> str:
    """Return the text of a document's file."""
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise _unreadable("the document is not UTF-8", str(file)) from None
    except OSError as error:
        what = f"{file} cannot be read: {error.strerror}"
        raise UsageError("unreadable-file", what, hint="name an existing file") from None


class Suite(Protocol):
    """A suite of another tool, read as columns and checks."""

    @property
    def text(self) -> str: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...


def import_suite(
    text: str, request: ImportRequest, is_one: Callable[[object], bool], read: Callable[[str, TableName], Suite]
) -> ImportResult | None:
    """Return the columns and checks of a suite, to paste into a table, or None when the text is not a suite."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not is_one(document):
        return None
    warnings: list[str] = []
    title = document.get("name") or document.get("expectation_suite_name")
    name = table_name(request, title, warnings=warnings)
    suite = read(text, name)
    warnings += suite.warnings
    return ImportResult(text=suite.text, warnings=tuple(warnings), file=f"{name.layer}/{name.name}.yml", complete=False)


def import_contract(text: str, request: ImportRequest) -> ImportResult:
    """Return the declaration of a document of any supported kind."""
    document = _document(text, request.file)
    for reader in READERS.values():
        if reader.is_one(document):
            return reader.read(document, request)
    raise DeclarationError(
        "unknown-document",
        "the document is of a kind that cannot be imported",
        at=Place(request.file),
        hint="supported kinds: " + ", ".join((*(reader.kind for reader in READERS.values()), _SUITES)),
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

    def day(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        return str(loader.construct_scalar(node))

    Loader.add_constructor("tag:yaml.org,2002:float", number)
    Loader.add_constructor("tag:yaml.org,2002:timestamp", day)
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise _unreadable(f"the document is larger than {_MAX_BYTES >> 20} MB", file)
    try:
        found = yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, ArithmeticError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0)
        reason = " ".join(str(error).split())
        raise _unreadable(f"the document is neither YAML nor JSON: {reason[:200]}", file, line + 1) from None
    if not isinstance(found, Mapping) or _size(found) > _MAX_VALUES:
        raise _unreadable("the document is not a mapping, or has too many values", file)
    return found


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
