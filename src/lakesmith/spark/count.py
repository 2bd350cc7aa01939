"""Counts a batch: how many rows came, which rules they broke, and what the batch rules found."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakesmith.columns import AGAIN, CORRUPT, END, FILE, RESCUED, WRITTEN
from lakesmith.quality import Rules, only_readability
from lakesmith.quality.rules import UNREADABLE
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, Row


_ENDS = {"ends": f"collect_list(CASE WHEN {END} IS NOT NULL THEN struct({FILE} AS number, {END}.*) END)"}
"""What the rows tell that close the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many rows came, and how many broke which rule."""

    came: int
    refused: int
    broken: Mapping[str, int]
    expected: Mapping[str, bool]
    observed: Mapping[str, str]
    again: int = 0
    """Rows that an earlier batch brought already."""
    rescued: int = 0
    """Rows with fields that did not fit."""
    ends: tuple[FileEnd, ...] = ()
    """For files, what was read from each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnd:
    """What was read from one file."""

    number: int
    """Its place in the batch."""
    rows: int
    refused: int
    rescued: int
    bytes: int
    code: str | None
    """Why the file as a whole could not be read."""


class Watch:
    """Counts rows while they are written, so that counting costs no pass of its own."""

    def __init__(self, rules: Rules) -> None:
        from pyspark.sql import Observation

        self._rules = rules
        self._by_readers = False
        self._came: Observation = Observation(f"came-{uuid.uuid4().hex}")
        self._good: Observation | None = Observation(f"good-{uuid.uuid4().hex}") if rules.batch else None

    def good(self, checked: DataFrame) -> DataFrame:
        self._by_readers = counted_by_readers(self._rules, checked.columns)
        metrics = _ENDS if self._by_readers else _row_metrics(self._rules, checked.columns)
        rows = good_rows(_observed(checked, self._came, metrics), self._rules)
        return _observed(rows, self._good, _batch_metrics(self._rules)) if self._good else rows

    def counts(self) -> Counts:
        found = _counts(self._rules, self._came.get, self._good.get if self._good else {})
        return _from_readers(found) if self._by_readers else found


def count(checked: DataFrame, rules: Rules) -> Counts:
    """Count a batch that is held, in one job: row rules on all rows, batch rules on the good ones."""
    from pyspark.sql import Observation

    came = Observation(f"came-{uuid.uuid4().hex}")
    rows = good_rows(_observed(checked, came, _row_metrics(rules, checked.columns)), rules)
    metrics = {"good": "count(*)", **_batch_metrics(rules)}
    found = rows.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in metrics.items())).collect()[0]
    return _counts(rules, came.get, found.asDict())


def _observed(rows: DataFrame, observation: Observation, metrics: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.observe(observation, *(F.expr(sql).alias(name) for name, sql in metrics.items()))


def _row_metrics(rules: Rules, columns: Sequence[str]) -> dict[str, str]:
    metrics = {f"rule_{index}": rules.broken(rule) for index, rule in enumerate(rules.rows)}
    metrics |= {"came": f"count_if(NOT {closes_file(columns)})", "refused": f"count_if({rules.refused()})"}
    if AGAIN in columns:
        metrics["again"] = f"count_if({AGAIN})"
    if RESCUED in columns:
        metrics["rescued"] = f"count({RESCUED})"
    if END in columns:
        metrics |= _ENDS
    return metrics


def counted_by_readers(rules: Rules, columns: Sequence[str]) -> bool:
    """Whether the readers of files have counted all there is to know: nothing is checked but that rows can be read.

    Spark then need not count each row again, which costs as much as reading it. What the table and its quarantine
    have gained is held against these counts, file by file.
    """
    return END in columns and AGAIN not in columns and only_readability(rules)


def count_written(checked: DataFrame) -> tuple[Counts, list[Row]]:
    """Count a batch whose readers write its good rows themselves; returns also the files that they made."""
    told = checked.where(f"{END} IS NOT NULL OR {WRITTEN} IS NOT NULL").select(FILE, END, WRITTEN).collect()
    ends = tuple(FileEnd(number=row[FILE], **row[END].asDict()) for row in told if row[END] is not None)
    nothing = Counts(came=0, refused=0, broken={}, expected={}, observed={}, ends=ends)
    return _from_readers(nothing), [row[WRITTEN] for row in told if row[WRITTEN] is not None]


def _from_readers(found: Counts) -> Counts:
    came, refused = (sum(getattr(end, name) for end in found.ends) for name in ("rows", "refused"))
    rescued = sum(end.rescued for end in found.ends)
    return replace(found, came=came, refused=refused, rescued=rescued, broken={UNREADABLE: refused})


def closes_file(columns: Sequence[str]) -> str:
    """SQL: the row is no row of the table, but tells that a file has ended."""
    return f"({END} IS NOT NULL AND {CORRUPT} IS NULL)" if END in columns else "(false)"


def _batch_metrics(rules: Rules) -> dict[str, str]:
    metrics = {}
    for index, rule in enumerate(rules.batch):
        metrics[f"expect_{index}"] = f"coalesce({rule.condition}, false)"
        for number, sql in enumerate(rule.aggregates()):
            metrics[f"value_{index}_{number}"] = f"CAST({sql} AS string)"
    return metrics


def _counts(rules: Rules, rows: Mapping[str, object], batch: Mapping[str, object]) -> Counts:
    # Spark may leave out the metrics of a plan that it found to be empty.
    ends = rows.get("ends") or []
    numbers = {name: int(str(value)) for name, value in rows.items() if name != "ends"}
    return Counts(
        came=numbers.get("came", 0),
        refused=numbers.get("refused", 0),
        broken={rule.name: numbers.get(f"rule_{index}", 0) for index, rule in enumerate(rules.rows)},
        expected={rule.name: bool(batch.get(f"expect_{index}")) for index, rule in enumerate(rules.batch)},
        observed={
            rule.name: ", ".join(
                f"{sql} = {batch.get(f'value_{index}_{number}')}" for number, sql in enumerate(rule.aggregates())
            )
            for index, rule in enumerate(rules.batch)
        },
        again=numbers.get("again", 0),
        rescued=numbers.get("rescued", 0),
        ends=tuple(FileEnd(**e.asDict()) for e in ends),  # type: ignore[attr-defined]
    )


def good_rows(checked: DataFrame, rules: Rules) -> DataFrame:
    """The rows that no rule refuses."""
    if counted_by_readers(rules, checked.columns):
        return checked.where(f"{CORRUPT} IS NULL AND {END} IS NULL")
    again = f" AND NOT {AGAIN}" if AGAIN in checked.columns else ""
    return checked.where(f"NOT ({rules.refused()}) AND NOT {closes_file(checked.columns)}{again}")
