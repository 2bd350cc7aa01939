"""Caches facts of tables between calls: a table whose newest commit is the same file has the same facts.

Opening a table with delta-rs takes a few milliseconds of CPU time, which adds up to half a second on a lake of two
hundred tables. A few `stat` calls show whether the cached facts are current: the newest commit is the same file, no
later one exists, and no file was added to or removed from the log. A lost cache costs that half second once.
"""

from __future__ import annotations

import dataclasses
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from lakesmith.cache import read_cache, write_cache
from lakesmith.formats.delta.log_files import commit_path, log_folder
from lakesmith.ports import ColumnFact, TableFacts, TableFolder


class FactsCache:
    """Facts by flow and location, stored in one file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed = False
        self._entries: dict[str, dict[str, object]] = read_cache(file)

    def get(self, folder: TableFolder, flow: str) -> TableFacts | None:
        """The cached facts, if the end of the table's log has not changed since they were read."""
        location = folder.url
        entry = self._entries.get(f"{flow} {location}")
        if entry is None:
            return None
        try:
            facts = _decode(entry["facts"], folder)
            if entry["log_end"] != _log_end(location, facts.version) or _is_commit(location, facts.version + 1):
                return None
        except (AttributeError, KeyError, TypeError, ValueError):  # written by another version of Lakesmith
            return None
        return facts

    def put(self, folder: TableFolder, flow: str, facts: TableFacts) -> None:
        stored = {name: value for name, value in _fields(facts).items() if name != "folder"}
        log_end = _log_end(folder.url, facts.version)
        self._entries[f"{flow} {folder.url}"] = {"log_end": log_end, "facts": stored}
        self._changed = True

    def save(self) -> None:
        """Write the cache to its file when it has changed."""
        if self._changed:
            write_cache(self._file, self._entries, default=datetime.isoformat)
            self._changed = False


def _fields(facts: TableFacts) -> dict[str, Any]:
    found = {field.name: getattr(facts, field.name) for field in dataclasses.fields(facts)}
    return {**found, "columns": [dataclasses.asdict(column) for column in facts.columns]}


def _decode(stored: object, folder: TableFolder) -> TableFacts:
    if not isinstance(stored, dict):
        raise TypeError("not facts")
    return TableFacts(
        **{
            **stored,
            "folder": folder,
            "columns": tuple(ColumnFact(**column) for column in stored["columns"]),
            "partition_by": tuple(stored["partition_by"]),
            "committed_at": datetime.fromisoformat(stored["committed_at"]),
        }
    )


def _is_commit(location: str, version: int) -> bool:
    return os.path.exists(commit_path(location, version))


def _log_end(location: str, version: int) -> list[int] | None:
    try:
        found, log = os.stat(commit_path(location, version)), os.stat(log_folder(location))
    except OSError:
        return None
    return [found.st_ino, found.st_mtime_ns, found.st_size, log.st_mtime_ns]
