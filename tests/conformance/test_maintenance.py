"""The maintenance of every table format. Add another adapter to `FORMATS`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakesmith.errors import DataError, LakesmithError
from lakesmith.formats import Delta
from lakesmith.jvm.session import isolated
from lakesmith.ports import MAINTENANCE_NOTE, DataFile, ReplaceWhere, TableFormat, Upsert, Write
from lakesmith.run.failures import is_external
from lakesmith.store import folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FORMATS = [Delta]
FLOW = "lakesmith.silver.orders"
FEED = {"delta.enableChangeDataFeed": "true"}
WAIT = 120.0


@pytest.fixture(params=FORMATS, ids=lambda adapter: str(adapter.name))
def format(request: pytest.FixtureRequest) -> TableFormat:
    made: TableFormat = request.param()
    return made


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def rows(spark: SparkSession, *values: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id bigint, v string").coalesce(1)


def write(sequence: int, note: str = "", *, deletion_vectors: bool = False) -> Write:
    own = note or f"batch {sequence}"
    return Write(flow=FLOW, sequence=sequence, note=own, properties=FEED, deletion_vectors=deletion_vectors)


def held(format: TableFormat, place: str, version: int | None = None) -> list[tuple[object, ...]]:
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    found = format.arrow(folder_at(place), facts.version if version is None else version)
    table = found.read_all() if isinstance(found, pa.RecordBatchReader) else found.to_table()
    return sorted((each["id"], each["v"]) for each in table.to_pylist())


def files(place: str) -> set[str]:
    return {path.name for path in Path(place).rglob("*.parquet") if "_delta_log" not in path.parts}


def test_compacted_files_have_the_same_rows_and_readers_skip_the_commit(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    for number in (1, 2, 3):
        format.append(rows(spark, (number, "a")), folder_at(place), write(number))
    written = format.compact(spark, folder_at(place), "lakesmith compact run 1")
    assert written is not None
    assert next(iter(format.commits(folder_at(place)))).note == "lakesmith compact run 1"
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (facts.files, facts.sequence, facts.version, facts.changed) == (1, 3, 3, 2)
    assert held(format, place) == [(1, "a"), (2, "a"), (3, "a")]
    assert format.changes(spark, folder_at(place), 2, 3).count() == 0
    assert format.compact(spark, folder_at(place), "lakesmith compact run 2") is None


def test_a_vacuum_deletes_old_files_and_keeps_referenced_ones(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a"), (2, "a")), folder_at(place), write(1))
    format.merge(
        Upsert(rows=rows(spark, (1, "b")), key=("id",), newer="true"), folder_at(place), write(2, deletion_vectors=True)
    )
    stray = Path(place) / "batch-00000003-0a0a0a0a" / "part.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"never committed")
    before = files(place)
    assert format.count_unused_files(folder_at(place), 3600.0) == 0
    format.vacuum(spark, folder_at(place), 3600.0)
    assert files(place) == before
    assert held(format, place, 0) == [(1, "a"), (2, "a")]
    format.overwrite(rows(spark, (3, "c")), folder_at(place), write(3))
    assert format.count_unused_files(folder_at(place), 0.0) >= 3
    format.vacuum(spark, folder_at(place), 0.0)
    assert format.count_unused_files(folder_at(place), 0.0) == 0
    assert not stray.exists()
    assert len(files(place)) == 1
    assert held(format, place) == [(3, "c")]


def test_a_vacuum_deletes_no_file_added_after_its_listing(format: TableFormat, spark: SparkSession, place: str) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    stray, late = Path(place) / "stray.parquet", Path(place) / "late.parquet"
    stray.write_bytes(b"of a run that was killed")

    def look() -> None:
        late.write_bytes(b"of a run that has begun since")
        os.utime(late, (0, 0))

    format.vacuum(spark, folder_at(place), 0.0, look)
    assert (stray.exists(), late.exists()) == (False, True)

    def reject() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        format.vacuum(spark, folder_at(place), 0.0, reject)
    assert late.exists()


def test_a_vacuum_keeps_files_of_partitions_with_any_name(format: TableFormat, spark: SparkSession, place: str) -> None:
    names = ("a", "a b", "é=x%2F", "it's (1), [2] & 3; {4}")
    first = Write(flow=FLOW, sequence=1, note="1", properties=FEED, partition_by=("v",))
    format.append(rows(spark, *enumerate(names)), folder_at(place), first)
    second = Write(flow=FLOW, sequence=2, note="2", properties=FEED, partition_by=("v",))
    format.overwrite(
        rows(spark, *((at + 10, name) for at, name in enumerate(names))),
        folder_at(place),
        second,
        ReplaceWhere("true", names),
    )
    assert any(path.name.startswith("batch-") for path in Path(place).iterdir()), "written by Delta itself"
    format.vacuum(spark, folder_at(place), 0.0)
    assert held(format, place) == [(at + 10, name) for at, name in enumerate(names)]
    assert format.count_unused_files(folder_at(place), 0.0) == 0


def test_a_restore_brings_back_columns_and_deleted_rows_in_one_commit(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a"), (2, "a")), folder_at(place), write(1))
    format.merge(
        Upsert(rows=rows(spark, (1, "b")), key=("id",), newer="true"), folder_at(place), write(2, deletion_vectors=True)
    )
    marked = format.facts(folder_at(place), FLOW)
    assert marked
    wider = rows(spark, (3, "c")).selectExpr("*", "true AS more")
    format.append(wider, folder_at(place), Write(flow=FLOW, sequence=3, note="batch 3", evolve=True))
    for number in range(4, 13):
        format.advance(folder_at(place), write(number), spark)
    format.check_restore(folder_at(place), marked.version)
    restored = format.restore(folder_at(place), marked.version, write(13))
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (facts.version, facts.sequence, facts.changed) == (restored.version, 13, restored.version)
    assert [column.name for column in facts.columns] == ["id", "v"]
    assert held(format, place) == [(1, "b"), (2, "a")]
    spark_rows = format.read(spark, folder_at(place), facts.version).collect()
    assert sorted((row["id"], row["v"]) for row in spark_rows) == [(1, "b"), (2, "a")]
    format.restore(folder_at(place), 0, write(14))
    assert held(format, place) == [(1, "a"), (2, "a")]
    gone = format.changes(spark, folder_at(place), restored.version, restored.version + 1)
    assert sorted((row["id"], row["v"], row["_change_type"]) for row in gone.collect()) == [
        (1, "a", "insert"),
        (1, "b", "delete"),
    ]
    format.restore(folder_at(place), None, write(15))
    assert held(format, place) == []
    with pytest.raises(LakesmithError) as raised:
        format.restore(folder_at(place), 0, write(15, "a twin"))
    assert raised.value.code == "commit-lost"


def test_a_version_with_missing_files_is_not_partly_restored(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    format.overwrite(rows(spark, (2, "b")), folder_at(place), write(2))
    format.vacuum(spark, folder_at(place), 0.0)
    for rejected in (
        lambda: format.restore(folder_at(place), 0, write(3)),
        lambda: format.check_restore(folder_at(place), 0),
    ):
        with pytest.raises(DataError) as raised:
            rejected()
        assert raised.value.code == "restore-vacuumed"
    assert held(format, place) == [(2, "b")]


class Sleeper:
    """A writer that is suspended while it writes a batch."""

    def __init__(self, folder: Path) -> None:
        self.asleep, self.awake = folder / "asleep", folder / "awake"
        self.raised: list[Exception] = []

    def rows(self, spark: SparkSession, *values: tuple[int, str]) -> DataFrame:
        """Return rows that are computed only after the writer is resumed."""
        asleep, awake, wait = str(self.asleep), str(self.awake), WAIT

        def slow(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            import os
            import time

            for batch in batches:
                open(asleep, "w").close()
                until = time.monotonic() + wait
                while not os.path.exists(awake) and time.monotonic() < until:
                    time.sleep(0.05)
                yield batch

        return rows(spark, *values).mapInArrow(slow, "id bigint, v string")

    def sleep(self) -> None:
        self.asleep.touch()
        _until(self.awake.exists)

    def __call__(self, commit: Callable[[], object]) -> threading.Thread:
        def writes() -> None:
            try:
                commit()
            except Exception as error:  # noqa: BLE001 - what it is, is asked below
                self.raised.append(error)

        thread = threading.Thread(target=writes)
        thread.start()
        _until(lambda: self.asleep.exists() or not thread.is_alive())
        return thread


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.mark.parametrize("path", ["append", "overwrite", "part", "merge", "place", "add", "replace"])
def test_a_writer_suspended_during_a_vacuum_cannot_commit(
    format: TableFormat, spark: SparkSession, place: str, tmp_path: Path, path: str
) -> None:
    partitioned = path == "part"
    first = Write(flow=FLOW, sequence=1, note="1", properties=FEED, partition_by=("v",) if partitioned else ())
    format.append(rows(spark, (1, "a"), (2, "b")), folder_at(place), first)
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    sleeper, late = Sleeper(tmp_path), write(2, "late", deletion_vectors=path == "place")
    new = sleeper.rows(spark, (7, "late"))
    columns = rows(spark, (7, "late")).schema.json()
    made_for = facts.table_id

    def add(*, overwrite: bool) -> None:
        sleeper.sleep()
        file = DataFile("late.parquet", 1, 1)
        format.add((file,), columns, folder_at(place), late, made_for, overwrite=overwrite)

    commits: dict[str, Callable[[], object]] = {
        "append": lambda: format.append(new, folder_at(place), late),
        "overwrite": lambda: format.overwrite(new, folder_at(place), late),
        "part": lambda: format.overwrite(
            new,
            folder_at(place),
            Write(flow=FLOW, sequence=2, note="late", partition_by=("v",)),
            ReplaceWhere("`v` IN ('late')", ("late",)),
        ),
        "merge": lambda: format.merge(Upsert(rows=new, key=("id",), newer="true"), folder_at(place), late),
        "place": lambda: format.merge(Upsert(rows=new, key=("id",), newer="true"), folder_at(place), late),
        "add": lambda: add(overwrite=False),
        "replace": lambda: add(overwrite=True),
    }
    try:
        thread = sleeper(commits[path])
        assert thread.is_alive(), sleeper.raised
        own = isolated(spark)
        format.advance(folder_at(place), Write(flow=FLOW, sequence=2, note=f"{MAINTENANCE_NOTE}2.1 run 1"), own)
        format.vacuum(own, folder_at(place), 0.0)
    finally:
        sleeper.awake.touch()
    thread.join(WAIT)
    (error,) = sleeper.raised
    # A writer that is suspended while it writes a file gets Spark's own error for the missing file.
    assert error.code in ("commit-lost", "commit-conflict") if isinstance(error, LakesmithError) else is_external(error)
    assert held(format, place) == [(1, "a"), (2, "b")]
    now = format.facts(folder_at(place), FLOW)
    assert now
    assert now.changed <= facts.version + (1 if path == "place" else 0)
    assert format.read(spark, folder_at(place), now.version).count() == 2
