"""Every key, error code, column and public name is in the docs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tests.docs.codes import codes
from tests.docs.markdown import DOCS, ROOT, prose

import lakesmith
from lakesmith.declare import LAYERS, Load, Severity
from lakesmith.declare.contract import Contract
from lakesmith.lake import Lake
from lakesmith.ledger.tables import SYSTEM_TABLES

REFERENCE = DOCS / "reference"


PAGES = (
    "errors",
    "source-errors",
    "check-errors",
    "contract-errors",
    "maintenance-errors",
    "disk-errors",
    "query-errors",
)
ERRORS = tuple(REFERENCE / f"{name}.md" for name in PAGES)


def explained() -> list[str]:
    return [code for page in ERRORS for code in first_cells(page)]


def first_cells(page: Path) -> list[str]:
    """Return the words in backticks in the first column of the page's tables."""
    rows = re.findall(r"^\| (`[^|]*`) \|", prose(page), re.MULTILINE)
    return [word for cell in rows for word in re.findall(r"`([^`]+)`", cell)]


def section(page: Path, title: str) -> str:
    return prose(page).partition(f"## {title}\n")[2].partition("\n## ")[0]


def keys(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield every key of a JSON Schema, with `*` for names that the user chooses."""
    for key, value in schema.get("properties", {}).items():
        yield path + key
        yield from keys(value, f"{path}{key}.")
    for value in schema.get("anyOf", []):
        yield from keys(value, path)
    names = schema.get("additionalProperties")
    if isinstance(names, dict):
        yield from keys(names, f"{path}*.")


def documented_keys(text: str) -> list[str]:
    """Return the words in backticks in the first column of tables."""
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def schema_keys(kind: str) -> set[str]:
    return set(keys(json.loads((ROOT / "src/lakesmith/schema" / f"{kind}.json").read_text(encoding="utf-8"))))


def test_exactly_the_keys_of_the_lake_file_are_explained() -> None:
    assert set(documented_keys(section(REFERENCE / "configuration.md", "lakesmith.yml"))) == schema_keys("lake")


def test_exactly_the_keys_of_a_table_are_explained() -> None:
    pages = [prose(REFERENCE / f"{page}.md") for page in ("load-keys", "check-keys")]
    text = "\n".join([section(REFERENCE / "configuration.md", "A table"), *pages])
    assert sorted(documented_keys(text)) == sorted(schema_keys("table"))


def test_every_error_code_is_explained() -> None:
    assert sorted(set(codes()) - set(explained())) == []


def test_no_unknown_error_code_is_explained() -> None:
    assert sorted(set(explained()) - set(codes())) == []


def test_the_exit_code_of_every_error_is_right() -> None:
    documented = re.findall(r"^\| `([^`]+)` \| ([\d, ]+) \|", "\n".join(prose(page) for page in ERRORS), re.MULTILINE)
    listed = {code: {int(number) for number in exits.split(",")} for code, exits in documented}
    assert listed == codes()


def test_every_load_is_explained() -> None:
    load_names = {re.sub(r"(?<!^)(?=[A-Z])", "_", load.__name__).lower() for load in get_args(Load)}
    assert {"append", "replace_partitions"} < load_names
    assert load_names - set(first_cells(DOCS / "concepts" / "loads.md")) == set()


def test_every_severity_and_contract_is_explained() -> None:
    documented = set(re.findall(r"^\| `(\w+)`", prose(DOCS / "concepts" / "contracts-and-checks.md"), re.MULTILINE))
    assert {*get_args(Severity), *get_args(Contract)} - documented == set()


def test_every_layer_is_explained() -> None:
    assert set(LAYERS) - set(first_cells(DOCS / "concepts" / "layers.md")) == set()


def test_the_columns_of_the_system_tables_are_explained_with_their_types() -> None:
    types = {str: "string", int: "bigint", float: "double", bool: "boolean", datetime: "timestamp"}
    for name, record in SYSTEM_TABLES.items():
        documented = re.findall(
            r"^\| `(\w+)` \| (\w+) \|", section(REFERENCE / "system-tables.md", f"system.{name}"), re.MULTILINE
        )
        hints = get_type_hints(record)
        assert documented == [
            (field.name, types.get(next(iter(get_args(hints[field.name])), hints[field.name]), "string"))
            for field in dataclasses.fields(record)
        ], name


def test_every_public_name_is_explained() -> None:
    text = prose(REFERENCE / "python.md")
    assert [name for name in lakesmith.__all__ if not re.search(rf"`{name}\b", text)] == []


def test_every_method_of_a_lake_is_explained() -> None:
    methods = {name for name in dir(Lake) if callable(getattr(Lake, name)) and not name.startswith("_")}
    documented = set(re.findall(r"^\| `(?:Lake\.)?(\w+)\(", prose(REFERENCE / "python.md"), re.MULTILINE))
    assert methods | {"open"} == documented
