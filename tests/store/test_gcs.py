"""Google Cloud Storage, as far as the server of the tests has its API: listings, reads and deletions."""

from __future__ import annotations

import pickle

import pytest
from tests.servers.gcs import GcsServer, gcs

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.ports import Store
from lakesmith.store import open_store

__all__ = ["gcs"]

pytestmark = pytest.mark.servers

FILES = ("in/a.json", "in/b.json", "in/b c é.json", "in/day=1/c.json", "in/empty.json", "other/d.json")


@pytest.fixture
def bucket(gcs: GcsServer) -> str:
    name = gcs.bucket()
    for file in FILES:
        gcs.put(name, file, b"" if "empty" in file else file.encode())
    return name


@pytest.fixture
def store(gcs: GcsServer, bucket: str) -> Store:
    return open_store(f"gs://{bucket}/in", {"gs://": gcs.settings()})


def test_files_are_listed_in_order_and_from_a_key_on(store: Store) -> None:
    names = sorted(file.removeprefix("in/") for file in FILES if file.startswith("in/"))
    assert [file.key for file in store.list("")] == names
    assert [file.key for file in store.list("b")] == ["b c é.json", "b.json"]
    assert [file.key for file in store.list("", after="b.json")] == ["day=1/c.json", "empty.json"]
    assert [file.path for file in store.find("*.json")] == ["a.json", "b c é.json", "b.json", "empty.json"]
    assert [file.path for file in store.find("**/*.json", after="b.json")] == ["day=1/c.json", "empty.json"]


def test_files_are_read_by_key_and_range(store: Store) -> None:
    assert store.read("a.json") == b"in/a.json"
    assert store.read("a.json", (3, 4)) == b"a"
    assert store.read("a.json", (90, 99)) == b""
    assert store.read("none.json") is None
    found, listed = store.stat("a.json"), next(store.list("a.json"))
    assert found is not None
    assert (found.size, found.etag) == (9, listed.etag)
    again: Store = pickle.loads(pickle.dumps(store))
    with again.open("empty.json") as file:
        assert file.read() == b""


def test_a_rewritten_file_is_an_error(gcs: GcsServer, bucket: str, store: Store) -> None:
    (fact,) = store.find("a.json")
    gcs.put(bucket, "in/a.json", b"rewritten")
    gcs.put(bucket, "in/a.json", b"rewritten and longer")
    with pytest.raises(DataError) as caught:
        store.open("a.json", fact)
    assert caught.value.code == "file-rewritten"


def test_files_are_deleted_though_one_is_missing(store: Store) -> None:
    store.delete(["a.json", "none.json", "b.json"])
    store.delete(["a.json"])
    assert [file.path for file in store.find("*.json")] == ["b c é.json", "empty.json"]


def test_sizes_are_confirmed(store: Store) -> None:
    store.confirm({"a.json": 9, "b.json": None})
    with pytest.raises(InfrastructureError):
        store.confirm({"a.json": 8})
