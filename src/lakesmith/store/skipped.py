"""Skipped entries of a landing folder, each with a code and a reason."""

from __future__ import annotations

import re
import stat
import uuid
from collections.abc import Callable

from lakesmith.file_names import escaped
from lakesmith.ports import SkippedEntry

Skip = Callable[[SkippedEntry], None]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}", re.DOTALL)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def ignore(entry: SkippedEntry) -> None:
    """Ignore skipped entries."""


def temporary_name(name: str) -> str:
    """A name for a file while it is being written."""
    return f".{name}.{uuid.uuid4().hex}"


def is_temporary(name: str) -> bool:
    return _TEMPORARY.fullmatch(name) is not None


def hidden(path: str) -> SkippedEntry:
    return _entry(path, "hidden-name", "its name starts with _ or .")


def not_utf8(path: str) -> SkippedEntry:
    return _entry(path, "name-not-utf8", "its name is not UTF-8: rename it and its folders to UTF-8 names")


def not_a_file(path: str, mode: int) -> SkippedEntry:
    return _entry(path, "not-a-file", f"it is {_KINDS.get(stat.S_IFMT(mode), 'no regular file')}")


def path_too_long(path: str) -> SkippedEntry:
    return _entry(path, "path-too-long", "its path is longer than the system can open: move it to a shorter path")


def broken_link(path: str, why: str) -> SkippedEntry:
    return _entry(path, "broken-link", f"it is a symbolic link that cannot be followed: {why}")


def link_loop(path: str) -> SkippedEntry:
    return _entry(path, "link-loop", "it is a symbolic link that leads back to itself or to a folder above it")


def link_not_followed(path: str, why: str) -> SkippedEntry:
    return _entry(path, "link-not-followed", f"it is a symbolic link, and {why}")


def link_outside(path: str) -> SkippedEntry:
    why = "it is a symbolic link that leaves the landing folder; `symlinks: anywhere` in the source allows that"
    return _entry(path, "link-outside", why)


def _entry(path: str, code: str, why: str) -> SkippedEntry:
    return SkippedEntry(escaped(path).rstrip("/"), code, why)
