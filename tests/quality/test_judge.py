"""Measurements of a batch are compared with bounds, and with earlier good batches."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesmith.declare.checks import (
    Anomaly,
    BatchRule,
    BatchSql,
    Bounds,
    Distinct,
    Drift,
    Freshness,
    NullRate,
    Reconcile,
    RowCount,
    SchemaIs,
)
from lakesmith.declare.names import TableName
from lakesmith.errors import Place
from lakesmith.quality import CheckVerdict, Measure, Measurements, PastResult, judge
from lakesmith.quality.drift import Distribution, ks, psi
from lakesmith.quality.measures import POINTS, can_be_narrowed, narrowed

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
"""A Monday."""


def verdict(
    rule: BatchRule,
    past: list[PastResult] | None = None,
    types: dict[str, str] | None = None,
    theirs: str | None = None,
    **values: object,
) -> CheckVerdict:
    measure = Measure(name="x", rule=rule, severity="fail", declared_at=Place("silver/x.sql"))
    at = int(NOON.timestamp() * 1000)
    return judge(measure, Measurements(values=values, pinned_at=at, past=past or [], types=types or {}, theirs=theirs))


def history(*values: float, days: int = 1) -> list[PastResult]:
    return [
        PastResult(at=NOON - timedelta(days=days * (n + 1)), value=value, sketch=None) for n, value in enumerate(values)
    ]


BROKEN = {
    "a condition": (BatchSql(condition="count(*) > 0"), {"passes": False, "COUNT(*)": "0"}, "COUNT(*) = 0"),
    "nothing at all is not fresh": (Freshness(column="at", within=60), {"newest": None}, "every at is NULL"),
    "too few rows": (RowCount(min=5), {"rows": 4}, "4"),
    "too many rows": (RowCount(max=3), {"rows": 4}, "4"),
    "too many empty": (NullRate(column="a", max=0.1), {"rows": 10, "filled": 8}, "20.00%"),
    "too few values": (Distinct(column="a", min=3), {"value": 2}, "2"),
    "a sum over its bound": (Bounds(of="sum", column="a", max=10), {"value": "10.01"}, "10.01"),
    "no sum": (Bounds(of="sum", column="a", max=10), {"value": None}, "NULL"),
    "a mean under its bound": (Bounds(of="mean", column="a", min=Decimal("0.5")), {"value": "0.25"}, "0.25"),
}


@pytest.mark.parametrize(("rule", "values", "observed"), BROKEN.values(), ids=BROKEN)
def test_a_failed_check_reports_what_was_measured(rule: BatchRule, values: dict[str, Any], observed: str) -> None:
    found = verdict(rule, **values)
    assert (found.passed, found.observed) == (False, observed)


def test_bounds_are_inclusive() -> None:
    assert verdict(RowCount(min=4, max=4), rows=4).passed
    assert verdict(NullRate(column="a", max=0.2), rows=10, filled=8).passed
    assert verdict(Bounds(of="quantile", column="a", at=Decimal("0.5"), min=1, max=1), value="1.0").passed


def test_times_are_compared_with_the_pin_time_of_the_batch() -> None:
    newest = int((NOON - timedelta(minutes=5)).timestamp() * 1000)
    assert verdict(Freshness(column="at", within=300), newest=newest).passed
    assert not verdict(Freshness(column="at", within=299), newest=newest).passed


def test_totals_are_compared_exactly_unless_a_tolerance_is_set() -> None:
    rule = Reconcile(table=TableName("bronze", "x"), own="sum(a)", theirs="sum(a)")
    assert verdict(rule, own="0.30", theirs="0.3").passed
    assert not verdict(rule, own="0.31", theirs="0.3").passed
    lenient = Reconcile(table=TableName("bronze", "x"), own="sum(a)", theirs="sum(a)", tolerance=0.05)
    assert verdict(lenient, own="0.31", theirs="0.3").passed
    assert "not judged" in verdict(rule, own="1", theirs=None).observed


def test_the_row_count_is_compared_with_the_mean_of_earlier_batches() -> None:
    rule = RowCount(change=0.5, last=2)
    assert verdict(rule, history(100, 100, 9999), rows=150).passed
    assert not verdict(rule, history(100, 100, 9999), rows=151).passed
    assert verdict(rule, [], rows=151).observed == "151; no earlier batch"


def test_an_anomaly_is_far_from_the_median_of_its_weekday() -> None:
    weeks = history(*(1000 + n for n in range(8)), days=7)
    busy = [PastResult(at=NOON - timedelta(days=7 * n + 1), value=5000.0 + n, sketch=None) for n in range(8)]
    past = sorted([*weeks, *busy], key=lambda each: each.at, reverse=True)
    assert verdict(Anomaly(), past, value=1010).passed
    assert not verdict(Anomaly(), past, value=5000).passed
    assert "on a Monday" in verdict(Anomaly(), past, value=5000).expected
    assert verdict(Anomaly(), history(1, 2, 3), value=10**9).passed


def test_a_constant_value_tolerates_a_small_change() -> None:
    past = history(*[100.0] * 10)
    assert verdict(Anomaly(season="none"), past, value=119).passed
    assert not verdict(Anomaly(season="none"), past, value=121).passed


def test_columns_and_types_are_compared_ignoring_case() -> None:
    types = {"Id": "bigint", "name": "string"}
    assert verdict(SchemaIs(columns=("id", "name"), exact=True), types=types).passed
    assert not verdict(SchemaIs(columns=("name", "id"), exact=True), types=types).passed
    assert verdict(SchemaIs(types={"id": "int"}), types=types).observed == "id is a bigint, not a int"
    assert not verdict(SchemaIs(types={"id": "int"}), types=types).passed
    assert not verdict(SchemaIs(columns=("other",)), types=types).passed


def spread(values: list[float]) -> Distribution:
    ordered = sorted(values)
    points = [ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in POINTS]
    return Distribution.from_metrics(len(values), json.dumps(points))


def test_an_equal_distribution_is_near_and_another_is_far() -> None:
    chance = random.Random(1)
    before = [spread([chance.gauss(100, 10) for _ in range(2000)]) for _ in range(3)]
    same, moved = (spread([chance.gauss(middle, 10) for _ in range(2000)]) for middle in (100, 115))
    assert psi(same, before) < 0.05 < 0.2 < psi(moved, before)
    assert ks(same, before) < 0.08 < 0.4 < ks(moved, before)


def test_values_below_all_earlier_values_are_far() -> None:
    assert psi(spread([-5.0] * 100), [spread([0.0] * 100)]) > 1


def test_texts_are_compared_by_buckets() -> None:
    def buckets(**counts: int) -> Distribution:
        buckets = [{"x": float(name[1:]), "y": float(count)} for name, count in counts.items()]
        return Distribution.from_metrics(sum(counts.values()), json.dumps(buckets))

    before = [buckets(b1=50, b2=50), buckets(b1=500, b2=500)]
    assert psi(buckets(b1=100, b2=100), before) == pytest.approx(0)
    assert ks(buckets(b1=100, b2=300), before) == pytest.approx(0.25)
    assert psi(buckets(b1=100, b2=100, b3=200), before) > 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_a_distribution_has_no_distance_from_itself_and_survives_json(values: list[float]) -> None:
    found = spread(values)
    assert Distribution.from_json(found.to_json()) == found
    assert psi(found, [found]) == pytest.approx(0)
    assert ks(found, [found]) == pytest.approx(0)


def test_drift_is_evaluated_once_both_sides_have_enough_values() -> None:
    def measured(values: list[float]) -> dict[str, Any]:
        return {"count": len(values), "spread": json.dumps(list(spread(values).points))}

    first = verdict(Drift(column="a"), **measured([float(n) for n in range(100)]))
    assert (first.passed, first.value) == (True, None)
    past = [PastResult(at=NOON, value=None, sketch=first.sketch)]
    assert verdict(Drift(column="a"), past, **measured([float(n) for n in range(100)])).value == pytest.approx(0)
    assert not verdict(Drift(column="a"), past, **measured([float(n + 500) for n in range(100)])).passed
    assert verdict(Drift(column="a"), past, **measured([500.0] * 10)).value is None


def test_an_aggregate_that_ignores_null_is_restricted_to_matching_rows() -> None:
    assert narrowed("count(*) > 0", "good") == "COUNT(IF(good, 1, NULL)) > 0"
    assert narrowed("sum(a) / count(b) < 2", "good") == "SUM(IF(good, a, NULL)) / COUNT(IF(good, b, NULL)) < 2"
    assert narrowed("sum(a) > 0", None) == "sum(a) > 0"


@pytest.mark.parametrize(
    ("condition", "can"),
    [
        ("count(*) > 0", True),
        ("round(avg(a), 2) < percentile_approx(b, 0.5)", True),
        ("count(DISTINCT a) > 1", False),
        ("max_by(a, b) > 1", False),
        ("collect_set(a) = array(1)", False),
        ("some_aggregate(a) > 1", False),
    ],
)
def test_other_aggregates_need_filtered_rows(condition: str, can: bool) -> None:
    assert can_be_narrowed(condition) == can
    measure = Measure(name="x", rule=BatchSql(condition=condition), severity="warn", declared_at=Place("x"))
    assert measure.filters_rows != can
