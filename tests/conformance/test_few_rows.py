"""Few rows that the driver commits: what Delta's writer refuses or changes is left to it or refused too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakesmith.errors import DataError
from lakesmith.formats import Delta
from lakesmith.ports import Write
from lakesmith.store import folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def write(sequence: int, *partition_by: str) -> Write:
    return Write(
        flow="lakesmith.silver.x",
        sequence=sequence,
        note=f"batch {sequence}",
        partition_by=partition_by,
        change_feed=True,
        few=True,
    )


@pytest.mark.parametrize(
    "column", ["1 AS `a b`", "named_struct('a;b', 1) AS s", "array(map(1, named_struct('(', 1))) AS l"]
)
def test_a_name_that_delta_refuses_makes_no_table(spark: SparkSession, tmp_path: Path, column: str) -> None:
    with pytest.raises(DataError) as caught:
        Delta().append(spark.sql(f"SELECT {column}"), folder_at(str(tmp_path / "t")), write(1))
    assert caught.value.code == "bad-column-name"
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_column_of_the_change_feed_makes_no_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        Delta().append(spark.sql("SELECT 1 AS _CHANGE_type"), folder_at(str(tmp_path / "t")), write(1))
    assert caught.value.code == "bad-column-name"


def test_lists_without_null_of_another_writer_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    place, type = str(tmp_path / "t"), pa.list_(pa.field("element", pa.int64(), nullable=False))
    write_deltalake(place, pa.table({"v": pa.array([[1]], type)}))
    Delta().append(spark.sql("SELECT array(2L) AS v"), folder_at(place), write(1))
    assert sorted(row.v for row in spark.read.format("delta").load(place).collect()) == [[1], [2]]


def test_not_null_inside_a_struct_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{place}` (v STRUCT<a: BIGINT NOT NULL>) USING delta").collect()
    Delta().append(spark.sql("SELECT named_struct('a', 1L) AS v"), folder_at(place), write(1))
    with pytest.raises(Exception, match="NOT NULL constraint"):
        Delta().append(spark.sql("SELECT named_struct('a', CAST(NULL AS bigint)) AS v"), folder_at(place), write(2))
    assert [row.v.a for row in spark.read.format("delta").load(place).collect()] == [1]


@pytest.mark.parametrize("column", ["row", "number", "p"])
def test_a_partition_column_may_have_any_name(spark: SparkSession, tmp_path: Path, column: str) -> None:
    place = str(tmp_path / "t")
    rows = spark.sql(f"SELECT id, IF(id < 2, 'a', '') AS {column} FROM range(3)")
    Delta().append(rows, folder_at(place), write(1, column))
    stored = spark.read.format("delta").load(place).collect()
    assert sorted((row.id, row[column]) for row in stored) == [(0, "a"), (1, "a"), (2, None)]


def test_a_partition_that_is_not_utf_8_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "t"
    rows = spark.sql("SELECT 1 AS id, CAST(X'FE' AS STRING) AS p")
    Delta().append(rows, folder_at(str(place)), write(1, "p"))
    (added,) = (
        action["add"]
        for line in (place / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        if "add" in (action := json.loads(line))
    )
    assert added["partitionValues"] == {"p": "\ufffd"}
