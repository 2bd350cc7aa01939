"""The highest memory use of a process since the last reset, read from Linux."""

from __future__ import annotations

from pathlib import Path


def forget_peak(process: int) -> int:
    """Reset the highest memory use of a process; return the present use."""
    try:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    except OSError:
        return peak(process)
    return status("VmRSS", process)


def peak(process: int) -> int:
    """Return the highest memory use since the reset."""
    return status("VmHWM", process)


def status(name: str, process: int) -> int:
    """Return a memory figure of a process in bytes; 0 where the system has none."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
