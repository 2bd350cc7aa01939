"""Judges what was measured of a batch: against bounds, and against the good batches before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from statistics import fmean, median
from typing import assert_never

from lakesmith.declare.checks import (
    Anomaly,
    BatchSql,
    Bounds,
    Distinct,
    Drift,
    Freshness,
    NullRate,
    Reconcile,
    RowCount,
    SchemaIs,
    Season,
)
from lakesmith.quality.drift import Spread, ks, psi
from lakesmith.quality.measures import Measure

_ENOUGH_BATCHES = 5
"""Fewer batches before do not tell what is usual."""
_ENOUGH_IN_SEASON = 4
_ENOUGH_VALUES = 50
"""Fewer values are spread by chance."""
_AS_NORMAL = 1.4826
"""The median distance from the median, times this, is the standard deviation of normal values."""
_LEAST_SPREAD = 0.05
"""Of the middle: what has never changed may change by as much as this times the deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a check found in a good batch before."""

    at: datetime
    value: float | None
    sketch: str | None
    mode: str = ""
    """How the batch was made."""


INCREMENTS = ("files", "slice", "changes", "sums")
"""Modes of batches that are compared with each other; one of any other mode is compared with its like."""


def alike(past: Sequence[Past], mode: str) -> list[Past]:
    """The batches that one of this mode can be held against."""
    return [each for each in past if each.mode == mode or (each.mode in INCREMENTS and mode in INCREMENTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is thought of a batch."""

    passed: bool
    observed: str
    expected: str = ""
    value: float | None = None
    """A number to be compared with later batches."""
    sketch: str | None = None
    """Likewise, a distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that is known of a batch when it is judged."""

    values: Mapping[str, object]
    """By metric of the measure."""
    pinned_at: int
    """Milliseconds since 1970."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of the rows' columns, in their order, as the rows spell them."""
    theirs: str | None = None
    """For `reconcile`, the input's total; None where there is no such thing."""
    past: Sequence[Past] = ()
    """Newest first."""


def judge(measure: Measure, found: Found) -> Verdict:
    """Whether the batch is what the rule expects."""
    values = found.values
    match measure.rule:
        case BatchSql(condition=condition):
            told = ", ".join(f"{sql} = {value}" for sql, value in values.items() if sql != "met")
            return Verdict(passed=bool(values["met"]), observed=told, expected=condition)
        case Freshness(column=column, within=within):
            return _fresh(column, within, values["newest"], found.pinned_at)
        case RowCount() as rule:
            return _counted(rule, int(str(values["rows"])), found.past)
        case NullRate(column=column, max=most):
            rows, filled = int(str(values["rows"])), int(str(values["filled"]))
            rate = (rows - filled) / rows if rows else 0.0
            expected = f"at most {most:.2%} of {column} without a value"
            return Verdict(passed=rate <= most, observed=f"{rate:.2%}", expected=expected, value=rate)
        case Distinct() as rule:
            return _bounded(f"values of {rule.column}", values["value"], rule.min, rule.max)
        case Bounds() as rule:
            name = f"{rule.of} {rule.at}" if rule.at is not None else rule.of
            return _bounded(f"{name} of {rule.column}", values["value"], rule.min, rule.max)
        case Reconcile() as rule:
            return _reconciled(rule, values["own"], found.theirs)
        case Drift() as rule:
            return _spread(rule, values, found.past)
        case Anomaly() as rule:
            return _usual(rule, values["value"], found)
        case SchemaIs() as rule:
            return _shape(rule, found.types)
        case _:
            assert_never(measure.rule)


