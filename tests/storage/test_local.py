"""Local disk as a store."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.storage import LocalStorage


def test_put_if_absent_makes_the_file_once(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert storage.put_if_absent("a/b.json", b"first")
    assert not storage.put_if_absent("a/b.json", b"second")
    assert storage.read("a/b.json") == b"first"


def test_of_many_writers_of_one_file_exactly_one_wins(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)

    def race(version: int) -> int:
        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(lambda n: storage.put_if_absent(f"log/{version}", b"%d" % n), range(8)))

    assert [race(version) for version in range(50)] == [1] * 50


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("log/1", b"x")
    storage.put_if_absent("log/1", b"y")
    storage.replace("log/1", b"z")
    assert os.listdir(tmp_path / "log") == ["1"]


def test_files_that_spark_would_pass_over_are_not_listed(tmp_path: Path) -> None:
    for name in ("a.json", "_SUCCESS.json", ".hidden.json", "_temporary/b.json", "c[1].json"):
        path = tmp_path / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    names = [Path(file.path).name for file in LocalStorage(tmp_path).list("landing/**/*.json")]
    assert names == ["a.json", "c[1].json"]


def test_a_listing_tells_size_and_time_of_change(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("12345")
    os.utime(tmp_path / "a.json", ns=(0, 1_700_000_000_123_000_000))
    (file,) = LocalStorage(tmp_path).list("*.json")
    assert (file.size, file.modified) == (5, 1_700_000_000_123)


def test_the_probe_accepts_a_disk_with_hard_links_and_leaves_no_trace(tmp_path: Path) -> None:
    assert LocalStorage(tmp_path).probe() is None
    assert LocalStorage(tmp_path).keys("_lakesmith/probe") == []


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
