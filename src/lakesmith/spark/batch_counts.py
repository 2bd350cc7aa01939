"""Counts a batch: rows, rows per failed rule, and the metrics of batch checks over good rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from lakesmith.columns import ALREADY_INGESTED, DISCARDED, FILE_END, FILE_NUMBER, HIDDEN, RESCUED, WRITTEN_FILE
from lakesmith.quality import UNREADABLE, Measure, Rules
from lakesmith.spark.incoming import FileRead, by_file
from lakesmith.spark.row_checks import counted_by_readers, good_rows, is_file_end
from lakesmith.spark.types import is_exact_in_arrow
from lakesmith.sql import collect_arrow, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, Row


FEW_ROWS = 10_000
"""The number of rows up to which the driver collects a batch."""
_CLOSING_ROWS = {
    "closing": f"collect_list(CASE WHEN {FILE_END} IS NOT NULL THEN struct({FILE_NUMBER} AS number, {FILE_END}.*) END)"
}
"""Aggregate over the marker rows at the end of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many rows a batch has, how many failed which rule, and the metrics of its batch checks."""

    rows_in: int
    rejected: int
    broken: Mapping[str, int]
    discarded: int = 0
    measured: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By batch check and metric."""
    filled: Mapping[str, int] = field(default_factory=dict)
    """By declared column, the number of non-NULL rows. Empty where the batch cannot lack a column."""
    already_ingested: int = 0
    """Rows that an earlier batch ingested."""
    rescued: int = 0
    """Rows with a value that did not fit its column."""
    file_reads: tuple[FileRead, ...] = ()
    """What was read from each file."""


class RowCounter:
    """Counts rows while they are written, so that counting needs no extra pass."""

    def __init__(self, rules: Rules, filled: Sequence[str] = ()) -> None:
        from pyspark.sql import Observation

        self._rules = rules
        self._filled = filled
        self._by_readers = False
        self._observation: Observation = Observation(f"counts-{uuid.uuid4().hex}")

    def over(self, rows: DataFrame) -> DataFrame:
        """Return the checked rows; they are counted when Spark evaluates them."""
        # Readers do not count the values of columns.
        self._by_readers = not self._filled and counted_by_readers(self._rules, rows.columns)
        metrics = _CLOSING_ROWS if self._by_readers else _row_metrics(self._rules, rows.columns, self._filled)
        return _observed(rows, self._observation, metrics)

    def counts(self) -> Counts:
        found = _counts(self._rules, dict(self._observation.get), self._filled)
        return _from_readers(found) if self._by_readers else found


def collect_few(rows: DataFrame, rules: Rules, filled: Sequence[str] = ()) -> tuple[DataFrame, Counts] | None:
    """Evaluate a batch in one Spark job; return its rows in memory and its counts. None where the rows are many, or
    Arrow cannot hold them."""
    schema = rows.schema
    if not is_exact_in_arrow(schema):
        return None
    counter = RowCounter(rules, filled)
    in_partition = f"monotonically_increasing_id() & {(1 << 33) - 1}"
    found = collect_arrow(counter.over(rows).where(f"({in_partition}) <= {FEW_ROWS}"))
    counts = counter.counts()
    if found.num_rows > FEW_ROWS or counts.rows_in > FEW_ROWS:
        return None
    few = rows.sparkSession.createDataFrame(found, schema)
    measured = compute_measures(rules.batch, good_rows(few, rules)) if rules.batch else {}
    return few, replace(counts, measured=measured)


def count_by_rule(rules: Rules, broken: Mapping[tuple[int, ...], int]) -> dict[str, int]:
    """Return how many rows failed each rule, from row counts by bit mask."""
    return {
        rule.name: sum(rows for numbers, rows in broken.items() if rules.has_bit(numbers, index))
        for index, rule in enumerate(rules.rows)
    }


