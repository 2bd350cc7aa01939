"""Folders of batches that are written but not committed: one per attempt, such as `00000007.02`."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress

SUCCESS_MARKER = "_SUCCESS"
"""Spark creates this file when all other files of a folder are in place."""
_ATTEMPT = re.compile(r"(\d{8,})\.\d{2,}")


def staged_name(sequence: int, attempt: int) -> str:
    """Return the folder name of an attempt."""
    return f"{sequence:08}.{attempt:02}"


def staged_folders(beside: str) -> list[str]:
    """Return the folders of all attempts; other entries are not ours."""
    names = os.listdir(beside) if os.path.isdir(beside) else []
    return [os.path.join(beside, name) for name in sorted(names) if _ATTEMPT.fullmatch(name)]


def remove_staged(folders: Iterable[str], upto: int) -> None:
    """Remove the folders of attempts at batches up to this one, which can no longer be committed."""
    for folder in folders:
        found = _ATTEMPT.fullmatch(os.path.basename(folder))
        if found and int(found[1]) <= upto:
            # First of all files: without it, readers know that others may be missing.
            with suppress(OSError):
                os.unlink(os.path.join(folder, SUCCESS_MARKER))
            shutil.rmtree(folder, ignore_errors=True)


def last_changed(folder: str) -> float:
    """Return when a file below a folder was last changed; infinity when there is none."""
    times: list[float] = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a concurrent run removed it
                times.append(os.stat(os.path.join(parent, name)).st_mtime)
    return max(times, default=math.inf)
