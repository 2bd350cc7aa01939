"""Judge the measurements of a batch against fixed bounds and against earlier good batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from statistics import fmean, median
from typing import assert_never

from lakesmith.declare import checks
from lakesmith.quality.drift import Distribution, ks, psi
from lakesmith.quality.measures import Measure

_ENOUGH_BATCHES = 5
"""An anomaly check needs this many earlier batches."""
_ENOUGH_IN_SEASON = 4
_ENOUGH_VALUES = 50
"""A drift check needs this many values: fewer vary by chance."""
_NORMAL_DEVIATION = 1.4826
"""The median absolute deviation times this is the standard deviation of normally distributed values."""
_LEAST_SPREAD = 0.05
"""The smallest spread, as a share of the median, so that a constant value may change a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """The result of a check in an earlier good batch."""

    at: datetime
    value: float | None
    sketch: str | None
    mode: str = ""
    """How the batch was read or built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """The result of one check on a batch."""

    passed: bool
    observed: str
    expected: str = ""
    value: float | None = None
    """A number that later batches are compared with."""
    sketch: str | None = None
    """A distribution, as JSON, that later batches are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """The measurements of a batch, and what they are compared with."""

    values: Mapping[str, object]
    """By name of the metric."""
    pinned_at: int
    """Milliseconds since 1970."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Type by column, in the order of the rows' columns."""
    theirs: str | None = None
    """For `reconcile`: the total of the input; None when the batch has no comparable input."""
    past: Sequence[PastResult] = ()
    """Newest first."""


def judge(measure: Measure, measured: Measurements) -> CheckVerdict:
    """Judge one check from the measurements."""
    values = measured.values
    match measure.rule:
        case checks.BatchSql(condition=condition):
            observed = ", ".join(f"{sql} = {value}" for sql, value in values.items() if sql != "passes")
            return CheckVerdict(passed=bool(values["passes"]), observed=observed, expected=condition)
        case checks.Freshness(column=column, within=within):
            return _judge_freshness(column, within, values["newest"], measured.pinned_at)
        case checks.RowCount() as rule:
            return _judge_row_count(rule, int(str(values["rows"])), measured.past)
        case checks.NullRate(column=column, max=most):
            rows, filled = int(str(values["rows"])), int(str(values["filled"]))
            rate = (rows - filled) / rows if rows else 0.0
            expected = f"at most {most:.2%} of {column} NULL"
            return CheckVerdict(passed=rate <= most, observed=f"{rate:.2%}", expected=expected, value=rate)
        case checks.Distinct() as rule:
            return _judge_bounds(f"values of {rule.column}", values["value"], rule.min, rule.max)
        case checks.Bounds() as rule:
            name = f"{rule.of} {rule.at}" if rule.at is not None else rule.of
            return _judge_bounds(f"{name} of {rule.column}", values["value"], rule.min, rule.max)
        case checks.Reconcile() as rule:
            return _judge_reconciliation(rule, values["own"], measured.theirs)
        case checks.Drift() as rule:
            return _judge_drift(rule, values, measured.past)
        case checks.Anomaly() as rule:
            return _judge_anomaly(rule, values["value"], measured)
        case checks.SchemaIs() as rule:
            return _judge_schema(rule, measured.types)
        case _:
            assert_never(measure.rule)


