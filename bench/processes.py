"""The CPU time of this process and all that it started: a JVM and Python workers do the work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def cpu_below() -> float:
    """Seconds of CPU time, of processes that have ended too."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _below()) / os.sysconf("SC_CLK_TCK")


def compiling_below() -> float:
    """Seconds of it that threads of JVMs, as long as they live, have compiled byte code: a young JVM has most to do."""
    ticks = 0
    for process, _ in _below():
        for thread in _threads(process):
            if (told := _told(thread)) and told[0].startswith(("C1 CompilerThre", "C2 CompilerThre")):
                ticks += sum(map(int, told[1][11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _below() -> Iterator[tuple[int, list[str]]]:
    """This process and those that it started, with what the system tells of them."""
    found = {
        int(entry.name): told[1] for entry in Path("/proc").iterdir() if entry.name.isdigit() and (told := _told(entry))
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
    except OSError:  # it has just ended
        return []


def _told(entry: Path) -> tuple[str, list[str]] | None:
    """The name of a process or thread and its numbers; None when it has just ended."""
    try:
        name, _, numbers = (entry / "stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    return name, numbers.split()
