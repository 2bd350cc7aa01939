"""How much memory a process has had at the most since somebody asked last, as Linux tells it."""

from __future__ import annotations

from pathlib import Path


def forget_peak(process: int) -> int:
    """Begin the highest memory use of a process anew; returns the use now."""
    try:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    except OSError:
        return peak(process)
    return status("VmRSS", process)


def peak(process: int) -> int:
    """The highest memory use since then."""
    return status("VmHWM", process)


def status(name: str, process: int) -> int:
    """A figure of a process in bytes, 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
