"""A merge with deletion vectors has the same result as MERGE, and falls back to MERGE where it must."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakesmith.columns import DELETE_ROW
from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats import Delta
from lakesmith.formats.delta import commit, dv_merge, spark_writes
from lakesmith.formats.delta.deletion_vectors import read_vector
from lakesmith.ports import Upsert, Write
from lakesmith.store import folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FLOW = "lakesmith.silver.x"
FEED = {"delta.enableChangeDataFeed": "true"}
NEWER = "struct(source.at, source.v) > struct(target.at, target.v)"
BY_ORDER = ("source.at > target.at", "source.at = target.at")
Rows = dict[int, tuple[int, str]]


FEW = pytest.mark.parametrize("few", [False, True], ids=["by Spark", "few"])
"""The merge of few rows, which the driver writes, has the same result."""


def write(sequence: int, *, few: bool = False) -> Write:
    note = f"batch {sequence}"
    return Write(flow=FLOW, sequence=sequence, note=note, properties=FEED, deletion_vectors=True, few=few)


def frame(spark: SparkSession, rows: list[tuple[int, int, str, bool]]) -> DataFrame:
    return spark.createDataFrame(rows, f"id bigint, at int, v string, {DELETE_ROW} boolean")


def upsert(
    rows: DataFrame, newer: str = NEWER, extra_match: str | None = None, by_order: tuple[str, str] | None = None
) -> Upsert:
    return Upsert(rows=rows, key=("id",), newer=newer, extra_match=extra_match, by_order=by_order)


def merged(before: Rows, batch: list[tuple[int, int, str, bool]]) -> Rows:
    after = dict(before)
    for id, at, v, gone in batch:
        held = before.get(id)
        if held is not None and (at, v) <= held:
            continue
        if gone:
            after.pop(id, None)
        else:
            after[id] = (at, v)
    return after


def held(found: list[tuple[int, int, str]]) -> Rows:
    assert len({row[0] for row in found}) == len(found)
    return {id: (at, v) for id, at, v in found}


@FEW
def test_many_batches_give_the_rows_of_the_model(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    monkeypatch.setattr(commit, "_INTERVAL", 2)
    place, format, drawn = str(tmp_path / "a table"), Delta(), random.Random(7)
    model: Rows = dict.fromkeys(range(200), (0, "first"))
    format.append(
        frame(spark, [(id, at, v, False) for id, (at, v) in model.items()]).drop(DELETE_ROW),
        folder_at(place),
        write(1, few=few),
    )
    seen = [model]
    for number in range(2, 6):
        ids = drawn.sample(range(250), 60)
        batch = [(id, drawn.randrange(4), drawn.choice("abc"), drawn.random() < 0.2) for id in ids]
        after = merged(model, batch)
        given = upsert(frame(spark, batch), by_order=BY_ORDER)
        written = format.merge(given, folder_at(place), write(number, few=few))
        gone, new = model.keys() - after.keys(), after.keys() - model.keys()
        changed = [id for id in model.keys() & after.keys() if model[id] != after[id]]
        assert (written.inserted, written.updated, written.deleted) == (len(new), len(changed), len(gone)), number
        model = after
        seen.append(model)
    versions = DeltaTable(place).version()
    assert versions + 1 == len(seen), "one commit a batch"
    rows = spark.read.format("delta").load(place).collect()
    assert held([(row.id, row["at"], row.v) for row in rows]) == model
    facts = format.facts(folder_at(place), FLOW)
    assert facts
    assert (facts.rows, facts.sequence) == (len(model), 5)
    arrow = format.arrow(folder_at(place), facts.version)
    table = arrow.to_table() if hasattr(arrow, "to_table") else arrow.read_all()
    assert held([(row["id"], row["at"], row["v"]) for row in table.to_pylist()]) == model
    # The changes after a version lead from it to the newest version.
    start = versions - 3
    feed = format.changes(spark, folder_at(place), start, versions).orderBy("_commit_version").collect()
    state = set(seen[start].items())
    for version in range(start + 1, versions + 1):
        join = [row for row in feed if row._commit_version == version]
        state -= {(row.id, (row["at"], row.v)) for row in join if row._change_type == "delete"}
        state |= {(row.id, (row["at"], row.v)) for row in join if row._change_type == "insert"}
    assert dict(state) == model
    # Every second commit writes a checkpoint.
    assert (Path(place) / "_delta_log" / f"{4:020}.checkpoint.parquet").exists()


def test_merges_continue_after_deletes_and_optimize_of_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_INTERVAL", 2)
    place, format = str(tmp_path / "a table"), Delta()
    format.append(
        frame(spark, [(id, 0, "first", False) for id in range(200)]).drop(DELETE_ROW), folder_at(place), write(1)
    )
    batch = [(id, 1, "second", id % 5 == 0) for id in range(50, 220)]
    format.merge(upsert(frame(spark, batch), by_order=BY_ORDER), folder_at(place), write(2))
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id < 100").collect()
    spark.sql(f"OPTIMIZE delta.`{place}`").collect()
    left = {id for id in range(100, 220) if id % 5}
    assert {row.id for row in spark.read.format("delta").load(place).collect()} == left
    format.merge(upsert(frame(spark, [(1, 9, "z", False)])), folder_at(place), write(99))
    rows = [row.id for row in spark.read.format("delta").load(place).collect()]
    assert sorted(rows) == sorted({1} | left)


def test_the_merge_reads_the_table_once_and_only_the_needed_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, format = str(tmp_path / "t"), Delta()
    format.append(frame(spark, [(n, 1, "x", False) for n in range(50)]).drop(DELETE_ROW), folder_at(place), write(1))
    plans = []
    meet: Callable[..., DataFrame] = dv_merge._join

    def join(*given: object) -> DataFrame:
        found = meet(*given)
        plans.append(found._jdf.queryExecution().executedPlan().toString())
        return found

    monkeypatch.setattr(dv_merge, "_join", join)
    format.merge(
        upsert(frame(spark, [(7, 2, "y", False), (99, 1, "n", False)]), by_order=BY_ORDER), folder_at(place), write(2)
    )
    assert len(plans) == 1
    assert "BroadcastHashJoin" in plans[0]
    assert "ReadSchema: struct<id:bigint,at:int" in plans[0]
    assert "v:string" not in plans[0]
    format.merge(
        upsert(frame(spark, [(7, 2, "z", False), (8, 3, "n", False)]), by_order=BY_ORDER), folder_at(place), write(3)
    )
    assert len(plans) == 3, "rows with the same time are ordered by their other columns"
    row = spark.read.format("delta").load(place).where("id = 7").collect()
    assert [each.v for each in row] == ["z"]


def test_rows_outside_the_bounds_of_a_batch_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    place, format = str(tmp_path / "t"), Delta()
    format.append(frame(spark, [(n, 1, "x", False) for n in range(50)]).drop(DELETE_ROW), folder_at(place), write(1))
    format.merge(upsert(frame(spark, [(n, 1, "x", False) for n in range(100, 150)])), folder_at(place), write(2))
    actions = [json.loads(line) for line in (Path(place) / "_delta_log" / f"{1:020}.json").read_text().splitlines()]
    stats = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]
    assert min(each["minValues"]["id"] for each in stats) == 100
    # A file whose bounds exclude the batch can be missing, because it is not read.
    for path in Path(place).glob("part-*.parquet"):
        path.rename(path.with_suffix(".hidden"))
    format.merge(upsert(frame(spark, [(120, 2, "y", False)])), folder_at(place), write(3))
    join = [json.loads(line) for line in (Path(place) / "_delta_log" / f"{2:020}.json").read_text().splitlines()]
    vector = next(a["add"]["deletionVector"] for a in join if a.get("add", {}).get("deletionVector"))
    assert (len(read_vector(folder_at(place), vector)), vector["cardinality"]) == (1, 1)


def test_bounds_of_files_contain_every_value(spark: SparkSession, tmp_path: Path) -> None:
    place, format = str(tmp_path / "t"), Delta()
    far, rate = "TIMESTAMP'9999-12-31 23:59:59.999999'", "0.123456789012345671"
    join = f"CAST('{rate}' AS decimal(38,18)) AS rate, {far} AS until, DATE'+12345-01-01' AS day"
    format.append(spark.sql(f"SELECT id, {join} FROM range(4)"), folder_at(place), write(1))
    batch = spark.sql(f"SELECT id, {join} FROM range(3, 4)")
    for sequence in (2, 3):
        format.merge(upsert(batch, newer="true"), folder_at(place), write(sequence))
        found = spark.read.format("delta").load(place).where(f"rate = {rate} AND until = {far} AND day > '9999-12-31'")
        assert sorted(row.id for row in found.select("id").collect()) == [0, 1, 2, 3]


def test_one_of_two_writers_of_a_version_wins(spark: SparkSession, tmp_path: Path) -> None:
    place, format = str(tmp_path / "t"), Delta()
    format.append(frame(spark, [(1, 1, "x", False)]).drop(DELETE_ROW), folder_at(place), write(1))
    format.merge(upsert(frame(spark, [(2, 1, "x", False)])), folder_at(place), write(2))
    table = DeltaTable(place)
    format.merge(upsert(frame(spark, [(3, 1, "x", False)])), folder_at(place), write(3))
    late = upsert(frame(spark, [(4, 1, "x", False)]))
    with pytest.raises(InfrastructureError) as caught:
        dv_merge.merge_by_vectors(*dv_merge.pin_rows(late, table), table, folder_at(place), write(4))
    assert caught.value.code == "commit-conflict"
    twin = Write(flow=FLOW, sequence=3, note="a twin", deletion_vectors=True)
    with pytest.raises(InfrastructureError) as again:
        format.merge(upsert(frame(spark, [(5, 1, "x", False)])), folder_at(place), twin)
    assert again.value.code == "commit-lost"
    assert sorted(row.id for row in spark.read.format("delta").load(place).collect()) == [1, 2, 3]


@FEW
def test_two_rows_of_a_batch_with_one_key_are_rejected(spark: SparkSession, tmp_path: Path, few: bool) -> None:
    place, format = str(tmp_path / "t"), Delta()
    format.append(frame(spark, [(1, 1, "x", False)]).drop(DELETE_ROW), folder_at(place), write(1))
    rows = upsert(frame(spark, [(1, 2, "y", False), (1, 3, "z", False)]), newer="true")
    with pytest.raises(DataError) as caught:
        format.merge(rows, folder_at(place), write(2, few=few))
    assert caught.value.code == "key-twice"


UNSUPPORTED_CHANGES = (
    "ALTER TABLE delta.`{0}` ADD CONSTRAINT positive CHECK (id > 0)",
    "ALTER TABLE delta.`{0}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "ALTER TABLE delta.`{0}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "ALTER TABLE delta.`{0}` ADD COLUMNS (more string)",
)


def test_a_table_that_needs_a_newer_writer_falls_back_to_merge(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    format, batch = Delta(), frame(spark, [(1, 2, "y", False)])
    monkeypatch.setattr(spark_writes, "merge_by_vectors", None)
    plain = place = str(tmp_path / "plain")
    feature = {"delta.enableDeletionVectors": "true"}
    format.append(
        frame(spark, [(1, 1, "x", False)]).drop(DELETE_ROW), folder_at(plain), replace(write(1), properties=feature)
    )
    assert dv_merge.can_merge_by_vectors(DeltaTable(plain), batch, folder_at(plain))
    for number, change in enumerate(UNSUPPORTED_CHANGES):
        place = str(tmp_path / str(number))
        shutil.copytree(plain, place)
        spark.sql(change.format(place)).collect()
        assert not dv_merge.can_merge_by_vectors(DeltaTable(place), batch, folder_at(place)), change
    assert format.merge(upsert(batch), folder_at(place), write(2)).updated == 1
