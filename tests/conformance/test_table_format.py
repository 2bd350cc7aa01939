"""The behaviour of every table format. Add another adapter to `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakesmith.errors import InfrastructureError, UsageError
from lakesmith.formats import Delta, FactsCache
from lakesmith.ports import Capability, DataFile, ReplaceWhere, TableFormat, Upsert, Write
from lakesmith.store import folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FORMATS: dict[str, Callable[[], TableFormat]] = {"delta": Delta}
FLOW = "lakesmith.silver.orders"
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> TableFormat:
    return FORMATS[request.param]()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def write(sequence: int, **settings: object) -> Write:
    basis = Write(flow=FLOW, sequence=sequence, note=f"batch {sequence}", properties=FEED)
    return replace(basis, **settings)  # type: ignore[arg-type]


def rows(spark: SparkSession, *values: tuple[object, ...], columns: str = "id bigint, v string") -> DataFrame:
    return spark.createDataFrame(list(values), columns)


def held(format: TableFormat, place: str, version: int | None = None) -> list[tuple[object, ...]]:
    """Return the rows of a table as an engine without Spark reads them."""
    import pyarrow as pa

    if version is None:
        facts = format.facts(folder_at(place), FLOW)
        assert facts
        version = facts.version
    found = format.arrow(folder_at(place), version)
    table = found.read_all() if isinstance(found, pa.RecordBatchReader) else found.to_table()
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_a_missing_table_has_no_facts(format: TableFormat, place: str) -> None:
    assert format.facts(folder_at(place), FLOW) is None
    assert list(format.commits(folder_at(place))) == []


def test_the_first_append_creates_the_table_with_fence_properties_and_rows_in_one_commit(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    written = format.append(rows(spark, (1, "a"), (2, "b")), folder_at(place), write(1))
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (written.version, written.inserted) == (0, 2)
    assert (facts.version, facts.rows, facts.sequence) == (0, 2, 1)
    assert [(column.name, column.type) for column in facts.columns] == [("id", "bigint"), ("v", "string")]
    assert facts.bytes > 0
    assert facts.files > 0
    assert held(format, place) == [(1, "a"), (2, "b")]


def test_a_committed_batch_is_not_written_again(format: TableFormat, spark: SparkSession, place: str) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    with pytest.raises(InfrastructureError) as caught:
        format.append(rows(spark, (1, "a")), folder_at(place), write(1, note="a twin"))
    assert caught.value.code == "commit-lost"
    assert held(format, place) == [(1, "a")]


def test_an_overwrite_replaces_all_rows_in_one_commit(format: TableFormat, spark: SparkSession, place: str) -> None:
    format.append(rows(spark, (1, "a"), (2, "b")), folder_at(place), write(1))
    written = format.overwrite(rows(spark, (3, "c")), folder_at(place), write(2))
    assert (written.version, written.inserted) == (1, 1)
    assert held(format, place) == [(3, "c")]


def test_an_overwrite_of_some_partitions_keeps_the_others(format: TableFormat, spark: SparkSession, place: str) -> None:
    made = write(1, partition_by=("v",))
    format.append(rows(spark, (1, "a"), (2, "b"), (3, "b")), folder_at(place), made)
    written = format.overwrite(
        rows(spark, (9, "b")), folder_at(place), replace(made, sequence=2, note="2"), ReplaceWhere("`v` IN ('b')")
    )
    assert written.inserted == 1
    assert held(format, place) == [(1, "a"), (9, "b")]
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert facts.partition_by == ("v",)


def test_a_merge_updates_newer_rows_and_inserts_new_keys(format: TableFormat, spark: SparkSession, place: str) -> None:
    format.append(rows(spark, (1, "a"), (2, "z")), folder_at(place), write(1))
    newer = "source.v > target.v"
    written = format.merge(
        Upsert(rows=rows(spark, (1, "b"), (2, "y"), (3, "c")), key=("id",), newer=newer), folder_at(place), write(2)
    )
    assert (written.considered, written.inserted, written.updated) == (3, 1, 1)
    assert held(format, place) == [(1, "b"), (2, "z"), (3, "c")]


@pytest.mark.parametrize("deletion_vectors", [False, True])
def test_a_merge_that_only_updates_reports_no_inserts(
    format: TableFormat, spark: SparkSession, place: str, deletion_vectors: bool
) -> None:
    format.append(rows(spark, (1, "a"), (2, "b"), (3, "c")), folder_at(place), write(1))
    upsert = Upsert(rows=rows(spark, (2, "z")), key=("id",), newer="true")
    written = format.merge(upsert, folder_at(place), write(2, deletion_vectors=deletion_vectors))
    assert (written.inserted, written.updated, written.deleted) == (0, 1, 0)


@pytest.mark.parametrize("deletion_vectors", [False, True])
def test_nondeterministic_rows_are_written_once(
    format: TableFormat, spark: SparkSession, place: str, deletion_vectors: bool
) -> None:
    format.append(spark.sql("SELECT id, 'old' AS v FROM range(60)"), folder_at(place), write(1))
    # Each row randomly matches a row of the table or not, and this changes with every computation.
    chance = "CAST(java_method('java.lang.Math', 'random') AS double) < 0.5"
    source = spark.sql(f"SELECT IF({chance}, id, id + 1000) AS id, 'new' AS v FROM range(60)")
    assert source.collect() != source.collect()
    written = format.merge(
        Upsert(rows=source, key=("id",), newer="true"), folder_at(place), write(2, deletion_vectors=deletion_vectors)
    )
    table = held(format, place)
    found = {row[0]: row[1] for row in table}
    assert len(found) == len(table)
    assert all((found[id] == "new") != (id + 1000 in found) for id in range(60))
    assert written.inserted + written.updated == 60


def test_a_merge_leaves_no_setting_that_skips_the_next_write(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    format.merge(Upsert(rows=rows(spark, (2, "b")), key=("id",), newer="false"), folder_at(place), write(2))
    spark.createDataFrame([(3, "c")], "id bigint, v string").write.format("delta").mode("append").save(place)
    assert len(held(format, place)) == 3


def test_a_committed_batch_is_not_merged_again(format: TableFormat, spark: SparkSession, place: str) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    format.merge(Upsert(rows=rows(spark, (2, "b")), key=("id",), newer="false"), folder_at(place), write(2))
    with pytest.raises(InfrastructureError):
        format.merge(
            Upsert(rows=rows(spark, (3, "c")), key=("id",), newer="false"), folder_at(place), write(2, note="a twin")
        )
    assert held(format, place) == [(1, "a"), (2, "b")]


def test_the_change_feed_has_inserts_updates_and_deletes_between_two_versions(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a"), (2, "b")), folder_at(place), write(1))
    format.merge(Upsert(rows=rows(spark, (1, "x"), (3, "c")), key=("id",), newer="true"), folder_at(place), write(2))
    format.overwrite(rows(spark, (3, "c")), folder_at(place), write(3))
    found = format.changes(spark, folder_at(place), 0, 1).select("id", "v", "_change_type").collect()
    assert sorted((row.id, row.v, row._change_type) for row in found) == [
        (1, "a", "update_preimage"),
        (1, "x", "update_postimage"),
        (3, "c", "insert"),
    ]
    later = format.changes(spark, folder_at(place), 1, 2).where("_change_type = 'delete'").collect()
    assert {row.id for row in later} >= {1, 2}


def test_an_earlier_version_can_be_read_with_and_without_spark(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    format.append(rows(spark, (2, "b")), folder_at(place), write(2))
    assert [tuple(row) for row in format.read(spark, folder_at(place), 0).collect()] == [(1, "a")]
    assert held(format, place, 0) == [(1, "a")]


def test_a_version_that_never_existed_is_an_error_with_a_next_step(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    with pytest.raises(UsageError) as caught:
        format.arrow(folder_at(place), 99)
    assert caught.value.code == "unknown-version"
    with pytest.raises(UsageError) as caught:
        format.version_at(folder_at(place), datetime(2020, 1, 1, tzinfo=UTC))
    assert caught.value.code == "before-first-version"


def test_the_version_at_a_time_is_the_newest_committed_one(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    for number in (1, 2, 3):
        format.append(rows(spark, (number, "a")), folder_at(place), write(number))
    for commit in format.commits(folder_at(place)):
        assert format.version_at(folder_at(place), commit.committed_at) == commit.version


def test_commits_are_listed_newest_first_with_note_and_metrics(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    format.append(rows(spark, (2, "b"), (3, "c")), folder_at(place), write(2))
    newest, oldest = format.commits(folder_at(place))
    assert (newest.version, newest.note, oldest.note) == (1, "batch 2", "batch 1")
    assert format.commit_result(newest).inserted == 2


def test_a_new_column_is_added_with_the_rows_of_an_append_and_of_a_merge(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    wider = rows(spark, (2, "b", 7), columns="id bigint, v string, n int")
    format.append(wider, folder_at(place), write(2, evolve=True))
    widest = rows(spark, (1, "c", 8, True), columns="id bigint, v string, n int, ok boolean")
    format.merge(Upsert(rows=widest, key=("id",), newer="true"), folder_at(place), write(3, evolve=True))
    assert held(format, place) == [(1, "c", 8, True), (2, "b", 7, None)]


def test_the_sequence_number_can_advance_without_rows(format: TableFormat, spark: SparkSession, place: str) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    assert format.advance(folder_at(place), write(2)).version == 1
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (facts.sequence, facts.rows, facts.version) == (2, 1, 1)


def test_a_column_is_widened_with_rows_or_without(format: TableFormat, spark: SparkSession, place: str) -> None:
    narrow, wide = "id int, v string, s struct<n:int>", "id bigint, v string, s struct<n:bigint>"
    format.append(rows(spark, (1, "a", (2,)), columns=narrow), folder_at(place), write(1))
    format.append(
        rows(spark, (1 << 40, "b", (1 << 41,)), columns=wide), folder_at(place), write(2, evolve=True, widen=True)
    )
    assert held(format, place) == [(1, "a", {"n": 2}), (1 << 40, "b", {"n": 1 << 41})]
    assert format.changed_types(folder_at(place), 0) == ["id", "s.n"]
    version = format.advance(folder_at(place), write(3), spark).version
    assert format.changed_types(folder_at(place), version) == []
    format.widen(spark, folder_at(place), {"ID": "decimal(20,0)"})
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (facts.widened, facts.rows, facts.sequence, facts.columns[0].type) == (True, 2, 3, "decimal(20,0)")
    assert format.changed_types(folder_at(place), version) == ["id"]
    # Also a version with narrower types.
    changes = format.changes(spark.newSession(), folder_at(place), -1, version)
    assert sorted((int(row.id), row.s.n) for row in changes.collect()) == [(1, 2), (1 << 40, 1 << 41)]


def test_a_widened_table_with_deletion_vectors_is_read_correctly(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    made = write(1, deletion_vectors=True)
    narrow, wide = "id int, v string", "id bigint, v string"
    format.append(rows(spark, (1, "a"), (2, "b"), (3, "c"), columns=narrow), folder_at(place), made)
    format.widen(spark, folder_at(place), {"id": "bigint"})
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 2").collect()
    format.append(rows(spark, (1 << 40, "d"), columns=wide), folder_at(place), write(2))
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (facts.widened, facts.rows) == (True, 3)
    assert held(format, place) == [(1, "a"), (1 << 40, "d"), (3, "c")]


def test_column_names_are_quoted_wherever_they_are_used(format: TableFormat, spark: SparkSession, place: str) -> None:
    odd = "`select` bigint, `a-b'c` string"
    format.append(rows(spark, (1, "a"), columns=odd), folder_at(place), write(1))
    format.merge(
        Upsert(rows=rows(spark, (1, "b"), columns=odd), key=("select",), newer="true"), folder_at(place), write(2)
    )
    assert held(format, place) == [(1, "b")]


def test_cached_facts_are_correct_and_refreshed_after_a_commit(spark: SparkSession, place: str, tmp_path: Path) -> None:
    file, folder = tmp_path / "facts.json", folder_at(place)
    Delta().append(rows(spark, (1, "a")), folder, write(1))
    first = FactsCache(file)
    facts = Delta(first).facts(folder, FLOW)
    first.save()
    assert FactsCache(file).get(folder, FLOW) == facts
    Delta().append(rows(spark, (2, "b")), folder, write(2))
    assert FactsCache(file).get(folder, FLOW) is None


def test_rows_in_deletion_vectors_are_not_read(format: TableFormat, spark: SparkSession, place: str) -> None:
    made = write(1, properties={"delta.enableDeletionVectors": "true"})
    format.append(spark.range(100).selectExpr("id", "'a' AS v").coalesce(1), folder_at(place), made)
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id < 90")
    assert len(held(format, place)) == 10
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert facts.rows == 10


def test_an_adapter_declares_its_capabilities(format: TableFormat) -> None:
    assert format.capabilities <= frozenset(Capability)
    assert Capability.APPEND in format.capabilities


@pytest.fixture(autouse=True)
def _own_session(spark: SparkSession) -> Iterator[None]:
    yield
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def parquet(place: str, name: str, *values: tuple[int, str]) -> DataFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(place) / name
    path.parent.mkdir(exist_ok=True)
    ids, texts = zip(*values, strict=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(texts)}), path)
    return DataFile(name, path.stat().st_size, len(values))


COLUMNS = """{"type": "struct", "fields": [
    {"name": "id", "type": "long", "nullable": true, "metadata": {}},
    {"name": "v", "type": "string", "nullable": true, "metadata": {}}]}"""


def test_external_files_create_a_table_and_are_added_to_it(
    format: TableFormat, spark: SparkSession, place: str
) -> None:
    assert format.accepts_files(folder_at(place))
    first = format.add([parquet(place, "1.parquet", (1, "a"), (2, "b"))], COLUMNS, folder_at(place), write(1), None)
    assert (first.version, first.inserted, first.files) == (0, 2, 1)
    assert format.accepts_files(folder_at(place))
    second = format.add(
        [parquet(place, "2.parquet", (3, "c"))], COLUMNS, folder_at(place), write(2), id_of(format, place)
    )
    assert (second.version, second.inserted) == (1, 1)
    format.append(rows(spark, (4, "d")), folder_at(place), write(3))
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (facts.rows, facts.sequence, facts.change_feed) == (4, 3, True)
    assert sorted(format.read(spark, folder_at(place), 1).collect()) == [(1, "a"), (2, "b"), (3, "c")]
    changed = format.changes(spark, folder_at(place), 0, 2).select("id", "_change_type").collect()
    assert sorted(changed) == [(3, "insert"), (4, "insert")]


def test_files_of_a_committed_batch_are_not_added_again(format: TableFormat, place: str) -> None:
    file = parquet(place, "1.parquet", (1, "a"))
    format.add([file], COLUMNS, folder_at(place), write(1), None)
    with pytest.raises(InfrastructureError) as caught:
        format.add([file], COLUMNS, folder_at(place), write(1, note="a twin"), id_of(format, place))
    assert caught.value.code == "commit-lost"
    # The reply to its own commit may be lost: then the commit is in the log, and is returned.
    assert format.add([file], COLUMNS, folder_at(place), write(1), id_of(format, place)).inserted == 1
    assert held(format, place) == [(1, "a")]


def test_one_of_two_concurrent_writers_of_a_batch_wins(format: TableFormat, place: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    files = [parquet(place, f"{number}.parquet", (number, "x")) for number in range(8)]

    def add(number: int) -> bool:
        try:
            format.add([files[number]], COLUMNS, folder_at(place), write(1, note=str(number)), None)
        except InfrastructureError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(add, range(8)))
    assert won.count(True) == 1
    assert held(format, place) == [(won.index(True), "x")]


def test_concurrent_files_of_other_flows_are_all_added(format: TableFormat, place: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    format.add([parquet(place, "first.parquet", (-1, "x"))], COLUMNS, folder_at(place), write(1), None)
    files, made = [parquet(place, f"{number}.parquet", (number, "x")) for number in range(6)], id_of(format, place)

    def add(number: int) -> None:
        format.add([files[number]], COLUMNS, folder_at(place), write(1, flow=f"flow {number}", note=str(number)), made)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, range(6)))
    assert sorted(held(format, place)) == [(number, "x") for number in range(-1, 6)]


def test_files_are_not_added_to_a_recreated_table(format: TableFormat, spark: SparkSession, place: str) -> None:
    import shutil

    file = parquet(place, "1.parquet", (1, "a"))
    format.append(rows(spark, (7,), columns="other bigint"), folder_at(place), write(1, flow="somebody else"))
    for expected in (None, "another id", id_of(format, place)):
        with pytest.raises(InfrastructureError) as caught:
            format.add([file], COLUMNS, folder_at(place), write(2), expected)
        assert caught.value.code == "commit-conflict"
    assert held(format, place) == [(7,)]
    shutil.rmtree(place)
    file = parquet(place, "1.parquet", (1, "a"))
    with pytest.raises(InfrastructureError):
        format.add([file], COLUMNS, folder_at(place), write(2), "the id of a table that was dropped")
    assert format.facts(folder_at(place), FLOW) is None


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id > 0)",
    ],
)
def test_a_table_that_needs_a_newer_writer_accepts_no_files(
    format: TableFormat, spark: SparkSession, place: str, statement: str
) -> None:
    format.append(rows(spark, (1, "a")), folder_at(place), write(1))
    assert format.accepts_files(folder_at(place))
    spark.sql(statement.format(table=f"delta.`{place}`")).collect()
    assert not format.accepts_files(folder_at(place))


def test_a_table_with_a_required_column_accepts_no_files(format: TableFormat, spark: SparkSession, place: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{place}` (id bigint NOT NULL, v string) USING delta").collect()
    assert not format.accepts_files(folder_at(place))


def id_of(format: TableFormat, place: str) -> str:
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    return facts.table_id
