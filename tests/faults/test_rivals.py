"""Two at one lake: a holder that slept past its lease, two runs at once, and readers beside a writer."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.attach import Jvm
from tests.faults.sleeper import Sleeper, Stop
from tests.run.lakes import Written

from lakesmith import failpoints
from lakesmith.errors import LakesmithError
from lakesmith.spark.session import isolated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

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
"""Every way in which a batch is committed: files of readers, files that were judged, Spark's append, and a merge."""
HOW = {
    "bronze.clicks": "an append of files",
    "bronze.paid": "a checked load",
    "silver.copy": "an append",
    "silver.orders": "a merge",
}

Start = Callable[..., Sleeper]


def row(id: int, amount: int = 1, at: int = 1) -> dict[str, object]:
    return {"id": id, "amount": amount, "at": at}


def land(lake: Written, name: str, *rows: dict[str, object] | str) -> None:
    for folder in ("clicks", "paid", "orders"):
        lake.land(f"{folder}/{name}.json", *rows)


@pytest.fixture(scope="module")
def first_day(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after its first run whose bronze orders have come on since, to be copied."""
    lake = Written(tmp_path_factory.mktemp("first") / "shop", isolated(shared_spark))
    lake.declare(LAKE)
    land(lake, "1", row(1), row(2, -1), '{"id": 3, "am')
    lake.run()
    land(lake, "2", row(1, 10, at=2), row(4, 4), row(5, -5), '{"id": 6, "am', row(4, 4))
    lake.run("bronze.orders")
    return lake.folder


@pytest.fixture
def lake(tmp_path: Path, first_day: Path, spark: SparkSession) -> Written:
    shutil.copytree(first_day, tmp_path / "shop")
    return Written(tmp_path / "shop", spark)


@pytest.fixture
def start(lake: Written) -> Iterator[Start]:
    """Starts commands that are ended with the test."""
    begun: list[Sleeper] = []

    def make(*words: str, stops: tuple[Stop, ...] = (), own_spark: bool = False) -> Sleeper:
        jvm = None if own_spark else Jvm.of(lake.spark)
        begun.append(Sleeper(lake.folder, *words, stops=stops, jvm=jvm))
        return begun[-1]

    yield make
    for each in begun:
        each.kill()


def take_over(lake: Written, *tables: str) -> list[LakesmithError]:
    """Run as soon as the one that sleeps has lost its lease; the errors."""
    while True:
        lake.run(*tables, ok=False)
        errors = list(lake.reports[-1].errors)
        if "table-leased" not in [error.code for error in errors]:
            return errors
        assert all(error.exit_code == 4 and error.hint for error in errors)
        time.sleep(0.2)


def holds_every_row_once(lake: Written) -> None:
    """After one more run, which has nothing to mend by hand, every row is where it belongs, once."""
    lake.run()
    assert lake.run() == {}
    assert lake.rows("SELECT id FROM bronze.clicks ORDER BY id") == [(i,) for i in (1, 1, 2, 4, 4, 5)]
    assert lake.rows("SELECT id FROM bronze.paid ORDER BY id") == [(i,) for i in (1, 1, 4, 4)]
    assert lake.rows("SELECT id FROM silver.copy ORDER BY id") == [(i,) for i in (1, 1, 4, 4)]
    assert lake.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 10), (4, 4)]
    refused = {"bronze_clicks": 2, "bronze_paid": 4, "silver_copy": 2, "silver_orders": 2}
    assert {name: lake.rows(f"SELECT count(*) FROM quarantine.{name}")[0][0] for name in refused} == refused
    warehouse = lake.folder / ".lakesmith/warehouse/_lakesmith"
    for table in HOW:
        assert len(list((warehouse / "leases" / table).iterdir())) == 1
    assert not list((warehouse / "checked").glob("*/*"))


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ("bronze.clicks", "table.committing"),
        ("bronze.paid", "batch.staged"),
        ("bronze.paid", "table.committing"),
        ("silver.copy", "facts.read"),
        ("silver.copy", "table.committing"),
        ("silver.orders", "batch.pinned"),
        ("silver.orders", "table.committing"),
    ],
)
def test_a_holder_that_slept_while_another_took_over_is_refused_and_nothing_is_lost_or_doubled(
    lake: Written, start: Start, table: str, place: str
) -> None:
    sleeper = start("run", table, stops=(Stop(place, table),))
    sleeper.asleep()
    assert take_over(lake, table) == []
    sleeper.wake()
    ended = sleeper.ended()
    assert ended.exit_code == 4
    assert ended.codes == {table: "commit-lost"}
    assert "run again" in ended.hints[0]
    holds_every_row_once(lake)
