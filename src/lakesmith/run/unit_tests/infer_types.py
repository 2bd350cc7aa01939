"""Infers the type of a column from its values, when it is neither declared nor stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lakesmith.declare.tests import Value, Word
from lakesmith.sql import quoted

_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_LARGE = re.compile(r"[-+]?[0-9]{19,38}")
_NUMBER = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[-+][0-9]{2}:?[0-9]{2})?")
_WIDER = {
    frozenset(("bigint", "double")): "double",
    frozenset(("bigint", "decimal(38,0)")): "decimal(38,0)",
    frozenset(("date", "timestamp")): "timestamp",
}


def infer_type(values: Iterable[Value]) -> str:
    """Return the Spark SQL type that can hold all values."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, tuple) for value in there):
        return f"array<{infer_type(item for value in there if isinstance(value, tuple) for item in value)}>"
    if there and all(isinstance(value, Mapping) for value in there):
        maps = [value for value in there if isinstance(value, Mapping)]
        names = dict.fromkeys(name for value in maps for name in value)
        fields = (f"{quoted(name)}:{infer_type(value.get(name) for value in maps)}" for name in names)
        return f"struct<{', '.join(fields)}>"
    types = frozenset(_type(value) if isinstance(value, Word) else "string" for value in there)
    if len(types) == 1:
        return next(iter(types))
    return _WIDER.get(types, "string")


def _type(word: Word) -> str:
    if _DATE.fullmatch(word.text):
        return "date"
    if _TIME.fullmatch(word.text):
        return "timestamp"
    if not word.plain:
        return "string"
    if word.text.lower() in ("true", "false"):
        return "boolean"
    if _WHOLE.fullmatch(word.text):
        return "bigint"
    if _LARGE.fullmatch(word.text):
        return "decimal(38,0)"
    return "double" if _NUMBER.fullmatch(word.text) else "string"
