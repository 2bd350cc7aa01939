"""The behaviour of every store. Add another adapter to `STORES`."""

from __future__ import annotations

import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyarrow.dataset import dataset
from tests.marks import first_only
from tests.servers.azure import azure
from tests.servers.s3 import s3
from tests.servers.sftp import sftp
from tests.store.memory import memory_store
from tests.store.stores import REMOTE, make_place, put

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.ports import Store, StoreCapability, TableFolder, names_in_folder
from lakesmith.store import LocalStore

__all__ = ["azure", "s3", "sftp"]

STORES = ["local", "memory", *(pytest.param(kind, marks=pytest.mark.servers) for kind in REMOTE)]
TABLE_STORES = ["local", "memory", *(pytest.param(kind, marks=pytest.mark.servers) for kind in ("s3", "azure"))]


def make_store(kind: str, request: pytest.FixtureRequest) -> Store:
    """A new, empty store of that kind."""
    match kind:
        case "local":
            return LocalStore(request.getfixturevalue("tmp_path") / "root")
        case "memory":
            return memory_store()
        case _:
            return make_place(kind, request).open()


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest) -> Store:
    return make_store(request.param, request)


@pytest.fixture(params=TABLE_STORES)
def table_store(request: pytest.FixtureRequest) -> Store:
    """A store that can hold tables."""
    store = make_store(request.param, request)
    assert {StoreCapability.TABLES, StoreCapability.REPLACE_IF_MATCH} <= store.capabilities
    return store


def test_reading_a_missing_file_returns_none(storage: Store) -> None:
    assert storage.read("a/b.json") is None
    assert names_in_folder(storage, "a") == []
    assert list(storage.find("a/*.json")) == []


def test_put_if_absent_creates_the_file_once(storage: Store) -> None:
    assert storage.put_if_absent("a/b.json", b"first")
    assert not storage.put_if_absent("a/b.json", b"second")
    assert storage.read("a/b.json") == b"first"


@pytest.mark.parametrize("races", first_only([10, 50]))
def test_exactly_one_of_many_writers_of_a_file_wins(storage: Store, races: int) -> None:
    def race(version: int) -> int:
        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(lambda n: storage.put_if_absent(f"log/{version}", b"%d" % n), range(8)))

    assert [race(version) for version in range(races)] == [1] * races


def test_replace_creates_and_overwrites(storage: Store) -> None:
    storage.replace("a", b"1")
    storage.replace("a", b"2")
    assert storage.read("a") == b"2"


def test_a_missing_file_can_be_deleted(storage: Store) -> None:
    storage.replace("a", b"1")
    storage.delete(["a", "b"])
    storage.delete(["a"])
    assert storage.read("a") is None


@pytest.mark.parametrize("count", first_only([30, 2_500]))
def test_many_files_are_deleted_though_some_are_missing(table_store: Store, count: int) -> None:
    keys = [f"old/{number:05}.json" for number in range(count)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: table_store.put_if_absent(key, b"1"), keys))
    table_store.put_if_absent("old.json", b"1")
    table_store.delete(["old/none.json", *keys])
    assert [file.key for file in table_store.list("")] == ["old.json"]
    table_store.delete(keys[:2])


LISTED = ("log/1.json", "log/2.json", "log/20.json", "log/deep/3.json", "log-2.json", "log2/4.json", "é/5.json")


@pytest.mark.parametrize(
    ("prefix", "wanted"),
    [
        ("", tuple(sorted(LISTED))),
        ("log/", ("log/1.json", "log/2.json", "log/20.json", "log/deep/3.json")),
        ("log/2", ("log/2.json", "log/20.json")),
        ("log", ("log-2.json", "log/1.json", "log/2.json", "log/20.json", "log/deep/3.json", "log2/4.json")),
        ("log/2.json", ("log/2.json",)),
        ("é", ("é/5.json",)),
        ("none/", ()),
    ],
)
def test_a_listing_by_prefix_is_sorted_and_starts_after_a_key(
    storage: Store, prefix: str, wanted: tuple[str, ...]
) -> None:
    for key in LISTED:
        put(storage, key)
    assert tuple(file.key for file in storage.list(prefix)) == wanted
    for after in ("", "log/2.json", "log/2", "log/", "log", "log/2/", "zzz", *wanted):
        found = tuple(file.key for file in storage.list(prefix, after=after))
        assert found == tuple(key for key in wanted if key > after), after


