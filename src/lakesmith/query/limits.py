"""Stops a query that takes too long, and names what it took too much of."""

from __future__ import annotations

import os
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lakesmith.declare import QueryLimits
from lakesmith.errors import InfrastructureError

if TYPE_CHECKING:
    import duckdb

_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def allowed_memory(limits: QueryLimits) -> int:
    """The bytes that the engine may allocate: by default half of what the machine or the container has."""
    return limits.memory if limits.memory is not None else _machine_memory() // 2


def answer_memory(memory: int) -> int:
    """The bytes that the rows of an answer may take in Python, beside the engine's."""
    return memory // 2


@cache
def _machine_memory() -> int:
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in map(Path, _CONTAINER):
        if file.is_file() and (text := file.read_text().strip()).isdigit():
            found.append(int(text))
    return min(found)


class Deadline:
    """While it is entered, the connection's statements are interrupted once the time is up."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, seconds: float | None) -> None:
        self._connection = connection
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        self.passed = False

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._timer = threading.Timer(self._seconds, self._interrupt)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            # The connection is closed next, and must not be interrupted after that.
            self._timer.join()

    def check(self) -> None:
        """Raise when the time is up: an interrupt that comes between two statements stops neither."""
        if self.passed:
            raise self.error

    @property
    def error(self) -> InfrastructureError:
        assert self._seconds is not None
        return out_of_time(self._seconds)

    def _interrupt(self) -> None:
        self.passed = True
        self._connection.interrupt()


def out_of_time(seconds: float) -> InfrastructureError:
    """The error for a query that took longer than it may."""
    return InfrastructureError(
        "query-timeout",
        f"the query was stopped after {seconds:g} seconds",
        hint="read fewer rows, or allow more time: --timeout 30m, or `query: {timeout: 30m}` in the environment",
    )


def out_of_memory() -> InfrastructureError:
    """The error for a query that needs more memory than it may use."""
    return InfrastructureError(
        "query-memory",
        "the query needs more memory than it may use",
        hint="read fewer rows or columns, aggregate before sorting and joining, or allow more: --memory 8GB, "
        "or `query: {memory: 8GB}` in the environment",
    )


def too_many_rows(rows: int) -> InfrastructureError:
    """The error for an answer that does not fit in memory."""
    return InfrastructureError(
        "query-memory",
        f"the answer has more rows than its memory holds: it was stopped after {rows:,}",
        hint="aggregate, add LIMIT, or allow more: --memory 8GB, or `query: {memory: 8GB}` in the environment",
    )
