"""Processes that work on a lake are killed at every place and in every load; nothing is lost and nothing is doubled."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.faults.conftest import Besiege
from tests.faults.flows import FLOWS
from tests.faults.siege import untyped
from tests.faults.victim import Deed

from lakesmith.failpoints import PLACES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a process is killed."""

    place: str
    about: str = "silver.events"
    do: Deed = "run"
    version: int = 0


BRONZE = "bronze.events"
# Every second kill befalls the process that recovers from the one before.
KILLS = {
    "append": [
        Kill("lease.taken", BRONZE),
        Kill("batch.pinned", BRONZE),
        Kill("table.committed", BRONZE),
        Kill("finish.begun", BRONZE),
        Kill("batch.staged"),
        Kill("files.moved"),
        Kill("table.committed"),
        Kill("quarantine.committed"),
        Kill("settled.committed", do="discard"),
        Kill("ledger.recording", ""),
        Kill("ledger.appended", "system.releases"),
    ],
    "staged": [
        Kill("batch.staged", BRONZE),
        Kill("files.moved", BRONZE),
        Kill("table.committed", BRONZE),
        Kill("batch.finishing", BRONZE),
    ],
    "replace": [Kill("table.committing"), Kill("table.committed")],
    "partitions": [Kill("log.linked"), Kill("batch.done"), Kill("quarantine.committed"), Kill("ledger.appended", "")],
    "merge": [
        Kill("ends.kept"),
        Kill("table.committed"),
        Kill("table.committed", do="replay"),
        Kill("settled.committed", do="replay"),
        Kill("lease.released"),
        Kill("table.committing", "gold.days"),
    ],
    "scd2": [
        Kill("ends.kept"),
        Kill("table.committed"),
        Kill("lease.released", BRONZE, do="rollback", version=1),
        Kill("table.committed", do="rollback", version=2),
    ],
    "changes": [
        Kill("table.committing"),
        Kill("batch.finishing"),
        Kill("table.committed", do="restore", version=1),
        # A restore after these would find its input's past deleted, and say so.
        Kill("files.compacted", BRONZE, do="compact"),
        Kill("table.fenced", BRONZE, do="vacuum"),
        Kill("files.vacuumed", BRONZE, do="vacuum"),
    ],
    "snapshot": [Kill("batch.pinned"), Kill("table.committed")],
}


@pytest.mark.parametrize("flow", KILLS)
def test_killed_at_a_place_a_lake_keeps_its_promises(besiege: Besiege, flow: str) -> None:
    siege = besiege(flow)
    siege.land()
    assert siege.settle() == []
    for number, kill in enumerate(KILLS[flow]):
        siege.land()
        if kill.do != "run":
            assert siege.settle() == []
        table = kill.about if kill.do in ("compact", "vacuum", "restore") else "silver.events"
        details = {"table": table, "version": kill.version, "place": kill.place, "about": kill.about}
        answer = siege.send(siege.order(kill.do, **details))
        assert answer is None, f"{kill} was not reached: {answer}"
        assert siege.judge() == [], kill
        if number % 2:
            assert siege.settle() == [], kill
    answer = siege.send(siege.order())
    assert not untyped(answer)
    assert siege.judge(settled=True) == []


def test_there_are_at_least_twenty_five_kills_and_every_load_is_among_them() -> None:
    assert sum(map(len, KILLS.values())) >= 25
    assert KILLS.keys() == FLOWS.keys() - {"slow"}
    assert {kill.place for kills in KILLS.values() for kill in kills} <= set(PLACES)
