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
from lakesmith.disk import sync, write_synced
from lakesmith.formats.delta.actions import commit_actions
from lakesmith.formats.delta.add_files import add_files
from lakesmith.formats.delta.checksums import checksum_path, checksums_of, write_checksums
from lakesmith.formats.delta.snapshot import open_snapshot
from lakesmith.ports import Write

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
    return _compared(what, lambda: DeltaTable(location), lambda: open_snapshot(location), times)


def _committing(folder: str, times: int) -> list[str]:
    content = (json.dumps(_action(1)) + "\n").encode() * 10

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
    add_files(location, (), COLUMNS, _write(1), None)
    for version in range(commits):
        commit_actions(location, version, _write(version + 2), ("WRITE", {}), {}, [_action(version)])
    for file in Path(location, "_delta_log").glob("*checkpoint*"):
        file.unlink()
    write_checksums(location)
    return location


def _large(location: str) -> str:
    add_files(location, (), COLUMNS, _write(1), None)
    commit_actions(location, 0, _write(2), ("WRITE", {}), {}, [_action(number) for number in range(FILES)])
    DeltaTable(location).create_checkpoint()
    write_checksums(location)
    [checkpoint] = Path(location, "_delta_log").glob("*.checkpoint.parquet")
    print(f"the checkpoint has {checkpoint.stat().st_size / 1e6:.1f} MB")
    return location


def _write(sequence: int) -> Write:
    return Write(flow="bench", sequence=sequence, note=f"batch {sequence}")


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
