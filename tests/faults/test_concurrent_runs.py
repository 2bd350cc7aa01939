"""Concurrent processes on one lake: a run suspended past its lease, parallel runs, and readers beside a writer."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.faults.attach import Jvm
from tests.faults.suspendable_command import Ended, Stop, SuspendableCommand
from tests.marks import first_only
from tests.run.lakes import Written

from lakesmith import failpoints
from lakesmith.jvm.session import isolated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

LAKE = {
    "lakesmith.yml": "name: shop\n",
    "bronze/clicks.yml": "source: {files: landing/clicks/*.json}\n",
    "bronze/paid.yml": (
        "source: {files: landing/paid/*.json}\n"
        "columns:\n  amount: {type: int, check: amount >= 0}\n"
        "checks:\n  some: {expect: count(*) > 0, on_fail: fail}\n"
    ),
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
    "silver/copy.sql": (
        "/* lakesmith\nload: append\ncolumns:\n  amount: {type: int, check: amount >= 0}\n*/\n"
        "SELECT id, amount, at FROM bronze.orders\n"
    ),
    "silver/orders.sql": (
        "/* lakesmith\nload: {merge: {key: id, order_by: at}}\n"
        "columns:\n  id: {type: bigint, required: true}\n  amount: {type: int, check: amount >= 0}\n*/\n"
        "SELECT id, amount, at FROM bronze.orders\n"
    ),
}
"""Every way to commit a batch: files of readers, checked files, Spark's append, and a merge."""
TABLES = ("bronze.clicks", "bronze.paid", "silver.copy", "silver.orders")


def row(id: int, amount: int = 1, at: int = 1) -> dict[str, object]:
    return {"id": id, "amount": amount, "at": at}


def land(lake: Written, name: str, *rows: dict[str, object] | str) -> None:
    for folder in ("clicks", "paid", "orders"):
        lake.land(f"{folder}/{name}.json", *rows)


@pytest.fixture(scope="module")
def first_day(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after its first run and a later run of bronze orders, to be copied."""
    lake = Written(tmp_path_factory.mktemp("first") / "shop", isolated(shared_spark))
    lake.declare(LAKE)
    land(lake, "1", row(1), row(2, -1), '{"id": 3, "am')
    lake.run()
    land(lake, "2", row(1, 10, at=2), row(4, 4), row(5, -5), '{"id": 6, "am', row(4, 4))
    lake.run("bronze.orders")
    return lake.folder


Suspension = tuple[str, str]
"""A table, and the place at which its run was suspended."""

REJECTED: tuple[Suspension, ...] = (
    ("bronze.clicks", "table.committing"),
    ("bronze.paid", "batch.staged"),
    ("bronze.paid", "table.committing"),
    ("silver.copy", "facts.read"),
    ("silver.copy", "table.committing"),
    ("silver.orders", "batch.pinned"),
    ("silver.orders", "table.committing"),
)
COMMITTED: Suspension = ("silver.orders", "table.committed")
FEW = (("bronze.paid", "batch.staged"), ("silver.copy", "table.committing"), ("silver.orders", "table.committing"))
"""The suspensions of `make test`: one before a commit of files, of an append and of a merge."""


class Shop(Written):
    """The lake, and commands on it that end with the test."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        super().__init__(folder, spark)
        self.commands: list[SuspendableCommand] = []

    def start(self, *words: str, stops: tuple[Stop, ...] = (), own_spark: bool = False) -> SuspendableCommand:
        said = self.folder / f"said-{len(self.commands)}.json"
        jvm = None if own_spark else Jvm.of(self.spark)
        self.commands.append(SuspendableCommand(self.folder, *words, said=said, stops=stops, jvm=jvm))
        return self.commands[-1]

    def suspended(self, table: str, place: str) -> SuspendableCommand:
        """Start a run that is suspended at the place until its lease has expired."""
        command = self.start("run", table, stops=(Stop(place, table),))
        command.wait_until_suspended()
        lease_file = max((self.folder / f".lakesmith/warehouse/_lakesmith/leases/{table}").glob("*.json"))
        time.sleep(max(0.0, json.loads(lease_file.read_text())["expires_at"] - time.time()))
        return command

    def close(self) -> None:
        for each in self.commands:
            each.kill()


def copied(first_day: Path, folder: Path, spark: SparkSession) -> Iterator[Shop]:
    shutil.copytree(first_day, folder)
    shop = Shop(folder, isolated(spark))
    try:
        yield shop
    finally:
        shop.close()


@pytest.fixture
def shop(tmp_path: Path, first_day: Path, shared_spark: SparkSession) -> Iterator[Shop]:
    yield from copied(first_day, tmp_path / "shop", shared_spark)


@pytest.fixture(scope="module", params=first_only([FEW, REJECTED]), ids=["few", "all"])
def resumed(
    request: pytest.FixtureRequest,
    first_day: Path,
    shared_spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Shop, dict[Suspension, Ended]]]:
    """Runs that were suspended at every place, and resumed after another run took their tables over."""
    for shop in copied(first_day, tmp_path_factory.mktemp("resumed") / "shop", shared_spark):
        suspended = {each: shop.suspended(*each) for each in (*request.param, COMMITTED)}
        shop.run()
        for command in suspended.values():
            command.resume()
        yield shop, {each: command.ended() for each, command in suspended.items()}


