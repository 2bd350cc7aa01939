"""Folders of batches that are written but not committed: one per attempt, such as `00000007.02`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from lakesmith.ports import TableFolder

SUCCESS_MARKER = "_SUCCESS"
"""Spark creates this file when all other files of a folder are in place."""
_ATTEMPT = re.compile(r"(\d{8,})\.\d{2,}")


def staged_name(sequence: int, attempt: int) -> str:
    """Return the folder name of an attempt."""
    return f"{sequence:08}.{attempt:02}"


def staged_folders(beside: TableFolder) -> list[TableFolder]:
    """Return the folders of all attempts; other entries are not ours."""
    names = dict.fromkeys(found.key.partition("/")[0] for found in beside.list())
    return [beside.below(name) for name in names if _ATTEMPT.fullmatch(name)]


def remove_staged(folders: Iterable[TableFolder], upto: int) -> None:
    """Remove the folders of attempts at batches up to this one, which can no longer be committed."""
    for folder in folders:
        found = _ATTEMPT.fullmatch(folder.path.rpartition("/")[2])
        if found and int(found[1]) <= upto:
            remove_files(folder)


def remove_files(folder: TableFolder) -> None:
    """Remove all files of a folder: first the marker, without which readers know that other files may be missing."""
    names = [found.key for found in folder.list()]
    folder.delete([name for name in names if name.rpartition("/")[2] == SUCCESS_MARKER])
    folder.delete(names)


def last_changed(folder: TableFolder) -> float:
    """Return when a file below a folder was last changed; infinity when there is none."""
    return max((found.modified / 1000 for found in folder.list()), default=math.inf)
