"""Finds the JVMs that a process has started in `/proc`, and kills only them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def jvms_of(process: int) -> list[int]:
    """Return the JVMs among the descendants of a process: Spark's, or its launcher's while Spark starts."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # the process has ended
            before, _, after = (entry / "stat").read_text().rpartition(")")
            state, parent = after.split()[:2]
            if state != "Z":
                parents[int(entry.name)] = int(parent)
                names[int(entry.name)] = before.partition("(")[2]
    return [each for each in parents if names[each] == "java" and _descends(each, process, parents)]


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process in parents:
        process = parents[process]
        if process == ancestor:
            return True
    return False


def kill_jvm(process: int) -> bool:
    """Kill the JVMs of a process and nothing else; return whether there was one."""
    killed = False
    for jvm in jvms_of(process):
        with suppress(ProcessLookupError):
            os.kill(jvm, signal.SIGKILL)
            killed = True
    return killed
