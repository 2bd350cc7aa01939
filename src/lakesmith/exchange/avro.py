"""Export a table's columns as an Avro record schema, as schema registries store it."""

from __future__ import annotations

import json
import re
from typing import Any

from lakesmith.declare.spark_type import ArrayType, DecimalType, MapType, SimpleType, SparkType, StructType, parse_type
from lakesmith.declare.table import Column, Table
from lakesmith.errors import DeclarationError, LakesmithError, raise_all

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
    """Return the schema as JSON. The same contract always gives the same text."""
    return json.dumps(avro_schema(table), ensure_ascii=False, indent=2) + "\n"


def avro_schema(table: Table) -> dict[str, Any]:
    """Return the record schema. A nullable column has the default null."""
    raise_all(_problems(table))
    space = f"{table.name.layer}.{table.name.name}"
    fields = [_field(column, space) for column in table.columns]
    schema = {"type": "record", "name": table.name.name, "namespace": table.name.layer}
    return schema | ({"doc": table.description} if table.description else {}) | {"fields": fields}


def _problems(table: Table) -> list[LakesmithError]:
    if not table.columns:
        what, hint = f"{table.name} declares no columns", "declare the columns: an Avro record needs fields"
        return [DeclarationError("no-columns", what, at=table.declared_at, table=str(table.name), hint=hint)]
    problems: list[LakesmithError] = []
    for column in table.columns:
        if column.type is None:
            what = f"the column '{column.name}' has no type, but an Avro field needs one"
            problems.append(_problem("no-type", what, column, table, f"{column.name}: {{type: string, …}}"))
        for name in (column.name, *_names(parse_type(column.type or "string"))):
            if not _NAME.fullmatch(name):
                what = f"'{name}' is not a valid name in Avro"
                hint = "rename it in the query: Avro names have letters a to z, digits and underscores"
                problems.append(_problem("bad-avro-name", what, column, table, hint))
    return problems


def _problem(code: str, what: str, column: Column, table: Table, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=column.declared_at, table=str(table.name), hint=hint)


def _names(type: SparkType) -> list[str]:
    """Return the names of all nested fields."""
    match type:
        case StructType():
            return [each for name, below in type.fields for each in (name, *_names(below))]
        case ArrayType():
            return _names(type.element)
        case MapType():
            return [*_names(type.key), *_names(type.value)]
        case _:
            return []


def _field(column: Column, space: str) -> dict[str, Any]:
    type = _type(parse_type(column.type or "string"), column.name, space)
    doc = {"doc": column.description} if column.description else {}
    field = {"name": column.name, "type": type} if column.is_required else _nullable(column.name, type)
    return field | doc


def _nullable(name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type], "default": None}


def _type(type: SparkType, name: str, space: str) -> Any:
    """Return the Avro type. A record's namespace is the path to it, so that names are unique."""
    match type:
        case SimpleType():
            return _PLAIN[type.name]
        case DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": type.precision, "scale": type.scale}
        case ArrayType():
            return {"type": "array", "items": ["null", _type(type.element, name, space)]}
        case MapType(key=SimpleType(name="string")):
            return {"type": "map", "values": ["null", _type(type.value, name, space)]}
        case MapType():
            # Avro maps have string keys; other maps become arrays of pairs, as in Iceberg.
            pair = [
                {"name": "key", "type": _type(type.key, "key", f"{space}.{name}")},
                _nullable("value", _type(type.value, "value", f"{space}.{name}")),
            ]
            record = {"type": "record", "name": name, "namespace": space, "fields": pair}
            return {"type": "array", "items": record, "logicalType": "map"}
        case StructType():
            fields = [_nullable(each, _type(below, each, f"{space}.{name}")) for each, below in type.fields]
            return {"type": "record", "name": name, "namespace": space, "fields": fields}
