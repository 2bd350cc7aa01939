"""The in-memory state machine: runs that are killed, suspended and get false replies, without a JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.faults.memory import MemoryFormat, Rows
from tests.faults.simulation import Simulation, Stepped
from tests.faults.small_lake import DAILY, LATEST, LENIENT, ORDERS, Bridge, Definition, MemoryWriter, without_spark
from tests.faults.state_machine import OFTEN, Machine, Plant, explore
from tests.ledger.completed import done
from tests.marks import first_only

from lakesmith.declare import TableName
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.lease import LEASE_SECONDS, Lease, Leases
from lakesmith.plan.steps import Progress
from lakesmith.ports import CommitFact, CommitResult, TableFacts, TableFolder, Write
from lakesmith.run.failures import is_external
from lakesmith.run.table_state import TableState
from lakesmith.spark.incoming import IncomingBatch

STEPS = 100_000
SAMPLE = 20_000
"""Steps in `make test`; `make verify` takes all `STEPS`."""
SEED = 1
ENOUGH = 300
"""The maximum number of lakes until a planted bug is found."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("most", first_only([SAMPLE, STEPS]))
def test_events_in_any_order_lose_and_duplicate_no_row(most: int) -> None:
    seed = int(os.environ.get("LAKESMITH_SEED", SEED))
    steps = int(os.environ.get("LAKESMITH_STEPS", most))
    Machine.outcomes.clear()
    happened = explore(steps, seed)
    assert happened.total() >= steps
    # A machine without these events would prove little.
    assert {*OFTEN, "go on", "repair", "clean"} - {"finish", "overtake", "clean_log"} <= set(happened)
    expected_codes = {
        "table-leased",
        "gate-failed",
        "commit-unknown",
        "batch-unreadable",
        "unfinished-under-other-definition",
    }
    assert expected_codes <= set(Machine.outcomes)
    assert Stepped.releases > steps // 1000
    assert happened["kill"] > steps // 100


def test_the_machine_needs_no_spark() -> None:
    code = (
        "import sys\n"
        "from tests.faults.state_machine import explore\n"
        "explore(500, 1, lakes=5)\n"
        "assert not {'pyspark', 'py4j'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_rollback_after_an_interrupted_batch_without_rows_is_detected() -> None:
    bridge = Bridge()
    with without_spark(bridge):
        simulation = Simulation(bridge)
        for row in ((0, 1), (1, 2)):
            simulation.land([row])
            simulation.finish(simulation.start("run", "here"))
        simulation.restore(LATEST, 1)
        run = simulation.start("run", "here")
        while run.place != "commit /lake/gold/daily":
            simulation.advance(run, 1)
        simulation.advance(run, 1)
        simulation.kill(run)
        simulation.restore(DAILY, 2)
        simulation.recover_and_check()


@pytest.mark.parametrize("kind", ["run", "replay", "discard"])
def test_an_interrupted_batch_is_completed_after_its_commit_was_deleted(kind: str) -> None:
    bridge = Bridge()
    with without_spark(bridge):
        simulation = Simulation(bridge)
        simulation.land([(0, 1), (1, -3)])
        if kind != "run":
            simulation.finish(simulation.start("run", "here"))
            simulation.define(Definition(LENIENT))
        run = simulation.start(kind, "here")
        while run.place != "read back /lake/bronze/orders":
            simulation.advance(run, 1)
        simulation.kill(run)
        simulation.foreign(simulation.warehouse.table(ORDERS).url, 120, 0)
        simulation.clean_log(ORDERS)
        assert simulation.disk.tables[simulation.warehouse.table(ORDERS).url].oldest > 100
        simulation.recover_and_check()
        assert not simulation.outcomes["batch-unknown"]


def _no_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryFormat, "fenced", lambda *_: False)
    patch.setattr(MemoryFormat, "unfenced", lambda *_: True)


def _no_lease(patch: pytest.MonkeyPatch) -> None:
    def take(self: Leases, folder: str, table: TableName, purpose: str) -> tuple[str, Lease]:
        expires = self._clock() + LEASE_SECONDS
        return f"{folder}/00000001.json", Lease(holder=purpose, host="", process=0, expires_at=expires)

    patch.setattr(Leases, "_take", take)


def _bookmark_first(patch: pytest.MonkeyPatch) -> None:
    append = MemoryFormat.append

    def first(self: MemoryFormat, frame: Rows, folder: TableFolder, write: Write) -> CommitResult:
        made = append(self, Rows(()), folder, write)
        written = append(self, frame, folder, replace(write, flow="rows", note=f"{write.note} rows"))
        return replace(written, version=made.version)

    patch.setattr(MemoryFormat, "append", first)


