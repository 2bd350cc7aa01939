"""Errors of a batch that did not go as planned."""

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
"""The name of the check that reports a schema that does not fit the table."""


def refuse_nondeterministic(table: Table, batch: Batch) -> None:
    """Raise when the rejected rows of an interrupted batch are lost: the query returns other rows each time, and their
    number may match by chance."""
    called = random_call(table.origin) if isinstance(table.origin, SqlQuery) else None
    if called is None or not rules_of(table).removes_rows:
        return
    word, line = called
    raise InfrastructureError(
        "row-count-mismatch",
        f"batch {batch.sequence} was interrupted, and {word}() gives other rows each time: the rejected rows of the "
        "batch are lost",
        at=Place(table.declared_at.file, line),
        table=str(table.name),
        hint=f"make the query deterministic and rebuild the table: lakesmith run {table.name} --full-refresh",
    )


def batch_unfinished(table: Table, batch: Batch, abort: Abort) -> DataError:
    """Return the error for a file that changed after its batch was committed, so that rejected rows cannot be found."""
    return DataError(
        "batch-unfinished",
        f"batch {batch.sequence} was interrupted, and {abort.path} has changed since ({abort.detail})",
        table=str(table.name),
        hint="restore the file; its good rows are in the table, its rejected rows may not be in quarantine yet",
    )


def commit_unconfirmed(table: Table, batch: Batch, error: Exception) -> InfrastructureError:
    """Return the error for a commit that is in the log, although no reply confirmed it."""
    failure = death(error) or disk_error(error)
    text = failure.what if failure else first_lines(str(error))
    return InfrastructureError(
        "commit-unknown",
        f"batch {batch.sequence} is in the table, but its commit was not confirmed: {text}",
        table=str(table.name),
        hint="run again: that completes the batch, and nothing is lost or duplicated",
    )


def commit_lost(table: Table, batch: Batch) -> InfrastructureError:
    """Return the error for a batch whose number another run committed first."""
    return InfrastructureError(
        "commit-lost",
        f"another run committed batch {batch.sequence} first, while this run was writing it",
        table=str(table.name),
        hint="nothing is lost: run again when the other run has ended",
    )


def committed_on_rollback(table: Table, batch: Batch, version: int) -> InfrastructureError:
    """Return the error for a commit of Spark that follows a concurrent rollback."""
    return InfrastructureError(
        "committed-on-rollback",
        f"the table was rolled back in version {version}, just before batch {batch.sequence} was committed: "
        "the rolled-back rows are still missing",
        table=str(table.name),
        hint=f"roll the batch back, `lakesmith restore {table.name} --to {version}`, and run again to read all rows",
    )


def file_postponed(table: Table, path: str, why: str) -> LakesmithError:
    """Return the error for a file that the next run tries again."""
    code, _, what = why.partition(": ")
    return DataError(
        code,
        f"{path} was skipped: {what}",
        table=str(table.name),
        hint="the other files are ingested; the next run tries this one again",
    )


def schema_warning(table: Table, batch: Batch, mismatches: Sequence[str]) -> CheckRecord:
    """Return a warning about a source schema that does not fit the table."""
    return CheckRecord(
        run_id=batch.run_id,
        table=str(table.name),
        sequence=batch.sequence,
        check=SCHEMA_CHECK,
        severity="warn",
        failed_rows=0,
        passed=False,
        observed="; ".join(mismatches),
        checked_at=datetime.now(UTC),
    )
