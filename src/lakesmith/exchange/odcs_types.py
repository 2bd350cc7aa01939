"""Read types of the Open Data Contract Standard as Spark types."""

from __future__ import annotations

import re

from lakesmith.exchange.document_part import DocumentPart
from lakesmith.load.invalid_text import InvalidText
from lakesmith.load.spark_types import normalized_type

_LOGICAL = {
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
    "time": "string",
    "number": "double",
    "integer": "bigint",
    "boolean": "boolean",
    "vector": "array<float>",
}
_SIZES = {
    "i8": "tinyint",
    "i16": "smallint",
    "i32": "int",
    "i64": "bigint",
    "u8": "smallint",
    "u16": "int",
    "u32": "bigint",
    "f32": "float",
    "f64": "double",
}
_ELSEWHERE = {
    "string": "varchar, nvarchar, varchar2, nvarchar2, char, nchar, character, character varying, text, ntext, clob, "
    "uuid, json, jsonb, variant",
    "boolean": "bool, bit",
    "smallint": "int16, int2, smallserial",
    "int": "int32, int4, serial, mediumint",
    "bigint": "int64, int8, bigserial",
    "float": "float4, float32",
    "double": "float8, float64, double precision",
    "binary": "bytes, bytea, blob, varbinary",
    "timestamp": "timestamptz, timestamp_tz, timestamp_ltz, datetimeoffset, timestamp with time zone",
    "timestamp_ntz": "datetime, datetime2, smalldatetime, timestamp without time zone",
}
_NAMED = {name: type for type, names in _ELSEWHERE.items() for name in names.split(", ")}
_SIZED = re.compile(r"(\w+(?: \w+)*?) ?(\([^()]*\))?( (?:with|without) time zone)?", re.IGNORECASE)


def column_type(part: DocumentPart, options: DocumentPart | None) -> str | None:
    """Return the Spark SQL type of a property, or None when it has none that Spark supports."""
    logical, physical = part.text("logicalType"), part.text("physicalType")
    zoned = options.take("timezone") if options else None
    sized = _SIZES.get(str(options.values.get("format"))) if options else None
    if options and sized:
        options.take("format")
    type = _nested(part, logical) or (_stored(physical) if physical else None)
    if type in (None, "timestamp") and logical == "timestamp":
        return "timestamp_ntz" if zoned is False else "timestamp"
    if type is not None:
        return _checked(part, type)
    if physical:
        part.warn("physicalType", f"'{physical}' is not a Spark type, so logicalType is used")
    if logical is None:
        return None
    if sized is None and logical in ("time", "number"):
        part.warn("logicalType", f"{logical} becomes {_LOGICAL[logical]}; a physicalType would be more precise")
    if logical not in _LOGICAL:
        part.warn("logicalType", f"the {logical} does not declare its content, so the column has no type")
        return None
    return sized or _LOGICAL[logical]


def _nested(part: DocumentPart, logical: str | None) -> str | None:
    """Return the type of nested properties. A physical type beside them is redundant."""
    match logical:
        case "object":
            fields = [f"{each.text('name')}:{_below(each)}" for each in part.parts("properties")]
            return f"struct<{','.join(fields)}>" if fields else None
        case "array":
            items = part.part("items")
            return f"array<{_below(items)}>" if items else None
        case "map":
            pair = part.part("map")
            key, value = (pair.part("key"), pair.part("value")) if pair else (None, None)
            return f"map<{_below(key)},{_below(value)}>" if key and value else None
        case _:
            return None


def _below(part: DocumentPart) -> str:
    return column_type(part, part.part("logicalTypeOptions")) or "string"


def _stored(physical: str) -> str | None:
    """Return the Spark type for a database's type name."""
    try:
        return normalized_type(physical)
    except InvalidText:
        pass
    match = _SIZED.fullmatch(" ".join(physical.split()))
    if match is None:
        return None
    word, size = match[1].lower() + (match[3] or "").lower(), match[2]
    if word in ("number", "numeric", "decimal", "bignumeric") and size:
        try:
            return normalized_type(f"decimal{size}")
        except InvalidText:
            return None
    return _NAMED.get(word)


def _checked(part: DocumentPart, type: str) -> str | None:
    try:
        return normalized_type(type)
    except InvalidText as invalid:
        part.warn("logicalType", f"{invalid.what}, so the column has no type")
        return None
