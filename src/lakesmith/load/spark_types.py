"""Read a declared Spark SQL type, and explain why a text is not a type."""

from __future__ import annotations

from lakesmith.declare.names import is_identifier
from lakesmith.declare.spark_type import (
    SIMPLE_TYPES,
    TYPE_ALIASES,
    ArrayType,
    MapType,
    SimpleType,
    SparkType,
    SparkTypeError,
    StructType,
    parse_type,
)
from lakesmith.errors import did_you_mean
from lakesmith.load.invalid_text import InvalidText

_ELSEWHERE = {
    "varchar": "string",
    "char": "string",
    "text": "string",
    "str": "string",
    "bool": "boolean",
    "datetime": "timestamp",
    "number": "decimal(p,s)",
    "json": "string",
    "uuid": "string",
    "list": "array<…>",
    "object": "struct<…>",
}
_MAX_DEPTH = 20
_WORDS = (*SIMPLE_TYPES, *TYPE_ALIASES, "decimal", "array", "map", "struct")


def normalized_type(text: str) -> str:
    """Return the type as Spark shows it: `STRUCT<a: INTEGER>` is `struct<a:int>`."""
    try:
        found = parse_type(text, _simple)
        _check(found, 0)
    except SparkTypeError as error:
        raise InvalidText(
            "bad-type",
            f"'{_shortened(text)}' is not a type: {error}",
            "types are written as in Spark SQL, such as bigint, decimal(12,2), array<string>, struct<a: int>",
        ) from None
    return str(found)


def _simple(word: str) -> SimpleType:
    if word in SIMPLE_TYPES:
        return SimpleType(word)
    near = _ELSEWHERE.get(word)
    raise InvalidText(
        "bad-type",
        f"'{_shortened(word)}' is not a type",
        f"in Spark SQL this is {near}" if near else did_you_mean(word, _WORDS, label="types"),
    )


def _check(type: SparkType, depth: int) -> None:
    """Raise for a type that is nested too deeply, and for field names that are invalid or duplicated."""
    if depth > _MAX_DEPTH:
        raise SparkTypeError(f"it is nested more than {_MAX_DEPTH} levels deep")
    match type:
        case ArrayType():
            _check(type.element, depth + 1)
        case MapType():
            _check(type.key, depth + 1)
            _check(type.value, depth + 1)
        case StructType():
            if not type.fields:
                raise SparkTypeError("a struct without fields has no values")
            names: set[str] = set()
            for name, inner in type.fields:
                if not is_identifier(name):
                    raise SparkTypeError(f"'{name}' is not a name")
                if name.lower() in names:
                    raise SparkTypeError(f"the field '{name}' is duplicated")
                names.add(name.lower())
                _check(inner, depth + 1)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
