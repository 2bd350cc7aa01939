"""A table's rows as an Avro record: the schema that a registry can hold for them."""

from __future__ import annotations

import json
import re
from typing import Any

from lakesmith.declare.table import Column, Table
from lakesmith.errors import DeclarationError, LakesmithError, raise_all
from lakesmith.exchange.types import Exact, ListOf, MapOf, Plain, Record, SparkType, tree

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: dict[str, Any] = {
    "bigint": "long",
    "int": "int",
    "smallint": "int",
    "tinyint": "int",
    "string": "string",
    "boolean": "boolean",
    "double": "double",
    "float": "float",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_text(table: Table) -> str:
    """The schema as JSON, the same text for the same contract."""
    return json.dumps(avro_schema(table), ensure_ascii=False, indent=2) + "\n"


def avro_schema(table: Table) -> dict[str, Any]:
    """The record schema. A column that may be without a value is null by default."""
    raise_all(_problems(table))
    space = f"{table.name.layer}.{table.name.name}"
    fields = [_field(column, space) for column in table.columns]
    schema = {"type": "record", "name": table.name.name, "namespace": table.name.layer}
    return schema | ({"doc": table.description} if table.description else {}) | {"fields": fields}


def _problems(table: Table) -> list[LakesmithError]:
    if not table.columns:
        what, hint = f"{table.name} declares no columns", "an Avro record has fields: declare them below columns"
        return [DeclarationError("no-columns", what, at=table.declared_at, table=str(table.name), hint=hint)]
    found: list[LakesmithError] = []
    for column in table.columns:
        if column.type is None:
            what = f"the column '{column.name}' has no type, and an Avro field needs one"
            found.append(_problem("no-type", what, column, table, f"{column.name}: {{type: string, …}}"))
        for name in (column.name, *_names(tree(column.type or "string"))):
            if not _NAME.fullmatch(name):
                what = f"'{name}' cannot be a name in Avro"
                hint = "Avro's names have the letters a to z, digits and underscores; rename it in the query"
                found.append(_problem("bad-avro-name", what, column, table, hint))
    return found


def _problem(code: str, what: str, column: Column, table: Table, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=column.declared_at, table=str(table.name), hint=hint)


def _names(type: SparkType) -> list[str]:
    """The names of all fields below a type."""
    match type:
        case Record():
            return [each for name, below in type.fields for each in (name, *_names(below))]
        case ListOf():
            return _names(type.item)
        case MapOf():
            return [*_names(type.key), *_names(type.value)]
        case _:
            return []


def _field(column: Column, space: str) -> dict[str, Any]:
    type = _type(tree(column.type or "string"), column.name, space)
    doc = {"doc": column.description} if column.description else {}
    if column.required or column.key:
        return {"name": column.name, "type": type} | doc
    return {"name": column.name, "type": ["null", type], "default": None} | doc


def _type(type: SparkType, name: str, space: str) -> Any:
    """The Avro type. Records are named by the way to them, so that no two have one name."""
    match type:
        case Plain():
            return _PLAIN[type.name]
        case Exact():
            return {"type": "bytes", "logicalType": "decimal", "precision": type.precision, "scale": type.scale}
        case ListOf():
            return {"type": "array", "items": ["null", _type(type.item, name, space)]}
        case MapOf(key=Plain(name="string")):
            return {"type": "map", "values": ["null", _type(type.value, name, space)]}
        case MapOf():
            # Avro's maps have texts as keys; the others are pairs, as Iceberg writes them too.
            pair = [
                {"name": "key", "type": _type(type.key, "key", f"{space}.{name}")},
                {"name": "value", "type": ["null", _type(type.value, "value", f"{space}.{name}")], "default": None},
            ]
            record = {"type": "record", "name": name, "namespace": space, "fields": pair}
            return {"type": "array", "items": record, "logicalType": "map"}
        case Record():
            fields = [
                {"name": each, "type": ["null", _type(below, each, f"{space}.{name}")], "default": None}
                for each, below in type.fields
            ]
            return {"type": "record", "name": name, "namespace": space, "fields": fields}