def test_a_run_resumed_after_a_takeover_cannot_commit(resumed: tuple[Shop, dict[Suspension, Ended]]) -> None:
    for (table, place), ended in resumed[1].items():
        if (table, place) != COMMITTED:
            assert (ended.exit_code, ended.codes) == (4, {table: "commit-lost"}), place
            assert "run again" in ended.hints[0]


def test_a_run_resumed_after_its_commit_succeeds_although_another_completed_the_batch(
    resumed: tuple[Shop, dict[Suspension, Ended]],
) -> None:
    shop, ended = resumed
    assert ended[COMMITTED].exit_code == 0
    assert {(step.step, step.sequence) for step in shop.reports[0].steps if step.table == "silver.orders"} == {
        ("finish", 2)
    }


def test_after_takeovers_every_row_is_in_exactly_one_place(
    resumed: tuple[Shop, dict[Suspension, Ended]],
) -> None:
    shop, _ = resumed
    assert shop.run() == {}
    assert_every_row_once(shop)
    warehouse = shop.folder / ".lakesmith/warehouse/_lakesmith"
    leases = {table.name: len(list(table.glob("*.json"))) for table in (warehouse / "leases").iterdir()}
    assert leases == dict.fromkeys(("bronze.orders", *TABLES), 1)


def assert_every_row_once(shop: Shop) -> None:
    assert shop.rows("SELECT id FROM bronze.clicks ORDER BY id") == [(i,) for i in (1, 1, 2, 4, 4, 5)]
    assert shop.rows("SELECT id FROM bronze.paid ORDER BY id") == [(i,) for i in (1, 1, 4, 4)]
    assert shop.rows("SELECT id FROM silver.copy ORDER BY id") == [(i,) for i in (1, 1, 4, 4)]
    assert shop.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 10), (4, 4)]
    rejected = {"bronze_clicks": 2, "bronze_paid": 4, "silver_copy": 2, "silver_orders": 2}
    assert {name: shop.rows(f"SELECT count(*) FROM quarantine.{name}")[0][0] for name in rejected} == rejected


def test_two_runs_that_staged_the_same_batch_have_separate_files_and_one_commits(shop: Shop) -> None:
    first, second = (shop.suspended("bronze.paid", "batch.staged") for _ in range(2))
    first.resume()
    assert first.ended().exit_code == 0
    second.resume()
    ended = second.ended()
    assert (ended.exit_code, ended.codes) == (4, {"bronze.paid": "commit-lost"})
    assert shop.run("bronze.paid") == {}
    assert shop.rows("SELECT id FROM bronze.paid ORDER BY id") == [(i,) for i in (1, 1, 4, 4)]
    assert shop.rows("SELECT count(*) FROM quarantine.bronze_paid") == [(4,)]


