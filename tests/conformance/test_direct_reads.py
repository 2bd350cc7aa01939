"""Small tables that are read by the names of their files have the rows and changes that Delta reads."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakesmith.formats import Delta
from lakesmith.formats.delta import direct_reads
from lakesmith.formats.delta.direct_reads import read_changes_directly, read_directly
from lakesmith.ports import Upsert, Write
from lakesmith.store import folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FLOW = "lakesmith.silver.x"
FEED = {"delta.enableChangeDataFeed": "true"}
TYPES = """
    SELECT id, CAST(id AS decimal(38, 18)) AS amount, TIMESTAMP'9999-12-31 23:59:59.999999' AS until,
        TIMESTAMP_NTZ'0001-01-01 00:00:00.000001' AS since, DATE'-0044-03-15' AS day, CAST('NaN' AS double) AS nan,
        CAST('-0.0' AS float) AS zero, binary('x') AS bytes, array(struct('a' AS b, id AS n)) AS list,
        map('k', TIMESTAMP'2026-01-01 00:00:00') AS map, CAST(NULL AS string) AS nothing, '' AS empty
    FROM range({first}, {last})
"""


def write(sequence: int, *, few: bool = True) -> Write:
    note = f"batch {sequence}"
    return Write(flow=FLOW, sequence=sequence, note=note, properties=FEED, deletion_vectors=True, few=few)


def rows_of(frame: DataFrame | None) -> Counter[str]:
    assert frame is not None, "Delta would have to read it"
    return Counter(frame.selectExpr("to_json(struct(*)) AS row").toArrow()["row"].to_pylist())


def by_delta(spark: SparkSession, place: str, **options: Any) -> Counter[str]:
    return rows_of(spark.read.format("delta").options(**options).load(place))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> str:
    """A table of every type with appends, merges with deletes, a DELETE by Spark, a compaction and an overwrite."""
    place, format = str(tmp_path / "a table"), Delta()
    folder = folder_at(place)
    for sequence, few in enumerate([False, True, True, False], start=1):
        rows = spark.sql(TYPES.format(first=sequence * 10, last=sequence * 10 + 5))
        format.append(rows, folder, write(sequence, few=few))
    for sequence, first in enumerate([12, 31, 100], start=5):
        rows = spark.sql(TYPES.format(first=first, last=first + 3)).selectExpr(
            "*", "id % 3 = 0 AS __lakesmith_delete_row"
        )
        format.merge(Upsert(rows=renamed(rows), key=("id",), newer="true"), folder, write(sequence))
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id IN (20, 41)").collect()
    format.append(spark.sql(TYPES.format(first=200, last=202)), folder, write(8))
    format.compact(spark, folder, "lakesmith maintenance compact")
    format.overwrite(spark.sql(TYPES.format(first=300, last=303)), folder, write(9))
    return place


def renamed(rows: DataFrame) -> DataFrame:
    from lakesmith.columns import DELETE_ROW

    return rows.withColumnRenamed("__lakesmith_delete_row", DELETE_ROW)


def test_each_version_has_the_rows_that_delta_reads(spark: SparkSession, place: str) -> None:
    folder = folder_at(place)
    facts = Delta().facts(folder, FLOW)
    assert facts is not None
    for version in range(facts.version + 1):
        assert rows_of(read_directly(spark, folder, version)) == by_delta(spark, place, versionAsOf=version), version


def test_each_range_of_changes_has_the_rows_that_delta_reads(spark: SparkSession, place: str) -> None:
    folder = folder_at(place)
    facts = Delta().facts(folder, FLOW)
    assert facts is not None
    direct = 0
    for after, until in [(n, n + 1) for n in range(facts.version)] + [(0, 3), (3, 6), (4, facts.version)]:
        found = read_changes_directly(spark, folder, after, until)
        if found is not None:
            direct += 1
            options = {"readChangeFeed": "true", "startingVersion": after + 1, "endingVersion": until}
            assert rows_of(found) == by_delta(spark, place, **options), (after, until)
    assert direct >= facts.version, "compactions and settings alone are left to Delta"


def test_a_file_that_is_gone_or_has_another_size_is_left_to_delta(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, format = tmp_path / "t", Delta()
    folder = folder_at(str(place))
    for sequence in (1, 2):
        format.append(spark.range(sequence), folder, write(sequence))
    assert read_directly(spark, folder, 1) is not None
    monkeypatch.setattr(direct_reads, "_MAX_FILES", 1)
    assert read_directly(spark, folder, 1) is None, "many files"
    monkeypatch.undo()
    (file, *_) = place.rglob("*.zstd.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert read_directly(spark, folder, 1) is None
    file.unlink()
    assert read_directly(spark, folder, 1) is None
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        format.read(spark, folder, 1).collect()


@pytest.mark.parametrize("name", ["_rows.parquet", ".rows.parquet", "rows.parquet._COPYING_"])
def test_a_file_whose_name_hides_it_from_spark_is_left_to_delta(spark: SparkSession, tmp_path: Path, name: str) -> None:
    place, format = tmp_path / "t", Delta()
    folder = folder_at(str(place))
    for sequence in (1, 2):
        format.append(spark.range(sequence), folder, write(sequence))
    commit = place / "_delta_log" / f"{1:020}.json"
    *before, added = commit.read_text().splitlines()
    action = json.loads(added)
    (place / action["add"]["path"]).rename(place / name)
    action["add"]["path"] = name
    commit.write_text("\n".join([*before, json.dumps(action)]))
    for checksum in commit.parent.glob(".*.crc"):
        checksum.unlink()
    assert rows_of(format.read(spark, folder, 1)) == by_delta(spark, str(place))
    assert read_directly(spark, folder, 0) is not None
    assert rows_of(format.changes(spark, folder, 0, 1)).total() == 2


def test_tables_with_other_features_are_left_to_delta(spark: SparkSession, tmp_path: Path) -> None:
    place, format = str(tmp_path / "t"), Delta()
    folder = folder_at(place)
    format.append(spark.range(3).selectExpr("id", "'x' AS v"), folder, replace(write(1), partition_by=("id",)))
    assert read_directly(spark, folder, 0) is None, "partitions"
    assert rows_of(format.read(spark, folder, 0)) == by_delta(spark, place)
    assert read_changes_directly(spark, folder, -1, 0) is None, "the version that made the columns"
