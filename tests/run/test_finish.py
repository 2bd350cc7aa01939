"""Batches that were cut short are seen through, or it is told why they cannot be. No JVM."""

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
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.steps import Finish, QuarantineFilter, Replay
from lakesmith.run.maintenance import result_without_rows
from lakesmith.run.step import StepRunner
from lakesmith.storage import LocalStorage, Warehouse

RANDOM = made(
    "silver.orders",
    "SELECT id, rand() AS chance FROM bronze.orders",
    columns=(Column(name="id", type="bigint", required=True, declared_at=Place("silver/orders.sql")),),
)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StepRunner:
    replaying = SimpleNamespace(finish=lambda: result_without_rows("run", 1, sequence=1, attempt=1))
    monkeypatch.setattr(StepRunner, "_replaying", lambda *_: replaying)
    return StepRunner(
        run_id="run",
        warehouse=Warehouse(str(tmp_path)),
        environment=Environment(name="dev", warehouse=str(tmp_path), landing=str(tmp_path)),
        landings={},
        format=cast(Any, SimpleNamespace(commits=lambda _: (), sync_log=lambda _: None)),
        session=cast(Any, None),
        past=lambda *_: {},
    )


def cut_short(batches: Batches, replay: Replay | None) -> Finish:
    batches.pin(
        Batch(
            sequence=1,
            attempt=0,
            parent=0,
            run_id="run",
            pinned_at=1,
            definition=definition(RANDOM),
            mode="replay" if replay else "full",
            replay=replay,
        )
    )
    return Finish(table=RANDOM.name, sequence=1, reason="cut short")


@pytest.mark.parametrize("discard", [True, False])
def test_rows_out_of_the_quarantine_are_settled_though_the_query_gives_others_each_time(
    tmp_path: Path, workplace: StepRunner, discard: bool
) -> None:
    batches = Batches(LocalStorage(tmp_path), RANDOM.name)
    step = cut_short(batches, Replay(chosen=QuarantineFilter(), by="me", discard=discard))
    assert workplace._finish(RANDOM, step, None, batches).settled
    assert batches.done(1)


def test_a_batch_of_a_query_that_gives_others_each_time_cannot_be_finished(
    tmp_path: Path, workplace: StepRunner
) -> None:
    batches = Batches(LocalStorage(tmp_path), RANDOM.name)
    step = cut_short(batches, None)
    with pytest.raises(InfrastructureError, match=r"rand\(\) gives other rows"):
        workplace._finish(RANDOM, step, None, batches)
