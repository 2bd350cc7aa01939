"""Values that were written with an Avro schema: read them, and derive the columns of the schema."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time
from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from lakesmith.errors import InfrastructureError, missing_library
from lakesmith.intake.avro import PRIMITIVES, Size, check_bounded
from lakesmith.intake.rows import Unreadable
from lakesmith.intake.shapes import STRING, common

_MAX_DIGITS = 38
_AVRO = {**PRIMITIVES, "fixed": pa.binary(), "string": STRING, "enum": STRING}
_AVRO_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "time-millis": STRING,
    "time-micros": STRING,
    "uuid": STRING,
}


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """An Avro schema that values were written with."""

    text: str
    imports: tuple[str, ...] = ()
    """The schemas that it references, in the order in which they must be parsed."""


def avro_schema(text: str, imports: tuple[str, ...] = ()) -> AvroSchema:
    """Return an Avro schema. Raise ValueError when it is invalid."""
    writer = AvroSchema(text, imports)
    try:
        schema, _ = parse_avro(writer)
        sizes: dict[str, Size] = {}
        for each in map(json.loads, imports):
            check_bounded(each, sizes)
        check_bounded(schema, sizes)
        avro_shape(writer)
    except InfrastructureError:
        raise
    # The library raises all kinds of exceptions for invalid schemas.
    except Exception as error:
        raise ValueError(f"{type(error).__name__} {error}".strip()) from error
    return writer


@lru_cache(maxsize=256)
def parse_avro(writer: AvroSchema) -> tuple[Any, Mapping[str, Any]]:
    """Return the parsed schema, and by name the types in it and in its references."""
    try:
        from fastavro import parse_schema
    except ModuleNotFoundError as error:
        raise missing_library("fastavro", "reading Avro values", "kafka") from error

    named: dict[str, Any] = {}
    for text in writer.imports:
        parse_schema(json.loads(text), named_schemas=named)
    return parse_schema(json.loads(writer.text), named_schemas=named), named


def avro_shape(writer: AvroSchema) -> pa.DataType:
    """Return the columns of a schema, as a struct."""
    schema, named = parse_avro(writer)
    type = avro_type(schema, named, frozenset())
    return type if _is_record(schema) else pa.struct([("value", type)])


def avro_type(schema: Any, named: Mapping[str, Any], above: frozenset[str]) -> pa.DataType:
    """Return the column type of a part of a schema; `above` are its enclosing records."""
    if isinstance(schema, list):
        branches = [avro_type(branch, named, above) for branch in schema if branch != "null"]
        # One column for several records or lists would lose the branch.
        mixed = len(branches) > 1 and any(pa.types.is_nested(branch) for branch in branches)
        return STRING if mixed else common(branches)
    if isinstance(schema, str):
        if schema in _AVRO:
            return _AVRO[schema]
        # A recursive record does not fit a column: it is stored as JSON.
        return STRING if schema in above else avro_type(named[schema], named, above)
    logical = schema.get("logicalType")
    if logical == "decimal":
        precision = schema["precision"]
        return pa.decimal128(precision, schema.get("scale", 0)) if precision <= _MAX_DIGITS else STRING
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    match schema["type"]:
        case "record":
            inside = above | {schema["name"]}
            return pa.struct([(f["name"], avro_type(f["type"], named, inside)) for f in schema["fields"]])
        case "array":
            return pa.list_(avro_type(schema["items"], named, above))
        case "map":
            return pa.map_(STRING, avro_type(schema["values"], named, above))
        case inner:
            return avro_type(inner, named, above)


def read_avro(writer: AvroSchema, value: bytes, start: int) -> Mapping[str, object] | Unreadable:
    """Return the record of a value that begins at `start`."""
    from fastavro import schemaless_reader

    schema, _ = parse_avro(writer)
    stream = io.BytesIO(value)
    stream.seek(start)
    try:
        content: object = schemaless_reader(stream, schema, None)
    # The library raises all kinds of exceptions for bytes that do not fit.
    except Exception as error:  # noqa: BLE001
        return Unreadable("bad-avro", f"the value does not fit its schema: {type(error).__name__} {error}".strip())
    if stream.tell() != len(value):
        return Unreadable("bad-avro", f"{len(value) - stream.tell():,} bytes are left over after the value")
    if '"uuid"' in writer.text or '"time-' in writer.text or writer.imports:
        content = _as_texts(content)
    return content if isinstance(content, dict) and _is_record(schema) else {"value": content}


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def _as_texts(value: object) -> object:
    """Return a value with types that no column has converted to text."""
    match value:
        case dict():
            return {name: _as_texts(item) for name, item in value.items()}
        case list():
            return [_as_texts(item) for item in value]
        case UUID():
            return str(value)
        case time():
            return value.isoformat()
        case _:
            return value
