"""Tables of other lakes that are used in place: nothing is copied, and they are never written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.run.lakes import Written

from lakesmith.errors import DataError, LakesmithError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SILVER = "/* lakesmith\nload: {merge: {key: id, order_by: id}}\n*/\nSELECT id, day FROM bronze.orders\n"
GOLD = (
    "/* lakesmith\nload: {replace_partitions: day}\n*/\n"
    "SELECT day, count(*) AS orders FROM bronze.orders GROUP BY day\n"
)


def rows(*days: str) -> pa.Table:
    return pa.table({"id": pa.array(range(len(days)), pa.int64()), "day": pa.array(days)})


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def written(tmp_path: Path, request: pytest.FixtureRequest) -> Written:
    # Only tests that move rows need Spark.
    moves = request.node.get_closest_marker("spark") is not None
    lake = Written(tmp_path / "shop", cast("SparkSession", request.getfixturevalue("spark") if moves else None))
    lake.declare({"lakesmith.yml": "name: shop\n"})
    return lake


@pytest.fixture
def other(written: Written) -> Path:
    """The folder that `bronze.orders` adopts, below the lake's folder."""
    written.declare({"bronze/orders.yml": "source: {adopt: elsewhere/orders}\n"})
    return written.folder / "elsewhere" / "orders"


@pytest.mark.spark
def test_an_adopted_table_is_read_in_place_and_never_written(written: Written, other: Path) -> None:
    write_deltalake(other, rows("a", "b"))
    before = files_of(other)
    written.declare({"silver/orders.sql": SILVER})
    assert written.run()["silver.orders"].rows_written == 2
    assert written.run() == {}
    assert written.rows("SELECT count(*) FROM bronze.orders") == [(2,)]
    assert files_of(other) == before
    assert not (written.folder / "warehouse" / "bronze").exists()


@pytest.mark.spark
def test_rows_deleted_by_another_writer_are_removed_downstream(written: Written, other: Path) -> None:
    write_deltalake(other, rows("a", "b"))
    written.declare({"silver/orders.sql": SILVER})
    written.run()
    DeltaTable(other).delete("id = 0")
    step = written.run()["silver.orders"]
    assert step.mode == "full"
    assert written.rows("SELECT id FROM silver.orders") == [(1,)]


@pytest.mark.spark
def test_partitions_are_recomputed_by_the_change_feed_and_all_of_them_without_one(
    written: Written, other: Path
) -> None:
    write_deltalake(other, rows("a", "b"))
    written.declare({"gold/daily.sql": GOLD})
    written.run()
    write_deltalake(other, rows("b"), mode="append")
    plan = written.lake().plan()
    assert any("has no change feed" in str(getattr(step, "cost_reason", "")) for step in plan.steps)
    assert written.run()["gold.daily"].mode == "full"
    write_deltalake(other, rows("a"), mode="append")
    DeltaTable(other).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    # The change feed was off for a part of the new versions.
    assert written.run()["gold.daily"].mode == "full"
    write_deltalake(other, rows("a"), mode="append")
    assert written.run()["gold.daily"].mode == "partitions"
    assert sorted(written.rows("SELECT day, orders FROM gold.daily")) == [("a", 3), ("b", 2)]


def test_a_plan_says_that_there_is_nothing_to_do(written: Written, other: Path) -> None:
    write_deltalake(other, rows("a"))
    (table,) = written.lake().plan().tables
    assert table.reason == f"adopted in place ({other}): nothing to do"


def test_a_folder_of_parquet_files_is_adopted_only_when_it_is_requested(written: Written, other: Path) -> None:
    other.mkdir(parents=True)
    pq.write_table(rows("a", "b"), other / "one.parquet")
    before = files_of(other)
    (problem,) = written.lake().plan().problems
    assert (problem.code, files_of(other)) == ("not-adopted", before)
    assert "lakesmith adopt bronze.orders" in str(problem.hint)
    made = written.lake().adopt("bronze.orders")
    assert (made.files, made.rows, made.created) == (1, 2, True)
    assert files_of(other)["one.parquet"] == before["one.parquet"]
    assert written.rows("SELECT id, day FROM bronze.orders ORDER BY id") == [(0, "a"), (1, "b")]
    assert written.lake().adopt("bronze.orders").created is False


def test_partitions_become_columns_of_text(written: Written, other: Path) -> None:
    for year in ("2023", "2024"):
        (other / f"year={year}").mkdir(parents=True)
        pq.write_table(rows("a"), other / f"year={year}" / "0.parquet")
    written.lake().adopt("bronze.orders")
    assert sorted(written.rows("SELECT year FROM bronze.orders")) == [("2023",), ("2024",)]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("two.parquet", pa.table({"id": ["x"], "day": ["a"]}), "not-one-table"),
        ("year=2024/two.parquet", rows("a"), "not-one-table"),
        ("sub/two.parquet", rows("a"), "not-one-table"),
        ("two.parquet", b"no parquet", "not-parquet"),
    ],
)
def test_files_with_different_columns_are_rejected(
    written: Written, other: Path, name: str, content: pa.Table | bytes, code: str
) -> None:
    (other / name).parent.mkdir(parents=True)
    pq.write_table(rows("a"), other / "one.parquet")
    if isinstance(content, bytes):
        (other / name).write_bytes(content)
    else:
        pq.write_table(content, other / name)
    with pytest.raises(LakesmithError) as caught:
        written.lake().adopt("bronze.orders")
    assert caught.value.code == code
    assert not (other / "_delta_log").exists()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def _folder(path: Path) -> None:
    path.mkdir()
    pq.write_table(rows("a"), path / "part.parquet")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("folder", [".", "year=2023"])
@pytest.mark.parametrize("make", [os.mkfifo, _loop, _dangling_link, _folder])
def test_an_entry_that_is_not_a_file_is_rejected_by_name(
    written: Written, other: Path, make: Callable[[Path], None], folder: str
) -> None:
    (other / folder).mkdir(parents=True)
    pq.write_table(rows("a"), other / folder / "one.parquet")
    make(other / folder / "two.parquet")
    with pytest.raises(DataError, match=r"two\.parquet (is|cannot be)") as caught:
        written.lake().adopt("bronze.orders")
    assert caught.value.code == "not-a-file"
    assert not (other / "_delta_log").exists()


@pytest.mark.parametrize("name", [b"caf\xe9.parquet", b"year=caf\xe9/one.parquet"])
def test_a_name_that_is_not_utf8_is_rejected_escaped(written: Written, other: Path, name: bytes) -> None:
    file = other / os.fsdecode(name)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    with pytest.raises(DataError, match=r"caf\\xe9.* has a name that is not UTF-8") as caught:
        written.lake().adopt("bronze.orders")
    assert caught.value.code == "name-not-utf8"


def test_a_corrupt_file_is_named(written: Written, other: Path) -> None:
    other.mkdir(parents=True)
    for name in ("one", "two"):
        pq.write_table(rows("a"), other / f"{name}.parquet")
    data = bytearray((other / "two.parquet").read_bytes())
    data[-60:-8] = bytes(52)
    (other / "two.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"two\.parquet cannot be read as Parquet") as caught:
        written.lake().adopt("bronze.orders")
    assert caught.value.code == "not-parquet"


def test_only_a_table_that_adopts_can_be_adopted(written: Written) -> None:
    written.declare({"bronze/orders.yml": "source: {files: landing/*.json}\n"})
    with pytest.raises(LakesmithError) as caught:
        written.lake().adopt("bronze.orders")
    assert caught.value.code == "not-adopting"
