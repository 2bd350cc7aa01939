"""What the files of a table's log are called, and which of them make a version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

OF_LOG = re.compile(r"(\d{20})\.(?:(?P<commit>json)|(?P<state>crc)|checkpoint\.(?:(?P<whole>parquet)|.+\.parquet))")
"""A commit, Delta's own account of a version's settings and writers, a checkpoint or a part of one."""


@dataclass(frozen=True, slots=True)
class LogNames:
    """The files of a log, by the versions that they are named after."""

    folder: str
    commits: frozenset[int]
    checkpoints: frozenset[int]
    """Whole ones: of several parts some may be missing."""
    others: tuple[tuple[int, str], ...]
    """All files but commits, with their names."""

    def checkpoint(self, version: int) -> int:
        """The newest checkpoint that a version can be read from; -1 where it takes all commits."""
        return max((number for number in self.checkpoints if number <= version), default=-1)

    def beside_commits(self, version: int) -> Iterator[str]:
        """The files that readers of a version may look at, besides commits."""
        first = self.checkpoint(version)
        return (os.path.join(self.folder, name) for number, name in self.others if first <= number <= version)


def log_of(location: str) -> str:
    """The folder of a table's log."""
    return os.path.join(location, "_delta_log")


def commit_path(location: str, version: int) -> str:
    """Where a commit lies."""
    return os.path.join(log_of(location), f"{version:020}.json")


def checkpoint_path(location: str, version: int) -> str:
    """Where a whole checkpoint lies."""
    return os.path.join(log_of(location), f"{version:020}.checkpoint.parquet")


def log_names(location: str) -> LogNames:
    """What is in the log now."""
    commits: set[int] = set()
    checkpoints: set[int] = set()
    others: list[tuple[int, str]] = []
    for name in os.listdir(log_of(location)):
        found = OF_LOG.fullmatch(name)
        if found is None:
            continue
        number = int(found[1])
        if found["commit"]:
            commits.add(number)
            continue
        others.append((number, name))
        if found["whole"]:
            checkpoints.add(number)
    return LogNames(log_of(location), frozenset(commits), frozenset(checkpoints), tuple(sorted(others)))
