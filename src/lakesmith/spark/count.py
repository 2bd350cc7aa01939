"""Counts a batch: how many rows came, which rules they broke, and what is measured of the good ones."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakesmith.columns import AGAIN, END, FILE, GIVEN_UP, HIDDEN, RESCUED, WRITTEN
from lakesmith.quality import UNREADABLE, Measure, Rules
from lakesmith.spark.checked import closes_file, counted_by_readers, good_rows
from lakesmith.spark.incoming import FileEnd
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, Row


_ENDS = {"ends": f"collect_list(CASE WHEN {END} IS NOT NULL THEN struct({FILE} AS number, {END}.*) END)"}
"""What the rows tell that close the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many rows came, how many broke which rule, and what was measured."""

    came: int
    refused: int
    broken: Mapping[str, int]
    discarded: int = 0
    measured: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By batch rule and metric."""
    filled: Mapping[str, int] = field(default_factory=dict)
    """By declared column, how many rows have a value, where that matters."""
    again: int = 0
    """Rows that an earlier batch brought already."""
    rescued: int = 0
    """Rows with fields that did not fit."""
    ends: tuple[FileEnd, ...] = ()
    """For files, what was read from each."""


class Watch:
    """Counts rows while they are written, so that counting costs no pass of its own."""

    def __init__(self, rules: Rules) -> None:
        from pyspark.sql import Observation

        self._rules = rules
        self._by_readers = False
        self._came: Observation = Observation(f"came-{uuid.uuid4().hex}")

    def over(self, rows: DataFrame) -> DataFrame:
        """The checked rows, counted as they pass."""
        self._by_readers = counted_by_readers(self._rules, rows.columns)
        return _observed(rows, self._came, _ENDS if self._by_readers else _row_metrics(self._rules, rows.columns))

    def counts(self) -> Counts:
        found = _counts(self._rules, dict(self._came.get))
        return _from_readers(found) if self._by_readers else found


def by_rule(rules: Rules, broken: Mapping[tuple[int, ...], int]) -> dict[str, int]:
    """How many rows broke each rule, from how many have which numbers."""
    return {
        rule.name: sum(rows for numbers, rows in broken.items() if rules.has_bit(numbers, index))
        for index, rule in enumerate(rules.rows)
    }


def count(rows: DataFrame, rules: Rules, filled: Sequence[str] = ()) -> Counts:
    """Count a batch that is held: row rules on all rows, batch rules on the good ones."""
    found = _collected(rows, _row_metrics(rules, rows.columns, filled))
    told = _counts(rules, found, filled)
    return replace(told, measured=measured(rules.batch, good_rows(rows, rules))) if rules.batch else told


_MANY = 1_000_000
"""Of so many rows a look at one column costs less than aggregates that keep all others from being compiled."""


def measured(measures: Sequence[Measure], good: DataFrame, rows: int = 0) -> dict[str, dict[str, object]]:
    """What is asked of good rows all together: one look at them, however many rules there are; and one more for each
    that asks only some rows in a way that cannot be said in the same breath. Where there are many `rows`, rules that
    need a sketch have a look of their own, at their column alone: beside one Spark compiles no aggregate."""
    types = _types(good)
    alone = [measure for measure in measures if rows >= _MANY and measure.sketches]
    apart = [measure for measure in measures if measure.where and measure.picks_rows]
    together = [measure for measure in measures if measure not in (*alone, *apart)]
    found = _collected(good, {"good": "count(*)", **_batch_metrics(together, types)})
    for measure in alone:
        found |= _collected(good, _batch_metrics([measure], types))
    for measure in apart:
        found |= _collected(good.where(str(measure.where)), _batch_metrics([measure], types))
    return {
        measure.name: {
            name.removeprefix(_metric(measure, "")): value
            for name, value in found.items()
            if name.startswith(_metric(measure, ""))
        }
        for measure in measures
    }


def _collected(rows: DataFrame, metrics: Mapping[str, str]) -> dict[str, object]:
    row = rows.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in metrics.items())).collect()[0]
    return dict(row.asDict())


def _observed(rows: DataFrame, observation: Observation, metrics: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.observe(observation, *(F.expr(sql).alias(name) for name, sql in metrics.items()))


def _types(rows: DataFrame) -> dict[str, str]:
    return {
        each.name.lower(): each.dataType.simpleString()
        for each in rows.schema.fields
        if not each.name.startswith(HIDDEN)
    }


def _row_metrics(rules: Rules, columns: Sequence[str], filled: Sequence[str] = ()) -> dict[str, str]:
    metrics = {f"rule_{index}": rules.broken(rule) for index, rule in enumerate(rules.rows)}
    metrics |= {"came": f"count_if(NOT {closes_file(columns)})", "refused": f"count_if({rules.refused()})"}
    if rules.discarded() != "false" or GIVEN_UP in columns:
        given_up = f" OR {GIVEN_UP}" if GIVEN_UP in columns else ""
        metrics["discarded"] = f"count_if(({rules.discarded()}{given_up}) AND NOT ({rules.refused()}))"
    metrics |= {f"filled_{index}": f"count({quoted(name)})" for index, name in enumerate(filled)}
    if AGAIN in columns:
        metrics["again"] = f"count_if({AGAIN})"
    if RESCUED in columns:
        metrics["rescued"] = f"count({RESCUED})"
    if END in columns:
        metrics |= _ENDS
    return metrics


def count_written(rows: DataFrame) -> tuple[Counts, list[Row]]:
    """Count a batch whose readers write its good rows themselves; returns also the files that they made."""
    told = rows.where(f"{END} IS NOT NULL OR {WRITTEN} IS NOT NULL").select(FILE, END, WRITTEN).collect()
    ends = tuple(FileEnd(number=row[FILE], **row[END].asDict()) for row in told if row[END] is not None)
    nothing = Counts(came=0, refused=0, broken={}, ends=ends)
    return _from_readers(nothing), [row[WRITTEN] for row in told if row[WRITTEN] is not None]


def _from_readers(found: Counts) -> Counts:
    came, refused = (sum(getattr(end, name) for end in found.ends) for name in ("rows", "refused"))
    rescued = sum(end.rescued for end in found.ends)
    return replace(found, came=came, refused=refused, rescued=rescued, broken={UNREADABLE: refused})


def _batch_metrics(measures: Sequence[Measure], types: Mapping[str, str]) -> dict[str, str]:
    return {_metric(measure, metric): sql for measure in measures for metric, sql in measure.metrics(types).items()}


def _metric(measure: Measure, metric: str) -> str:
    return f"batch {measure.name} {metric}"


def _counts(rules: Rules, values: Mapping[str, object], filled: Sequence[str] = ()) -> Counts:
    def number(name: str) -> int:
        return int(str(values.get(name) or 0))

    ends = values.get("ends") or []
    return Counts(
        came=number("came"),
        refused=number("refused"),
        discarded=number("discarded"),
        broken={rule.name: number(f"rule_{index}") for index, rule in enumerate(rules.rows)},
        filled={name: number(f"filled_{index}") for index, name in enumerate(filled)},
        again=number("again"),
        rescued=number("rescued"),
        ends=tuple(FileEnd(**end.asDict()) for end in ends),  # type: ignore[attr-defined]
    )
