"""The behaviour of every store. Add another adapter to `STORES`."""

from __future__ import annotations

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.marks import first_only
from tests.servers.azure import azure
from tests.servers.s3 import s3
from tests.servers.sftp import sftp
from tests.store.stores import REMOTE, make_place, put

from lakesmith.errors import DataError
from lakesmith.ports import Store, names_in_folder
from lakesmith.store import LocalStore

__all__ = ["azure", "s3", "sftp"]

STORES = ["local", *(pytest.param(kind, marks=pytest.mark.servers) for kind in REMOTE)]


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path / "root") if request.param == "local" else make_place(request.param, request).open()


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
    data = bytes(range(256)) * 40_000  # more than one request fetches
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
