"""Steps that compute a silver or gold table: build it from its inputs, or recompute a chunk of a backfill."""

from __future__ import annotations

from dataclasses import replace

from lakesmith.ledger.batches import flow
from lakesmith.ledger.content import BackfilledDays, FullBuild
from lakesmith.plan.fingerprint import rebuild_reason
from lakesmith.plan.steps import BackfillChunk, Build, Position
from lakesmith.ports import TableFacts
from lakesmith.run.build_mode import current_content, inputs_with_changes
from lakesmith.run.commit import commit_batch
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState


def build(state: TableState, step: Build) -> StepResult:
    """Update the table from the current versions of its inputs."""
    inputs: dict[str, TableFacts] = {}
    for needed in step.inputs:
        found = state.format.facts(state.warehouse.table(needed.table), flow(needed.table))
        if found is None:
            return StepResult(mode=step.mode, reason=f"{needed.table} has no rows yet", before=state.facts)
        inputs[str(needed.table)] = found
    progress = state.progress
    if state.facts is not None and not step.rebuild and not inputs_with_changes(inputs, progress):
        return StepResult(mode=step.mode, reason="nothing new", before=state.facts)
    content, reason = (
        current_content(state.format, state.table, step, progress, inputs)
        if state.facts
        else (FullBuild(), step.reason)
    )
    positions = {name: Position(table_id=found.table_id, version=found.version) for name, found in inputs.items()}
    batch = state.new_batch(content, inputs=positions)
    return commit_batch(state, state.batches.pin(batch), reason)


def recompute_chunk(state: TableState, step: BackfillChunk) -> StepResult:
    """Recompute some days from the input versions that the table has read already. Bookmarks stay where they are."""
    progress = state.progress
    if progress.definition is None or rebuild_reason(progress.definition, state.table):
        return StepResult(
            mode=step.mode, reason="another run rebuilt it with a different definition", before=state.facts
        )
    begun = progress.backfill
    if begun is not None and begun.span == step.backfill.span and begun.done and begun.done >= step.chunk.end:
        return StepResult(mode=step.mode, reason="another run has computed these days", before=state.facts)
    batch = state.new_batch(BackfilledDays(days=step.chunk), inputs=progress.positions)
    batch = replace(batch, backfill=step.backfill.after(step.chunk))
    return commit_batch(state, state.batches.pin(batch), step.reason)
