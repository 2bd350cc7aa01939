"""What is said of a batch that did not go as planned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from lakesmith.declare import SqlQuery, Table
from lakesmith.errors import DataError, InfrastructureError, LakesmithError, Place
from lakesmith.intake.rows import Abort
from lakesmith.jvm.process import death
from lakesmith.ledger.batch import Batch
from lakesmith.quality import rules_of
from lakesmith.records import CheckRecord
from lakesmith.run.failures import disk_error, first_lines
from lakesmith.sqlproof.query import random_call

SCHEMA_CHECK = "schema"
"""The name under which a schema that does not fit the table is told of."""


def refuse_nondeterministic(table: Table, batch: Batch) -> None:
    """Raise where nobody can tell which rows a batch refused that was cut short: asked again, the query gives others,
    and as many of them may add up all the same."""
    called = random_call(table.origin) if isinstance(table.origin, SqlQuery) else None
    if called is None or not rules_of(table).removes_rows:
        return
    word, line = called
    raise InfrastructureError(
        "row-count-mismatch",
        f"batch {batch.sequence} was cut short, and {word}() gives other rows each time: those that were refused are "
        "not known any more",
        at=Place(table.declared_at.file, line),
        table=str(table.name),
        hint=f"compute the table anew: lakesmith run {table.name} --full-refresh; and make the query deterministic",
    )


def batch_unfinished(table: Table, batch: Batch, abort: Abort) -> DataError:
    """A file changed under a batch whose commit is there, so that its refused rows cannot be told."""
    return DataError(
        "batch-unfinished",
        f"batch {batch.sequence} was cut short, and {abort.path} is not as it was ({abort.detail})",
        table=str(table.name),
        hint="put the file back as it was; its good rows are in the table, its refused ones may not be kept yet",
    )


def commit_unconfirmed(table: Table, batch: Batch, error: Exception) -> InfrastructureError:
    """The commit is there, and nobody answered that it is."""
    failure = death(error) or disk_error(error)
    said = failure.what if failure else first_lines(str(error))
    return InfrastructureError(
        "commit-unknown",
        f"batch {batch.sequence} is in the table, but its end was not heard of: {said}",
        table=str(table.name),
        hint="run again: that sees the batch through to its end, and nothing is lost or doubled",
    )


def commit_lost(table: Table, batch: Batch) -> InfrastructureError:
    """Another run had the same number first."""
    return InfrastructureError(
        "commit-lost",
        f"batch {batch.sequence} was committed by another run first, while this one was still at it",
        table=str(table.name),
        hint="nothing is lost: run again when the other run has ended",
    )


def committed_on_rollback(table: Table, batch: Batch, version: int) -> InfrastructureError:
    """A commit of Spark's that lies upon a rollback which it knew nothing of."""
    return InfrastructureError(
        "committed-on-rollback",
        f"somebody rolled the table back in version {version}, just before batch {batch.sequence} was committed: "
        "what was rolled back is missing below it",
        table=str(table.name),
        hint=f"take the batch back, `lakesmith restore {table.name} --to {version}`, and run again: all is read again",
    )


def file_postponed(table: Table, path: str, why: str) -> LakesmithError:
    """A file that the next run tries again."""
    code, _, what = why.partition(": ")
    return DataError(
        code,
        f"{path} was left out: {what}",
        table=str(table.name),
        hint="the other files are taken in; the next run tries this one again",
    )


def schema_warning(table: Table, batch: Batch, unfit: Sequence[str]) -> CheckRecord:
    """What does not fit the table, as a check that warns."""
    return CheckRecord(
        run_id=batch.run_id,
        table=str(table.name),
        sequence=batch.sequence,
        check=SCHEMA_CHECK,
        severity="warn",
        failed_rows=0,
        passed=False,
        observed="; ".join(unfit),
        checked_at=datetime.now(UTC),
    )
