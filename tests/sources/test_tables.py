"""New versions of another lake's table, from its log without a JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakesmith.declare import Append, OtherTable, Table, TableName
from lakesmith.errors import LakesmithError, Place
from lakesmith.sources.tables import new_versions, newest_metadata

ROWS = pa.table({"id": [1, 2]})


def table(source: OtherTable) -> Table:
    at = Place("bronze/orders.yml")
    return Table(name=TableName("bronze", "orders"), origin=source, load=Append(), declared_at=at)


def delta(folder: Path) -> OtherTable:
    return OtherTable(location=str(folder), format="delta")


def iceberg(folder: Path) -> OtherTable:
    return OtherTable(location=str(folder), format="iceberg")


def metadata(folder: Path, name: str, snapshot: int | None = None) -> Path:
    """Write a metadata file by the Iceberg specification."""
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    snapshots = [] if snapshot is None else [{"snapshot-id": snapshot, "timestamp-ms": 1, "manifest-list": "m.avro"}]
    fields = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": str(folder),
        "last-sequence-number": 0,
        "last-updated-ms": 1,
        "last-column-id": 0,
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "current-snapshot-id": snapshot,
        "snapshots": snapshots,
    }
    file = folder / "metadata" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(fields))
    return file


def rejection(source: OtherTable, reached: dict[str, int | str] | None = None) -> LakesmithError:
    with pytest.raises(LakesmithError) as caught:
        new_versions(table(source), source, reached or {})
    assert caught.value.hint
    return caught.value


def test_the_newest_version_of_a_delta_table_is_new_until_it_is_read(tmp_path: Path) -> None:
    source = delta(tmp_path / "orders")
    write_deltalake(source.location, ROWS)
    first = new_versions(table(source), source, {})
    assert first is not None
    assert (first.since, first.until["version"]) == ({}, 0)
    assert first.until["table_id"] == str(DeltaTable(source.location).metadata().id)
    assert new_versions(table(source), source, first.until) is None
    write_deltalake(source.location, ROWS, mode="append")
    second = new_versions(table(source), source, first.until)
    assert second is not None
    assert (second.since, second.until["version"]) == (first.until, 1)


def test_a_recreated_table_is_another_table(tmp_path: Path) -> None:
    source = delta(tmp_path / "orders")
    write_deltalake(source.location, ROWS)
    first = new_versions(table(source), source, {})
    assert first is not None
    shutil.rmtree(source.location)
    write_deltalake(source.location, ROWS)
    assert rejection(source, dict(first.until)).code == "source-replaced"


@pytest.mark.parametrize("source", [delta, iceberg])
def test_a_missing_table_is_named(tmp_path: Path, source: type) -> None:
    found = rejection(source(tmp_path / "nowhere"))
    assert (found.code, found.exit_code) == ("source-missing", 1)
    assert str(tmp_path / "nowhere") in found.what


def test_a_corrupt_log_is_an_error_of_the_other_lake(tmp_path: Path) -> None:
    source = delta(tmp_path / "orders")
    write_deltalake(source.location, ROWS)
    (tmp_path / "orders" / "_delta_log" / f"{0:020}.json").write_text("{")
    assert rejection(source).code == "source-unreadable"
    metadata(tmp_path / "ice", "v1.metadata.json").write_text("{")
    assert rejection(iceberg(tmp_path / "ice")).code == "source-unreadable"


def test_the_snapshot_of_an_iceberg_table_is_new_until_it_is_read(tmp_path: Path) -> None:
    source = iceberg(tmp_path)
    metadata(tmp_path, "v1.metadata.json")
    assert new_versions(table(source), source, {}) is None
    metadata(tmp_path, "v2.metadata.json", 3051729675574597004)
    found = new_versions(table(source), source, {})
    assert found is not None
    assert found.until == {"version": 3051729675574597004, "table_id": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}
    assert new_versions(table(source), source, found.until) is None


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["v9.metadata.json", "v10.metadata.json"], "v10.metadata.json"),
        (["00001-a.metadata.json", "00002-b.gz.metadata.json", "x-m0.avro"], "00002-b.gz.metadata.json"),
    ],
)
def test_the_metadata_file_with_the_highest_number_is_used(tmp_path: Path, names: list[str], newest: str) -> None:
    for name in names:
        metadata(tmp_path, name)
    source = iceberg(tmp_path)
    assert newest_metadata(table(source), source) == f"{tmp_path}/metadata/{newest}"


def test_two_metadata_files_with_one_number_are_an_error(tmp_path: Path) -> None:
    for name in ("00001-a.metadata.json", "00001-b.metadata.json"):
        chosen = metadata(tmp_path, name, 1)
    assert rejection(iceberg(tmp_path)).code == "metadata-unclear"
    source = iceberg(chosen)
    assert new_versions(table(source), source, {}) is not None
