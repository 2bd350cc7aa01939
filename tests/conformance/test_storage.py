"""What every store has to do. A second adapter joins by being added to `STORES`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakesmith.ports import Storage
from lakesmith.storage import LocalStorage

STORES: dict[str, Callable[[Path], Storage]] = {"local": LocalStorage}


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return STORES[request.param](tmp_path / "root")


def test_a_file_that_is_not_there_reads_as_nothing(storage: Storage) -> None:
    assert storage.read("a/b.json") is None
    assert list(storage.keys("a")) == []
    assert list(storage.list("a/*.json")) == []


def test_put_if_absent_makes_the_file_once(storage: Storage) -> None:
    assert storage.put_if_absent("a/b.json", b"first")
    assert not storage.put_if_absent("a/b.json", b"second")
    assert storage.read("a/b.json") == b"first"


def test_of_many_writers_of_one_file_exactly_one_wins(storage: Storage) -> None:
    def race(version: int) -> int:
        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(lambda n: storage.put_if_absent(f"log/{version}", b"%d" % n), range(8)))

    assert [race(version) for version in range(50)] == [1] * 50


def test_replace_makes_and_overwrites(storage: Storage) -> None:
    storage.replace("a", b"1")
    storage.replace("a", b"2")
    assert storage.read("a") == b"2"


def test_only_one_of_two_removals_did_it(storage: Storage) -> None:
    storage.replace("a", b"1")
    assert [storage.remove("a"), storage.remove("a")] == [True, False]


def test_keys_are_the_names_in_a_folder_in_order(storage: Storage) -> None:
    for name in ("b", "a", "deep/c"):
        storage.replace(f"folder/{name}", b"")
    assert [key for key in storage.keys("folder") if key != "deep"] == ["a", "b"]


def test_a_listing_tells_path_size_and_time_and_the_file_can_be_found_by_it(storage: Storage) -> None:
    storage.replace("landing/a.json", b"12345")
    storage.replace("landing/b.csv", b"1")
    (file,) = storage.list("landing/*.json")
    assert (file.path, file.size) == ("landing/a.json", 5)
    assert file.modified > 1_600_000_000_000
    assert storage.head(file.path, 3) == b"123"
    assert storage.location(file.path).startswith(storage.root())


def test_files_that_spark_would_pass_over_are_not_listed(storage: Storage) -> None:
    for name in ("a.json", "_SUCCESS.json", ".hidden.json", "_temporary/b.json", "c[1].json"):
        storage.replace(f"landing/{name}", b"{}")
    assert [file.path for file in storage.list("landing/**/*.json")] == ["landing/a.json", "landing/c[1].json"]


def test_the_probe_accepts_the_store_and_leaves_no_trace(storage: Storage) -> None:
    assert storage.probe() is None
    assert list(storage.keys("_lakesmith/probe")) == []
