"""Files that a restore returns from the archive. No JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesmith.declare import Files
from lakesmith.run.files import blocked_files, return_from_archive
from lakesmith.store import LocalStore

GLOB = "landing/*.json"


@pytest.mark.parametrize(
    ("now", "blocked"), [(None, False), (b"same", False), (b"else", True), (b"of another size", True)]
)
def test_a_different_file_of_the_same_name_blocks_a_restore(tmp_path: Path, now: bytes | None, blocked: bool) -> None:
    landing, source = LocalStore(tmp_path), Files(files=GLOB, format="json", archive="../done")
    landing.put_if_absent("landing/../done/1.json", b"same")
    if now is not None:
        landing.put_if_absent("landing/1.json", now)
    found = blocked_files(source, landing, GLOB, ["landing/1.json"])
    assert found == (["landing/1.json"] if blocked else [])
    if not blocked:
        return_from_archive(source, landing, GLOB, ["landing/1.json"])
        assert (tmp_path / "landing/1.json").read_bytes() == b"same"


def test_without_an_archive_nothing_blocks_a_restore(tmp_path: Path) -> None:
    landing = LocalStore(tmp_path)
    landing.put_if_absent("landing/1.json", b"new")
    assert blocked_files(Files(files=GLOB, format="json"), landing, GLOB, ["landing/1.json"]) == []
