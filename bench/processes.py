"""The CPU time of this process and all that it started: a JVM and Python workers do the work."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_below() -> float:
    """Seconds of CPU time, of processes that have ended too."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        found[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    total = 0
    for process, (_, ticks) in found.items():
        above = process
        while above in found and above != os.getpid():
            above = found[above][0]
        total += ticks if above == os.getpid() else 0
    return total / os.sysconf("SC_CLK_TCK")
