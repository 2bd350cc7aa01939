"""Runs one step of one table: reads the table's state again, completes an interrupted batch, then runs the step."""

from __future__ import annotations

from typing import assert_never

from lakesmith.declare import Table
from lakesmith.plan.steps import (
    BackfillChunk,
    Build,
    CommitHeldBatch,
    Compact,
    Finish,
    Ingest,
    ReplayQuarantine,
    Restore,
    Step,
    Vacuum,
    Widen,
)
from lakesmith.run.build import build, recompute_chunk
from lakesmith.run.context import RunContext
from lakesmith.run.finish import finish
from lakesmith.run.held import commit_held_batch
from lakesmith.run.ingest import ingest, widen
from lakesmith.run.maintenance import maintain
from lakesmith.run.replay import replay_quarantine
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState


def run_step(run: RunContext, table: Table, step: Step) -> StepResult:
    """Run one step of a table, whose lease is held."""
    state = TableState.read(run, table, rebuild=isinstance(step, Build) and step.rebuild)
    interrupted = state.progress.unfinished
    if interrupted is not None and not isinstance(step, Finish):
        # Another run was interrupted since this one was planned: its rejected rows come first.
        reason = f"batch {interrupted} was interrupted before it was complete"
        before = Finish(table=table.name, sequence=interrupted, reason=reason)
        finish(state, before, before_restore=isinstance(step, Restore))
    match step:
        case Ingest():
            return ingest(state, step)
        case Build():
            return build(state, step)
        case BackfillChunk():
            return recompute_chunk(state, step)
        case Widen():
            return widen(state, step)
        case Finish():
            return finish(state, step)
        case CommitHeldBatch():
            return commit_held_batch(state, step)
        case ReplayQuarantine():
            return replay_quarantine(state, step)
        case Compact() | Vacuum() | Restore():
            return maintain(state, step)
        case _:
            assert_never(step)
