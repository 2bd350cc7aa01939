"""Tests of reading a version into Arrow: the values, the file names, and the threads that read."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import write_deltalake

from lakesmith.formats.delta.arrow_reader import read_arrow

ODD = ("a b", "a%20b", "é?#:", "x/y", "d=d", "100%", '"q"', "a+b", "*", "{a}")


def test_partitions_with_odd_values_are_read(tmp_path: Path) -> None:
    location = str(tmp_path / "a table")
    write_deltalake(location, pa.table({"kind": ODD, "id": range(len(ODD))}), partition_by=["kind"])
    rows = read_arrow(location, 0)
    assert isinstance(rows, pa.dataset.Dataset)
    assert dict(zip(*rows.to_table().select(["kind", "id"]).to_pydict().values(), strict=True)) == {
        kind: number for number, kind in enumerate(ODD)
    }


def test_files_are_read_without_python(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    write_deltalake(location, pa.table({"id": range(10)}))
    rows = read_arrow(location, 0)
    assert isinstance(rows, pa.dataset.Dataset)
    # A file system in Python needs Python's lock, which Arrow may hold while it waits for its own threads.
    assert not isinstance(rows.filesystem, pa.fs.PyFileSystem)


def test_queries_in_several_threads_end(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    write_deltalake(location, pa.table({"day": [n % 40 for n in range(4000)], "id": range(4000)}), partition_by=["day"])
    sums: list[object] = []

    def query() -> None:
        for _ in range(5):
            with duckdb.connect() as connection:
                connection.register("rows", read_arrow(location, 0))
                sums.append(connection.execute("SELECT sum(id) FROM rows").fetchone())

    threads = [threading.Thread(target=query, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sums == [(sum(range(4000)),)] * 20
