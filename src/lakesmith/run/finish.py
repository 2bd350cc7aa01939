"""Completes a batch that was interrupted after its commit: its rejected rows, its records, its archived files."""

from __future__ import annotations

from dataclasses import replace

from lakesmith.errors import DataError
from lakesmith.failpoints import failpoint
from lakesmith.intake.rows import Abort
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import committed_version
from lakesmith.ledger.content import ReplayedRows
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.steps import Finish, Progress
from lakesmith.run.batch_reader import read_incoming
from lakesmith.run.commit import archive_files, complete
from lakesmith.run.errors import batch_unfinished, refuse_nondeterministic
from lakesmith.run.maintenance import maintenance_of, result_without_rows
from lakesmith.run.replay import quarantine_replay
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState
from lakesmith.spark.incoming import BatchResult


def finish(state: TableState, step: Finish, *, before_restore: bool = False) -> StepResult:
    """Complete the batch. With `before_restore`, rows below it may be rolled back: a restore of the table follows."""
    table, facts = state.table, state.facts
    failpoint("finish.started", table.name)
    for folder in state.warehouse.tables_of(table.name):
        state.format.sync_log(folder)
    batch = state.batches.committed(step.sequence, state.commits)
    if batch.is_maintenance and facts is not None:
        result = maintenance_of(replace(state, progress=Progress()), facts).finish(batch)
        return StepResult(mode=batch.mode, reason=step.reason, before=facts, batch=result)
    if facts is not None and not before_restore:
        state.refuse_if_rolled_back(batch, facts.version)
    replay = batch.content.replay if isinstance(batch.content, ReplayedRows) else None
    discards = replay is not None and replay.discard
    if not discards and batch.definition != definition(table):
        raise DataError(
            "unfinished-under-other-definition",
            f"batch {step.sequence} was interrupted under an earlier definition of the table",
            at=table.declared_at,
            table=str(table.name),
            hint="restore the earlier definition and run once, so that rejected rows are quarantined; then change it",
        )
    if replay is not None:
        result = quarantine_replay(state, batch, replay).finish()
        state.batches.finish(result.done)
        return StepResult(mode=batch.mode, reason=step.reason, before=facts, batch=result)
    refuse_nondeterministic(table, batch)
    try:
        result = _finish_rows(state, batch)
    except Exception as error:
        abort = Abort.in_text(str(error))
        if abort is None:
            raise
        raise batch_unfinished(table, batch, abort) from error
    return StepResult(
        mode=batch.mode,
        reason=step.reason,
        before=facts,
        batch=result,
        file_records=complete(state, batch, result),
        postponed=tuple(archive_files(state, {file.path: file for file in batch.files})),
    )


def _finish_rows(state: TableState, batch: Batch) -> BatchResult:
    """Quarantine the rejected rows of a committed batch."""
    incoming = read_incoming(state, batch, survey=bool(batch.files), whole=True)
    if incoming is not None:
        return state.writer.finish(incoming)
    # Not the newest version: a rollback since then must be noticed.
    version = committed_version(batch, state.commits())
    return result_without_rows(batch.run_id, version, sequence=batch.sequence, attempt=batch.attempt)
