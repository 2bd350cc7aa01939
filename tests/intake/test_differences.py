"""Differences between columns."""

from __future__ import annotations

from operator import eq

from lakesmith.intake.differences import differences, flat, type_name
from lakesmith.intake.shapes import schema_of

OLD = flat(schema_of({"id": "bigint", "to": "struct<zip:int,lines:array<struct<sku:string>>>", "a.b": "string"}))


def test_new_missing_and_changed_columns_are_reported_once_at_every_depth() -> None:
    new = flat(schema_of({"ID": "bigint", "to": "struct<zip:string,lines:array<struct<n:int>>>", "x": "struct<y:int>"}))
    assert differences(OLD, new, type_name=type_name, fits=eq) == [
        "+ to.lines[].n int",
        "+ x struct",
        "- to.lines[].sku string",
        "- a.b string",
        "~ to.zip int → string",
    ]


def test_missing_columns_can_be_ignored() -> None:
    assert differences(OLD, flat(schema_of({"id": "bigint"})), type_name=type_name, fits=eq, gone=False) == []
