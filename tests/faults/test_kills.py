"""Kills at every failpoint and in every load lose and duplicate no row."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from tests.faults.attacked_lake import untyped
from tests.faults.conftest import AttackLake
from tests.faults.events import Events, is_wrong
from tests.faults.flows import FLOWS, TABLE, Decided
from tests.faults.lake_process import LakeCommand

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a process is killed."""

    place: str
    about: str = TABLE
    do: LakeCommand = "run"
    version: int = 0


BRONZE = "bronze.events"
# In a sequence of kills, each kill after the first hits the process that recovers from the one before. Between
# sequences, runs repeat until one succeeds. A command that is not a run comes first: its input must be known.
KILLS = {
    "append": [
        [
            Kill("lease.taken", BRONZE),
            Kill("batch.pinned", BRONZE),
            Kill("table.committed", BRONZE),
            Kill("finish.started", BRONZE),
        ],
        [Kill("batch.staged"), Kill("log.linked"), Kill("table.committed"), Kill("quarantine.committed")],
        [Kill("decisions.committed", do="discard"), Kill("finish.started")],
        [Kill("ledger.recording", ""), Kill("ledger.appended", "system.releases")],
    ],
    "staged": [
        [
            Kill("batch.staged", BRONZE),
            Kill("table.committing", BRONZE),
            Kill("log.linked", BRONZE),
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
    "dv_merge": [[Kill("log.linked"), Kill("table.committed")]],
    "few_append": [
        [Kill("table.committing"), Kill("log.linked"), Kill("table.committed"), Kill("quarantine.committed")]
    ],
    "few_partitions": [[Kill("log.linked"), Kill("batch.done"), Kill("quarantine.committed")]],
    "few_merge": [
        [Kill("deleted_keys.stored"), Kill("log.linked"), Kill("table.committed"), Kill("quarantine.committed")],
        [Kill("table.committed", do="replay"), Kill("table.committing", "gold.days")],
    ],
    "few_scd2": [[Kill("deleted_keys.stored"), Kill("log.linked"), Kill("table.committed")]],
    "few_changes": [[Kill("table.committing"), Kill("log.linked"), Kill("batch.finishing")]],
    "scd2": [
        [Kill("deleted_keys.stored"), Kill("table.committed")],
        [Kill("lease.released", BRONZE, do="rollback", version=1), Kill("table.committed")],
        [Kill("table.committed", do="rollback", version=2), Kill("finish.started")],
    ],
    "changes": [
        [Kill("table.committing"), Kill("batch.finishing")],
        [Kill("table.committed", do="restore"), Kill("quarantine.committed")],
        # A restore after these would report that versions of its input are deleted.
        [Kill("files.compacted", BRONZE, do="compact"), Kill("table.committed", BRONZE)],
        [Kill("table.fenced", BRONZE, do="vacuum"), Kill("finish.started", BRONZE)],
        [Kill("files.vacuumed", BRONZE, do="vacuum"), Kill("batch.finishing", BRONZE)],
    ],
    "snapshot": [[Kill("batch.pinned"), Kill("table.committed")]],
}


@pytest.mark.verify
@pytest.mark.parametrize("flow", KILLS)
def test_a_lake_keeps_its_promises_after_kills_at_failpoints(attack_lake: AttackLake, flow: str) -> None:
    lake = attack_lake(flow)
    lake.land()
    assert lake.run_to_completion() == []
    for row in KILLS[flow]:
        for kill in row:
            if kill.do == "run":
                lake.land()
            table = kill.about if kill.do in ("compact", "vacuum", "restore") else TABLE
            details = {"table": table, "version": kill.version, "place": kill.place, "about": kill.about}
            answer = lake.send(lake.order(kill.do, **details))
            assert answer is None, f"{kill} was not reached: {answer}"
            assert lake.check() == [], kill
        assert lake.run_to_completion() == [], row
    answer = lake.send(lake.order())
    assert not untyped(answer)
    assert lake.check(completed=True) == []


def test_there_are_at_least_twenty_five_kills_in_all_loads() -> None:
    assert sum(len(row) for rows in KILLS.values() for row in rows) >= 25
    assert KILLS.keys() == FLOWS.keys() - {"slow"}


def test_recovering_runs_are_killed_too() -> None:
    recovering = [{kill.do for kill in row[1:]} for rows in KILLS.values() for row in rows]
    assert all(each == {"run"} for each in recovering)


def test_the_events_have_duplicate_and_late_rows() -> None:
    flow, events = FLOWS["dedup"], Events(7)
    good = [row for file in range(1, 6) for row in events.readable(file) if not is_wrong(row)]
    tables = [flow.table(events, files, Decided()) for files in range(1, 6)]
    assert len(tables[-1]) < len(good) / 2
    seqs = [{row["seq"] for row in table} for table in tables]
    assert any(before - after for before, after in pairwise(seqs))
