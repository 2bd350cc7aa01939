"""What the files of a table's log are called, and which of them make a version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

OF_LOG = re.compile(r"(\d{20})\.(?:(?P<commit>json)|(?P<state>crc)|checkpoint\.(?:.+\.)?parquet)")
"""A commit, Delta's own account of a version's settings and writers, a checkpoint or a part of one."""


@dataclass(frozen=True, slots=True)
class LogNames:
    """The files of a log, by the versions that they are named after."""

    folder: str
    commits: frozenset[int]
    checkpoints: tuple[tuple[int, str], ...]
    """With their names; one may have several parts, of which some may be missing."""
    states: tuple[tuple[int, str], ...]
    """What Delta tells of versions in files of their own."""

    def checkpoint(self, version: int) -> int:
        """The newest whole checkpoint that a version can be read from; -1 where it takes all commits."""
        whole = (number for number, name in self.checkpoints if name == checkpoint_name(number))
        return max((number for number in whole if number <= version), default=-1)

    def beside_commits(self, version: int) -> Iterator[str]:
        """The files that readers of a version may look at, besides commits."""
        first, others = self.checkpoint(version), (*self.checkpoints, *self.states)
        return (os.path.join(self.folder, name) for number, name in others if first <= number <= version)

    def since(self, checkpoint: int, version: int) -> list[int]:
        """The commits that are there, checkpoint < number <= version."""
        return sorted(number for number in self.commits if checkpoint < number <= version)


def absolute(location: str, path: str) -> str:
    """Where a file lies that the log, or Spark, names."""
    plain = unquote(path).removeprefix("file:")
    return f"/{plain.lstrip('/')}" if plain.startswith("/") else os.path.join(os.path.abspath(location), plain)


def log_of(location: str) -> str:
    """The folder of a table's log."""
    return os.path.join(location, "_delta_log")


def commit_path(location: str, version: int) -> str:
    """Where a commit lies."""
    return os.path.join(log_of(location), f"{version:020}.json")


def checkpoint_name(version: int) -> str:
    """What a whole checkpoint is called."""
    return f"{version:020}.checkpoint.parquet"


def files_of_version(location: str, version: int) -> tuple[str, ...]:
    """Where the files lie that a version may have in the log."""
    names = (f"{version:020}.json", f"{version:020}.crc", checkpoint_name(version))
    return tuple(os.path.join(log_of(location), name) for name in names)


def log_names(location: str) -> LogNames:
    """What is in the log now."""
    commits: set[int] = set()
    checkpoints: list[tuple[int, str]] = []
    states: list[tuple[int, str]] = []
    for name in os.listdir(log_of(location)):
        found = OF_LOG.fullmatch(name)
        if found is None:
            continue
        number = int(found[1])
        if found["commit"]:
            commits.add(number)
        else:
            (states if found["state"] else checkpoints).append((number, name))
    return LogNames(log_of(location), frozenset(commits), tuple(sorted(checkpoints)), tuple(sorted(states)))