def test_the_facts_of_a_file_are_those_of_the_listing(table_store: Store) -> None:
    table_store.replace("a/b.json", b"12345")
    (listed,) = table_store.list("a/")
    found = table_store.stat("a/b.json")
    assert found is not None
    assert (found.key, found.size, found.etag) == (listed.key, 5, listed.etag)
    assert abs(found.modified - listed.modified) < 1000  # S3 has whole seconds for a single file
    assert table_store.stat("a") is None
    assert table_store.stat("a/none.json") is None


def test_an_etag_changes_with_the_content(table_store: Store) -> None:
    etags = set()
    for data in (b"1", b"2", b"33"):
        table_store.replace("a", data)
        found = table_store.stat("a")
        assert found is not None
        etags.add(found.etag)
    assert len(etags) == 3


@pytest.mark.parametrize(
    ("span", "wanted"),
    [((0, 3), b"012"), ((4, 6), b"45"), ((8, 99), b"89"), ((3, 3), b""), ((10, 12), b""), ((50, 60), b"")],
)
def test_a_range_of_a_file_is_read(storage: Store, span: tuple[int, int], wanted: bytes) -> None:
    put(storage, "a", b"0123456789")
    assert storage.read("a", span) == wanted
    assert storage.read("none", span) is None


@pytest.mark.parametrize("size", [0, 10, 20_000_000])
def test_a_created_file_is_visible_when_the_block_ends(table_store: Store, size: int) -> None:
    data = bytes(range(250)) * (size // 250)
    with table_store.create("new/a.parquet") as file:
        for at in range(0, len(data), 1_000_000):
            file.write(data[at : at + 1_000_000])
        assert file.tell() == len(data)
        assert table_store.stat("new/a.parquet") is None
        assert list(table_store.list("")) == []
    assert table_store.read("new/a.parquet") == data
    table_store.confirm({"new/a.parquet": len(data)})


@pytest.mark.parametrize("size", [10, 20_000_000])
def test_a_created_file_is_never_visible_when_the_block_raises(table_store: Store, size: int) -> None:
    def write() -> None:
        with table_store.create("new/a.parquet") as file:
            file.write(b"x" * size)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write()
    assert list(table_store.list("")) == []
    assert table_store.read("new/a.parquet") is None


def test_replace_fails_when_the_file_was_changed_or_is_gone(table_store: Store) -> None:
    table_store.replace("a", b"1")
    found = table_store.stat("a")
    assert found is not None
    assert table_store.replace("a", b"2", if_match=found.etag)
    assert not table_store.replace("a", b"3", if_match=found.etag)
    assert table_store.read("a") == b"2"
    table_store.delete(["a"])
    assert not table_store.replace("a", b"4", if_match=found.etag)
    assert table_store.read("a") is None


@pytest.mark.parametrize("races", first_only([5, 30]))
def test_exactly_one_of_many_replacements_of_a_version_wins(table_store: Store, races: int) -> None:
    table_store.replace("a", b"begin")
    for number in range(races):
        found = table_store.stat("a")
        assert found is not None
        etag = found.etag
        with ThreadPoolExecutor(6) as pool:
            contents = [b"%d by %d" % (number, writer) for writer in range(6)]
            won = list(pool.map(lambda data, etag=etag: table_store.replace("a", data, if_match=etag), contents))
        assert won.count(True) == 1
        assert table_store.read("a") == contents[won.index(True)]


def test_files_are_confirmed_by_their_sizes(table_store: Store) -> None:
    sizes: dict[str, int | None] = {f"a/{number}.parquet": number for number in range(20)}
    for key, size in sizes.items():
        table_store.put_if_absent(key, b"x" * (size or 0))
    table_store.confirm({})
    table_store.confirm(sizes)
    table_store.confirm(dict.fromkeys(sizes))
    for wrong in ({"a/none.parquet": 1}, {"a/none.parquet": None}, {"a/3.parquet": 4}):
        with pytest.raises(InfrastructureError) as caught:
            table_store.confirm(sizes | wrong)
        assert caught.value.code == "file-unconfirmed"
        assert next(iter(wrong)) in str(caught.value)


def test_a_table_folder_lists_and_reads_its_own_files(table_store: Store) -> None:
    folder = TableFolder(table_store, "bronze/orders")
    assert folder.put_if_absent("_delta_log/00.json", b"0")
    assert folder.put_if_absent("_delta_log/01.json", b"1")
    table_store.put_if_absent("bronze/orders2/a", b"")
    assert [file.key for file in folder.list()] == ["_delta_log/00.json", "_delta_log/01.json"]
    assert [file.key for file in folder.list("_delta_log/", after="_delta_log/00.json")] == ["_delta_log/01.json"]
    assert folder.read("_delta_log/01.json") == b"1"


def test_arrow_reads_lists_and_writes_the_files_of_a_store(table_store: Store) -> None:
    files = table_store.arrow()
    rows = pa.table({"id": range(100_000), "name": [f"name {number}" for number in range(100_000)]})
    with table_store.create("t/day=1/a.parquet") as file:
        pq.write_table(rows, file)
    files.create_dir("t/day=2")
    with files.open_output_stream("t/day=2/b.parquet") as stream:
        pq.write_table(rows.slice(0, 10), stream)
    assert pq.read_table("t/day=1/a.parquet", filesystem=files).equals(rows)
    found = dataset("t", format="parquet", partitioning="hive", filesystem=files)
    assert found.count_rows() == 100_010
    assert found.to_table(columns=["id"], filter=pc.field("day") == 2)["id"].to_pylist() == list(range(10))
    assert sorted(info.path for info in files.get_file_info(fs.FileSelector("t"))) == ["t/day=1", "t/day=2"]
    assert files.get_file_info("t/none").type == fs.FileType.NotFound


def test_keys_are_the_names_in_a_folder_in_order(storage: Store) -> None:
    for name in ("b", "a", "deep/c"):
        storage.replace(f"folder/{name}", b"")
    assert names_in_folder(storage, "folder") == ["a", "b"]


def test_a_listing_has_path_size_and_time_and_its_files_can_be_opened(storage: Store) -> None:
    storage.replace("landing/a.json", b"12345")
    storage.replace("landing/b.csv", b"1")
    (file,) = storage.find("landing/*.json")
    assert (file.path, file.size) == ("landing/a.json", 5)
    assert file.modified > 1_600_000_000_000
    assert storage.read(file.path, (0, 3)) == b"123"
    assert storage.location(file.path).startswith(storage.url)


def test_files_that_spark_skips_are_not_listed(storage: Store) -> None:
    for name in ("a.json", "_SUCCESS.json", ".hidden.json", "_temporary/b.json", "c[1].json"):
        storage.replace(f"landing/{name}", b"{}")
    assert [file.path for file in storage.find("landing/**/*.json")] == ["landing/a.json", "landing/c[1].json"]


def test_the_probe_accepts_the_store_and_leaves_no_trace(storage: Store) -> None:
    assert storage.probe() is None
    assert names_in_folder(storage, "_lakesmith/probe") == []


def test_a_listing_omits_known_unchanged_files(storage: Store) -> None:
    put(storage, "landing/a.json", b"1")
    put(storage, "landing/b.json", b"2")
    known = {file.path: file for file in storage.find("landing/*.json")}
    storage.replace("landing/b.json", b"22")
    put(storage, "landing/c.json", b"3")
    assert [file.path for file in storage.find("landing/*.json", known)] == ["landing/b.json", "landing/c.json"]


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("a.json", ["a.json"]),
        ("*.json", ["a.json", "b.json"]),
        ("[!a].json", ["b.json"]),
        ("?.csv", ["c.csv"]),
        ("y=*/m=0?/*.json", ["y=1/m=01/d.json", "y=2/m=02/e.json"]),
        ("y=1/**", ["y=1/m=01/d.json"]),
        ("**/m=02/*", ["y=2/m=02/e.json"]),
        ("**/*.json", ["a.json", "b.json", "y=1/m=01/d.json", "y=2/m=02/e.json"]),
        ("nothing/*.json", []),
    ],
)
def test_globs_match_files_in_folders(storage: Store, pattern: str, wanted: list[str]) -> None:
    for name in ("a.json", "b.json", "c.csv", "y=1/m=01/d.json", "y=2/m=02/e.json", "y=2/_m/f.json"):
        put(storage, name)
    assert [file.path for file in storage.find(pattern)] == wanted