def _judge_freshness(column: str, within: float, newest: object, pinned_at: int) -> CheckVerdict:
    expected = f"the newest {column} at most {within:,.0f} seconds old"
    if newest is None:
        return CheckVerdict(passed=False, observed=f"every {column} is NULL", expected=expected)
    age = (pinned_at - int(str(newest))) / 1000
    when = datetime.fromtimestamp(int(str(newest)) / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    return CheckVerdict(passed=age <= within, observed=f"{when}, {age:,.0f} seconds old", expected=expected, value=age)


def _judge_row_count(rule: checks.RowCount, rows: int, past: Sequence[PastResult]) -> CheckVerdict:
    bounds = _judge_bounds("rows", rows, rule.min, rule.max)
    before = [each.value for each in past[: rule.last] if each.value is not None]
    if rule.change is None or not bounds.passed or not before:
        observed = bounds.observed if before or rule.change is None else f"{bounds.observed}; no earlier batch"
        return CheckVerdict(passed=bounds.passed, observed=observed, expected=bounds.expected, value=float(rows))
    mean = fmean(before)
    deviation = abs(rows - mean) / mean if mean else float(rows > 0)
    return CheckVerdict(
        passed=deviation <= rule.change,
        observed=f"{rows:,} rows, {deviation:.0%} from the mean of {len(before)} earlier batches, {mean:,.0f}",
        expected=f"at most {rule.change:.0%} from the mean of earlier batches",
        value=float(rows),
    )


def _judge_bounds(name: str, value: object, least: object, most: object) -> CheckVerdict:
    low, high = (None if each is None else Decimal(str(each)) for each in (least, most))
    bounds = [f">= {low}"] if low is not None else []
    bounds += [f"<= {high}"] if high is not None else []
    expected = f"{name} {' and '.join(bounds)}"
    if value is None:
        return CheckVerdict(passed=False, observed="NULL", expected=expected)
    number = _number(value)
    if number is None:
        return CheckVerdict(passed=False, observed=str(value), expected=expected)
    passed = (low is None or number >= low) and (high is None or number <= high)
    return CheckVerdict(passed=passed, observed=f"{number:f}", expected=expected, value=float(number))


def _number(value: object) -> Decimal | None:
    """Return the finite number; None for NaN, infinity and values that are no numbers."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _judge_reconciliation(rule: checks.Reconcile, own: object, theirs: str | None) -> CheckVerdict:
    expected = f"{rule.own} = {rule.theirs} of {rule.table}"
    if theirs is None:
        observed = "not judged: the batch recomputes keys from more rows than are new"
        return CheckVerdict(passed=True, observed=observed, expected=expected)
    ours, other = _number(own or 0), _number(theirs or 0)
    if ours is None or other is None:
        return CheckVerdict(passed=False, observed=f"{own} against {theirs}", expected=expected)
    deviation = abs(ours - other)
    tolerance = abs(other) * Decimal(str(rule.tolerance or 0))
    return CheckVerdict(
        passed=deviation <= tolerance, observed=f"{ours:f} against {other:f}", expected=expected, value=float(ours)
    )


def _judge_drift(rule: checks.Drift, values: Mapping[str, object], past: Sequence[PastResult]) -> CheckVerdict:
    spread = values["spread"]
    now = Distribution.from_metrics(int(str(values["count"])), None if spread is None else str(spread))
    expected = f"{rule.method} of {rule.column} at most {rule.max}"
    before = [Distribution.from_json(each.sketch) for each in past[: rule.last] if each.sketch]
    # A column that was text once and is a number now cannot be compared.
    before = [each for each in before if bool(each.points) == bool(now.points) and each.count]
    if sum(each.count for each in before) < _ENOUGH_VALUES or now.count < _ENOUGH_VALUES:
        observed = f"not judged: {now.count:,} values, {len(before)} earlier good batches"
        return CheckVerdict(passed=True, observed=observed, expected=expected, sketch=now.to_json())
    distance = (psi if rule.method == "psi" else ks)(now, before)
    return CheckVerdict(
        passed=distance <= rule.max,
        observed=f"{rule.method} = {distance:.4f} against {len(before)} earlier batches",
        expected=expected,
        value=distance,
        sketch=now.to_json(),
    )


def _judge_anomaly(rule: checks.Anomaly, value: object, measured: Measurements) -> CheckVerdict:
    expected = f"{rule.of} near its earlier values"
    if value is None:
        return CheckVerdict(passed=False, observed=f"{rule.of} is NULL", expected=expected)
    number = float(str(value))
    if not math.isfinite(number):
        return CheckVerdict(passed=False, observed=str(value), expected=expected)
    at = datetime.fromtimestamp(measured.pinned_at / 1000, UTC)
    season, past = rule.season, [each for each in measured.past[: rule.last] if each.value is not None]
    values = [each.value for each in past if each.value is not None and _same_season(each.at, at, season)]
    if len(values) < _ENOUGH_IN_SEASON:
        season, values = "none", [each.value for each in past if each.value is not None]
    if len(values) < _ENOUGH_BATCHES and season == "none":
        observed = f"{number:g}; not judged: {len(values)} earlier good batches, {_ENOUGH_BATCHES} are needed"
        return CheckVerdict(passed=True, observed=observed, expected=expected, value=number)
    middle = median(values)
    spread = _NORMAL_DEVIATION * median(abs(each - middle) for each in values)
    tolerance = float(rule.deviations) * max(spread, _LEAST_SPREAD * abs(middle))
    when = {"hour": f" at {at:%H} o'clock", "weekday": f" on a {at:%A}", "none": ""}[season]
    return CheckVerdict(
        passed=abs(number - middle) <= tolerance,
        observed=f"{number:g}",
        expected=f"{rule.of} between {middle - tolerance:g} and {middle + tolerance:g}{when} ({len(values)} batches)",
        value=number,
    )


def _same_season(one: datetime, other: datetime, season: checks.Season) -> bool:
    match season:
        case "hour":
            return one.hour == other.hour
        case "weekday":
            return one.weekday() == other.weekday()
        case "none":
            return True
        case _:
            assert_never(season)


def _judge_schema(rule: checks.SchemaIs, types: Mapping[str, str]) -> CheckVerdict:
    low = {name.lower(): type for name, type in types.items()}
    wrong = [f"no {name}" for name in rule.columns if name.lower() not in low]
    wrong += [
        f"{name} is a {low.get(name.lower(), 'missing column')}, not a {type}"
        for name, type in rule.types.items()
        if low.get(name.lower()) != type
    ]
    expected_names = list(rule.columns or rule.types)
    if rule.exact and not wrong and [name.lower() for name in types] != [name.lower() for name in expected_names]:
        wrong.append(f"columns are {', '.join(types)}")
    expected = f"{'exactly ' if rule.exact else ''}{', '.join(expected_names)}"
    return CheckVerdict(passed=not wrong, observed="; ".join(wrong) or f"{len(types)} columns", expected=expected)
