"""Commits a pinned batch: read, write, record, archive. Files that break it are rejected or left for the next run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakesmith.declare import Files, Jdbc, OtherTable
from lakesmith.errors import DataError, LakesmithError
from lakesmith.failpoints import failpoint
from lakesmith.intake.rows import Abort
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import flow
from lakesmith.ledger.content import NewFiles
from lakesmith.ports import FileFact, Write, find_commit
from lakesmith.records import FileRecord
from lakesmith.run.batch_reader import direct_write_folder, read_incoming
from lakesmith.run.errors import batch_unfinished, commit_lost, commit_unconfirmed, file_postponed
from lakesmith.run.failures import is_external
from lakesmith.run.files import archive_ingested, file_records
from lakesmith.run.maintenance import result_without_rows
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState
from lakesmith.sources import check_available
from lakesmith.spark.gate import GateFailed
from lakesmith.spark.incoming import BatchResult

_ATTEMPTS = 5
"""How many attempts a batch gets beyond one for each of its files."""


def commit_batch(state: TableState, batch: Batch, reason: str) -> StepResult:
    """Commit a pinned batch and record that it is complete."""
    postponed: list[LakesmithError] = []
    written = _write(state, batch, postponed)
    if written is None:
        why = "no file can be read now"
        return StepResult(mode=batch.mode, reason=why, before=state.facts, postponed=tuple(postponed))
    result, batch = written
    state.refuse_if_rolled_back(batch, result.done.version)
    return StepResult(
        mode=batch.mode,
        reason=reason,
        before=state.facts,
        batch=result,
        file_records=complete(state, batch, result),
        ingested=batch.files,
        postponed=tuple(postponed),
    )


def complete(state: TableState, batch: Batch, result: BatchResult) -> tuple[FileRecord, ...]:
    """Reconcile the files of a committed batch, record that it is complete, and remove what was staged for it."""
    run, table = state.run, state.table
    records: tuple[FileRecord, ...] = ()
    if result.file_reads:
        landing, _ = run.landings[table.name]
        records = file_records(run.run_id, table, batch, result, run.format, run.warehouse, landing)
    state.batches.finish(result.done)
    if isinstance(table.origin, Jdbc | OtherTable):
        from lakesmith.spark.ingest.staged_extract import remove_staged_extracts

        remove_staged_extracts(run.warehouse, table.name, batch)
    return records


def archive_result(state: TableState, result: StepResult) -> StepResult:
    """Add the ingested files of a batch to the summary, and move them to the archive."""
    if result.batch is None or not result.ingested:
        return result
    state.batches.summarize_ingested(result.batch.done, result.ingested, state.progress)
    errors = archive_files(state, {file.path: file for file in result.ingested}, state.progress.ingested)
    return replace(result, postponed=(*result.postponed, *errors))


def archive_files(state: TableState, *ingested: Mapping[str, FileFact]) -> list[LakesmithError]:
    """Move ingested files to the archive; return the errors of files that cannot be moved."""
    if not isinstance(state.table.origin, Files):
        return []
    failpoint("files.archiving", state.table.name)
    return archive_ingested(state.table.origin, *state.run.landings[state.table.name], ingested)


def _write(state: TableState, batch: Batch, postponed: list[LakesmithError]) -> tuple[BatchResult, Batch] | None:
    """Write and commit the batch; return None when no file can be read now.

    Where its files bring new columns or cannot be read, another attempt is pinned before anything is committed: a
    broken file is rejected as a whole, and one that cannot be read now is left for the next run. Where a file turns out
    not to be readable in parts, all files are read as a whole.
    """
    table, survey, whole = state.table, False, False
    for _ in range(len(batch.files) + _ATTEMPTS):
        try:
            folder = direct_write_folder(state)
            incoming = read_incoming(state, batch, survey=survey, whole=whole, into=folder)
            if incoming is None:
                return _commit_no_rows(state, batch), batch
            return state.writer.write_batch(incoming), batch
        except Exception as error:
            abort = Abort.in_text(str(error))
            if abort is None or (abort.kind == "new-fields" and survey):
                raise_known_outcome(state, batch, error)
                raise
            if state.is_committed(batch.sequence):
                raise batch_unfinished(table, batch, abort) from error
        survey, whole = survey or abort.kind != "unsplit", whole or abort.kind == "unsplit"
        if abort.kind == "broken" and isinstance(batch.content, NewFiles):
            batch = state.batches.pin(replace(batch, content=batch.content.reject(abort.path, abort.detail)))
        elif abort.kind == "left-out" and isinstance(batch.content, NewFiles):
            unread = abort.path.split(Abort.SEPARATOR)
            postponed += [file_postponed(table, path, abort.detail) for path in unread]
            batch = replace(batch, content=batch.content.leave_out(unread))
            if not batch.files:
                return None
            batch = state.batches.pin(batch)
    raise DataError(
        "files-unstable",
        "the files changed each time that they were read",
        table=str(table.name),
        hint="landing is append-only: land files under a temporary name and rename them when they are complete",
    )


def _commit_no_rows(state: TableState, batch: Batch) -> BatchResult:
    """Commit the sequence number of a batch whose changes touch no row."""
    name = flow(state.table.name)
    write = Write(flow=name, sequence=batch.sequence, note=batch.note, based_on=batch.base_version)
    version = state.format.advance(state.folder, write, state.run.session()).version
    return result_without_rows(batch.run_id, version, sequence=batch.sequence, attempt=batch.attempt)


def raise_known_outcome(state: TableState, batch: Batch, error: Exception) -> None:
    """Raise a precise error when the outcome of a failed commit is known.

    Whatever the reply to the commit was, the log of the table may have it. Or another run may have committed first and
    removed the staged files of this attempt, or the source may have lost the data.
    """
    if not (is_external(error) or isinstance(error, GateFailed)):
        return
    if find_commit(state.commits(), flow(state.table.name), batch.sequence, batch.note):
        raise commit_unconfirmed(state.table, batch, error) from error
    if state.is_committed(batch.sequence):
        raise commit_lost(state.table, batch) from error
    if batch.slice is not None and is_external(error):
        check_available(state.table, state.run.environment, batch.slice)
