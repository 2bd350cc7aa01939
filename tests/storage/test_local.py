"""What is special about local disk; `tests/conformance/test_storage.py` holds what every store does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.storage import LocalStorage


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("log/1", b"x")
    storage.put_if_absent("log/1", b"y")
    storage.replace("log/1", b"z")
    assert os.listdir(tmp_path / "log") == ["1"]


def test_a_listing_tells_size_and_time_of_change(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("12345")
    os.utime(tmp_path / "a.json", ns=(0, 1_700_000_000_123_000_000))
    (file,) = LocalStorage(tmp_path).list("*.json")
    assert (file.size, file.modified) == (5, 1_700_000_000_123)


def test_the_probe_refuses_a_store_where_two_writers_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    monkeypatch.setattr(os, "unlink", lambda path: None)
    assert "both won" in str(LocalStorage(tmp_path).probe())


def test_a_disk_without_hard_links_is_refused_with_a_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(InfrastructureError) as caught:
        LocalStorage(tmp_path).put_if_absent("x", b"")
    assert caught.value.code == "no-put-if-absent"
    assert "hard links" in str(caught.value.hint)
