"""Replacing partitions without Delta's writer gives the rows of the model, for every reader."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats import Delta
from lakesmith.formats.delta import actions, partition_overwrite
from lakesmith.ports import ReplaceWhere, TableFolder, Write
from lakesmith.store import folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FLOW = "lakesmith.gold.x"
TEXTS = ("plain", "a b", "end ", "two\nlines", "50%", "%25", "x=y/z", "Ünï", "it's", "NULL", None)
KINDS: dict[str, tuple[object, ...]] = {
    "string": TEXTS,
    "int": (-1, 0, 7, None),
    "boolean": (True, False, None),
    "date": (date(1, 1, 1), date(2026, 2, 3), date(9999, 12, 31), None),
}
Row = tuple[object, int]


def write(sequence: int) -> Write:
    feed = {"delta.enableChangeDataFeed": "true"}
    return Write(flow=FLOW, sequence=sequence, note=f"batch {sequence}", properties=feed, partition_by=("p",))


def frame(spark: SparkSession, kind: str, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, f"p {kind}, v int")


def part(spark: SparkSession, kind: str, values: list[object]) -> ReplaceWhere:
    found = frame(spark, kind, [(value, 0) for value in values]).selectExpr("CAST(p AS string) AS t").collect()
    return ReplaceWhere("true", tuple(row.t for row in found))


def by_delta(spark: SparkSession, location: str) -> list[str]:
    return sorted(map(repr, spark.read.format("delta").load(location).selectExpr("p", "v").collect()))


def made(spark: SparkSession, folder: Path, held: list[Row], kind: str = "int") -> str:
    place = str(folder / "t")
    Delta().append(frame(spark, kind, held), folder_at(place), write(1))
    return place


def writer(place: str) -> str:
    """Return the writer of the newest version."""
    newest = max((Path(place) / "_delta_log").glob("*.json")).read_text().splitlines()
    infos = [found["commitInfo"] for line in newest if "commitInfo" in (found := json.loads(line))]
    return str(infos[0]["engineInfo"])


@pytest.mark.parametrize("kind", KINDS)
def test_many_batches_give_the_rows_of_the_model(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    values, pick = list(KINDS[kind]), random.Random(kind)
    model: list[Row] = [(value, 0) for value in values for _ in range(2)]
    place = made(spark, tmp_path, model, kind)
    for batch in range(2, 13 if kind == "string" else 5):  # with a checkpoint, which is written every ten versions
        touched = pick.sample(values, pick.randint(1, len(values)))
        fresh: list[Row] = [(value, batch) for value in touched for _ in range(pick.randint(0, 2))]
        written = Delta().overwrite(
            frame(spark, kind, fresh), folder_at(place), write(batch), part(spark, kind, touched)
        )
        gone = [row for row in model if row[0] in touched]
        model = [row for row in model if row[0] not in touched] + fresh
        assert (written.version, written.inserted, writer(place)) == (batch - 1, len(fresh), "Lakesmith")
    feed = Delta().changes(spark, folder_at(place), written.version - 1, written.version)
    found = [(row.p, row.v, row._change_type) for row in feed.collect()]
    changed = [(*row, "delete") for row in gone] + [(*row, "insert") for row in fresh]
    assert sorted(map(repr, found)) == sorted(map(repr, changed))
    assert by_delta(spark, place) == sorted(map(repr, frame(spark, kind, model).collect()))
    known = DeltaTable(place).to_pyarrow_table().select(["p", "v"]).to_pylist()
    assert sorted(repr((row["p"], row["v"])) for row in known) == sorted(map(repr, model))
    spark.sql(f"OPTIMIZE delta.`{place}`").collect()
    assert by_delta(spark, place) == sorted(map(repr, frame(spark, kind, model).collect()))


def test_rows_of_other_partitions_are_rejected_and_leave_no_files(spark: SparkSession, tmp_path: Path) -> None:
    place = made(spark, tmp_path, [(1, 1), (2, 2)])
    before = sorted(path.name for path in Path(place).iterdir())
    with pytest.raises(DataError) as found:
        Delta().overwrite(
            frame(spark, "int", [(1, 9), (2, 9)]), folder_at(place), write(2), ReplaceWhere("p = 1", ("1",))
        )
    assert found.value.code == "partition-escaped"
    assert sorted(path.name for path in Path(place).iterdir()) == before
    assert by_delta(spark, place) == ["Row(p=1, v=1)", "Row(p=2, v=2)"]


def test_one_of_two_writers_of_a_version_wins(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made(spark, tmp_path, [(1, 1), (2, 2)])
    commit: Callable[..., None] = actions.commit_actions

    def after_another(folder: TableFolder, version: int, *rest: object) -> None:
        spark.sql(f"DELETE FROM delta.`{place}` WHERE p = 2").collect()
        commit(folder, version, *rest)

    monkeypatch.setattr(partition_overwrite, "commit_actions", after_another)
    with pytest.raises(InfrastructureError) as found:
        Delta().overwrite(frame(spark, "int", [(1, 9)]), folder_at(place), write(2), ReplaceWhere("p = 1", ("1",)))
    assert found.value.code == "commit-conflict"
    assert by_delta(spark, place) == ["Row(p=1, v=1)"]


def test_rows_in_deletion_vectors_are_replaced_with_their_partition(spark: SparkSession, tmp_path: Path) -> None:
    place = made(spark, tmp_path, [(1, 1), (1, 2), (2, 3)])
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')").collect()
    spark.sql(f"DELETE FROM delta.`{place}` WHERE v = 1").collect()
    version = (
        Delta()
        .overwrite(frame(spark, "int", [(1, 9)]), folder_at(place), write(2), ReplaceWhere("p = 1", ("1",)))
        .version
    )
    assert by_delta(spark, place) == ["Row(p=1, v=9)", "Row(p=2, v=3)"]
    found = Delta().changes(spark, folder_at(place), version - 1, version).selectExpr("v", "_change_type").collect()
    assert sorted((row.v, row._change_type) for row in found) == [(2, "delete"), (9, "insert")]


UNSUPPORTED_CHANGES = (
    "ALTER TABLE delta.`{0}` ADD CONSTRAINT few CHECK (v < 100)",
    "ALTER TABLE delta.`{0}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "ALTER TABLE delta.`{0}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "ALTER TABLE delta.`{0}` ADD COLUMNS (more string)",
)


def test_a_table_that_needs_a_newer_writer_falls_back_to_delta(spark: SparkSession, tmp_path: Path) -> None:
    batch, part = frame(spark, "int", [(1, 9)]), ReplaceWhere("p = 1", ("1",))
    plain = made(spark, tmp_path, [(1, 1), (2, 2)])
    assert partition_overwrite.can_replace_partitions(part, batch, DeltaTable(plain), folder_at(plain), write(2))
    assert not partition_overwrite.can_replace_partitions(
        ReplaceWhere("p = 1"), batch, DeltaTable(plain), folder_at(plain), write(2)
    )
    for number, change in enumerate(UNSUPPORTED_CHANGES):
        place = str(tmp_path / str(number))
        shutil.copytree(plain, place)
        spark.sql(change.format(place)).collect()
        assert not partition_overwrite.can_replace_partitions(
            part, batch, DeltaTable(place), folder_at(place), write(2)
        ), change
    assert Delta().overwrite(batch, folder_at(place), write(2), part).inserted == 1
    assert writer(place) != "Lakesmith"
    assert by_delta(spark, place) == ["Row(p=1, v=9)", "Row(p=2, v=2)"]
    of_decimals = made(spark, tmp_path / "other", [(1.5, 1)], "double")
    of_doubles = frame(spark, "double", [])
    assert not partition_overwrite.can_replace_partitions(
        part, of_doubles, DeltaTable(of_decimals), folder_at(of_decimals), write(2)
    )
    by_another = replace(write(2), partition_by=("v",))
    assert not partition_overwrite.can_replace_partitions(part, batch, DeltaTable(plain), folder_at(plain), by_another)
    letters = ReplaceWhere("p IN ('a', 'A')", ("a", "A"))  # one folder on some disks
    texts = made(spark, tmp_path / "texts", [("a", 1), ("A", 2)], "string")
    assert not partition_overwrite.can_replace_partitions(
        letters, frame(spark, "string", []), DeltaTable(texts), folder_at(texts), write(2)
    )
