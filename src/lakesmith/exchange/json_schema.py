"""Export a table's rows as a JSON Schema of draft 2020-12."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from lakesmith.declare.checks import Check, In, Length, Pattern, Range, Required
from lakesmith.declare.spark_type import ArrayType, DecimalType, MapType, SimpleType, SparkType, StructType, parse_type
from lakesmith.declare.table import Column, Table
from lakesmith.exchange.declaration_keys import exact_number, given

_PLAIN: dict[str, dict[str, Any]] = {
    "bigint": {"type": "integer"},
    "int": {"type": "integer"},
    "smallint": {"type": "integer"},
    "tinyint": {"type": "integer"},
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "double": {"type": "number"},
    "float": {"type": "number"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string"},
}
_JAVA_ONLY = re.compile(r"\\[pPQEAzZGhHRX]|\(\?[a-zA-Z-]+[):]|\(\?>|[*+?}]\+|&&|\[[^\]]*\[")
"""Syntax of Java's regular expressions that JSON Schema does not have."""


def json_schema_text(table: Table) -> str:
    return json.dumps(json_schema(table), ensure_ascii=False, indent=2) + "\n"


def json_schema(table: Table) -> dict[str, Any]:
    """Return the schema of one row. Rules that only SQL can express are not in it."""
    closed = table.contract == "strict"
    strict = [check for check in table.checks if check.where is None and check.on_fail != "warn"]
    checked = {name for check in strict if isinstance(check.rule, Required) for name in check.rule.columns}
    required = [column.name for column in table.columns if column.is_required or column.name in checked]
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": str(table.name)}
    if table.description:
        schema["description"] = table.description
    schema |= {
        "type": "object",
        "properties": {
            column.name: _column(column, strict, closed, nullable=column.name not in required)
            for column in table.columns
        },
    }
    if required:
        schema["required"] = required
    return schema | ({"additionalProperties": False} if closed else {})


def _column(column: Column, checks: list[Check], closed: bool, *, nullable: bool) -> dict[str, Any]:
    type = parse_type(column.type) if column.type else None
    schema = _type(type, closed) if type else {}
    for check in checks:
        constraint = _constraint(check, column.name, type)
        if constraint.keys() & schema.keys():
            schema.setdefault("allOf", []).append(constraint)
        else:
            schema |= constraint
    schema = _nullable(schema) if nullable else schema
    if column.description:
        schema["description"] = column.description
    if column.deprecated:
        schema["deprecated"] = True
    return schema


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with null allowed. Rules on values ignore NULL."""
    nullable = dict(schema)
    if "type" in schema:
        nullable["type"] = [schema["type"], "null"]
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    if "allOf" in schema:
        nullable["allOf"] = [_nullable(each) for each in schema["allOf"]]
    return nullable


def _type(type: SparkType, closed: bool) -> dict[str, Any]:
    match type:
        case SimpleType():
            return dict(_PLAIN[type.name])
        case DecimalType(scale=0):
            return {"type": "integer"}
        case DecimalType():
            return {"type": "number"}
        case ArrayType():
            return {"type": "array", "items": _nullable(_type(type.element, closed))}
        case MapType():
            return {"type": "object", "additionalProperties": _nullable(_type(type.value, closed))}
        case StructType():
            fields = {name: _nullable(_type(each, closed)) for name, each in type.fields}
            return {"type": "object", "properties": fields, **({"additionalProperties": False} if closed else {})}


def _constraint(check: Check, column: str, type: SparkType | None) -> dict[str, Any]:
    """Return what a check requires of a column's values."""
    match check.rule:
        case In() as rule if rule.column == column:
            return {"enum": [_value(value) for value in rule.values]}
        case Range() as rule if rule.column == column and _is_number(type):
            bounds = {"minimum": rule.min, "maximum": rule.max}
            return {key: _value(each) for key, each in bounds.items() if isinstance(each, int | Decimal)}
        case Length() as rule if rule.column == column:
            return given(minLength=rule.min, maxLength=rule.max)
        case Pattern() as rule if rule.column == column and not _JAVA_ONLY.search(rule.matches):
            return {"pattern": rule.matches}
        case _:
            return {}


def _is_number(type: SparkType | None) -> bool:
    return isinstance(type, DecimalType) or (
        isinstance(type, SimpleType) and _PLAIN[type.name]["type"] in ("integer", "number")
    )


def _value(value: str | int | Decimal | bool) -> str | int | float | bool:
    return exact_number(value) if isinstance(value, Decimal) else value
