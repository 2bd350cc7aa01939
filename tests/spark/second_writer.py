"""Commits to a table's log from Python like Lakesmith, beside `java/Drive.java`.

python -m tests.spark.second_writer links /the/table 100 /the/barrier
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta import add_files as files
from lakesmith.formats.delta.actions import commit_actions
from lakesmith.formats.delta.add_files import add_files
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.commit import VersionTaken
from lakesmith.ports import DataFile, Write
from lakesmith.store import folder_at

COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
_OTHER, _SELF, _ROUND = 0, 64, ">i"
"""Offsets in the barrier file where the two writers publish their progress."""


def make(location: Path) -> None:
    """Create a table without rows; its version 0 belongs to neither writer."""
    add_files(folder_at(str(location)), (), COLUMNS, Write(flow="made", sequence=1, note="made"), None)
    write_checksums(folder_at(str(location)))


def _link(location: str) -> Callable[[Write], None]:
    """Commit with a hard link."""

    def commit(write: Write) -> None:
        version = max(int(file.stem) for file in Path(location, "_delta_log").glob("*.json"))
        commit_actions(folder_at(location), version, write, ("WRITE", {}), {}, [])

    return commit


def _add(location: str) -> Callable[[Write], None]:
    """Commit by adding files."""
    table_id = str(DeltaTable(location).metadata().id)
    first = commit_actions

    def patched(*words: Any, **named: Any) -> None:
        try:
            first(*words, **named)
        except VersionTaken:
            sys.stdout.write("lost a version to the other\n")
            raise

    vars(files)["commit_actions"] = patched

    def commit(write: Write) -> None:
        Path(location, f"{write.sequence}.parquet").write_bytes(b"x")
        file = DataFile(f"{write.sequence}.parquet", 1, 1)
        assert add_files(folder_at(location), [file], COLUMNS, write, table_id), "it was skipped as already committed"
        write_checksums(folder_at(location))

    return commit


def _meet(barrier: mmap.mmap, round: int) -> None:
    """Wait until the other process has reached the same number."""
    struct.pack_into(_ROUND, barrier, _SELF, round)
    while struct.unpack_from(_ROUND, barrier, _OTHER)[0] < round:
        time.sleep(0.001)


def main(how: str, location: str, commits: str, shared: str) -> None:
    commit = {"links": _link, "files": _add}[how](location)
    Path(shared).touch()
    with open(shared, "r+b") as file:
        file.truncate(2 * _SELF)
        barrier = mmap.mmap(file.fileno(), 2 * _SELF)
    for number in range(int(commits)):
        _meet(barrier, number + 1)
        while True:
            try:
                commit(Write(flow="python", sequence=number + 1, note=f"1:{number}"))
                break
            except InfrastructureError as error:
                if error.code != "commit-conflict":
                    raise
                sys.stdout.write("lost a version to the other\n")
        sys.stdout.write(f"won 1:{number}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
