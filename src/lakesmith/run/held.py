"""Commits a batch that a gate holds, from the inputs that were pinned for it."""

from __future__ import annotations

from dataclasses import replace

from lakesmith.declare import Jdbc, OtherTable
from lakesmith.errors import DataError
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.steps import CommitHeldBatch
from lakesmith.run.commit import archive_result, commit_batch
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState


def commit_held_batch(state: TableState, step: CommitHeldBatch) -> StepResult:
    """Commit the held inputs again without the gate; the writer checks that they give as many rows as were approved."""
    table, batches = state.table, state.batches
    held = batches.pinned(step.sequence, step.attempt)
    # A batch that moves no rows takes a number too.
    is_next = batches.base_batch(held.parent, state.commits) == batches.base_batch(state.progress.head, state.commits)
    if held.definition != definition(table) or not is_next:
        raise DataError(
            "held-outdated",
            f"the batch that run {step.approval.run_id} held is no longer the next batch of {table.name}",
            at=table.declared_at,
            table=str(table.name),
            hint="the table or its declaration has changed since; run again, and approve that run's batch",
        )
    new = state.new_batch(held.content)
    batch = batches.pin(
        replace(
            held,
            sequence=new.sequence,
            parent=new.parent,
            base_version=new.base_version,
            run_id=state.run.run_id,
            approval=step.approval,
        )
    )
    if isinstance(table.origin, Jdbc | OtherTable):
        from lakesmith.spark.ingest.staged_extract import hand_over_staged

        hand_over_staged(state.warehouse, table.name, held, batch)
    return archive_result(state, commit_batch(state, batch, step.reason))
