"""Names and paths of the files of a table's log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

LOG_FILE = re.compile(r"(\d{20})\.(?:(?P<commit>json)|(?P<checksum>crc)|checkpoint\.(?:.+\.)?parquet)")
"""A commit, a version checksum file of Delta, a checkpoint or a part of one."""


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log, by version."""

    folder: str
    commits: frozenset[int]
    checkpoints: tuple[tuple[int, str], ...]
    """With their file names. A checkpoint may have several parts, of which some may be missing."""
    version_checksums: tuple[tuple[int, str], ...]
    """Delta's version checksum files (`N.crc`), which state the settings and writers of a version."""

    def checkpoint(self, version: int) -> int:
        """The newest complete checkpoint up to a version; -1 where there is none."""
        complete = (number for number, name in self.checkpoints if name == checkpoint_name(number))
        return max((number for number in complete if number <= version), default=-1)

    def other_files(self, version: int) -> Iterator[str]:
        """The files other than commits that readers of a version may read."""
        first, others = self.checkpoint(version), (*self.checkpoints, *self.version_checksums)
        return (os.path.join(self.folder, name) for number, name in others if first <= number <= version)

    def commits_between(self, checkpoint: int, version: int) -> list[int]:
        """The existing commits, checkpoint < number <= version."""
        return sorted(number for number in self.commits if checkpoint < number <= version)


def absolute(location: str, path: str) -> str:
    """The absolute path of a file that the log or Spark names."""
    plain = unquote(path).removeprefix("file:")
    return f"/{plain.lstrip('/')}" if plain.startswith("/") else os.path.join(os.path.abspath(location), plain)


def display_name(location: str) -> str:
    """A table's name in messages: the last two folders are its layer and its name."""
    return ".".join(location.rstrip("/").split("/")[-2:])


def log_folder(location: str) -> str:
    """The folder of a table's log."""
    return os.path.join(location, "_delta_log")


def commit_path(location: str, version: int) -> str:
    """The path of a commit."""
    return os.path.join(log_folder(location), f"{version:020}.json")


def checkpoint_name(version: int) -> str:
    """The file name of a checkpoint in one part."""
    return f"{version:020}.checkpoint.parquet"


def version_files(location: str, version: int) -> tuple[str, ...]:
    """The paths of the files that a version may have in the log."""
    names = (f"{version:020}.json", f"{version:020}.crc", checkpoint_name(version))
    return tuple(os.path.join(log_folder(location), name) for name in names)


def list_log_files(location: str) -> LogListing:
    """List the files of the log."""
    commits: set[int] = set()
    checkpoints: list[tuple[int, str]] = []
    version_checksums: list[tuple[int, str]] = []
    for name in os.listdir(log_folder(location)):
        found = LOG_FILE.fullmatch(name)
        if found is None:
            continue
        number = int(found[1])
        if found["commit"]:
            commits.add(number)
        else:
            (version_checksums if found["checksum"] else checkpoints).append((number, name))
    return LogListing(
        log_folder(location), frozenset(commits), tuple(sorted(checkpoints)), tuple(sorted(version_checksums))
    )
