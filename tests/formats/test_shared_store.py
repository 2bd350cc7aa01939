"""Tables on a store that is not a local disk: which requests they make, and that they need no checksum files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakesmith.errors import InfrastructureError
from lakesmith.formats import Delta, FactsCache
from lakesmith.formats.delta.append_arrow import append_arrow
from lakesmith.ports import DataFile, ObjectFact, StoreCapability, TableFolder, Write
from lakesmith.store import LocalStore

COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
FLOW = "flow"


class SharedStore(LocalStore):
    """A folder that poses as an object store, and counts the requests."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.requests: Counter[str] = Counter()

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        return frozenset(StoreCapability) - {StoreCapability.CHECKSUM_FILES}

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[ObjectFact]:
        self.requests["list"] += 1
        return super().list(prefix, after=after)

    def stat(self, key: str) -> ObjectFact | None:
        self.requests["stat"] += 1
        return super().stat(key)

    def read(self, key: str, span: tuple[int, int] | None = None) -> bytes | None:
        self.requests["read"] += 1
        return super().read(key, span)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.requests["put"] += 1
        return super().put_if_absent(key, data)

    def confirm(self, files: Mapping[str, int | None]) -> None:
        self.requests["confirm"] += len(files)
        super().confirm(files)


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    return SharedStore(tmp_path)


@pytest.fixture
def table(store: SharedStore, tmp_path: Path) -> TableFolder:
    """A table with a batch of one row in each of two versions."""
    folder = TableFolder(store, "silver/orders")
    for sequence in (1, 2):
        add(folder, tmp_path, sequence)
    store.requests.clear()
    return folder


def add(folder: TableFolder, root: Path, sequence: int, *, overwrite: bool = False) -> None:
    name = f"batch-{sequence:08}-ab/lakesmith_kind=good/part.parquet"
    path = root / folder.path / name
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([sequence], pa.int64())}), path)
    file = DataFile(name, path.stat().st_size, 1, footer=pq.read_metadata(path))
    facts = Delta().facts(folder, FLOW)
    write = Write(flow=FLOW, sequence=sequence, note=f"batch {sequence}")
    Delta().add([file], COLUMNS, folder, write, facts.table_id if facts else None, overwrite=overwrite)


def ids(folder: TableFolder) -> list[int]:
    facts = Delta().facts(folder, FLOW)
    assert facts
    arrow = Delta().arrow(folder, facts.version)
    assert isinstance(arrow, pa.dataset.Dataset)
    return sorted(arrow.to_table()["id"].to_pylist())


def test_a_table_is_written_and_read_without_checksum_files(table: TableFolder, tmp_path: Path) -> None:
    assert ids(table) == [1, 2]
    add(table, tmp_path, 3, overwrite=True)
    assert ids(table) == [3]
    Delta().restore(table, 1, Write(flow=FLOW, sequence=4, note="restored"))
    assert ids(table) == [1, 2]
    assert Delta().is_readable(table, 2)
    assert not list(tmp_path.rglob(".*"))


def test_a_commit_confirms_its_files_and_puts_one_object(table: TableFolder, store: SharedStore) -> None:
    Delta().advance(table, Write(flow=FLOW, sequence=3, note="batch 3"))
    assert store.requests["put"] == 1
    missing = DataFile("missing.parquet", 1, 1)
    facts = Delta().facts(table, FLOW)
    assert facts
    with pytest.raises(InfrastructureError) as caught:
        Delta().add([missing], COLUMNS, table, Write(flow=FLOW, sequence=4, note="batch 4"), facts.table_id)
    assert caught.value.code == "file-unconfirmed"
    assert DeltaTable(table.url).version() == 2


def test_a_cached_table_costs_one_request(table: TableFolder, store: SharedStore, tmp_path: Path) -> None:
    cache = FactsCache(tmp_path / "facts.json")
    facts = Delta(cache).facts(table, FLOW)
    cache.save()
    store.requests.clear()
    assert Delta(FactsCache(tmp_path / "facts.json")).facts(table, FLOW) == facts
    assert store.requests == {"list": 1}


def test_cached_facts_of_an_older_version_are_not_used(table: TableFolder, tmp_path: Path) -> None:
    cache = FactsCache(tmp_path / "facts.json")
    facts = Delta(cache).facts(table, FLOW)
    add(table, tmp_path, 3)
    assert cache.get(table, FLOW) is None
    assert facts
    cache.put(table, FLOW, facts)
    assert cache.get(table, FLOW) is None, "facts of an older version were stored beside a newer commit"


def test_a_checkpoint_is_written_every_ten_versions(store: SharedStore, tmp_path: Path) -> None:
    folder = TableFolder(store, "system/runs")
    for number in range(12):
        append_arrow(folder, pa.table({"id": pa.array([number], pa.int64())}))
    assert [path.name for path in tmp_path.rglob("*.checkpoint.parquet")] == [f"{10:020}.checkpoint.parquet"]
    assert ids(folder) == list(range(12))


def test_old_unused_files_are_counted_without_a_jvm(table: TableFolder, tmp_path: Path) -> None:
    for name in ("lakesmith_kind=good/left.parquet", "_temporary/0/left.parquet", "_SUCCESS"):
        path = tmp_path / table.path / "batch-00000009-cd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    assert Delta().count_unused_files(table, 0.0) == 3
