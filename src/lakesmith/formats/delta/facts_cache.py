"""Caches facts of tables between calls: a table whose newest commit is the same file has the same facts.

Opening a table with delta-rs takes a few milliseconds of CPU time, which adds up to half a second on a lake of two
hundred tables. A few `stat` calls on a disk, or one listing of an object store, show whether the cached facts are
current: the newest commit is the same file, and no later one exists. On a disk, also no file was added to or removed
from the log. A lost cache costs that half second once.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakesmith.cache import read_cache, write_cache
from lakesmith.formats.delta.log_files import LOG, commit_etags, commit_name
from lakesmith.ports import ColumnFact, TableFacts, TableFolder

if TYPE_CHECKING:
    from pathlib import Path


class FactsCache:
    """Facts by flow and location, stored in one file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed = False
        self._entries: dict[str, dict[str, object]] = read_cache(file)

    def get(self, folder: TableFolder, flow: str) -> TableFacts | None:
        """The cached facts, if the end of the table's log has not changed since they were read."""
        entry = self._entries.get(f"{flow} {folder}")
        if entry is None:
            return None
        try:
            facts = _decode(entry["facts"], folder)
            log_end = _log_end(folder, facts.version)
            if log_end is None or entry["log_end"] != log_end:
                return None
        except (AttributeError, KeyError, TypeError, ValueError):  # written by another version of Lakesmith
            return None
        return facts

    def put(self, folder: TableFolder, flow: str, facts: TableFacts) -> None:
        stored = {name: value for name, value in _fields(facts).items() if name != "folder"}
        log_end = _log_end(folder, facts.version)
        self._entries[f"{flow} {folder}"] = {"log_end": log_end, "facts": stored}
        self._changed = True

    def save(self) -> None:
        """Write the cache to its file when it has changed."""
        if self._changed:
            write_cache(self._file, self._entries)
            self._changed = False


def _fields(facts: TableFacts) -> dict[str, Any]:
    found = {field.name: getattr(facts, field.name) for field in dataclasses.fields(facts)}
    columns = [dataclasses.asdict(column) for column in facts.columns]
    return {**found, "columns": columns, "committed_at": facts.committed_at.isoformat()}


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


def _log_end(folder: TableFolder, version: int) -> list[object] | None:
    """The end of the log, for a comparison; None where the version is not the newest."""
    if folder.disk is None:
        etags = commit_etags(folder, version)
        return [etags[version]] if max(etags, default=-1) == version else None
    changed, newest = folder.disk.folder_changed(folder.key(LOG)), folder.stat(commit_name(version))
    if newest is None or folder.stat(commit_name(version + 1)) is not None:
        return None
    return [newest.etag, changed]
