"""Replays or discards quarantined rows as a batch of their own."""

from __future__ import annotations

from dataclasses import replace

from lakesmith.declare import Source
from lakesmith.errors import DataError
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import flow
from lakesmith.ledger.content import ReplayedRows
from lakesmith.plan.fingerprint import rebuild_reason
from lakesmith.plan.steps import Replay, ReplayQuarantine
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState
from lakesmith.spark.replay import QuarantineReplay


def replay_quarantine(state: TableState, step: ReplayQuarantine) -> StepResult:
    """Check quarantined rows again and commit those that pass, or discard them."""
    table, definition = state.table, state.progress.definition
    quarantine = state.format.facts(state.warehouse.quarantine(table.name), flow(table.name))
    if quarantine is None or quarantine.rows == 0:
        return StepResult(mode=step.mode, reason="the quarantine is empty", before=state.facts)
    outdated = definition is not None and rebuild_reason(definition, table)
    # A bronze table is never rebuilt, and discarded rows enter no table.
    if outdated and not isinstance(table.origin, Source) and not step.replay.discard:
        raise DataError(
            "replay-outdated",
            f"the definition of {table.name} has changed since its rows were computed",
            at=table.declared_at,
            table=str(table.name),
            hint=f"update the table first: lakesmith run {table.name}",
        )
    batch = state.new_batch(ReplayedRows(replay=step.replay), inputs=state.progress.positions)
    if step.replay.discard and definition is not None:
        # Discarded rows enter no table: the rows of the table keep their definition.
        batch = replace(batch, definition=definition)
    replay = replace(step.replay, version=quarantine.version, moment=batch.pinned_at)
    batch = state.batches.pin(replace(batch, content=ReplayedRows(replay=replay), backfill=None))
    result = quarantine_replay(state, batch, replay).commit_batch()
    if result is None:
        return StepResult(mode=step.mode, reason="no quarantined row matches", before=state.facts)
    state.refuse_if_rolled_back(batch, result.done.version)
    state.batches.finish(result.done)
    return StepResult(mode=step.mode, reason=step.reason, before=state.facts, batch=result)


def quarantine_replay(state: TableState, batch: Batch, replay: Replay) -> QuarantineReplay:
    """Return what replays the rows of a batch."""
    return QuarantineReplay(
        spark=state.run.session(),
        table=state.table,
        batch=batch,
        replay=replay,
        facts=state.facts,
        format=state.format,
        warehouse=state.warehouse,
    )
