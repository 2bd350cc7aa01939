"""Staged files of attempts are removed when no attempt can be committed; nothing else is removed."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from lakesmith.ledger.staged import SUCCESS_MARKER, last_changed, remove_staged, staged_folders, staged_name
from lakesmith.store import LocalStore, folder_at


def stage(beside: Path, name: str) -> Path:
    folder = beside / name
    folder.mkdir(parents=True)
    (folder / SUCCESS_MARKER).touch()
    (folder / "part.parquet").write_bytes(b"rows")
    return folder


def test_staged_attempts_up_to_a_batch_are_removed_and_others_stay(tmp_path: Path) -> None:
    names = [staged_name(6, 1), staged_name(7, 2), staged_name(7, 100), staged_name(8, 1), "notes", "12345678"]
    for name in names:
        stage(tmp_path, name)
    remove_staged(staged_folders(folder_at(str(tmp_path))), 7)
    assert sorted(os.listdir(tmp_path)) == ["00000008.01", "12345678", "notes"]


def test_a_folder_that_was_not_named_is_not_removed(tmp_path: Path) -> None:
    found = staged_folders(folder_at(str(tmp_path)))
    late = stage(tmp_path, staged_name(7, 1))
    remove_staged(found, 7)
    assert late.exists()
    assert staged_folders(folder_at(str(tmp_path / "never"))) == []


def test_the_marker_is_removed_before_any_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stage(tmp_path, staged_name(1, 1))
    deleted: list[str] = []
    monkeypatch.setattr(LocalStore, "delete", lambda _, keys: deleted.extend(keys))
    remove_staged([folder_at(str(folder))], 1)
    assert [key.rpartition("/")[2] for key in deleted[:2]] == [SUCCESS_MARKER, SUCCESS_MARKER]
    assert deleted[-1].endswith("part.parquet")


def test_a_missing_folder_is_never_expired(tmp_path: Path) -> None:
    assert last_changed(folder_at(str(tmp_path / "never"))) == math.inf
    folder = stage(tmp_path, staged_name(1, 1))
    for number, path in enumerate(sorted(folder.iterdir())):
        os.utime(path, (number, number))
    assert last_changed(folder_at(str(folder))) == 1.0
