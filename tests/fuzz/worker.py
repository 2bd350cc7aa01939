"""One process that runs cases in turn, with limits of memory and time, and reports each.

    python -m tests.fuzz.worker SUBJECTS SANDBOX SEED CPU_SECONDS MEMORY

It reads numbers line by line, and writes a line of JSON for each. The parent reports why the process ends.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import shutil
import sys
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fuzz.guard import Forbidden, Guard
from tests.peaks import forget_peak, peak, status

ADDRESSES = 4
"""The factor of address space over the memory limit: Arrow allocates far more than it touches."""


def main(subjects: str, sandbox: str, seed: str, seconds: int, memory: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    missing = os.open(os.devnull, os.O_RDWR)
    os.dup2(missing, 1)
    numbers = os.fdopen(os.dup(0), "r")
    os.dup2(missing, 0)
    faulthandler.enable()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=ResourceWarning)
    read = importlib.import_module(subjects)
    read.warm()
    read.case(seed, 0)
    guard = Guard(sandbox, str(Path(__file__).parents[2]))
    folder = Path(sandbox, "case")
    started = status("VmSize", os.getpid())
    resource.setrlimit(resource.RLIMIT_AS, (started + ADDRESSES * memory,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps({"ready": True}), file=answers)
    for line in numbers:
        number = int(line)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        os.chdir(folder)
        _allow(seconds)
        before = _forget_peaks()
        result = _tried(read, guard, seed, number, folder)
        result |= {"peak": sum(max(peak(each) - before.get(each, 0), 0) for each in _processes())}
        print(json.dumps(result), file=answers)


def _tried(read: Any, guard: Guard, seed: str, number: int, folder: Path) -> dict[str, object]:
    made = read.case(seed, number)
    guard.lenient = made.kind in getattr(read, "LENIENT", ())
    result: dict[str, object] = {"number": number, "kind": made.kind, "target": made.target}
    try:
        with guard.watching():
            rejected = read.try_case(made, folder)
    except (Exception, Forbidden, SystemExit) as error:  # noqa: BLE001 - whatever comes out is the answer
        result |= {"why": _said(error), "trace": _trace(error)}
    else:
        result |= {"codes": list(rejected)}
    if guard.events:
        result["why"] = f"forbidden: {guard.events[0]}"
    return result


def _said(error: BaseException) -> str:
    if type(error).__name__ == "Broke":
        return str(error)[:1000]
    return f"{type(error).__name__}: {error}"[:1000]


def _trace(error: BaseException) -> str:
    lines = traceback.format_exception(error)
    return "".join(lines)[-3000:]


def _allow(seconds: int) -> None:
    """Limit the CPU time of the next case, in this process and its children; more kills them."""
    for process in _processes():
        limit = int(_used(process)) + 1 + seconds
        resource.prlimit(process, resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _used(process: int) -> float:
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _forget_peaks() -> dict[int, int]:
    """Reset the highest memory use of each process; return the present use."""
    return {process: forget_peak(process) for process in _processes()}


def _processes() -> list[int]:
    """Return this process and its reader processes."""
    processes = [os.getpid()]
    for thread in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended since
            processes += map(int, Path(f"/proc/self/task/{thread}/children").read_text().split())
    return processes


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
