"""The folders of batches that are written and not committed: one for each attempt, `00000007.02`."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress

SUCCESS_MARKER = "_SUCCESS"
"""Spark makes this file in a folder when the last of the others is in its place."""
_ATTEMPT = re.compile(r"(\d{8,})\.\d{2,}")


def staged_name(sequence: int, attempt: int) -> str:
    """What the folder of an attempt is called."""
    return f"{sequence:08}.{attempt:02}"


def staged_folders(beside: str) -> list[str]:
    """The folders of all attempts; what else lies beside them is not ours."""
    names = os.listdir(beside) if os.path.isdir(beside) else []
    return [os.path.join(beside, name) for name in sorted(names) if _ATTEMPT.fullmatch(name)]


def remove_staged(folders: Iterable[str], upto: int) -> None:
    """Remove the folders of attempts at batches up to this one: none of them can be committed any more."""
    for folder in folders:
        found = _ATTEMPT.fullmatch(os.path.basename(folder))
        if found and int(found[1]) <= upto:
            # Before any other file: whoever still reads them learns from the mark that they are not all there.
            with suppress(OSError):
                os.unlink(os.path.join(folder, SUCCESS_MARKER))
            shutil.rmtree(folder, ignore_errors=True)


def last_changed(folder: str) -> float:
    """When a file below a folder was changed last; never where there is none."""
    times: list[float] = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a run goes on beside
                times.append(os.stat(os.path.join(parent, name)).st_mtime)
    return max(times, default=math.inf)