@pytest.mark.parametrize("pattern", ["in/**", "in/*/*.json", "in/*.json", "in/day=2/b.json"])
def test_a_listing_after_a_path_is_the_end_of_a_full_listing(storage: Store, pattern: str) -> None:
    for name in ("a.json", "day=1-late.json", "day=1/a.json", "day=1/é.json", "day=2/a.json", "day=2/b.json"):
        put(storage, f"in/{name}")
    whole = list(storage.find(pattern))
    assert whole
    for after in ("", "in/day=1", "in/day=1/", "in/day=1/b", "in/day=2/a.json", "in/~", *(file.path for file in whole)):
        assert list(storage.find(pattern, after=after)) == [file for file in whole if file.path > after]


def test_a_file_is_read_as_a_stream(storage: Store) -> None:
    data = bytes(range(256)) * 40_000  # more than is fetched in one go
    put(storage, "large.bin", data)
    (fact,) = storage.find("large.bin")
    with storage.open("large.bin", fact) as file:
        assert file.read(3) == data[:3]
        assert file.read() == data[3:]


def test_an_empty_file_is_a_file(storage: Store) -> None:
    put(storage, "empty.json", b"")
    (fact,) = storage.find("*.json")
    with storage.open("empty.json", fact) as file:
        assert (fact.size, file.read()) == (0, b"")


