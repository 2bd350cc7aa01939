"""Ends the process when a query cannot be interrupted, because a single function call may run for hours."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Self

from lakesmith.cli.failures import show_failure
from lakesmith.declare import QueryLimits
from lakesmith.errors import LakesmithError

GRACE = 5.0
"""Seconds that the engine gets to stop after an interrupt."""
_SLACK = 500_000_000
"""Bytes beyond the engine and its answer: libraries and file buffers."""
_INTERVAL = 0.05
_STATM = Path("/proc/self/statm")


class Watchdog:
    """A context that ends the process beyond limits of time and memory. A query writes nothing that could be lost."""

    def __init__(self, limits: QueryLimits, *, as_json: bool) -> None:
        from lakesmith.query.limits import allowed_memory, answer_memory

        memory = allowed_memory(limits)
        self._limits = limits
        self._most = _resident() + memory + answer_memory(memory) + _SLACK
        self._as_json = as_json
        self._done = threading.Event()

    def __enter__(self) -> Self:
        self._started_at = time.monotonic()
        threading.Thread(target=self._watch, daemon=True, name="watchdog").start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()

    def _watch(self) -> None:
        from lakesmith.query.limits import out_of_memory, out_of_time

        timeout = self._limits.timeout
        while not self._done.wait(_INTERVAL):
            if timeout is not None and time.monotonic() - self._started_at > timeout + GRACE:
                self._end(out_of_time(timeout))
            if _resident() > self._most:
                self._end(out_of_memory())

    def _end(self, error: LakesmithError) -> None:
        code = show_failure(error, as_json=self._as_json)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _resident() -> int:
    """The process's resident memory in bytes; 0 where the system does not report it."""
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
