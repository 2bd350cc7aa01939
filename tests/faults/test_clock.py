"""Rows and versions stay correct when the clock is set back or ahead."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.lakes import TABLES, age, assert_right_after_a_rerun, land_second_day, run_first_day, warehouse
from tests.faults.prebuilt_lake import BRONZE, PrebuiltLake, build_lake
from tests.run.lakes import Written

from lakesmith import failpoints
from lakesmith.errors import InfrastructureError
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.lease import LEASE_SECONDS, Leases
from lakesmith.monitor import table_status
from lakesmith.ports import CommitFact
from lakesmith.store import LocalStore, folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400.0


@pytest.mark.verify
@pytest.mark.spark
def test_a_lake_runs_after_a_pause_longer_than_delta_s_retention(tmp_path: Path, spark: SparkSession) -> None:
    first = Written(tmp_path / "first", spark)
    run_first_day(first)
    lake = Written(tmp_path / "later", spark)
    shutil.copytree(first.folder, lake.folder)
    for table in TABLES:
        age(warehouse(lake) / table, 8 * DAY)
    land_second_day(lake)
    assert_right_after_a_rerun(lake)


class Clock:
    """The time of this process, which a test can set."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._time, self._time_ns = time.time, time.time_ns

    def time(self) -> float:
        return self._time() + self.ahead

    def time_ns(self) -> int:
        return self._time_ns() + int(self.ahead * 1_000_000_000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.time)
    monkeypatch.setattr(time, "time_ns", clock.time_ns)
    yield clock
    failpoints.watch(None)


@pytest.mark.spark
@pytest.mark.parametrize("ahead", [DAY, -DAY], ids=["a day ahead", "a day back"])
def test_rows_are_correct_when_the_clock_jumps_between_and_within_runs(
    tmp_path: Path, spark: SparkSession, clock: Clock, ahead: float
) -> None:
    lake = Written(tmp_path / "shop", spark)
    run_first_day(lake)
    clock.ahead = ahead
    land_second_day(lake)

    def jump_back(place: str, about: str) -> None:
        if (place, about) in {("batch.pinned", "silver.orders"), ("table.committing", "gold.sales")}:
            clock.ahead = -clock.ahead

    failpoints.watch(jump_back)
    lake.run()
    failpoints.watch(None)
    clock.ahead = 0
    assert_right_after_a_rerun(lake)
    versions = [version for (version,) in lake.rows("SELECT DISTINCT _ingested_at FROM bronze.orders")]
    assert len(versions) == 2


def _lease(storage: LocalStore, expires_at: float) -> None:
    lease = {"holder": "run far", "host": "elsewhere", "process": 1, "expires_at": expires_at, "released": False}
    storage.replace(f"_lakesmith/leases/{BRONZE}/00000001.json", json.dumps(lease).encode())


def test_a_dead_holder_does_not_keep_its_lease_when_the_clock_is_set_back(tmp_path: Path) -> None:
    storage = LocalStore(tmp_path)
    _lease(storage, 1_000_000.0 + LEASE_SECONDS)
    with (
        pytest.raises(InfrastructureError) as caught,
        Leases(storage, "b", clock=lambda: 1_000_000.0).hold(BRONZE, "run"),
    ):
        pass
    assert caught.value.code == "table-leased"
    with Leases(storage, "b", clock=lambda: 1_000_000.0 - DAY).hold(BRONZE, "run"):
        pass


def test_a_live_holder_keeps_its_lease_when_the_clock_is_set_back_a_little(tmp_path: Path) -> None:
    storage = LocalStore(tmp_path)
    now = [1_000_000.0]
    second = Leases(storage, "second", clock=lambda: now[0]).hold(BRONZE, "run")
    with Leases(storage, "first", clock=lambda: now[0]).hold(BRONZE, "run"):
        now[0] -= 300
        with pytest.raises(InfrastructureError), second:
            pass


def test_after_a_takeover_by_a_clock_a_day_ahead_the_table_can_be_leased_again(
    tmp_path: Path,
) -> None:
    storage = LocalStore(tmp_path)
    second = Leases(storage, "second", clock=lambda: time.time() + DAY)
    with Leases(storage, "first").hold(BRONZE, "run"), second.hold(BRONZE, "run"):
        pass
    with Leases(storage, "third").hold(BRONZE, "run"):
        pass


@pytest.fixture
def made(tmp_path: Path) -> PrebuiltLake:
    """A lake whose third commit has an earlier time than its second."""
    made = build_lake(tmp_path / "shop")
    for version, minute in enumerate((10, 20, 5, 30)):
        at = datetime(2026, 1, 1, 12, minute, tzinfo=UTC)
        actions = [json.loads(line) for line in made.commit(version).read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = int(at.timestamp() * 1000)
        made.commit(version).write_text("\n".join(map(json.dumps, actions)))
    return made


@pytest.mark.parametrize(
    ("when", "ids"),
    [("12:15", [1]), ("12:20", [1, 2]), ("12:25", [1, 2, 3]), ("12:30", [1, 2, 3, 4])],
)
def test_time_travel_treats_each_version_as_later_than_earlier_versions(
    made: PrebuiltLake, when: str, ids: list[int]
) -> None:
    answer = made.lake().query("SELECT id FROM bronze.orders ORDER BY id", at=[f"2026-01-01T{when}:00Z"])
    assert [id for (id,) in answer.rows] == ids


def test_a_rollback_to_a_time_finds_the_version_that_delta_restores(made: PrebuiltLake) -> None:
    commits = list(made.lake()._lake.format.commits(folder_at(str(made.table))))
    restore = CommitFact(
        version=4,
        committed_at=datetime(2026, 1, 2, tzinfo=UTC),
        operation="RESTORE",
        parameters={"version": "null", "timestamp": "2026-01-01 12:15:00"},
        metrics={},
    )
    facts = made.lake()._lake.table_facts(BRONZE)
    assert facts is not None
    progress = Batches(LocalStore(made.warehouse), BRONZE).progress(
        replace(facts, version=4), lambda: [restore, *commits]
    )
    assert progress.head == 1
    assert list(progress.ingested) == ["landing/1.json"]


def test_a_table_committed_in_the_future_has_age_zero(made: PrebuiltLake) -> None:
    lake = made.lake()
    facts = lake._lake.table_facts(BRONZE)
    assert facts is not None
    before = facts.committed_at - timedelta(days=1)
    assert table_status(lake.tables[BRONZE], facts, None, now=before).age_seconds == 0


def test_files_with_wrong_modification_times_are_ingested_once(made: PrebuiltLake) -> None:
    for number, ahead in ((5, DAY), (6, -DAY), (7, -50 * 365 * DAY)):
        file = made.land(number)
        os.utime(made.folder / file.path, (time.time() + ahead,) * 2)
    [step] = [step for step in made.lake().plan().steps if step.table == BRONZE]
    assert [file.path for file in getattr(step, "files", ())] == [f"landing/{n}.json" for n in (5, 6, 7)]