def test_a_missing_or_rewritten_file_is_an_error(storage: Store) -> None:
    put(storage, "a.json", b"1")
    (fact,) = storage.find("*.json")
    storage.replace("a.json", b"22")
    with pytest.raises(DataError) as rewritten:
        storage.open("a.json", fact)
    storage.delete(["a.json"])
    with pytest.raises(DataError) as gone:
        storage.open("a.json")
    assert (rewritten.value.code, gone.value.code) == ("file-rewritten", "file-gone")


def test_a_move_can_be_repeated(storage: Store) -> None:
    put(storage, "in/a.json", b"1")
    storage.move("in/a.json", "archive/deep/a.json")
    storage.move("in/a.json", "archive/deep/a.json")
    assert (storage.read("in/a.json"), storage.read("archive/deep/a.json")) == (None, b"1")


def test_an_interrupted_move_is_completed(storage: Store) -> None:
    put(storage, "in/a.json", b"1")
    put(storage, "archive/a.json", b"1")
    storage.move("in/a.json", "archive/a.json")
    assert (storage.read("in/a.json"), storage.read("archive/a.json")) == (None, b"1")


def test_a_move_never_replaces_other_bytes(storage: Store) -> None:
    put(storage, "in/a.json", b"1")
    put(storage, "archive/a.json", b"2")
    with pytest.raises(DataError) as caught:
        storage.move("in/a.json", "archive/a.json")
    assert caught.value.code == "archive-taken"
    assert (storage.read("in/a.json"), storage.read("archive/a.json")) == (b"1", b"2")


def test_a_file_is_put_once_and_reports_progress(storage: Store) -> None:
    data, progress = b"x" * 20_000_000, list[int]()
    assert storage.put_file("large.bin", io.BytesIO(data), size=len(data), on_progress=progress.append)
    assert not storage.put_file("large.bin", io.BytesIO(b"y" * len(data)), size=len(data), on_progress=progress.append)
    assert progress[0] < progress[-1] == len(data)
    assert storage.read("large.bin", (0, 2)) == b"xx"


def test_a_file_that_cannot_be_read_to_its_end_leaves_nothing(storage: Store) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            if self.tell() >= 10_000_000:
                raise DataError("broken", "it broke")
            return found

    with pytest.raises(DataError, match="it broke"):
        storage.put_file("a/large.bin", Broken(b"x" * 20_000_000), size=20_000_000, on_progress=lambda sent: None)
    assert (list(storage.find("**")), storage.read("a/large.bin")) == ([], None)


def test_a_store_can_be_sent_to_another_process(storage: Store) -> None:
    put(storage, "a.json", b"1")
    again: Store = pickle.loads(pickle.dumps(storage))
    assert again.read("a.json") == b"1"
    assert (again, hash(again)) == (storage, hash(storage))
