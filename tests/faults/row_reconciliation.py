"""Compares the row counts of each batch with the model: rows in, and where each row went."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.faults.delta_files import Files
from tests.faults.flows import Decided
from tests.faults.layouts import Stream

_NOTE = re.compile(r"lakesmith (?:batch|maintenance) (\d+)\.(\d+) run ")


_MOST = 200
"""An upper limit of the files in one lake."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """What a table has read with a batch."""

    version: int
    """Of the bronze table."""
    files: int
    decided: Decided


def reconciliation_errors(stream: Stream, warehouse: Path, tables: dict[str, Files]) -> Iterator[str]:
    """Yield the batches of a silver table whose row counts differ from the model."""
    flow, events, silver = stream.flow, stream.events, stream.silver
    if stream.bronze not in tables:
        return
    bronze = tables[stream.bronze]
    landed = _landed(stream, warehouse, bronze)
    reached = {0: _Reached(-1, 0, Decided())}
    for file in sorted(_batches(warehouse, silver).glob("*.done.json")):
        done = json.loads(file.read_text())
        batch = _pinned(warehouse, silver, done["sequence"], done["attempt"])
        if batch["parent"] not in reached:
            yield f"B {silver}: batch {done['sequence']} continues batch {batch['parent']}, which is not complete"
            continue
        before = reached[batch["parent"]]
        now = replace(before, version=batch["inputs"][stream.bronze]["version"])
        expected: dict[str, int] = {}
        if batch["mode"] == "replay":
            what = "discard" if batch["content"]["replay"]["discard"] else "replay"
            now = replace(now, decided=before.decided.and_then(what, before.files))
            expected = flow.replayed(events, now.files, now.decided)
        elif batch["mode"] in ("full", "changes", "partitions"):
            now = replace(now, files=landed[now.version])
            # After a restore of bronze, a batch reads more than the new rows.
            went_back = any(landed[each] < before.files for each in range(before.version + 1, now.version))
            if batch["mode"] == "full" or not (went_back or _is_disturbed(bronze, before.version, now.version)):
                expected = flow.counted(events, batch["mode"], before.files, now.files, now.decided)
        reached[done["sequence"]] = now
        recorded = {name: done[f"rows_{name}"] for name in expected}
        if recorded != expected:
            yield f"B {silver}: batch {done['sequence']} recorded {recorded}, expected {expected}"


def _is_disturbed(bronze: Files, after: int, upto: int) -> bool:
    """Return whether another writer added and deleted rows: then a batch reads more than the new rows."""
    others = [each for each in bronze.commits if after < each.version <= upto and not _NOTE.search(each.note or "")]
    return any(each.operation == "DELETE" for each in others)


def _landed(stream: Stream, warehouse: Path, bronze: Files) -> dict[int, int]:
    """Return the number of the last ingested file by version of the bronze table."""
    numbers = [0, *filter(stream.events.counts, range(1, _MOST))]
    files = {0: 0}
    landed: dict[int, int] = {}
    sequence = 0
    for commit in bronze.commits:
        if note := _NOTE.search(commit.note or ""):
            sequence = int(note[1])
            batch = _pinned(warehouse, stream.bronze, sequence, int(note[2]))
            files[sequence] = files[batch["parent"]] + len(batch["content"].get("files", ()))
        landed[commit.version] = numbers[files[sequence]]
    return landed


def _batches(warehouse: Path, table: str) -> Path:
    return warehouse / "_lakesmith" / "batches" / table


def _pinned(warehouse: Path, table: str, sequence: int, attempt: int) -> Any:
    return json.loads((_batches(warehouse, table) / f"{sequence:08}.{attempt:02}.json").read_text())