@pytest.mark.verify
def test_a_suspended_run_keeps_its_table_until_its_lease_expires(shop: Shop) -> None:
    command = shop.start("run", "bronze.clicks", stops=(Stop("lease.taken", "bronze.clicks"),), own_spark=True)
    command.wait_until_suspended()
    (lease,) = (shop.folder / ".lakesmith/warehouse/_lakesmith/leases/bronze.clicks").glob("*.json")
    # As with the real duration: the lease was renewed a moment ago, and is valid for a minute.
    lease.write_text(json.dumps({**json.loads(lease.read_text()), "expires_at": time.time() + 60}))
    shop.run("bronze.clicks", ok=False)
    (error,) = shop.reports[-1].errors
    assert (error.code, error.exit_code) == ("table-leased", 4)
    assert "wait until it ends" in str(error.hint)
    command.resume()
    assert command.ended().exit_code == 0
    assert shop.run("bronze.clicks") == {}
    assert shop.rows("SELECT id FROM bronze.clicks ORDER BY id") == [(i,) for i in (1, 1, 2, 4, 4, 5)]


def test_runs_that_start_together_on_a_new_lake_share_the_work_or_report_the_lease_holder(
    tmp_path: Path, first_day: Path, shared_spark: SparkSession
) -> None:
    def declared_only(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name == ".lakesmith"}

    shutil.copytree(first_day, tmp_path / "shop", ignore=declared_only)
    shop = Shop(tmp_path / "shop", isolated(shared_spark))
    try:
        ended = [run.ended() for run in [shop.start("run") for _ in range(3)]]
    finally:
        shop.close()
    for each in ended:
        assert set(each.codes.values()) <= {"table-leased", "commit-lost", "commit-conflict"}
        assert each.exit_code == (4 if each.codes else 0)
        assert all(each.hints)
    shop.run()
    assert shop.run() == {}
    assert_every_row_once(shop)
    run_ids = [each.report["run"]["run_id"] for each in ended if each.report["run"]]
    assert set(run_ids) <= {str(run) for (run,) in shop.rows("SELECT run_id FROM system.runs")}


@pytest.mark.verify
def test_readers_beside_a_writer_see_complete_versions_only(tmp_path: Path, spark: SparkSession) -> None:
    lake = Written(tmp_path / "shop", spark)
    # In each table, every batch has the same twenty keys and one amount.
    lake.declare({**LAKE, "gold/now.sql": "/* lakesmith\nload: replace\n*/\nSELECT * FROM silver.orders\n"})
    seen: dict[str, set[int]] = {}

    def read_tables(place: str = "", about: str = "") -> None:
        for table in ("bronze.clicks", "bronze.paid", "silver.orders", "gold.now"):
            location = lake.folder / f".lakesmith/warehouse/{table.replace('.', '/')}"
            if not (location / "_delta_log/00000000000000000000.json").exists():
                continue
            directly = (
                QueryBuilder().register("rows", DeltaTable(location)).execute("SELECT amount FROM rows").read_all()
            )
            queried = [amount for (amount,) in lake.rows(f"SELECT amount FROM {table}")]
            for amounts in (directly["amount"].to_pylist(), queried):
                counted = Counter(amounts)
                assert set(counted.values()) == {20}, (place, about, table, counted)
                assert table.startswith("bronze") or len(counted) == 1
                seen.setdefault(table, set()).update(counted)

    for number in (1, 2):
        for folder in ("clicks", "paid", "orders"):
            lake.land(f"{folder}/{number}.json", *(row(id, number, at=number) for id in range(20)))
        failpoints.watch(read_tables)
        try:
            lake.run()
        finally:
            failpoints.watch(None)
        read_tables()
    assert seen == {table: {1, 2} for table in ("bronze.clicks", "bronze.paid", "silver.orders", "gold.now")}
