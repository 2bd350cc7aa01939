"""The one place that opens tables of the lake: each snapshot is checked for corruption.

A process opens a table of an object store once. After that, one listing shows that the table is unchanged, or delta-rs
reads only the commits that were made since. On a disk, opening costs little, and checksums are checked each time.
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesmith.errors import DataError
from lakesmith.formats.delta.integrity import log_failure, refuse_corruption
from lakesmith.formats.delta.log_cache import forget
from lakesmith.formats.delta.log_files import LOG, commit_etags, delta_table
from lakesmith.ports import TableFolder

if TYPE_CHECKING:
    from deltalake import DeltaTable

_REMEMBERED = 100
"""The number of tables that a process keeps open."""


def open_snapshot_if_any(folder: TableFolder) -> DeltaTable | None:
    """The newest version; None where there is no table."""
    if folder.disk is None:
        return _remembered(folder)
    if folder.disk.folder_changed(folder.key(LOG)) is None:
        return None
    table = _open(folder)
    if table is not None:
        refuse_corruption(folder, table.version())
    return table


def open_snapshot(folder: TableFolder) -> DeltaTable:
    """The newest version; raises where there is no table."""
    table = open_snapshot_if_any(folder)
    if table is None:
        raise DataError("no-table", f"there is no table at {folder}", hint="run again")
    return table


def open_snapshot_at(folder: TableFolder, version: int) -> DeltaTable:
    """A version; raises delta-rs's error where it is gone."""
    from deltalake import exceptions

    if folder.disk is None and (newest := _remembered(folder)) is not None and newest.version() == version:
        return newest
    try:
        table = delta_table(folder, version)
    except exceptions.DeltaError:  # corruption, too, can look like a version that is gone
        refuse_corruption(folder, version)
        raise
    refuse_corruption(folder, version)
    return table


def _open(folder: TableFolder) -> DeltaTable | None:
    # deltalake takes a tenth of a second to import: too long where there is no table to read.
    from deltalake import exceptions

    try:
        return delta_table(folder)
    except exceptions.TableNotFoundError:
        return None
    except (exceptions.DeltaError, OSError) as error:
        raise log_failure(folder, str(error)) from error


@dataclass(slots=True)
class _OpenTable:
    """A table of an object store that this process has opened."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    table: DeltaTable | None = None
    etag: str | None = None
    """The etag of its newest commit. A table that was dropped and created again has another one."""
    held: weakref.WeakValueDictionary[int, DeltaTable] = field(default_factory=weakref.WeakValueDictionary)
    """The snapshots that callers still use."""

    def newest(self, folder: TableFolder) -> DeltaTable | None:
        with self.lock:
            self._refresh(folder)
            if self.table is None:
                return None
            snapshot = copy.copy(self.table)
            self.held[id(snapshot)] = snapshot
            return snapshot

    def _refresh(self, folder: TableFolder) -> None:
        if self.table is not None:
            version = self.table.version()
            etags = commit_etags(folder, version)
            if self.etag is not None and etags.get(version) == self.etag:
                if max(etags) > version:
                    # A snapshot never changes while a caller uses it.
                    self.table = _open(folder) if self.held else _updated(folder, self.table)
                    self.etag = etags.get(self.table.version()) if self.table is not None else None
                return
        elif next(folder.list(f"{LOG}/0"), None) is None:
            return
        forget(folder)
        self.table = _open(folder)
        if self.table is not None:
            version = self.table.version()
            self.etag = commit_etags(folder, version).get(version)


def _updated(folder: TableFolder, table: DeltaTable) -> DeltaTable | None:
    from deltalake import exceptions

    try:
        table.update_incremental()
    except (exceptions.DeltaError, OSError):
        return _open(folder)
    return table


_tables: OrderedDict[TableFolder, _OpenTable] = OrderedDict()
_choosing = threading.Lock()


def _remembered(folder: TableFolder) -> DeltaTable | None:
    """The newest version of a table of an object store."""
    with _choosing:
        table = _tables.setdefault(folder, _OpenTable())
        _tables.move_to_end(folder)
        while len(_tables) > _REMEMBERED:
            _tables.popitem(last=False)
    return table.newest(folder)
