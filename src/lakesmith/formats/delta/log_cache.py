"""What this process has read from the logs of object stores, where each read is a request: a version never changes.

`snapshot` forgets a table that was dropped and created again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from lakesmith.ports import TableFolder

_TABLES = 100
_COMMITS = 64
_MAX_BYTES = 256 << 10
"""Larger commits are read again."""


@dataclass(slots=True)
class _Log:
    commits: OrderedDict[int, bytes] = field(default_factory=OrderedDict)
    segments: OrderedDict[int, tuple[int, range]] = field(default_factory=OrderedDict)


_logs: OrderedDict[TableFolder, _Log] = OrderedDict()
_lock = threading.Lock()
_Value = TypeVar("_Value")


def cached_commit(folder: TableFolder, version: int, read: Callable[[], bytes]) -> bytes:
    """The content of a commit."""
    if folder.disk is not None:
        return read()
    with _lock:
        found = _log(folder).commits.get(version)
    if found is None:
        found = read()
        if len(found) <= _MAX_BYTES:
            with _lock:
                _put(_log(folder).commits, version, found)
    return found


def cached_segment(
    folder: TableFolder, version: int, find: Callable[[], tuple[int, range] | None]
) -> tuple[int, range] | None:
    """The newest checkpoint and the later commits of a version."""
    if folder.disk is not None:
        return find()
    with _lock:
        found = _log(folder).segments.get(version)
    if found is None and (found := find()) is not None:
        with _lock:
            _put(_log(folder).segments, version, found)
    return found


def forget(folder: TableFolder) -> None:
    """Forget a table."""
    with _lock:
        _logs.pop(folder, None)


def _log(folder: TableFolder) -> _Log:
    log = _logs.setdefault(folder, _Log())
    _logs.move_to_end(folder)
    while len(_logs) > _TABLES:
        _logs.popitem(last=False)
    return log


def _put(values: OrderedDict[int, _Value], version: int, value: _Value) -> None:
    values[version] = value
    while len(values) > _COMMITS:
        values.popitem(last=False)
