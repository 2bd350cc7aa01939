"""Reading a version into Arrow: values, file names and threads."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from lakesmith.formats.delta.arrow_reader import read_arrow
from lakesmith.store import folder_at

ODD = ("a b", "a%20b", "é?#:", "x/y", "d=d", "100%", '"q"', "a+b", "*", "{a}")


def test_partitions_with_odd_values_are_read(tmp_path: Path) -> None:
    location = str(tmp_path / "a table")
    write_deltalake(location, pa.table({"kind": ODD, "id": range(len(ODD))}), partition_by=["kind"])
    rows = read_arrow(folder_at(location), 0)
    assert isinstance(rows, pa.dataset.Dataset)
    assert dict(zip(*rows.to_table().select(["kind", "id"]).to_pydict().values(), strict=True)) == {
        kind: number for number, kind in enumerate(ODD)
    }


def test_files_are_read_without_python(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    write_deltalake(location, pa.table({"id": range(10)}))
    rows = read_arrow(folder_at(location), 0)
    assert isinstance(rows, pa.dataset.Dataset)
    # A file system in Python needs Python's lock, which Arrow may hold while it waits for its own threads.
    assert not isinstance(rows.filesystem, pa.fs.PyFileSystem)


def test_parallel_queries_complete(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    write_deltalake(location, pa.table({"day": [n % 40 for n in range(4000)], "id": range(4000)}), partition_by=["day"])
    sums: list[object] = []

    def query() -> None:
        for _ in range(5):
            with duckdb.connect() as connection:
                connection.register("rows", read_arrow(folder_at(location), 0))
                sums.append(connection.execute("SELECT sum(id) FROM rows").fetchone())

    threads = [threading.Thread(target=query, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sums == [(sum(range(4000)),)] * 20


FAR_DAYS = (0, 3_789_545, -800_000, None)
"""Days since 1970: in the years 1970, 12345 and -221, and NULL."""
FAR_MICROSECONDS = (0, 900_000_000_000_000_000, -90_000_000_000_000_000, None)
"""Microseconds since 1970: in the years 1970, 30489 and -882, and NULL."""
FAR = {
    "date": pa.array(FAR_DAYS, pa.int32()).cast(pa.date32()),
    "timestamp": pa.array(FAR_MICROSECONDS, pa.int64()).cast(pa.timestamp("us", "UTC")),
    "local timestamp": pa.array(FAR_MICROSECONDS, pa.int64()).cast(pa.timestamp("us")),
}


@pytest.mark.parametrize("partitions", [None, ["time"]], ids=["statistics", "partition values"])
@pytest.mark.parametrize("times", FAR.values(), ids=FAR)
def test_years_outside_python_s_range_are_read(tmp_path: Path, times: pa.Array, partitions: list[str] | None) -> None:
    location = str(tmp_path / "a table")
    write_deltalake(location, pa.table({"time": times, "id": range(4)}), partition_by=partitions)
    rows = read_arrow(folder_at(location), 0)
    assert isinstance(rows, pa.dataset.Dataset)
    assert rows.to_table().sort_by("id")["time"].combine_chunks().equals(times)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        assert connection.execute("SELECT id FROM rows WHERE time > '2000-01-01'::TIMESTAMP").fetchall() == [(1,)]
        assert connection.execute("SELECT id FROM rows WHERE time < '1900-01-01'::TIMESTAMP").fetchall() == [(2,)]
        assert connection.execute("SELECT id FROM rows WHERE time IS NULL").fetchall() == [(3,)]


def test_a_flipped_bit_is_found_in_a_table_with_years_outside_python_s_range(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"time": FAR["date"], "id": range(4)}))
    [file] = tmp_path.glob("*.parquet")
    pq.write_table(
        pq.read_table(file),
        file,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    data = bytearray(file.read_bytes())
    at = data.index((3_789_545).to_bytes(4, "little"))
    data[at] ^= 1
    file.write_bytes(data)
    rows = read_arrow(folder_at(str(tmp_path)), 0)
    assert isinstance(rows, pa.dataset.Dataset)
    with pytest.raises(OSError, match="checksum"):
        rows.to_table()
