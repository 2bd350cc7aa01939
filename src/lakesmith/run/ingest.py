"""Steps that bring a source into a bronze table: ingest what is new, and widen columns to their declared types."""

from __future__ import annotations

from dataclasses import replace

from lakesmith.ledger.batches import flow
from lakesmith.ledger.content import NewFiles, SourceSlice
from lakesmith.plan.listing import bookmark_after
from lakesmith.plan.steps import Ingest, Widen
from lakesmith.run.commit import archive_result, commit_batch
from lakesmith.run.errors import schema_warning
from lakesmith.run.maintenance import result_without_rows
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState
from lakesmith.spark.ingest import check_source, pin_slice


def ingest(state: TableState, step: Ingest) -> StepResult:
    """Ingest new files, or the next slice of another source, as one batch."""
    table, progress = state.table, state.progress
    files = tuple(file for file in step.files if file.path not in progress.ingested)
    if step.slice is None and not files:
        return StepResult(mode=step.mode, reason="another run has ingested the files", before=state.facts)
    if step.slice is not None and step.slice.since != progress.source_position and progress.source_position:
        return StepResult(mode=step.mode, reason="another run already ingested later data", before=state.facts)
    if step.slice is None:
        seen = bookmark_after(step.listing, step.files, progress) if step.listing else None
        batch = state.new_batch(NewFiles(files=files, seen=seen))
    else:
        batch = state.new_batch(SourceSlice(slice=step.slice))
        batch = pin_slice(state.run.ingest_context(table), table, batch)
    if batch.slice is not None and batch.slice.since and batch.slice.since == batch.slice.until:
        return StepResult(mode=batch.mode, reason="nothing new", before=state.facts)
    mismatches = check_source(state.run.environment, table, batch, state.facts)
    batch = state.batches.pin(batch)
    warnings = (schema_warning(table, batch, mismatches),) if mismatches else ()
    result = replace(commit_batch(state, batch, step.reason), warnings=warnings)
    return archive_result(state, result)


def widen(state: TableState, step: Widen) -> StepResult:
    """Give columns the wider types that they are declared with."""
    facts = state.facts
    types = {column.name.lower(): column.type for column in facts.columns} if facts else {}
    wider = [column for column in step.columns if types.get(column.name.lower(), column.type) != column.type]
    if facts is None or not wider:
        return StepResult(mode=step.mode, reason="another run has widened them", before=facts)
    state.format.widen(state.run.session(), facts.folder, {column.name: column.type for column in wider})
    now = state.format.facts(facts.folder, flow(state.table.name))
    assert now is not None
    changes = tuple(f"{column.name}: {types[column.name.lower()]} → {column.type}" for column in wider)
    batch = replace(result_without_rows(state.run.run_id, now.version), columns_widened=changes)
    return StepResult(mode=step.mode, reason=step.reason, before=facts, batch=batch)