def count_rows(rows: DataFrame, rules: Rules, filled: Sequence[str] = ()) -> Counts:
    """Count a cached batch: row rules over all rows, batch checks over the good rows."""
    found = _collected(rows, _row_metrics(rules, rows.columns, filled))
    counts = _counts(rules, found, filled)
    return replace(counts, measured=compute_measures(rules.batch, good_rows(rows, rules))) if rules.batch else counts


_MANY = 1_000_000
"""From this many rows on, a sketch gets a pass of its own: beside it, Spark compiles no other aggregate."""


def compute_measures(measures: Sequence[Measure], good: DataFrame, rows: int = 0) -> dict[str, dict[str, object]]:
    """Compute the metrics of batch checks over the good rows, in one pass for all checks.

    A check gets a pass of its own when its filter cannot be part of an aggregate, or when it needs a sketch and there
    are many `rows`.
    """
    types = _types(good)
    alone = [measure for measure in measures if rows >= _MANY and measure.sketches]
    apart = [measure for measure in measures if measure.where and measure.filters_rows]
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
    metrics = {f"rule_{index}": rules.broken_count(rule) for index, rule in enumerate(rules.rows)}
    metrics |= {"rows_in": f"count_if(NOT {is_file_end(columns)})", "rejected": f"count_if({rules.quarantined()})"}
    if rules.discarded() != "false" or DISCARDED in columns:
        or_discarded = f" OR {DISCARDED}" if DISCARDED in columns else ""
        metrics["discarded"] = f"count_if(({rules.discarded()}{or_discarded}) AND NOT ({rules.quarantined()}))"
    metrics |= {f"filled_{index}": f"count({quoted(name)})" for index, name in enumerate(filled)}
    if ALREADY_INGESTED in columns:
        metrics["already_ingested"] = f"count_if({ALREADY_INGESTED})"
    if RESCUED in columns:
        metrics["rescued"] = f"count({RESCUED})"
    if FILE_END in columns:
        metrics |= _CLOSING_ROWS
    return metrics


def count_written_files(rows: DataFrame) -> tuple[Counts, list[Row]]:
    """Count a batch whose readers write the good rows, and return also the files that they wrote."""
    markers = (
        rows.where(f"{FILE_END} IS NOT NULL OR {WRITTEN_FILE} IS NOT NULL")
        .select(FILE_NUMBER, FILE_END, WRITTEN_FILE)
        .collect()
    )
    file_reads = by_file(FileRead.from_row(row) for row in markers if row[FILE_END] is not None)
    empty = Counts(rows_in=0, rejected=0, broken={}, file_reads=file_reads)
    return _from_readers(empty), [row[WRITTEN_FILE] for row in markers if row[WRITTEN_FILE] is not None]


def _from_readers(found: Counts) -> Counts:
    rows, rejected = (sum(getattr(read, name) for read in found.file_reads) for name in ("rows", "rejected"))
    rescued = sum(read.rescued for read in found.file_reads)
    return replace(found, rows_in=rows, rejected=rejected, rescued=rescued, broken={UNREADABLE: rejected})


def _batch_metrics(measures: Sequence[Measure], types: Mapping[str, str]) -> dict[str, str]:
    return {_metric(measure, metric): sql for measure in measures for metric, sql in measure.metrics(types).items()}


def _metric(measure: Measure, metric: str) -> str:
    return f"batch {measure.name} {metric}"


def _counts(rules: Rules, values: Mapping[str, object], filled: Sequence[str] = ()) -> Counts:
    def number(name: str) -> int:
        return int(str(values.get(name) or 0))

    closing = cast("list[Row]", values.get("closing") or [])
    return Counts(
        rows_in=number("rows_in"),
        rejected=number("rejected"),
        discarded=number("discarded"),
        broken={rule.name: number(f"rule_{index}") for index, rule in enumerate(rules.rows)},
        filled={name: number(f"filled_{index}") for index, name in enumerate(filled)},
        already_ingested=number("already_ingested"),
        rescued=number("rescued"),
        file_reads=by_file(FileRead(**end.asDict()) for end in closing),
    )
