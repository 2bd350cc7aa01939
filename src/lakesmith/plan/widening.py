"""Which types a stored column can take on in place, so that each of its values stays the value that it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TOKEN = re.compile(r"decimal\(\d+,\d+\)|`(?:[^`]|``)*`|\w+|[<>,:]")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(stored: str, wanted: str) -> bool:
    """Whether a column of the one Spark SQL type, nested ones too, can become one of the other, which is wider.

    Whole numbers stay whole numbers or become decimals, never doubles: not every `bigint` is one. What Delta could do
    beyond that changes what a value means, such as a date that becomes a moment.
    """
    before, after = _TOKEN.findall(stored), _TOKEN.findall(wanted)
    if before == after or len(before) != len(after):
        return False
    follows = [*before[1:], ""]
    return all(
        one == other or (then != ":" and _leaf_widens(one, other))
        for one, other, then in zip(before, after, follows, strict=True)
    )


def _leaf_widens(stored: str, wanted: str) -> bool:
    if stored == "float":
        return wanted == "double"
    if stored in _WHOLE and wanted in _WHOLE:
        return _WHOLE.index(stored) < _WHOLE.index(wanted)
    before, after = whole_digits(stored), _DECIMAL.fullmatch(wanted)
    if before is None or after is None:
        return False
    precision, scale = map(int, after.groups())
    decimal = _DECIMAL.fullmatch(stored)
    return before <= precision - scale and (decimal is None or int(decimal[2]) <= scale)


def whole_digits(type: str) -> int | None:
    """How many digits before the point a decimal needs to take the place of a type, by the rules of Delta."""
    if decimal := _DECIMAL.fullmatch(type):
        return int(decimal[1]) - int(decimal[2])
    return None if type not in _WHOLE else 20 if type == "bigint" else 10


def retyped_text(source: object, columns: Sequence[str]) -> str:
    """Why changes of a table cannot be followed once columns of it have other types."""
    return f"types in {source} changed ({', '.join(columns)}), and those of this table follow"
