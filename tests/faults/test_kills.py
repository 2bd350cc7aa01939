"""Processes that work on a lake are killed at every place and in every load; nothing is lost and nothing is doubled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from tests.faults.conftest import Besiege
from tests.faults.events import Events, is_wrong
from tests.faults.flows import FLOWS, TABLE, Decided
from tests.faults.siege import untyped
from tests.faults.victim import Deed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a process is killed."""

    place: str
    about: str = TABLE
    do: Deed = "run"
    version: int = 0


BRONZE = "bronze.events"
# In a row of kills, each after the first befalls the process that recovers from the one before; between rows the lake
# is run until a run ends well. Whatever is no run begins a row, since what it acts on has to be known.
KILLS = {
    "append": [
        [
            Kill("lease.taken", BRONZE),
            Kill("batch.pinned", BRONZE),
            Kill("table.committed", BRONZE),
            Kill("finish.started", BRONZE),
        ],
        [Kill("batch.staged"), Kill("files.moved"), Kill("table.committed"), Kill("quarantine.committed")],
        [Kill("decisions.committed", do="discard"), Kill("finish.started")],
        [Kill("ledger.recording", ""), Kill("ledger.appended", "system.releases")],
    ],
    "staged": [
        [
            Kill("batch.staged", BRONZE),
            Kill("files.moved", BRONZE),
            Kill("table.committed", BRONZE),
            Kill("batch.finishing", BRONZE),
        ]
    ],
    "dedup": [[Kill("table.committing"), Kill("table.committed"), Kill("quarantine.committed")]],
    "replace": [[Kill("table.committing"), Kill("table.committed")]],
    "partitions": [[Kill("log.linked"), Kill("batch.done"), Kill("quarantine.committed"), Kill("ledger.appended", "")]],
    "merge": [
        [Kill("deleted_keys.stored"), Kill("table.committed")],
        [Kill("table.committed", do="replay"), Kill("decisions.committed")],
        [Kill("decisions.committed", do="replay"), Kill("quarantine.committed")],
        [Kill("lease.released"), Kill("table.committing", "gold.days")],
    ],
    "placed": [[Kill("feature.enabled"), Kill("log.linked"), Kill("table.committed")]],
    "scd2": [
        [Kill("deleted_keys.stored"), Kill("table.committed")],
        [Kill("lease.released", BRONZE, do="rollback", version=1), Kill("table.committed")],
        [Kill("table.committed", do="rollback", version=2), Kill("finish.started")],
    ],
    "changes": [
        [Kill("table.committing"), Kill("batch.finishing")],
        [Kill("table.committed", do="restore"), Kill("quarantine.committed")],
        # A restore after these would find its input's past deleted, and say so.
        [Kill("files.compacted", BRONZE, do="compact"), Kill("table.committed", BRONZE)],
        [Kill("table.fenced", BRONZE, do="vacuum"), Kill("finish.started", BRONZE)],
        [Kill("files.vacuumed", BRONZE, do="vacuum"), Kill("batch.finishing", BRONZE)],
    ],
    "snapshot": [[Kill("batch.pinned"), Kill("table.committed")]],
}


@pytest.mark.verify
@pytest.mark.parametrize("flow", KILLS)
def test_killed_at_a_place_a_lake_keeps_its_promises(besiege: Besiege, flow: str) -> None:
    siege = besiege(flow)
    siege.land()
    assert siege.settle() == []
    for row in KILLS[flow]:
        for kill in row:
            if kill.do == "run":
                siege.land()
            table = kill.about if kill.do in ("compact", "vacuum", "restore") else TABLE
            details = {"table": table, "version": kill.version, "place": kill.place, "about": kill.about}
            answer = siege.send(siege.order(kill.do, **details))
            assert answer is None, f"{kill} was not reached: {answer}"
            assert siege.judge() == [], kill
        assert siege.settle() == [], row
    answer = siege.send(siege.order())
    assert not untyped(answer)
    assert siege.judge(settled=True) == []


def test_there_are_at_least_twenty_five_kills_and_every_load_is_among_them() -> None:
    assert sum(len(row) for rows in KILLS.values() for row in rows) >= 25
    assert KILLS.keys() == FLOWS.keys() - {"slow"}


def test_runs_that_recover_are_killed_after_every_kind_of_kill() -> None:
    recovering = [{kill.do for kill in row[1:]} for rows in KILLS.values() for row in rows]
    assert all(each == {"run"} for each in recovering)


def test_rows_that_mean_the_same_land_and_earlier_ones_come_late() -> None:
    flow, events = FLOWS["dedup"], Events(7)
    good = [row for file in range(1, 6) for row in events.readable(file) if not is_wrong(row)]
    tables = [flow.table(events, files, Decided()) for files in range(1, 6)]
    assert len(tables[-1]) < len(good) / 2
    seqs = [{row["seq"] for row in table} for table in tables]
    assert any(before - after for before, after in pairwise(seqs))
