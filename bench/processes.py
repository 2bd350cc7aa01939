"""The CPU time of this process and its descendants: a JVM and Python workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def cpu_below() -> float:
    """Return the seconds of CPU time, also of ended processes."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _below()) / os.sysconf("SC_CLK_TCK")


def compiling_below() -> float:
    """Return the seconds that live JVM threads compiled byte code: a new JVM compiles most."""
    ticks = 0
    for process, _ in _below():
        for thread in _threads(process):
            if (status := _status(thread)) and status[0].startswith(("C1 CompilerThre", "C2 CompilerThre")):
                ticks += sum(map(int, status[1][11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _below() -> Iterator[tuple[int, list[str]]]:
    """Yield this process and its descendants, with their status fields."""
    found = {
        int(entry.name): status[1]
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and (status := _status(entry))
    }
    for process, fields in found.items():
        above = process
        while above in found and above != os.getpid():
            above = int(found[above][1])
        if above == os.getpid():
            yield process, fields


def _threads(process: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:  # the process has just ended
        return []


def _status(entry: Path) -> tuple[str, list[str]] | None:
    """Return the name of a process or thread and its status fields; None when it has just ended."""
    try:
        name, _, numbers = (entry / "stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    return name, numbers.split()
