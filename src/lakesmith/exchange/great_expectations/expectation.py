"""One expectation of a suite, and its arguments as columns, values and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
class Expectation:
    """One expectation: its arguments, and notes for its warning."""

    type: str
    kwargs: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def column(self, key: str = "column") -> str:
        return _column_name(self.kwargs.get(key))

    def columns(self, key: str = "column_list") -> list[str]:
        names = self.kwargs.get(key)
        if not isinstance(names, Sequence) or isinstance(names, str) or not names:
            raise NotConvertible(f"it has no {key}")
        return [_column_name(name) for name in names]

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

    def bounds(self) -> list[tuple[str, object]]:
        """Return the bounds as operators with values."""
        bounds = []
        for key, strict, sign in (("min_value", "strict_min", ">"), ("max_value", "strict_max", "<")):
            value = self.kwargs.get(key)
            if value is not None:
                sql_literal(value)
                bounds.append((sign if self.kwargs.get(strict) else f"{sign}=", value))
        if not bounds:
            raise NotConvertible("it has no bounds")
        if len(bounds) == 2 and _reversed(bounds[0][1], bounds[1][1]):
            raise NotConvertible(f"no value can pass it: {bounds[0][1]} is more than {bounds[1][1]}")
        return bounds


ConvertedCheck = tuple[str, Mapping[str, object]]
"""A check: its name, before it is made unique, and its keys."""
Converted = Iterable[ConvertedCheck]
Convert = Callable[[Expectation], Converted]


def _column_name(name: object) -> str:
    if not isinstance(name, str) or not is_identifier(name) or name.lower() in _FEED:
        raise NotConvertible(f"{name!r} is not a column's name here: letters, digits and underscores")
    return name


def exactly(convert: Convert) -> Convert:
    """Return a converter for one `value` instead of bounds."""

    def convert_value(expectation: Expectation) -> Converted:
        value = expectation.kwargs.get("value")
        kwargs = {**expectation.kwargs, "min_value": value, "max_value": value}
        return convert(replace(expectation, kwargs=kwargs))

    return convert_value


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


def comparisons(sql: str, bounds: Iterable[tuple[str, object]]) -> str:
    return " AND ".join(f"{sql} {sign} {sql_literal(value)}" for sign, value in bounds)


def inclusive_bounds(bounds: Sequence[tuple[str, object]]) -> dict[str, object] | None:
    """Return `min` and `max` when both bounds are inclusive."""
    keys = {">=": "min", "<=": "max"}
    return {keys[sign]: value for sign, value in bounds} if all(sign in keys for sign, _ in bounds) else None


def whole_bounds(bounds: Iterable[tuple[str, object]]) -> dict[str, int]:
    """Return the bounds of a count as inclusive whole numbers, without a minimum of 0."""
    whole_numbers: dict[str, int] = {}
    for sign, value in bounds:
        number = Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
        if number is None or abs(number) >= _MOST:
            raise NotConvertible(f"{value} is not a number of rows, values or characters")
        low = sign.startswith(">")
        whole = int(number.to_integral_value(ROUND_CEILING if low else ROUND_FLOOR))
        if not sign.endswith("=") and whole == number:
            whole += 1 if low else -1
        if low and whole > 0:
            whole_numbers["min"] = whole
        elif not low:
            whole_numbers["max"] = whole
    if not whole_numbers:
        raise NotConvertible("every number passes its bounds")
    if whole_numbers.get("min", 0) > whole_numbers.get("max", _MOST):
        raise NotConvertible("no batch can pass it")
    return whole_numbers


def count_check(name: str, key: str, body: Mapping[str, object], bounds: Mapping[str, int], sql: str) -> ConvertedCheck:
    """Return a check with bounds of a count. Declared bounds start at 1, so a maximum of 0 becomes SQL."""
    if bounds.get("max", 1) < 1:
        return name, {"sql" if key == "length" else "expect": f"{sql} <= {bounds['max']}"}
    return name, {key: {**body, **bounds}}
