"""The gate before the commit: what the checks found, and whether the batch may pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakesmith.columns import AUDIT, HIDDEN
from lakesmith.declare.checks import Limit, Reconcile
from lakesmith.errors import DataError, Place
from lakesmith.quality import Found, Measure, Past, RowRule, Verdict, alike, judge
from lakesmith.records import CheckRecord
from lakesmith.spark.count import Counts
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SAMPLES = 3
"""So many rows are shown of those that broke a rule."""
MASKED = "•••"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a batch may not pass."""

    check: str
    what: str
    at: Place
    rows: int = 0


class GateFailed(DataError):
    """A batch that was refused before its commit, with what its checks found."""

    def __init__(
        self, arrival: IncomingBatch, failures: Sequence[Failure], checks: tuple[CheckRecord, ...], counts: Counts
    ) -> None:
        version = "not been made" if arrival.facts is None else f"stayed at version {arrival.facts.version}"
        run = arrival.batch.run_id
        super().__init__(
            "gate-failed",
            "; ".join(failure.what for failure in failures),
            at=failures[0].at,
            table=str(arrival.table.name),
            hint=f"the table has {version}; mend the data or the check and run again, or look at the batch "
            f'(lakesmith query "FROM held.{arrival.table.name.layer}_{arrival.table.name.name}") and publish it all '
            f"the same: lakesmith approve {run} --reason …",
        )
        self.checks = checks
        self.failures = tuple(failures)
        self.counts = counts
        self.samples: tuple[str, ...] = ()


def judged(arrival: IncomingBatch, counts: Counts) -> tuple[tuple[CheckRecord, ...], tuple[Failure, ...]]:
    """What every check found, and what keeps the batch from passing."""
    verdicts = _compatibility_verdicts(arrival, counts)
    failures = [failure for rule in arrival.rules.rows if (failure := _row_failure(rule, counts))]
    for measure in arrival.rules.batch:
        verdict = verdicts[measure.name]
        if measure.severity == "fail" and not verdict.passed:
            told = f"{measure.name}: expected {verdict.expected}, found {verdict.observed}"
            failures.append(Failure(check=measure.name, what=_told(told, measure), at=measure.declared_at))
    records = _records(arrival, counts, verdicts, committed=not failures)
    return records, tuple(failures)


def _compatibility_verdicts(arrival: IncomingBatch, counts: Counts) -> dict[str, Verdict]:
    remembering = [measure.name for measure in arrival.rules.batch if measure.remembers]
    past: Mapping[str, Sequence[Past]] = arrival.past(remembering) if remembering else {}
    fields = [field for field in arrival.rows.schema.fields if not field.name.startswith(HIDDEN)]
    types = {field.name: field.dataType.simpleString() for field in fields if field.name not in AUDIT}
    return {
        measure.name: judge(
            measure,
            Found(
                values=counts.measured.get(measure.name, {}),
                pinned_at=arrival.batch.pinned_at,
                types=types,
                theirs=_theirs(arrival, measure),
                past=alike(past.get(measure.name, ()), arrival.batch.mode),
            ),
        )
        for measure in arrival.rules.batch
    }


def _theirs(arrival: IncomingBatch, measure: Measure) -> str | None:
    """The total of the input rows that the batch was made from."""
    if not isinstance(measure.rule, Reconcile):
        return None
    rows = arrival.inputs.get(str(measure.rule.table))
    if rows is None:
        return None
    ((total,),) = rows.selectExpr(f"CAST({measure.rule.theirs} AS string)").collect()
    return str(total or 0)


def _row_failure(rule: RowRule, counts: Counts) -> Failure | None:
    broken = counts.broken.get(rule.name, 0)
    if rule.limit is not None:
        if not _exceeds(rule.limit, broken, counts.came):
            return None
        most = f"{rule.limit.rows:,}" if rule.limit.rows is not None else f"{rule.limit.share:.2%}"
        share = f"{broken / counts.came:.2%}" if rule.limit.share is not None else f"{broken:,}"
        what = f"{rule.name}: {share} of {counts.came:,} rows break it, and {most} are tolerated: {rule.reason}"
        return Failure(check=rule.name, what=what, at=rule.declared_at, rows=broken)
    if rule.severity != "fail" or not broken:
        return None
    what = f"{rule.name}: {broken:,} rows break it: {rule.reason}"
    return Failure(check=rule.name, what=what, at=rule.declared_at, rows=broken)


def _exceeds(limit: Limit, broken: int, came: int) -> bool:
    if limit.rows is not None:
        return broken > limit.rows
    assert limit.share is not None
    return came > 0 and broken / came > limit.share


def _told(what: str, measure: Measure) -> str:
    owner = f" (ask {measure.owner})" if measure.owner else ""
    return f"{what}{f'; {measure.description}' if measure.description else ''}{owner}"


def _records(
    arrival: IncomingBatch, counts: Counts, verdicts: Mapping[str, Verdict], *, committed: bool
) -> tuple[CheckRecord, ...]:
    now = datetime.now(UTC)
    batch = arrival.batch
    rows = [
        CheckRecord(
            run_id=batch.run_id,
            table=str(arrival.table.name),
            sequence=batch.sequence,
            check=rule.name,
            severity=rule.severity,
            failed_rows=counts.broken.get(rule.name, 0),
            passed=_row_failure(rule, counts) is None if rule.limit else counts.broken.get(rule.name, 0) == 0,
            mode=batch.mode,
            committed=committed,
            owner=rule.owner,
            checked_at=now,
        )
        for rule in arrival.rules.rows
    ]
    whole = [
        CheckRecord(
            run_id=batch.run_id,
            table=str(arrival.table.name),
            sequence=batch.sequence,
            check=measure.name,
            severity=measure.severity,
            failed_rows=0,
            passed=verdicts[measure.name].passed,
            observed=verdicts[measure.name].observed,
            value=verdicts[measure.name].value,
            sketch=verdicts[measure.name].sketch,
            mode=batch.mode,
            committed=committed,
            owner=measure.owner,
            checked_at=now,
        )
        for measure in arrival.rules.batch
    ]
    return tuple(rows + whole)


def samples(rows: DataFrame, arrival: IncomingBatch, failures: Sequence[Failure]) -> tuple[str, ...]:
    """Some of the rows that broke a rule, as text; what is tagged as personal is not shown."""
    broken = [rule for rule in arrival.rules.rows if any(f.check == rule.name and f.rows for f in failures)]
    if not broken:
        return ()
    secret = {column.name.lower() for column in arrival.table.columns if column.is_private}
    names = [name for name in arrival.payload if name not in AUDIT]
    shown = [quoted(name) for name in names if name.lower() not in secret]
    which = " OR ".join(arrival.rules.broke(rule) for rule in broken)
    told = (
        rows.where(which)
        .limit(_SAMPLES)
        .selectExpr(
            f"to_json(struct({', '.join(shown)})) AS row" if shown else "'{}' AS row",
            f"{arrival.rules.names()} AS rules",
        )
    )
    hidden = {name: MASKED for name in names if name.lower() in secret}
    return tuple(
        f"{', '.join(row.rules)}: {json.dumps({**json.loads(row.row), **hidden}, ensure_ascii=False)}"
        for row in told.collect()
    )