def _newest_batch_counts_after_a_rollback(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batches, "_sequence_at", lambda _, __, newest, ___, ____: newest)


def _unfinished_batches_are_ignored(patch: pytest.MonkeyPatch) -> None:
    progress = Batches.progress

    def without_unfinished(
        self: Batches, facts: TableFacts | None, commits: Callable[[], Sequence[CommitFact]]
    ) -> Progress:
        return replace(progress(self, facts, commits), unfinished=None, unfinished_definition=None)

    patch.setattr(Batches, "progress", without_unfinished)


def _done_before_quarantine(patch: pytest.MonkeyPatch) -> None:
    quarantine = MemoryWriter._quarantine

    def late(self: MemoryWriter, incoming: IncomingBatch, rows: Any, rejected: int) -> int:
        batch, facts = incoming.batch, self._format.facts(self._folder(incoming), f"lakesmith.{incoming.table.name}")
        assert facts is not None
        Batches(self._warehouse.store, incoming.table.name).finish(done(batch, facts.version))
        return quarantine(self, incoming, rows, rejected)

    patch.setattr(MemoryWriter, "_quarantine", late)


def _cleanup_after_a_lost_reply(patch: pytest.MonkeyPatch) -> None:
    def cleaned(state: TableState, batch: Batch, error: Exception) -> None:
        if not is_external(error):
            return
        key = f"_lakesmith/batches/{state.table.name}/{batch.sequence:08}.{batch.attempt:02}.json"
        state.warehouse.store.delete([key])

    patch.setattr("lakesmith.run.commit.raise_known_outcome", cleaned)


def _rejected_rows_survive_a_rollback(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batch, "follows_rollback", False)


def _rollbacks_are_not_detected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryFormat, "rolled_back", lambda *_: False)
    patch.setattr(TableState, "refuse_if_rolled_back", lambda *_: None)


def _inconsistent_versions_are_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "lakesmith.lake.running.consistent_versions",
        lambda facts, _: {name: each.version for name, each in facts.items()},
    )


def _only_the_newest_commits_are_read(patch: pytest.MonkeyPatch) -> None:
    commits = MemoryFormat.commits

    def newest(self: MemoryFormat, folder: TableFolder, after: int = -1) -> Sequence[CommitFact]:
        return commits(self, folder, after)[:20]

    patch.setattr(MemoryFormat, "commits", newest)


_OVERTAKEN = {"land": 4, "start": 4, "overtake": 6, "kill": 2}
_ROLLED_BACK = {"land": 4, "start": 8, "restore": 4, "define": 1}
_INTERRUPTED = {"land": 4, "start": 8, "kill": 3, "fail": 3}
_BESIDE_OTHERS = {"land": 4, "start": 8, "advance": 4, "kill": 3, "foreign": 4}


@pytest.mark.parametrize(
    ("plant", "often", "broken"),
    [
        (_no_fence, _OVERTAKEN, "V: a number was committed twice|R: "),
        (_no_lease, _OVERTAKEN, "two processes hold"),
        (_bookmark_first, _INTERRUPTED, "R: "),
        (_unfinished_batches_are_ignored, _INTERRUPTED, "N: the bookmark is ahead of the rows|A: "),
        (_done_before_quarantine, _INTERRUPTED, "N: the bookmark is ahead of the rows"),
        (
            _cleanup_after_a_lost_reply,
            _INTERRUPTED,
            "its pinned inputs are missing from|is missing from the warehouse|batch-unknown|R: ",
        ),
        (_newest_batch_counts_after_a_rollback, _ROLLED_BACK, "N: |R: "),
        pytest.param(
            _rollbacks_are_not_detected,
            _ROLLED_BACK,
            "N: the bookmark is ahead of the rows|R: ",
            marks=pytest.mark.verify,
        ),
        (_inconsistent_versions_are_released, _OVERTAKEN, "C: "),
        (
            _only_the_newest_commits_are_read,
            _BESIDE_OTHERS,
            "V: .* is version|E: the lake never runs without errors",
        ),
        (_rejected_rows_survive_a_rollback, _ROLLED_BACK, "N: rows are in more than one place"),
    ],
)
def test_a_planted_bug_is_found(plant: Plant, often: Mapping[str, int], broken: str) -> None:
    with pytest.raises(Exception, match=broken):
        explore(STEPS, SEED, lakes=ENOUGH, often=often, plant=plant)
