"""A clock that is set back, or a day ahead: rows and versions do not follow it."""

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
from tests.faults.lakes import TABLES, age, assert_right_after_a_rerun, begin, go_on, warehouse
from tests.faults.made import BRONZE, Made, made_lake
from tests.run.lakes import Written

from lakesmith import failpoints
from lakesmith.errors import InfrastructureError
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.lease import LEASE_SECONDS, Leases
from lakesmith.monitor import table_status
from lakesmith.ports import CommitFact
from lakesmith.storage import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400.0


@pytest.mark.verify
@pytest.mark.spark
def test_a_lake_that_rested_for_longer_than_delta_lets_its_versions_be_read_goes_on(
    tmp_path: Path, spark: SparkSession
) -> None:
    first = Written(tmp_path / "first", spark)
    begin(first)
    lake = Written(tmp_path / "later", spark)
    shutil.copytree(first.folder, lake.folder)
    for table in TABLES:
        age(warehouse(lake) / table, 8 * DAY)
    go_on(lake)
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
def test_rows_are_the_same_whichever_way_the_clock_is_set_between_runs_and_within_them(
    tmp_path: Path, spark: SparkSession, clock: Clock, ahead: float
) -> None:
    lake = Written(tmp_path / "shop", spark)
    begin(lake)
    clock.ahead = ahead
    go_on(lake)

    def set_again(place: str, about: str) -> None:
        if (place, about) in {("batch.pinned", "silver.orders"), ("table.committing", "gold.sales")}:
            clock.ahead = -clock.ahead

    failpoints.watch(set_again)
    lake.run()
    failpoints.watch(None)
    clock.ahead = 0
    assert_right_after_a_rerun(lake)
    versions = [version for (version,) in lake.rows("SELECT DISTINCT _ingested_at FROM bronze.orders")]
    assert len(versions) == 2


def _lease(storage: LocalStorage, expires_at: float) -> None:
    lease = {"holder": "run far", "host": "elsewhere", "process": 1, "expires_at": expires_at, "released": False}
    storage.replace(f"_lakesmith/leases/{BRONZE}/00000001.json", json.dumps(lease).encode())


def test_a_holder_that_died_before_the_clock_was_set_back_does_not_hold_its_table_for_a_day(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    _lease(storage, 1_000_000.0 + LEASE_SECONDS)
    with (
        pytest.raises(InfrastructureError) as caught,
        Leases(storage, "b", clock=lambda: 1_000_000.0).hold(BRONZE, "run"),
    ):
        pass
    assert caught.value.code == "table-leased"
    with Leases(storage, "b", clock=lambda: 1_000_000.0 - DAY).hold(BRONZE, "run"):
        pass


def test_a_holder_that_lives_keeps_its_table_when_the_clock_is_set_back_a_little(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    now = [1_000_000.0]
    second = Leases(storage, "second", clock=lambda: now[0]).hold(BRONZE, "run")
    with Leases(storage, "first", clock=lambda: now[0]).hold(BRONZE, "run"):
        now[0] -= 300
        with pytest.raises(InfrastructureError), second:
            pass


def test_a_lease_taken_over_because_the_clock_is_a_day_ahead_is_given_back_by_neither_to_the_other(
    tmp_path: Path,
) -> None:
    storage = LocalStorage(tmp_path)
    second = Leases(storage, "second", clock=lambda: time.time() + DAY)
    with Leases(storage, "first").hold(BRONZE, "run"), second.hold(BRONZE, "run"):
        pass
    with Leases(storage, "third").hold(BRONZE, "run"):
        pass


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A lake whose third commit was made by a clock that had been set back."""
    made = made_lake(tmp_path / "shop")
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
def test_time_travel_counts_a_version_as_later_than_those_before_it(made: Made, when: str, ids: list[int]) -> None:
    answer = made.lake().query("SELECT id FROM bronze.orders ORDER BY id", at=[f"2026-01-01T{when}:00Z"])
    assert [id for (id,) in answer.rows] == ids


def test_a_rollback_to_a_time_is_followed_as_delta_counts_the_versions(made: Made) -> None:
    commits = list(made.lake()._lake.format.commits(str(made.table)))
    restore = CommitFact(
        version=4,
        committed_at=datetime(2026, 1, 2, tzinfo=UTC),
        operation="RESTORE",
        parameters={"version": "null", "timestamp": "2026-01-01 12:15:00"},
        metrics={},
    )
    facts = made.lake()._lake.table_facts(BRONZE)
    assert facts is not None
    progress = Batches(LocalStorage(made.warehouse), BRONZE).progress(
        replace(facts, version=4), lambda: [restore, *commits]
    )
    assert progress.head == 1
    assert list(progress.ingested) == ["landing/1.json"]


def test_a_table_from_the_future_is_new_and_not_younger(made: Made) -> None:
    lake = made.lake()
    facts = lake._lake.table_facts(BRONZE)
    assert facts is not None
    before = facts.committed_at - timedelta(days=1)
    assert table_status(lake.tables[BRONZE], facts, None, now=before).age_seconds == 0


def test_files_that_come_from_a_clock_that_is_wrong_are_ingested_once(made: Made) -> None:
    for number, ahead in ((5, DAY), (6, -DAY), (7, -50 * 365 * DAY)):
        file = made.land(number)
        os.utime(made.folder / file.path, (time.time() + ahead,) * 2)
    [step] = [step for step in made.lake().plan().steps if step.table == BRONZE]
    assert [file.path for file in getattr(step, "files", ())] == [f"landing/{n}.json" for n in (5, 6, 7)]
