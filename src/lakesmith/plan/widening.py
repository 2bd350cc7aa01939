"""Which types a stored column can be widened to in place without changing a value."""

from __future__ import annotations

import re
from collections.abc import Sequence

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TOKEN = re.compile(r"decimal\(\d+,\d+\)|`(?:[^`]|``)*`|\w+|[<>,:]")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(stored: str, target: str) -> bool:
    """Whether a column of Spark SQL type `stored` can be widened to `target`, also inside nested types.

    Integers widen to integers or decimals, never to doubles, which cannot hold every `bigint`. Delta can widen more,
    but that changes the meaning of a value, such as a date that becomes a timestamp.
    """
    before, after = _TOKEN.findall(stored), _TOKEN.findall(target)
    if before == after or len(before) != len(after):
        return False
    follows = [*before[1:], ""]
    return all(
        one == other or (then != ":" and _leaf_widens(one, other))
        for one, other, then in zip(before, after, follows, strict=True)
    )


def _leaf_widens(stored: str, target: str) -> bool:
    if stored == "float":
        return target == "double"
    if stored in _INTEGERS and target in _INTEGERS:
        return _INTEGERS.index(stored) < _INTEGERS.index(target)
    before, after = whole_digits(stored), _DECIMAL.fullmatch(target)
    if before is None or after is None:
        return False
    precision, scale = map(int, after.groups())
    decimal = _DECIMAL.fullmatch(stored)
    return before <= precision - scale and (decimal is None or int(decimal[2]) <= scale)


def whole_digits(type: str) -> int | None:
    """Return how many digits before the point a decimal needs to replace a type, by the rules of Delta."""
    if decimal := _DECIMAL.fullmatch(type):
        return int(decimal[1]) - int(decimal[2])
    return None if type not in _INTEGERS else 20 if type == "bigint" else 10


def type_change_text(source: object, columns: Sequence[str]) -> str:
    """Explain why a table's changes cannot be read across a type change."""
    return f"column types in {source} changed ({', '.join(columns)}), so types of this table may change too"
