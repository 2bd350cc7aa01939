"""A table's rows as a JSON Schema of draft 2020-12, for those who send or take them as JSON."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from lakesmith.declare.checks import Check, In, Length, Pattern, Range, Required
from lakesmith.declare.table import Column, Table
from lakesmith.exchange.types import Exact, ListOf, MapOf, Plain, Record, SparkType, tree

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
"""What Java's regular expressions have and those of JSON Schema do not."""


def json_schema_text(table: Table) -> str:
    return json.dumps(json_schema(table), ensure_ascii=False, indent=2) + "\n"


def json_schema(table: Table) -> dict[str, Any]:
    """The schema of one row. Rules that only SQL can tell are not in it."""
    closed = table.contract == "strict"
    strict = [check for check in table.checks if check.where is None and check.on_fail != "warn"]
    asked = {name for check in strict if isinstance(check.rule, Required) for name in check.rule.columns}
    required = [column.name for column in table.columns if column.required or column.key or column.name in asked]
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
    schema = _type(tree(column.type), closed) if column.type else {}
    type = tree(column.type) if column.type else None
    for check in checks:
        asked = _asked(check, column.name, type)
        if asked.keys() & schema.keys():
            schema.setdefault("allOf", []).append(asked)
        else:
            schema |= asked
    schema = _nullable(schema) if nullable else schema
    if column.description:
        schema["description"] = column.description
    if column.deprecated:
        schema["deprecated"] = True
    return schema


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that also takes null, which is never what a rule on values complains of."""
    return {
        key: [*([value] if key == "type" else value), "null" if key == "type" else None]
        if key in ("type", "enum")
        else [_nullable(each) for each in value]
        if key == "allOf"
        else value
        for key, value in schema.items()
    }


def _type(type: SparkType, closed: bool) -> dict[str, Any]:
    match type:
        case Plain():
            return dict(_PLAIN[type.name])
        case Exact(scale=0):
            return {"type": "integer"}
        case Exact():
            return {"type": "number"}
        case ListOf():
            return {"type": "array", "items": _nullable(_type(type.item, closed))}
        case MapOf():
            return {"type": "object", "additionalProperties": _nullable(_type(type.value, closed))}
        case Record():
            fields = {name: _nullable(_type(each, closed)) for name, each in type.fields}
            made: dict[str, Any] = {"type": "object", "properties": fields}
            return made | ({"additionalProperties": False} if closed else {})


def _asked(check: Check, column: str, type: SparkType | None) -> dict[str, Any]:
    """What a check asks of the values of a column."""
    match check.rule:
        case In() as rule if rule.column == column:
            return {"enum": [_value(value) for value in rule.values]}
        case Range() as rule if rule.column == column and _is_number(type):
            bounds = {"minimum": rule.min, "maximum": rule.max}
            return {key: _value(each) for key, each in bounds.items() if isinstance(each, int | Decimal)}
        case Length() as rule if rule.column == column:
            lengths = {"minLength": rule.min, "maxLength": rule.max}
            return {key: each for key, each in lengths.items() if each is not None}
        case Pattern() as rule if rule.column == column and not _JAVA_ONLY.search(rule.matches):
            return {"pattern": rule.matches}
        case _:
            return {}


def _is_number(type: SparkType | None) -> bool:
    return isinstance(type, Exact) or (isinstance(type, Plain) and _PLAIN[type.name]["type"] in ("integer", "number"))


def _value(value: str | int | Decimal | bool) -> str | int | float | bool:
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
