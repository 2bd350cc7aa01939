"""Timed child processes and printed tables, shared by the measurements."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
_PR_SET_CHILD_SUBREAPER = 36
"""Of Linux's prctl()."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one child process."""

    wall: float
    cpu: float
    """User and system time of the child and all processes that it started, such as Spark's."""
    output: str


def call(command: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: Path = ROOT) -> Cost:
    """Run a command; a failing one ends the measurement with its output."""
    _adopt_orphans()
    before, started = _children_cpu(), time.monotonic()
    answer = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    wall = time.monotonic() - started
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)  # the JVM ends after the command
    cpu = _children_cpu() - before
    if answer.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {answer.returncode}:\n{(answer.stdout + answer.stderr)[-3000:]}")
    return Cost(wall=wall, cpu=cpu, output=answer.stdout)


def lakesmith() -> str:
    """Return the installed command of the running Python."""
    return str(Path(sys.executable).parent / "lakesmith")


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print(f"\n{title}\n")
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median, with the minimum and maximum if there are several values."""
    middle = f"{median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def busy() -> str:
    """Return the load of the machine: it affects times more than ratios."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores when this began"


def verdict(value: float, limit: float) -> str:
    return f"≤ {limit:g} {'yes' if value <= limit else 'NO'}"


def _adopt_orphans() -> None:
    """Become the parent of processes whose parent ends: only a parent learns how much CPU a process has used."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
