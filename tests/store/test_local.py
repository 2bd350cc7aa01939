"""Tests of the local disk only; `tests/conformance/test_store.py` has those of every store."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.store import LocalStore


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    storage = LocalStore(tmp_path)
    storage.put_if_absent("log/1", b"x")
    storage.put_if_absent("log/1", b"y")
    storage.replace("log/1", b"z")
    assert os.listdir(tmp_path / "log") == ["1"]


def test_a_listing_has_sizes_and_modification_times(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("12345")
    os.utime(tmp_path / "a.json", ns=(0, 1_700_000_000_123_000_000))
    (file,) = LocalStore(tmp_path).find("*.json")
    assert (file.size, file.modified) == (5, 1_700_000_000_123)


def test_the_probe_rejects_a_store_where_two_writers_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    monkeypatch.setattr(os, "unlink", lambda path: None)
    assert "both succeeded" in str(LocalStore(tmp_path).probe())


def test_a_disk_without_hard_links_is_rejected_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", reject)
    with pytest.raises(InfrastructureError) as caught:
        LocalStore(tmp_path).put_if_absent("x", b"")
    assert caught.value.code == "no-put-if-absent"
    assert "hard links" in str(caught.value.hint)


def failing(call: Callable[..., object], number: int, *, times: int = 1) -> Callable[..., object]:
    """Return the call; it fails this often first."""
    left = [times]

    def attempt(*words: object, **more: object) -> object:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(number, os.strerror(number))
        return call(*words, **more)

    return attempt


def test_a_file_is_archived_on_another_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_bytes(b"1")
    monkeypatch.setattr(os, "link", failing(os.link, errno.EXDEV))
    LocalStore(tmp_path).move("a.json", "archive/a.json")
    assert not (tmp_path / "a.json").exists()
    assert os.listdir(tmp_path / "archive") == ["a.json"]


def test_an_unlistable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").touch()
    # Not by mode, because root can list everything.
    monkeypatch.setattr(os, "open", failing(os.open, errno.EACCES))
    with pytest.raises(InfrastructureError) as caught:
        list(LocalStore(tmp_path).find("*.json"))
    assert caught.value.code == "storage-denied"


def test_a_full_disk_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.ENOSPC))
    with pytest.raises(InfrastructureError) as caught:
        LocalStore(tmp_path).put_if_absent("in/a.json", b"1")
    assert caught.value.code == "disk-full"
    assert os.listdir(tmp_path / "in") == []


def test_a_link_loop_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").touch()
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "b.json").symlink_to(tmp_path / "in" / "a.json")
    assert [file.path for file in LocalStore(tmp_path).find("in/**/*.json")] == ["in/a.json", "in/b.json"]
    assert [file.path for file in LocalStore(tmp_path).find("*/again/a.json")] == []


class Watched:
    """A folder entry that records when the file is checked."""

    def __init__(self, entry: os.DirEntry[str], looked_at: list[str]) -> None:
        self.name, self._entry, self._looked_at = entry.name, entry, looked_at

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._entry.is_dir(follow_symlinks=follow_symlinks)

    def is_symlink(self) -> bool:
        return self._entry.is_symlink()

    def stat(self) -> os.stat_result:
        self._looked_at.append(self.name)
        return self._entry.stat()


def test_a_listing_after_a_path_checks_no_earlier_file_and_enters_no_earlier_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 10):
        (tmp_path / f"in/day={day}").mkdir(parents=True)
        for name in "abc":
            (tmp_path / f"in/day={day}/{name}{day}.json").touch()
    looked_at: list[str] = []
    folders = 0
    scandir = os.scandir

    @contextmanager
    def watched(folder: int) -> Iterator[Iterator[Watched]]:
        nonlocal folders
        folders += 1
        with scandir(folder) as entries:
            yield (Watched(entry, looked_at) for entry in entries)

    monkeypatch.setattr(os, "scandir", watched)
    found = LocalStore(tmp_path).find("in/*/*.json", after="in/day=8/b8.json")
    assert [file.path for file in found] == ["in/day=8/c8.json", *(f"in/day=9/{name}9.json" for name in "abc")]
    assert (folders, sorted(looked_at)) == (3, ["a9.json", "b9.json", "c8.json", "c9.json"])


def test_a_path_without_wildcards_is_listed_even_in_a_hidden_folder(tmp_path: Path) -> None:
    (tmp_path / ".drops").mkdir()
    (tmp_path / ".drops" / "a.json").touch()
    (file,) = LocalStore("/elsewhere").find(f"{tmp_path}/.drops/*.json")
    assert file.path == f"{tmp_path}/.drops/a.json"


def test_a_touched_file_differs_from_its_listing(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    (fact,) = LocalStore(tmp_path).find("*.json")
    os.utime(tmp_path / "a.json", (0, 0))
    with pytest.raises(DataError) as caught:
        LocalStore(tmp_path).open("a.json", fact)
    assert caught.value.code == "file-rewritten"
