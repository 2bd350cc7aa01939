"""What a commit names is on the disk before the commit: seen in the system calls of real runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.faults.delta_files import vector_path
from tests.faults.power import Disk
from tests.faults.recorded import SAID
from tests.faults.syscalls import Event, record

_COMMIT = re.compile(r"(?P<table>.+)/_delta_log/\d{20}\.json")
_BESIDE = re.compile(r".+/_delta_log/(?:\d{20}\.(?:crc|checkpoint.*\.parquet)|_last_checkpoint)")
_HELD = re.compile(r"(?P<held>.+/_lakesmith/held/[^/]+)/batch\.json")


def violations(root: Path, events: Sequence[Event]) -> list[str]:
    """Each file that is committed, or acknowledged, before it is on the disk."""
    disk, found = Disk(root), list[str]()
    for event in events:
        disk.apply(event)
        if event.path == str(root / SAID) and event.kind == "write":
            found += _unsynced(disk, (path for path in disk.below(str(root)) if _is_kept(path)), "acknowledged")
        named = event.to if event.kind in ("link", "rename") else event.path if event.kind == "create" else ""
        if commit := _COMMIT.fullmatch(named):
            found += _incomplete(disk, named)
            found += _unsynced(disk, _named(disk, root, named, commit["table"]), f"named by {named}")
        elif _BESIDE.fullmatch(named):
            found += _incomplete(disk, named)
            if named.endswith("_last_checkpoint"):
                version = json.loads(disk.read(named))["version"]
                log = named.rpartition("/")[0]
                found += _unsynced(disk, [f"{log}/{version:020}.checkpoint.parquet"], f"named by {named}")
        elif held := _HELD.fullmatch(named):
            found += _unsynced(disk, disk.below(f"{held['held']}/rows"), f"named by {named}")
    return found


def _is_kept(path: str) -> bool:
    return bool(_COMMIT.fullmatch(path)) or "/_lakesmith/batches/" in path


def _incomplete(disk: Disk, path: str) -> Iterator[str]:
    """A file that has its name before its content is on the disk."""
    if not disk.is_synced(path):
        yield f"{path} has its name before its content is synced"


def _unsynced(disk: Disk, paths: Sequence[str] | Iterator[str], why: str) -> Iterator[str]:
    for path in paths:
        if lost := disk.lost(path):
            yield f"{lost}: {why}"


def _named(disk: Disk, root: Path, commit: str, table: str) -> Iterator[str]:
    """The files that a commit needs, and the checksums that are beside them."""
    for line in disk.read(commit).splitlines():
        action = json.loads(line)
        told = action.get("add") or action.get("cdc")
        if not told:
            continue
        path = f"{table}/{unquote(told['path'])}"
        yield path
        folder, _, name = path.rpartition("/")
        if disk.exists(beside := f"{folder}/.{name}.crc"):
            yield beside
        if (vector := told.get("deletionVector")) and vector["storageType"] == "u":
            yield str(vector_path(Path(table), vector["pathOrInlineDv"]))


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_file_is_synced_before_the_commit_that_names_it(tmp_path: Path) -> None:
    root = tmp_path / "lakes"
    root.mkdir()
    command = [sys.executable, "-m", "tests.faults.recorded", str(root), "merge", "staged", "gated"]
    events = record(command, root, tmp_path / "trace")
    made = Disk(root)
    for event in events:
        made.apply(event)
    there = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert made.files() == there, "the trace does not tell all"
    found = violations(root, events)
    assert not found, "\n".join([str(len(found)), *found[:40]])
