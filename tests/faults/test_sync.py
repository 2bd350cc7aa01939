"""Every file is synced before the commit that references it: shown by the system calls of real runs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.faults.delta_files import vector_path
from tests.faults.power import Disk, replayed
from tests.faults.recorded import SAID
from tests.faults.syscalls import Event, record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_COMMIT = re.compile(r"(?P<table>.+)/_delta_log/\d{20}\.json")
_BESIDE = re.compile(r".+/_delta_log/(?:\d{20}\.(?:crc|checkpoint.*\.parquet)|_last_checkpoint)")
_LANDED = re.compile(r".+/landing/events/[^/]+")
_HELD = re.compile(r"(?P<held>.+/_lakesmith/held/[^/]+)/batch\.json")


def violations(root: Path, events: Sequence[Event]) -> list[str]:
    """Return the files that are committed or acknowledged before they are synced, and the landing files that are
    removed before their archived copies are synced."""
    disk, found, archived = Disk(root), list[str](), dict[str, str]()
    for event in events:
        disk.apply(event)
        if event.kind == "link" and _LANDED.fullmatch(event.path):
            archived[event.path] = event.to
        elif event.kind == "remove" and _LANDED.fullmatch(event.path):
            copy = archived.get(event.path)
            found += (
                _unsynced(disk, [copy], f"{event.path} is removed")
                if copy
                else [f"{event.path} is removed without a copy"]
            )
        if event.path == str(root / SAID) and event.kind == "write":
            found += _unsynced(
                disk, (path for path in disk.below(str(root)) if _is_acknowledged_file(path)), "acknowledged"
            )
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


def _is_acknowledged_file(path: str) -> bool:
    return bool(_COMMIT.fullmatch(path)) or "/_lakesmith/batches/" in path


def _incomplete(disk: Disk, path: str) -> Iterator[str]:
    """Yield an error if a file gets its name before its content is synced."""
    if not disk.is_synced(path):
        yield f"{path} has its name before its content is synced"


def _unsynced(disk: Disk, paths: Sequence[str] | Iterator[str], why: str) -> Iterator[str]:
    for path in paths:
        yield from (f"{lost}: {why}" for lost in disk.lost(path))


def _named(disk: Disk, root: Path, commit: str, table: str) -> Iterator[str]:
    """Yield the files that a commit references, and their checksum files."""
    for line in disk.read(commit).splitlines():
        action = json.loads(line)
        data_file = action.get("add") or action.get("cdc")
        if not data_file:
            continue
        path = f"{table}/{unquote(data_file['path'])}"
        yield path
        folder, _, name = path.rpartition("/")
        if disk.exists(beside := f"{folder}/.{name}.crc"):
            yield beside
        if (vector := data_file.get("deletionVector")) and vector["storageType"] == "u":
            yield str(vector_path(Path(table), vector["pathOrInlineDv"]))


@dataclass(frozen=True)
class Trace:
    """The recorded changes of the files below a folder."""

    root: Path
    events: tuple[Event, ...]

    def violations(self) -> list[str]:
        return [each.replace(f"{self.root}/", "") for each in violations(self.root, self.events)]

    def without_syncs(self, whose: Callable[[Event], bool]) -> Trace:
        """Return the trace without some syncs."""
        return replace(self, events=tuple(event for event in self.events if event.kind != "sync" or not whose(event)))


def traced(folder: Path, *words: str) -> Trace:
    root = folder / "lakes"
    root.mkdir()
    command = [sys.executable, "-m", "tests.faults.recorded", str(root), *words]
    # With another seed, a run may have nothing of what is planted here.
    return Trace(root, tuple(record(command, root, folder / "trace", {"SEED": "7"})))


def is_java(event: Event) -> bool:
    return not event.program.startswith("python")


def is_python(event: Event) -> bool:
    return not is_java(event)


def is_log(event: Event) -> bool:
    return os.path.basename(event.path) == "_delta_log"


PLANTED = [
    (is_java, "content of merge/.lakesmith/warehouse/silver/events/part-"),
    (is_java, "content of merge/.lakesmith/warehouse/silver/events/_change_data/"),
    (is_java, "content of merge/.lakesmith/warehouse/quarantine/silver/events/"),
    (is_java, "content of gated/.lakesmith/warehouse/gold/kinds/kind=a b%2520%2Fé%3F%23%3A"),
    (is_python, "content of merge/.lakesmith/warehouse/bronze/events/part-"),
    (is_python, "content of merge/.lakesmith/warehouse/gold/days/batch-"),
    (is_python, "content of merge/.lakesmith/warehouse/silver/events/deletion_vector_"),
    (is_python, r"content of merge/.lakesmith/warehouse/silver/events/batch-[^/]+/part-[0-9a-f]+\.zstd\.parquet"),
    (is_python, "content of merge/.lakesmith/warehouse/system/runs/part-"),
    (is_python, "content of gated/.lakesmith/warehouse/_lakesmith/held/"),
    (lambda event: event.path.endswith("/archive"), "the name 00001.json of gated/landing/events/archive/00001.json"),
    (is_log, "acknowledged"),
    (lambda event: event.path.endswith("/_change_data"), "the name cdc-"),
]
"""The omitted syncs, and the violation that must be found, as a pattern."""


@pytest.mark.verify
def test_every_file_is_synced_before_its_commit_and_omitted_syncs_are_detected(
    tmp_path: Path,
) -> None:
    # Runs that append, merge, replace partitions, reject rows, hold a batch, replay, compact and make checkpoints.
    runs = traced(tmp_path, "merge", "staged", "gated")
    there = {str(path.relative_to(runs.root)): path.read_bytes() for path in runs.root.rglob("*") if path.is_file()}
    assert replayed(runs.root, runs.events).files() == there, "the trace is incomplete"
    assert runs.violations() == []

    named = {event.to.removeprefix(f"{runs.root}/merge/.lakesmith/warehouse/") for event in runs.events if event.to}
    for table in ("bronze/events", "silver/events", "quarantine/silver/events", "gold/days", "system/runs"):
        assert f"{table}/_delta_log/{1:020}.json" in named
        assert f"{table}/_delta_log/{2:020}.checkpoint.parquet" in named
    written = "\n".join(event.path for event in runs.events if event.kind == "create")
    for kind in ("/_change_data/", "deletion_vector_", "/batch-0", "/_lakesmith/held/"):
        assert kind in written

    for whose, what in PLANTED:
        assert any(re.search(what, each) for each in runs.without_syncs(whose).violations()), what


def test_a_sync_without_effect_is_detected(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    (tmp_path / "planted").mkdir()
    assert traced(tmp_path / "sound", "ledger").violations() == []
    found = traced(tmp_path / "planted", "ledger", "no-sync").violations()
    assert any("content of system/runs/part-" in each for each in found)
    assert any("the name 00000000000000000000.json" in each and "acknowledged" in each for each in found)
    for what in ("the content of", "the name 1.json of"):
        assert f"{what} landing/events/archive/1.json is not synced: landing/events/1.json is removed" in found


def test_a_landing_file_that_is_removed_without_a_copy_is_detected() -> None:
    landed = "/lakes/landing/events/1.json"
    folders = (Event("mkdir", "/lakes/landing"), Event("mkdir", "/lakes/landing/events"))
    events = (*folders, Event("create", landed), Event("remove", landed))
    assert violations(Path("/lakes"), events) == [f"{landed} is removed without a copy"]
