"""The cost of checksums: opening a table with verified checksums against delta-rs alone, and a commit with and without
a checksum file."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

from deltalake import DeltaTable

from bench.measure import busy, show, spread
from lakesmith.disk import sync, write_new
from lakesmith.formats.delta.add_files import add_files
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.log_files import commit_name
from lakesmith.formats.delta.snapshot import open_snapshot
from lakesmith.ports import Write
from lakesmith.store import folder_at
from lakesmith.store.checksum_files import checksum_path, checksums_of

COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
FILES = 100_000
"""The files of the large table, all in one checkpoint."""
COMMITS = (9, 99)
"""The most commits since a checkpoint: Lakesmith and Spark write one every ten versions, delta-rs every hundred."""


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.checksums", description=__doc__)
    parser.add_argument("--times", type=int, default=15, help="calls that are measured")
    options = parser.parse_args(words)
    load = busy()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            *(
                _opening(f"a table of {count + 1} commits", _small(f"{folder}/{count}", count), options.times)
                for count in COMMITS
            ),
            _opening(f"a table of {FILES:,} files in a checkpoint", _large(f"{folder}/large"), options.times),
            _committing(folder, options.times),
        ]
    header = ("", "without, ms", "with, ms", "ratio")
    show(f"Checksums, median of {options.times} ({load})", header, rows)


def _opening(what: str, location: str, times: int) -> list[str]:
    return _compared(what, lambda: DeltaTable(location), lambda: open_snapshot(folder_at(location)), times)


def _committing(folder: str, times: int) -> list[str]:
    content = (json.dumps(_action(1)) + "\n").encode() * 10

    def write_synced(path: str, data: bytes) -> None:
        write_new(path, data)
        sync(path)

    def bare() -> str:
        name = f"{folder}/{uuid.uuid4()}"
        write_synced(f"{name}.tmp", content)
        os.link(f"{name}.tmp", name)
        os.remove(f"{name}.tmp")
        sync(folder)
        return name

    def with_checksum() -> None:
        temporary = f"{folder}/.{uuid.uuid4()}.tmp"
        write_synced(temporary, checksums_of(content))
        os.replace(temporary, checksum_path(bare()))

    return _compared("a commit of 10 actions, on the disk", bare, with_checksum, times)


def _compared(what: str, without: Callable[[], object], with_checksum: Callable[[], object], times: int) -> list[str]:
    """Run both in turns, so that other work of the machine affects both."""
    costs: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for call, cost in zip((without, with_checksum), costs, strict=True):
            started = time.perf_counter()
            call()
            cost.append((time.perf_counter() - started) * 1000)
    return [what, *(spread(cost, 1) for cost in costs), f"{median(costs[1]) / median(costs[0]):.2f}"]


def _small(location: str, commits: int) -> str:
    _make(location, [[_action(version)] for version in range(commits)])
    return location


def _large(location: str) -> str:
    _make(location, [[_action(number) for number in range(FILES)]])
    DeltaTable(location).create_checkpoint()
    write_checksums(folder_at(location))
    [checkpoint] = Path(location, "_delta_log").glob("*.checkpoint.parquet")
    print(f"the checkpoint has {checkpoint.stat().st_size / 1e6:.1f} MB")
    return location


def _make(location: str, commits: list[list[dict[str, object]]]) -> None:
    """Make a log that names files which do not exist: no commit of Lakesmith would."""
    folder = folder_at(location)
    add_files(folder, (), COLUMNS, Write(flow="bench", sequence=1, note="batch 1"), None)
    for version, actions in enumerate(commits, 1):
        folder.put_if_absent(commit_name(version), "".join(json.dumps(line) + "\n" for line in actions).encode())
    write_checksums(folder)


def _action(number: int) -> dict[str, object]:
    stats = {"numRecords": 1000, "minValues": {"id": number}, "maxValues": {"id": number + 999}, "nullCount": {"id": 0}}
    return {
        "add": {
            "path": f"part-{number:05}-{uuid.uuid4()}.snappy.parquet",
            "partitionValues": {},
            "size": 100_000,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
    }


if __name__ == "__main__":
    main()