def _fresh(column: str, within: float, newest: object, pinned_at: int) -> Verdict:
    expected = f"the newest {column} at most {within:,.0f} seconds old"
    if newest is None:
        return Verdict(passed=False, observed=f"no {column} at all", expected=expected)
    age = (pinned_at - int(str(newest))) / 1000
    told = datetime.fromtimestamp(int(str(newest)) / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    return Verdict(passed=age <= within, observed=f"{told}, {age:,.0f} seconds old", expected=expected, value=age)


def _counted(rule: RowCount, rows: int, past: Sequence[Past]) -> Verdict:
    bounds = _bounded("rows", rows, rule.min, rule.max)
    before = [each.value for each in past[: rule.last] if each.value is not None]
    if rule.change is None or not bounds.passed or not before:
        observed = bounds.observed if before or rule.change is None else f"{bounds.observed}; no batch before"
        return Verdict(passed=bounds.passed, observed=observed, expected=bounds.expected, value=float(rows))
    mean = fmean(before)
    apart = abs(rows - mean) / mean if mean else float(rows > 0)
    return Verdict(
        passed=apart <= rule.change,
        observed=f"{rows:,} rows, {apart:.0%} from the mean of {len(before)} batches before, {mean:,.0f}",
        expected=f"at most {rule.change:.0%} from the batches before",
        value=float(rows),
    )


def _bounded(name: str, value: object, least: object, most: object) -> Verdict:
    low, high = (None if each is None else Decimal(str(each)) for each in (least, most))
    bounds = [f">= {low}"] if low is not None else []
    bounds += [f"<= {high}"] if high is not None else []
    expected = f"{name} {' and '.join(bounds)}"
    if value is None:
        return Verdict(passed=False, observed="no value", expected=expected)
    number = _number(value)
    if number is None:
        return Verdict(passed=False, observed=str(value), expected=expected)
    passed = (low is None or number >= low) and (high is None or number <= high)
    return Verdict(passed=passed, observed=f"{number:f}", expected=expected, value=float(number))


def _number(value: object) -> Decimal | None:
    """None where it is none that can be compared, as NaN and days are not."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _reconciled(rule: Reconcile, own: object, theirs: str | None) -> Verdict:
    expected = f"{rule.own} = {rule.theirs} of {rule.table}"
    if theirs is None:
        told = "not judged: the batch computes keys anew, from more rows than came"
        return Verdict(passed=True, observed=told, expected=expected)
    ours, other = _number(own or 0), _number(theirs or 0)
    if ours is None or other is None:
        return Verdict(passed=False, observed=f"{own} against {theirs}", expected=expected)
    apart = abs(ours - other)
    room = abs(other) * Decimal(str(rule.tolerance or 0))
    return Verdict(passed=apart <= room, observed=f"{ours:f} against {other:f}", expected=expected, value=float(ours))


def _spread(rule: Drift, values: Mapping[str, object], past: Sequence[Past]) -> Verdict:
    spread = values["spread"]
    now = Spread.read(int(str(values["count"])), None if spread is None else str(spread))
    expected = f"{rule.method} of {rule.column} at most {rule.max}"
    before = [Spread.kept(each.sketch) for each in past[: rule.last] if each.sketch]
    # A column that was text once and is a number now cannot be compared.
    before = [each for each in before if bool(each.points) == bool(now.points) and each.count]
    if sum(each.count for each in before) < _ENOUGH_VALUES or now.count < _ENOUGH_VALUES:
        told = f"not judged: {now.count:,} values, and {len(before)} good batches before"
        return Verdict(passed=True, observed=told, expected=expected, sketch=now.keep())
    distance = (psi if rule.method == "psi" else ks)(now, before)
    return Verdict(
        passed=distance <= rule.max,
        observed=f"{rule.method} = {distance:.4f} against {len(before)} batches",
        expected=expected,
        value=distance,
        sketch=now.keep(),
    )


def _usual(rule: Anomaly, value: object, found: Found) -> Verdict:
    if value is None:
        return Verdict(passed=False, observed=f"{rule.of} has no value", expected=f"a usual {rule.of}")
    number = float(str(value))
    if not math.isfinite(number):
        return Verdict(passed=False, observed=str(value), expected=f"a usual {rule.of}")
    at = datetime.fromtimestamp(found.pinned_at / 1000, UTC)
    past = [each for each in found.past[: rule.last] if each.value is not None]
    alike = [each for each in past if _season(each.at, rule.season) == _season(at, rule.season)]
    chosen, season = (alike, rule.season) if len(alike) >= _ENOUGH_IN_SEASON else (past, "none")
    if len(chosen) < _ENOUGH_BATCHES and season == "none":
        told = f"{number:g}; not judged: {len(chosen)} good batches before, {_ENOUGH_BATCHES} are needed"
        return Verdict(passed=True, observed=told, expected=f"a usual {rule.of}", value=number)
    values = [each.value for each in chosen if each.value is not None]
    middle = median(values)
    spread = _AS_NORMAL * median(abs(each - middle) for each in values)
    room = float(rule.deviations) * max(spread, _LEAST_SPREAD * abs(middle))
    when = {"hour": f" at {at:%H} o'clock", "weekday": f" on a {at:%A}", "none": ""}[season]
    return Verdict(
        passed=abs(number - middle) <= room,
        observed=f"{number:g}",
        expected=f"{rule.of} between {middle - room:g} and {middle + room:g}{when} ({len(values)} batches)",
        value=number,
    )


def _season(at: datetime, season: Season) -> int:
    match season:
        case "hour":
            return at.hour
        case "weekday":
            return at.weekday()
        case "none":
            return 0
        case _:
            assert_never(season)


def _shape(rule: SchemaIs, types: Mapping[str, str]) -> Verdict:
    low = {name.lower(): kind for name, kind in types.items()}
    wrong = [f"no {name}" for name in rule.columns if name.lower() not in low]
    wrong += [
        f"{name} is a {low.get(name.lower(), 'missing column')}, not a {kind}"
        for name, kind in rule.types
        if low.get(name.lower()) != kind
    ]
    wanted = list(rule.columns) or [name for name, _ in rule.types]
    if rule.exact and not wrong and [name.lower() for name in types] != [name.lower() for name in wanted]:
        wrong.append(f"columns are {', '.join(types)}")
    expected = f"{'exactly ' if rule.exact else ''}{', '.join(wanted)}"
    return Verdict(passed=not wrong, observed="; ".join(wrong) or f"{len(types)} columns", expected=expected)
