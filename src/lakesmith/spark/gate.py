"""The gate before the commit: judges the checks and decides whether the batch may be committed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lakesmith.columns import AUDIT, HIDDEN
from lakesmith.declare.checks import Limit, Reconcile
from lakesmith.errors import DataError, Place
from lakesmith.quality import CheckVerdict, Measure, Measurements, PastResult, RowRule, judge
from lakesmith.records import CheckRecord
from lakesmith.spark.batch_counts import Counts
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SAMPLES = 3
"""Number of sample rows in the error."""
MASK = "•••"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a batch failed the gate."""

    check: str
    what: str
    at: Place
    rows: int = 0


class GateFailed(DataError):
    """A batch failed the gate before its commit. Carries the check results."""

    def __init__(
        self, incoming: IncomingBatch, failures: Sequence[Failure], checks: tuple[CheckRecord, ...], counts: Counts
    ) -> None:
        version = "was not created" if incoming.facts is None else f"stayed at version {incoming.facts.version}"
        run = incoming.batch.run_id
        super().__init__(
            "gate-failed",
            "; ".join(failure.what for failure in failures),
            at=failures[0].at,
            table=str(incoming.table.name),
            hint=f"the table {version}; fix the data or the check and run again, or inspect the batch "
            f'(lakesmith query "FROM held.{incoming.table.name.layer}_{incoming.table.name.name}") and approve it: '
            f"lakesmith approve {run} --reason …",
        )
        self.checks = checks
        self.failures = tuple(failures)
        self.counts = counts
        self.samples: tuple[str, ...] = ()


def judge_batch(incoming: IncomingBatch, counts: Counts) -> tuple[tuple[CheckRecord, ...], tuple[Failure, ...]]:
    """Return the result of every check, and the failures that block the commit."""
    verdicts = _judge_measures(incoming, counts)
    failures = [failure for rule in incoming.rules.rows if (failure := _row_failure(rule, counts))]
    for measure in incoming.rules.batch:
        verdict = verdicts[measure.name]
        if measure.severity == "fail" and not verdict.passed:
            text = f"{measure.name}: expected {verdict.expected}, found {verdict.observed}"
            failures.append(Failure(check=measure.name, what=_with_contact(text, measure), at=measure.declared_at))
    records = _records(incoming, counts, verdicts, committed=not failures)
    return records, tuple(failures)


def _judge_measures(incoming: IncomingBatch, counts: Counts) -> dict[str, CheckVerdict]:
    remembering = [measure.name for measure in incoming.rules.batch if measure.uses_history]
    past: Mapping[str, Sequence[PastResult]] = incoming.past(remembering) if remembering else {}
    fields = [field for field in incoming.rows.schema.fields if not field.name.startswith(HIDDEN)]
    types = {field.name: field.dataType.simpleString() for field in fields if field.name not in AUDIT}
    return {
        measure.name: judge(
            measure,
            Measurements(
                values=counts.measured.get(measure.name, {}),
                pinned_at=incoming.batch.pinned_at,
                types=types,
                theirs=_input_total(incoming, measure),
                past=[each for each in past.get(measure.name, ()) if each.mode in incoming.batch.comparable_modes],
            ),
        )
        for measure in incoming.rules.batch
    }


def _input_total(incoming: IncomingBatch, measure: Measure) -> str | None:
    """Return the total of the input rows for a reconcile check."""
    if not isinstance(measure.rule, Reconcile):
        return None
    rows = incoming.inputs.get(str(measure.rule.table))
    if rows is None:
        return None
    ((total,),) = rows.selectExpr(f"CAST({measure.rule.theirs} AS string)").collect()
    return str(total or 0)


def _row_failure(rule: RowRule, counts: Counts) -> Failure | None:
    broken = counts.broken.get(rule.name, 0)
    if rule.limit is not None:
        if not _exceeds(rule.limit, broken, counts.rows_in):
            return None
        most = f"{rule.limit.rows:,}" if rule.limit.rows is not None else f"{rule.limit.share:.2%}"
        share = f"{broken / counts.rows_in:.2%}" if rule.limit.share is not None else f"{broken:,}"
        what = f"{rule.name}: {share} of {counts.rows_in:,} rows failed, {most} are allowed: {rule.reason}"
        return Failure(check=rule.name, what=what, at=rule.declared_at, rows=broken)
    if rule.severity != "fail" or not broken:
        return None
    what = f"{rule.name}: {broken:,} rows failed: {rule.reason}"
    return Failure(check=rule.name, what=what, at=rule.declared_at, rows=broken)


def _exceeds(limit: Limit, broken: int, rows_in: int) -> bool:
    if limit.rows is not None:
        return broken > limit.rows
    assert limit.share is not None
    return rows_in > 0 and broken / rows_in > limit.share


def _with_contact(what: str, measure: Measure) -> str:
    owner = f" (ask {measure.owner})" if measure.owner else ""
    return f"{what}{f'; {measure.description}' if measure.description else ''}{owner}"


def _records(
    incoming: IncomingBatch, counts: Counts, verdicts: Mapping[str, CheckVerdict], *, committed: bool
) -> tuple[CheckRecord, ...]:
    batch = incoming.batch
    record = partial(
        CheckRecord,
        run_id=batch.run_id,
        table=str(incoming.table.name),
        sequence=batch.sequence,
        mode=batch.mode,
        committed=committed,
        checked_at=datetime.now(UTC),
    )
    rows = [
        record(
            check=rule.name,
            severity=rule.severity,
            failed_rows=counts.broken.get(rule.name, 0),
            passed=_row_failure(rule, counts) is None if rule.limit else counts.broken.get(rule.name, 0) == 0,
            owner=rule.owner,
        )
        for rule in incoming.rules.rows
    ]
    measures = [
        record(
            check=measure.name,
            severity=measure.severity,
            failed_rows=0,
            passed=verdicts[measure.name].passed,
            observed=verdicts[measure.name].observed,
            value=verdicts[measure.name].value,
            sketch=verdicts[measure.name].sketch,
            owner=measure.owner,
        )
        for measure in incoming.rules.batch
    ]
    return tuple(rows + measures)


def sample_rows(rows: DataFrame, incoming: IncomingBatch, failures: Sequence[Failure]) -> tuple[str, ...]:
    """Return some rows that failed a rule, as text. Columns tagged as personal are masked."""
    broken = [rule for rule in incoming.rules.rows if any(f.check == rule.name and f.rows for f in failures)]
    if not broken:
        return ()
    secret = {column.name.lower() for column in incoming.table.columns if column.is_private}
    names = [name for name in incoming.payload if name not in AUDIT]
    shown = [quoted(name) for name in names if name.lower() not in secret]
    which = " OR ".join(incoming.rules.breaks(rule) for rule in broken)
    found = (
        rows.where(which)
        .limit(_SAMPLES)
        .selectExpr(
            f"to_json(struct({', '.join(shown)})) AS row" if shown else "'{}' AS row",
            f"{incoming.rules.names()} AS rules",
        )
    )
    hidden = {name: MASK for name in names if name.lower() in secret}
    return tuple(
        f"{', '.join(row.rules)}: {json.dumps({**json.loads(row.row), **hidden}, ensure_ascii=False)}"
        for row in found.collect()
    )
