"""The Avro schema of a table: fastavro accepts it, and rows are unchanged after write and read."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests.exchange.tables import HEAD, loaded

from lakesmith.errors import LakesmithError, Problems
from lakesmith.exchange.avro import avro_schema, avro_text
from lakesmith.exchange.avro_reader import avro_fields

COLUMNS = """
columns:
  id: {type: bigint, key: true}
  small: {type: tinyint, required: true}
  email: {type: string, description: Who ordered it}
  amount: decimal(12,2)
  at: timestamp
  local: timestamp_ntz
  day: date
  good: boolean
  rate: double
  raw: binary
  place: "struct<city:string,geo:struct<lat:double,city:struct<city:string>>>"
  lines: "array<struct<sku:string,place:struct<city:string>>>"
  names: "map<string,struct<a:int>>"
  numbers: "map<int,struct<a:int>>"
"""
ROW = {
    "id": 1,
    "small": 2,
    "email": "a@b",
    "amount": Decimal("12.50"),
    "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "local": datetime(2026, 1, 2, 3, 4, 5, 6),
    "day": date(2026, 1, 2),
    "good": True,
    "rate": 0.5,
    "raw": b"\x00\xff",
    "place": {"city": "Oslo", "geo": {"lat": 1.0, "city": {"city": None}}},
    "lines": [{"sku": "x", "place": {"city": "y"}}, None],
    "names": {"k": {"a": 1}, "none": None},
    "numbers": [{"key": 7, "value": {"a": 1}}],
}


def there_and_back(schema: dict[str, Any], row: dict[str, Any]) -> object:
    parsed, buffer = fastavro.parse_schema(schema), BytesIO()
    fastavro.writer(buffer, parsed, [row])
    buffer.seek(0)
    return next(iter(fastavro.reader(buffer)))


def test_rows_are_unchanged_after_write_and_read(tmp_path: Path) -> None:
    assert there_and_back(avro_schema(loaded(tmp_path, HEAD + COLUMNS)), ROW) == ROW


def test_a_row_needs_only_required_columns(tmp_path: Path) -> None:
    schema = avro_schema(loaded(tmp_path, HEAD + COLUMNS))
    back = there_and_back(schema, {"id": 1, "small": 2})
    assert back == {**dict.fromkeys(ROW), "id": 1, "small": 2}
    with pytest.raises(ValueError, match="small"):
        there_and_back(schema, {"id": 1})


def test_descriptions_are_exported(tmp_path: Path) -> None:
    schema = avro_schema(loaded(tmp_path, HEAD + "description: All orders\n" + COLUMNS))
    assert (schema["doc"], schema["fields"][2]["doc"]) == ("All orders", "Who ordered it")


def test_an_exported_schema_is_read_back_with_the_same_types(tmp_path: Path) -> None:
    table = loaded(tmp_path, HEAD + COLUMNS)
    found = avro_fields(avro_text(table))
    assert found is not None
    expected = {column.name: (column.type or "").replace("tinyint", "int") for column in table.columns}
    assert {name: str(field.type) for name, field in found.items()} == expected
    assert [name for name, field in found.items() if not field.nullable] == ["id", "small"]


def test_foreign_schemas_are_read_with_names_and_unions() -> None:
    schema = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "a", "type": "int"}]}},
            {"name": "again", "type": ["null", "Place"]},
            {"name": "full", "type": "shop.Place"},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["A"]}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
            {
                "name": "price",
                "type": {"type": "fixed", "name": "P", "size": 8, "logicalType": "decimal", "precision": 9},
            },
            {"name": "millis", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "either", "type": ["int", "string"]},
            {"name": "wrapped", "type": {"type": "string"}},
        ],
    }
    found = avro_fields(json.dumps(schema))
    assert found is not None
    assert {name: str(field.type) for name, field in found.items()} == {
        "place": "struct<a:int>",
        "again": "struct<a:int>",
        "full": "struct<a:int>",
        "state": "string",
        "hash": "binary",
        "price": "decimal(9,0)",
        "millis": "timestamp",
        "either": "union",
        "wrapped": "string",
    }


@pytest.mark.parametrize("text", ["", '"string"', "[]", '{"type": "record"}', '{"type": "record", "fields": [{}]}'])
def test_a_schema_that_is_not_a_record_has_no_fields(text: str) -> None:
    assert avro_fields(text) is None


@pytest.mark.parametrize(
    ("columns", "codes"),
    [
        ("", ["no-columns"]),
        ("columns: {a: {}, b: int}", ["no-type"]),
        ("columns: {größe: int, b: {}}", ["bad-avro-name", "no-type"]),
        ('columns: {a: "array<struct<größe:int>>"}', ["bad-avro-name"]),
    ],
)
def test_a_type_that_avro_lacks_is_an_error_with_its_place(columns: str, codes: list[str], tmp_path: Path) -> None:
    with pytest.raises(LakesmithError) as raised:
        avro_schema(loaded(tmp_path, HEAD + columns))
    found = raised.value.errors if isinstance(raised.value, Problems) else [raised.value]
    assert [problem.code for problem in found] == codes
    assert all(problem.at and problem.hint for problem in found)
