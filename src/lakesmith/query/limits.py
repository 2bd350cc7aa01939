"""Stops a query that exceeds its time or memory, with an error that names the limit."""

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
    """Return the bytes that the engine may allocate: by default half of the machine's or container's memory."""
    return limits.memory if limits.memory is not None else _machine_memory() // 2


def answer_memory(memory: int) -> int:
    """Return the bytes that the rows of a result may use in Python, in addition to the engine's."""
    return memory // 2


@cache
def _machine_memory() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in map(Path, _CONTAINER):
        if file.is_file() and (text := file.read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits)


class Deadline:
    """A context in which the connection's statements are interrupted once the time is up."""

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
            # The connection closes next, and must not be interrupted after that.
            self._timer.join()

    def check(self) -> None:
        """Raise when the time is up: an interrupt between two statements stops neither."""
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
    """Return the error for a query that exceeds its time."""
    return InfrastructureError(
        "query-timeout",
        f"the query was stopped after {seconds:g} seconds",
        hint="read fewer rows, or allow more time: --timeout 30m, or `query: {timeout: 30m}` in the environment",
    )


def out_of_memory() -> InfrastructureError:
    """Return the error for a query that exceeds its memory."""
    return InfrastructureError(
        "query-memory",
        "the query needs more memory than it may use",
        hint="read fewer rows or columns, aggregate before sorting and joining, or allow more: --memory 8GB, "
        "or `query: {memory: 8GB}` in the environment",
    )


def too_many_rows(rows: int) -> InfrastructureError:
    """Return the error for a result that does not fit in memory."""
    return InfrastructureError(
        "query-memory",
        f"the result does not fit in memory: it was stopped after {rows:,} rows",
        hint="aggregate, add LIMIT, or allow more: --memory 8GB, or `query: {memory: 8GB}` in the environment",
    )
