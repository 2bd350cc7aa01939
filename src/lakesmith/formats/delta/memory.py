"""Facts that were read before: a table whose newest commit is the same file as last time has the same facts.

Opening a table with delta-rs takes a few milliseconds of CPU time, which adds up to half a second on a lake of two
hundred tables. A few `stat` calls tell whether what was read the last time still holds: the newest commit is the same
file, none comes after it, and no name has come to or gone from the log. Losing the memory costs that
half second once and nothing else.
"""

from __future__ import annotations

import dataclasses
import os
from datetime import datetime
from pathlib import Path

from lakesmith.cache import keep, read_kept
from lakesmith.formats.delta.names import commit_path, log_of
from lakesmith.ports import ColumnFact, TableFacts


class FactsMemory:
    """Facts by location, kept in one file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed = False
        self._entries: dict[str, dict[str, object]] = read_kept(file)

    def recall(self, location: str, flow: str) -> TableFacts | None:
        """The facts, if the table's log ends with the very file that it ended with when they were read."""
        entry = self._entries.get(f"{flow} {location}")
        if entry is None:
            return None
        try:
            facts = _decode(entry["facts"])
            if entry["ends"] != _log_end(location, facts.version) or _is_commit(location, facts.version + 1):
                return None
        except (AttributeError, KeyError, TypeError, ValueError):  # written by another version of Lakesmith
            return None
        return facts

    def keep(self, location: str, flow: str, facts: TableFacts) -> None:
        ends = _log_end(location, facts.version)
        self._entries[f"{flow} {location}"] = {"ends": ends, "facts": dataclasses.asdict(facts)}
        self._changed = True

    def save(self) -> None:
        """Write the memory down when it has changed."""
        if self._changed:
            keep(self._file, self._entries, default=datetime.isoformat)
            self._changed = False


def _decode(stored: object) -> TableFacts:
    if not isinstance(stored, dict):
        raise TypeError("not facts")
    return TableFacts(
        **{
            **stored,
            "columns": tuple(ColumnFact(**column) for column in stored["columns"]),
            "partition_by": tuple(stored["partition_by"]),
            "committed_at": datetime.fromisoformat(stored["committed_at"]),
        }
    )


def _is_commit(location: str, version: int) -> bool:
    return os.path.exists(commit_path(location, version))


def _log_end(location: str, version: int) -> list[int] | None:
    try:
        found, log = os.stat(commit_path(location, version)), os.stat(log_of(location))
    except OSError:
        return None
    return [found.st_ino, found.st_mtime_ns, found.st_size, log.st_mtime_ns]
