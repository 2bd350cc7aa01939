"""Ingest tables of other lakes: real Delta and Iceberg tables, by the rows that each version added."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.bronze import Bronze

from lakesmith.declare import OtherTable
from lakesmith.errors import LakesmithError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Other:
    """A table of another lake."""

    spark: SparkSession
    folder: Path
    name: str
    """In SQL."""
    source: OtherTable

    def sql(self, statement: str) -> None:
        """Run a statement that refers to the table as `other`."""
        self.spark.sql(statement.replace("other", self.name))


@pytest.fixture
def bronze(spark: SparkSession, tmp_path: Path) -> Bronze:
    return Bronze(spark, tmp_path)


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Other:
    folder = tmp_path / "other lake" / "orders"
    return Other(spark, folder, f"delta.`{folder}`", OtherTable(location=str(folder), format="delta"))


@pytest.fixture
def iceberg(spark: SparkSession, tmp_path: Path) -> Other:
    spark.conf.set("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.ice.type", "hadoop")
    spark.conf.set("spark.sql.catalog.ice.warehouse", str(tmp_path / "ice"))
    folder = tmp_path / "ice" / "db" / "orders"
    return Other(spark, folder, "ice.db.orders", OtherTable(location=str(folder), format="iceberg"))


def rejection(bronze: Bronze, other: Other) -> LakesmithError:
    with pytest.raises(LakesmithError) as caught:
        bronze.run(bronze.table(other.source))
    assert caught.value.hint
    return caught.value


def test_a_delta_table_is_read_in_full_and_then_by_added_rows(bronze: Bronze, delta: Other) -> None:
    table = bronze.table(delta.source)
    delta.sql("CREATE TABLE other (id BIGINT, day STRING) USING delta PARTITIONED BY (day)")
    delta.sql("INSERT INTO other VALUES (1, 'a b'), (2, NULL)")
    assert bronze.run(table) == (2, 0)
    assert bronze.run(table) is None
    delta.sql("INSERT INTO other VALUES (3, 'ä/%+')")
    delta.sql("INSERT INTO other VALUES (4, 'a b')")
    # Merged files hold rows that were read before; their own files tell which are new.
    delta.sql("OPTIMIZE other")
    assert bronze.run(table) == (2, 0)
    assert bronze.rows("id", "day", "_run_id", "length(_row_hash)") == [
        (1, "a b", "run-1", 32),
        (2, None, "run-1", 32),
        (3, "ä/%+", "run-2", 32),
        (4, "a b", "run-2", 32),
    ]
    assert bronze.staged == []


def test_a_pinned_version_is_read_although_the_table_has_newer_versions(bronze: Bronze, delta: Other) -> None:
    table = bronze.table(delta.source)
    delta.sql("CREATE TABLE other (id BIGINT) USING delta")
    delta.sql("INSERT INTO other VALUES (1)")
    batch = bronze.pin(table)
    assert batch is not None
    delta.sql("INSERT INTO other VALUES (2)")
    assert [row.id for row in bronze.read(table, batch).collect()] == [1]


def test_a_column_that_was_added_renamed_or_nested_arrives_with_its_rows(bronze: Bronze, delta: Other) -> None:
    table = bronze.table(delta.source)
    delta.sql(
        "CREATE TABLE other (id BIGINT, `to` STRUCT<city: STRING>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    delta.sql("INSERT INTO other VALUES (1, named_struct('city', 'Ulm'))")
    assert bronze.run(table) == (1, 0)
    delta.sql("ALTER TABLE other ADD COLUMNS (note STRING, `to`.zip STRING)")
    delta.sql("ALTER TABLE other RENAME COLUMN note TO remark")
    delta.sql("INSERT INTO other VALUES (2, named_struct('city', 'Bonn', 'zip', '53111'), 'new')")
    assert bronze.run(table) == (1, 0)
    assert bronze.rows("id", "`to`.city", "`to`.zip", "remark") == [(1, "Ulm", None, None), (2, "Bonn", "53111", "new")]


@pytest.mark.parametrize(
    "statement", ["DELETE FROM other WHERE id = 1", "UPDATE other SET id = 5", "INSERT OVERWRITE other VALUES (9)"]
)
def test_rows_that_changed_without_a_change_feed_are_rejected(bronze: Bronze, delta: Other, statement: str) -> None:
    delta.sql("CREATE TABLE other (id BIGINT) USING delta")
    delta.sql("INSERT INTO other VALUES (1), (2)")
    bronze.run(bronze.table(delta.source))
    delta.sql(statement)
    found = rejection(bronze, delta)
    assert (found.code, found.exit_code) == ("not-append-only", 1)
    assert bronze.rows("id") == [(1,), (2,)]


def test_a_change_feed_provides_updates_and_deletes(bronze: Bronze, delta: Other) -> None:
    table = bronze.table(delta.source)
    delta.sql(
        "CREATE TABLE other (id BIGINT, amount INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    delta.sql("INSERT INTO other VALUES (1, 10), (2, 20)")
    assert bronze.run(table) == (2, 0)
    delta.sql("UPDATE other SET amount = 11 WHERE id = 1")
    delta.sql("DELETE FROM other WHERE id = 2")
    delta.sql("INSERT INTO other VALUES (3, 30)")
    assert bronze.run(table) == (3, 0)
    changes = bronze.rows("id", "amount", "_op", "int(_change_position)", "_before", order="_change_position, id")
    assert changes == [
        (1, 10, "insert", 1, None),
        (2, 20, "insert", 1, None),
        (1, 11, "update", 2, None),
        (2, 20, "delete", 3, '{"id":2,"amount":20}'),
        (3, 30, "insert", 4, None),
    ]
    assert bronze.rows("_changed_at IS NULL", order="_change_position, id") == [(True,)] * 2 + [(False,)] * 3


def test_a_later_enabled_change_feed_is_used_from_then_on(bronze: Bronze, delta: Other) -> None:
    table = bronze.table(delta.source)
    delta.sql("CREATE TABLE other (id BIGINT) USING delta")
    delta.sql("INSERT INTO other VALUES (1)")
    assert bronze.run(table) == (1, 0)
    delta.sql("INSERT INTO other VALUES (2)")
    delta.sql("ALTER TABLE other SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert bronze.run(table) == (1, 0)
    delta.sql("DELETE FROM other WHERE id = 1")
    assert bronze.run(table) == (1, 0)
    assert bronze.rows("id", "_op", order="_run_id, id") == [(1, None), (2, None), (1, "delete")]


def test_a_log_that_was_cleaned_up_is_a_gap(bronze: Bronze, delta: Other) -> None:
    delta.sql("CREATE TABLE other (id BIGINT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    delta.sql("INSERT INTO other VALUES (1)")
    bronze.run(bronze.table(delta.source))
    for number in (2, 3, 4):
        delta.sql(f"INSERT INTO other VALUES ({number})")
    (delta.folder / "_delta_log" / f"{2:020}.json").unlink()
    assert rejection(bronze, delta).code == "source-gap"


def test_files_that_were_vacuumed_before_they_were_read_are_a_gap(bronze: Bronze, delta: Other) -> None:
    delta.sql("CREATE TABLE other (id BIGINT) USING delta")
    delta.sql("INSERT INTO other VALUES (1)")
    bronze.run(bronze.table(delta.source))
    delta.sql("INSERT INTO other VALUES (2)")
    delta.sql("OPTIMIZE other")
    delta.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    delta.spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # VACUUM: ten thousand tasks
    delta.sql("VACUUM other RETAIN 0 HOURS")
    assert rejection(bronze, delta).code == "source-gap"


def test_a_table_that_was_recreated_is_rejected(bronze: Bronze, delta: Other) -> None:
    for _ in range(2):
        delta.sql("CREATE TABLE other (id BIGINT) USING delta")
        delta.sql("INSERT INTO other VALUES (1)")
        if bronze.sequence == 0:
            bronze.run(bronze.table(delta.source))
            shutil.rmtree(delta.folder)
    assert rejection(bronze, delta).code == "source-replaced"


def test_a_bronze_table_of_another_lake_has_columns_that_cannot_be_copied(bronze: Bronze, delta: Other) -> None:
    delta.sql("CREATE TABLE other (id BIGINT, _run_id STRING) USING delta")
    assert rejection(bronze, delta).code == "reserved-column"


def test_an_iceberg_table_is_read_in_full_and_then_by_added_rows(bronze: Bronze, iceberg: Other) -> None:
    table = bronze.table(iceberg.source)
    iceberg.sql("CREATE TABLE other (id BIGINT, day DATE) USING iceberg PARTITIONED BY (day)")
    assert bronze.run(table) is None
    iceberg.sql("INSERT INTO other VALUES (1, DATE '2024-01-01')")
    assert bronze.run(table) == (1, 0)
    assert bronze.run(table) is None
    iceberg.sql("INSERT INTO other VALUES (2, DATE '2024-01-01')")
    iceberg.sql("INSERT INTO other VALUES (3, NULL)")
    iceberg.sql("CALL ice.system.rewrite_data_files(table => 'db.orders', options => map('rewrite-all', 'true'))")
    assert bronze.run(table) == (2, 0)
    iceberg.sql("ALTER TABLE other ADD COLUMN note STRING")
    iceberg.sql("INSERT INTO other VALUES (4, NULL, 'new')")
    assert bronze.run(table) == (1, 0)
    found = bronze.rows("id", "CAST(day AS string)", "note")
    assert found == [(1, "2024-01-01", None), (2, "2024-01-01", None), (3, None, None), (4, None, "new")]


def test_a_rewrite_of_an_iceberg_table_adds_no_rows(bronze: Bronze, iceberg: Other) -> None:
    table = bronze.table(iceberg.source)
    iceberg.sql("CREATE TABLE other (id BIGINT) USING iceberg")
    iceberg.sql("INSERT INTO other VALUES (1)")
    assert bronze.run(table) == (1, 0)
    iceberg.sql("CALL ice.system.rewrite_data_files(table => 'db.orders', options => map('rewrite-all', 'true'))")
    assert bronze.run(table) == (0, 0)


@pytest.mark.parametrize("statement", ["DELETE FROM other WHERE id = 1", "INSERT OVERWRITE other VALUES (9)"])
def test_rows_of_an_iceberg_table_that_changed_are_rejected(bronze: Bronze, iceberg: Other, statement: str) -> None:
    iceberg.sql("CREATE TABLE other (id BIGINT) USING iceberg")
    iceberg.sql("INSERT INTO other VALUES (1)")
    bronze.run(bronze.table(iceberg.source))
    iceberg.sql(statement)
    assert rejection(bronze, iceberg).code == "not-append-only"


def test_an_expired_snapshot_is_a_gap(bronze: Bronze, iceberg: Other) -> None:
    iceberg.sql("CREATE TABLE other (id BIGINT) USING iceberg")
    iceberg.sql("INSERT INTO other VALUES (1)")
    bronze.run(bronze.table(iceberg.source))
    iceberg.sql("INSERT INTO other VALUES (2)")
    iceberg.sql("CALL ice.system.expire_snapshots('db.orders', TIMESTAMP '2100-01-01 00:00:00', 1)")
    assert rejection(bronze, iceberg).code == "source-gap"


def test_a_metadata_file_of_a_catalog_is_read_by_its_number(bronze: Bronze, iceberg: Other) -> None:
    iceberg.sql("CREATE TABLE other (id BIGINT) USING iceberg")
    iceberg.sql("INSERT INTO other VALUES (1)")
    metadata = iceberg.folder / "metadata"
    for number in (1, 2):
        (metadata / f"v{number}.metadata.json").rename(metadata / f"{number:05}-1a2b.metadata.json")
    (metadata / "version-hint.text").unlink()
    assert bronze.run(bronze.table(iceberg.source)) == (1, 0)
