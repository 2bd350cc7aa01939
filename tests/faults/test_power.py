"""The disk model loses only unsynced data."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.faults.power import Survival, replayed
from tests.faults.syscalls import Event

ROOT = Path("/lake")
WRITTEN = [Event("create", "/lake/a"), Event("write", "/lake/a", data=b"x" * 5000)]


def after_cut(events: Iterable[Event], folder: Path, survival: Survival, seed: int = 0) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    into = folder / f"{survival}-{seed}"
    replayed(ROOT, events).cut(into, survival, random.Random(seed))
    return {str(path.relative_to(into)): path.read_bytes() for path in into.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("synced", "survival", "found"),
    [
        ([], "nothing", {}),
        ([], "names", {"a": b""}),
        ([], "everything", {"a": b"x" * 5000}),
        (["/lake/a"], "nothing", {}),
        (["/lake"], "nothing", {"a": b""}),
        (["/lake/a", "/lake"], "nothing", {"a": b"x" * 5000}),
    ],
)
def test_a_file_survives_if_its_content_and_name_are_synced(
    tmp_path: Path, synced: list[str], survival: Survival, found: dict[str, bytes]
) -> None:
    assert after_cut([*WRITTEN, *(Event("sync", path) for path in synced)], tmp_path, survival) == found


def test_a_write_after_the_sync_is_not_safe(tmp_path: Path) -> None:
    events = [*WRITTEN, Event("sync", "/lake/a"), Event("sync", "/lake"), Event("write", "/lake/a", data=b"y")]
    assert after_cut(events, tmp_path, "nothing") == {"a": b"x" * 5000}
    assert [*replayed(ROOT, events).lost("/lake/a")] == ["the content of /lake/a is not synced"]


def test_an_unsynced_file_is_randomly_lost_empty_truncated_or_complete(tmp_path: Path) -> None:
    sizes = {len(after_cut(WRITTEN, tmp_path, "some", seed).get("a", b"-")) for seed in range(40)}
    assert sizes == {1, 0, 4096, 5000}


def test_a_rename_is_atomic_and_a_link_with_an_unlink_is_not(tmp_path: Path) -> None:
    safe = [*WRITTEN, Event("mkdir", "/lake/b"), *(Event("sync", path) for path in ("/lake/a", "/lake/b", "/lake"))]
    renamed = [*safe, Event("rename", "/lake/a", to="/lake/b/a")]
    assert {tuple(after_cut(renamed, tmp_path / "rename", "some", seed)) for seed in range(20)} == {("a",), ("b/a",)}
    moved = [*safe, Event("link", "/lake/a", to="/lake/b/a"), Event("remove", "/lake/a")]
    assert () in {tuple(after_cut(moved, tmp_path / "link", "some", seed)) for seed in range(20)}
    moved.insert(-1, Event("sync", "/lake/b"))
    assert () not in {tuple(after_cut(moved, tmp_path / "synced", "some", seed)) for seed in range(20)}
