"""One expectation of a suite, and its arguments as columns, values and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from lakesmith.declare import is_identifier
from lakesmith.exchange.great_expectations.row_conditions import NotConvertible, sql_literal
from lakesmith.sql import quoted

_MOST = 10**15
_FEED = ("_change_type", "_commit_version", "_commit_timestamp")
"""Reserved column names of the change data feed."""
_NEARLY_ALL = Decimal("99.999999")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedCheck:
    """A check before its name is made unique."""

    name: str
    rule: Mapping[str, object]
    on_rows: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One expectation: its arguments, and notes for its warning."""

    type: str
    kwargs: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def column(self, key: str = "column") -> str:
        name = self.kwargs.get(key)
        if not isinstance(name, str) or not is_identifier(name) or name.lower() in _FEED:
            raise NotConvertible(f"{name!r} is not a column's name here: letters, digits and underscores")
        return name

    def columns(self, key: str = "column_list") -> list[str]:
        names = self.kwargs.get(key)
        if not isinstance(names, Sequence) or isinstance(names, str) or not names:
            raise NotConvertible(f"it has no {key}")
        return [Expectation(type=self.type, kwargs={"column": name}).column() for name in names]

    def sql(self, key: str = "column") -> str:
        return quoted(self.column(key))

    def values(self, key: str = "value_set") -> list[object]:
        """Return the values of a set without null: NULL rows are ignored."""
        argument = self.kwargs.get(key)
        values = [value for value in argument if value is not None] if isinstance(argument, Sequence) else []
        if not values or isinstance(argument, str):
            raise NotConvertible(f"its {key} is empty")
        for value in values:
            sql_literal(value)
        return values

    def texts(self, key: str) -> list[str]:
        argument = self.kwargs.get(key)
        texts = [argument] if isinstance(argument, str) else argument
        if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise NotConvertible(f"it has no {key}")
        return list(texts)

    def text(self, key: str) -> str:
        """Return an argument that has to be one text."""
        first, *others = self.texts(key)
        if others:
            raise NotConvertible(f"it has more than one {key}")
        return first

    def bounds(self, low: str = "min_value", high: str = "max_value") -> list[tuple[str, object]]:
        """Return the bounds as operators with values."""
        found = []
        for key, strict, signs in ((low, "strict_min", (">=", ">")), (high, "strict_max", ("<=", "<"))):
            value = self.kwargs.get(key)
            if value is not None:
                sql_literal(value)
                found.append((signs[1] if self.kwargs.get(strict) else signs[0], value))
        if not found:
            raise NotConvertible("it has no bounds")
        if len(found) == 2 and _reversed(found[0][1], found[1][1]):
            raise NotConvertible(f"no value can pass it: {found[0][1]} is more than {found[1][1]}")
        return found


Converted = Iterable[ConvertedCheck]
Convert = Callable[[Expectation], Converted]


def required_share(expectation: Expectation) -> Decimal | None:
    """Return the share of rows that must pass, or None for all of them."""
    argument = expectation.kwargs.get("mostly")
    if argument is None or argument == 1:
        return None
    if isinstance(argument, bool) or not isinstance(argument, int | Decimal) or not 0 < argument < 1:
        raise NotConvertible(f"mostly is {argument}, which is not a share between 0 and 1")
    return Decimal(argument)


def percent_text(share: Decimal) -> str:
    percent = (share * 100).quantize(Decimal("0.000001"), ROUND_CEILING)
    return f"{min(percent, _NEARLY_ALL).normalize():f}%"


def _reversed(low: object, high: object) -> bool:
    numbers = (int, Decimal)
    if isinstance(low, numbers) and isinstance(high, numbers):
        return low > high
    return isinstance(low, str) and isinstance(high, str) and low > high


def comparisons(what: str, bounds: Iterable[tuple[str, object]]) -> str:
    return " AND ".join(f"{what} {sign} {sql_literal(value)}" for sign, value in bounds)


def inclusive_bounds(bounds: Sequence[tuple[str, object]]) -> dict[str, object] | None:
    """Return `min` and `max` when both bounds are inclusive."""
    keys = {">=": "min", "<=": "max"}
    return {keys[sign]: value for sign, value in bounds} if all(sign in keys for sign, _ in bounds) else None


def whole_bounds(bounds: Iterable[tuple[str, object]]) -> dict[str, int]:
    """Return the bounds of a count as inclusive whole numbers, without a minimum of 0."""
    found: dict[str, int] = {}
    for sign, value in bounds:
        number = Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
        if number is None or abs(number) >= _MOST:
            raise NotConvertible(f"{value} is not a number of rows, values or characters")
        low = sign.startswith(">")
        whole = int(number.to_integral_value(ROUND_CEILING if low else ROUND_FLOOR))
        if not sign.endswith("=") and whole == number:
            whole += 1 if low else -1
        if low and whole > 0:
            found["min"] = whole
        elif not low:
            found["max"] = whole
    if not found:
        raise NotConvertible("every number passes its bounds")
    if found.get("min", 0) > found.get("max", _MOST):
        raise NotConvertible("no batch can pass it")
    return found


def count_check(name: str, key: str, body: Mapping[str, object], bounds: Mapping[str, int], sql: str) -> ConvertedCheck:
    """Return a check with bounds of a count. Declared bounds start at 1, so a maximum of 0 becomes SQL."""
    on_rows = key == "length"
    if bounds.get("max", 1) < 1:
        return ConvertedCheck(
            name=name, rule={"sql" if on_rows else "expect": f"{sql} <= {bounds['max']}"}, on_rows=on_rows
        )
    return ConvertedCheck(name=name, rule={key: {**body, **bounds}}, on_rows=on_rows)
