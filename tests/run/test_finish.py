"""Interrupted batches are completed, or an error has the reason. No JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.plan.lakes import made

from lakesmith.declare import Column, Environment
from lakesmith.errors import InfrastructureError, Place
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.content import FullBuild, ReplayedRows
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.steps import Finish, Progress, QuarantineFilter, Replay
from lakesmith.run.context import RunContext
from lakesmith.run.finish import finish
from lakesmith.run.maintenance import result_without_rows
from lakesmith.run.table_state import TableState
from lakesmith.store import LocalStore, Warehouse

RANDOM = made(
    "silver.orders",
    "SELECT id, rand() AS chance FROM bronze.orders",
    columns=(Column(name="id", type="bigint", required=True, declared_at=Place("silver/orders.sql")),),
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableState:
    replaying = SimpleNamespace(finish=lambda: result_without_rows("run", 1, sequence=1, attempt=1))
    monkeypatch.setattr("lakesmith.run.finish.quarantine_replay", lambda *_: replaying)
    run = RunContext(
        run_id="run",
        warehouse=Warehouse(str(tmp_path)),
        environment=Environment(name="dev", warehouse=str(tmp_path), landing=str(tmp_path)),
        landings={},
        format=cast(Any, SimpleNamespace(commits=lambda _: (), sync_log=lambda _: None)),
        session=cast(Any, None),
        check_history=lambda *_: {},
    )
    batches = Batches(LocalStore(tmp_path), RANDOM.name)
    return TableState(run=run, table=RANDOM, facts=None, batches=batches, progress=Progress())


def interrupted(batches: Batches, replay: Replay | None) -> Finish:
    batches.pin(
        Batch(
            sequence=1,
            attempt=0,
            parent=0,
            run_id="run",
            pinned_at=1,
            definition=definition(RANDOM),
            content=ReplayedRows(replay=replay) if replay else FullBuild(),
        )
    )
    return Finish(table=RANDOM.name, sequence=1, reason="interrupted")


@pytest.mark.parametrize("discard", [True, False])
def test_a_replay_of_a_nondeterministic_query_is_completed(state: TableState, discard: bool) -> None:
    step = interrupted(state.batches, Replay(chosen=QuarantineFilter(), by="me", discard=discard))
    assert finish(state, step).batch
    assert state.batches.done(1)


def test_a_batch_of_a_nondeterministic_query_cannot_be_completed(state: TableState) -> None:
    step = interrupted(state.batches, None)
    with pytest.raises(InfrastructureError, match=r"rand\(\) gives other rows"):
        finish(state, step)
