"""The types that expectations name, in the words of pandas, Spark and databases, as Spark SQL types."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAMES = {
    "tinyint": "int8, uint8, byte, bytetype, tinyint",
    "smallint": "int16, short, shorttype, smallint, smallinteger, int2",
    "int": "int32, uint16, integertype, int4, mediumint",
    "bigint": "int, int64, uint32, long, longtype, bigint, biginteger, integer, int_, int8_",
    "float": "float32, floattype, real, float4",
    "double": "float, float64, double, doubletype, double_precision, float8, float_",
    "string": "str, string, stringtype, text, varchar, char, nvarchar, nchar, character, character varying, clob, "
    "object, string_",
    "boolean": "bool, boolean, booleantype, bool_",
    "date": "date, datetype, datetime.date",
    "timestamp": "timestamp, timestamptype, datetime, datetime64, datetime64[ns], datetime.datetime, timestamptz, "
    "timestamp_tz, timestamp with time zone",
    "timestamp_ntz": "timestampntztype, timestamp_ntz",
    "binary": "bytes, binary, binarytype, bytea, blob, varbinary",
}
_TYPES = {name: type for type, names in _NAMES.items() for name in names.split(", ")}
_WIDER = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
_DECIMAL = re.compile(r"(?:decimal|numeric|number|decimaltype)\s*\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


def spark_type_of(names: Iterable[str]) -> str | None:
    """Return the type that all names mean, the widest of several numbers, or None."""
    types = {_type(name) for name in names}
    if len(types) == 1:
        return types.pop()
    for order in _WIDER:
        if types <= set(order):
            return max((type for type in types if type), key=order.index)
    return None


def _type(name: str) -> str | None:
    word = re.sub(r"\(\)$", "", name.strip().lower())
    if decimal := _DECIMAL.fullmatch(word):
        precision, scale = int(decimal[1]), int(decimal[2])
        return f"decimal({precision},{scale})" if 0 < precision <= 38 and scale <= precision else None
    return _TYPES.get(word) or _TYPES.get(re.sub(r"\s*\([0-9]+\)$", "", word))
