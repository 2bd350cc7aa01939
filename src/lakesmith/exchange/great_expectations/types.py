"""The types that expectations name, in the words of pandas, Spark and databases, as Spark SQL types."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KINDS = {
    "tinyint": ("int8", "uint8", "byte", "bytetype", "tinyint"),
    "smallint": ("int16", "short", "shorttype", "smallint", "smallinteger", "int2"),
    "int": ("int32", "uint16", "integertype", "int4", "mediumint"),
    "bigint": ("int", "int64", "uint32", "long", "longtype", "bigint", "biginteger", "integer", "int_", "int8_"),
    "float": ("float32", "floattype", "real", "float4"),
    "double": ("float", "float64", "double", "doubletype", "double_precision", "float8", "float_"),
    "string": (
        "str",
        "string",
        "stringtype",
        "text",
        "varchar",
        "char",
        "nvarchar",
        "nchar",
        "character",
        "character varying",
        "clob",
        "object",
        "string_",
    ),
    "boolean": ("bool", "boolean", "booleantype", "bool_"),
    "date": ("date", "datetype", "datetime.date"),
    "timestamp": (
        "timestamp",
        "timestamptype",
        "datetime",
        "datetime64",
        "datetime64[ns]",
        "datetime.datetime",
        "timestamptz",
        "timestamp_tz",
        "timestamp with time zone",
    ),
    "timestamp_ntz": ("timestampntztype", "timestamp_ntz"),
    "binary": ("bytes", "binary", "binarytype", "bytea", "blob", "varbinary"),
}
_WORDS = {word: kind for kind, words in _KINDS.items() for word in words}
_WIDER = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
_DECIMAL = re.compile(r"(?:decimal|numeric|number|decimaltype)\s*\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


def spark_type_of(names: Iterable[str]) -> str | None:
    """The type that all names mean, the widest of several numbers, or None."""
    kinds = {_kind(name) for name in names}
    if len(kinds) == 1:
        return kinds.pop()
    for order in _WIDER:
        if kinds <= set(order):
            return max((kind for kind in kinds if kind), key=order.index)
    return None


def _kind(name: str) -> str | None:
    word = re.sub(r"\(\)$", "", name.strip().lower())
    if found := _DECIMAL.fullmatch(word):
        precision, scale = int(found[1]), int(found[2])
        return f"decimal({precision},{scale})" if 0 < precision <= 38 and scale <= precision else None
    return _WORDS.get(word) or _WORDS.get(re.sub(r"\s*\([0-9]+\)$", "", word))
