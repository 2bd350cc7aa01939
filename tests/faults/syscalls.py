"""Records with `strace` how a command and its children change the files below a folder."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from tests.servers.fetch import strace

Kind = Literal["create", "truncate", "write", "sync", "link", "rename", "remove", "mkdir"]

_OPENS = ("open", "openat", "creat")
_WRITES = ("write", "pwrite64")
_SYNCS = ("fsync", "fdatasync")
_NAMES = ("link", "linkat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat")
_UNMODELLED = ("writev", "pwritev", "ftruncate", "truncate", "copy_file_range", "sendfile", "fallocate")
"""Calls that the disk model does not know: a trace with one of them for a file of the lake fails."""
_CALLS = (*_OPENS, *_WRITES, *_SYNCS, *_NAMES, *_UNMODELLED)

_WHO = r"(?P<thread>\d+(?:<(?P<program>[^>]*)>)?) +"
_LINE = re.compile(rf"{_WHO}(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)(?P<made><[^>]*>)?.*")
_UNFINISHED = re.compile(rf"{_WHO}(?P<call>\w+)\((?P<arguments>.*) <unfinished \.\.\.>")
_RESUMED = re.compile(rf"{_WHO}<\.\.\. \w+ resumed>(?P<rest>.*)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_PLACE = re.compile(r"<((?:\\x[0-9a-f]{2})+)>")


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a file, or one sync."""

    kind: Kind
    path: str
    to: str = ""
    """The new name of a link or a rename."""
    data: bytes = b""
    offset: int | None = None
    """The offset of the data; None for the end of the file."""
    program: str = ""
    """The name of the thread: `python…` for Python's, other names for those of a JVM."""


def record(command: Sequence[str], below: Path, trace: Path, environment: dict[str, str] | None = None) -> list[Event]:
    """Run the command, and return what it did below the folder, in order."""
    words = [str(strace()), "-f", "-qq", "--seccomp-bpf", "-y", "-Y", "-xx", "-s", str(1 << 24), "-o", str(trace)]
    words += ["-e", f"trace={','.join(_CALLS)}", *command]
    libraries = {**os.environ, "LD_LIBRARY_PATH": str(strace().parent), **(environment or {})}
    answer = subprocess.run(words, env=libraries, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout[-4000:] + answer.stderr[-4000:]
    return list(events(trace, below))


def events(trace: Path, below: Path) -> Iterator[Event]:
    """Yield the events of a trace below a folder."""
    root = os.path.realpath(below)
    marked = "".join(f"\\x{byte:02x}" for byte in root.encode())
    for line in _whole_lines(trace):
        if marked not in line:
            continue
        found = _LINE.fullmatch(line)
        assert found, line[:500]
        if int(found["result"]) >= 0:
            yield from _event(found, root)


def _whole_lines(trace: Path) -> Iterator[str]:
    """Yield each call as one line when it ends. A write counts from its start, when data may reach the disk."""
    begun: dict[str, str] = {}
    with trace.open() as lines:
        for line in map(str.rstrip, lines):
            if found := _UNFINISHED.fullmatch(line):
                head = f"{found['thread']} {found['call']}({found['arguments']}"
                if found["call"] in _WRITES:
                    yield f"{head}) = 0"
                else:
                    begun[found["thread"]] = head
            elif found := _RESUMED.fullmatch(line):
                if found["thread"] in begun:
                    yield begun.pop(found["thread"]) + found["rest"]
            elif "(" in line:
                yield line


def _event(found: re.Match[str], root: str) -> Iterator[Event]:
    call, arguments, program = found["call"], found["arguments"], _decoded(found["program"] or "")
    if call in _OPENS:
        path = _decoded(found["made"] or "")
        if _is_below(path, root) and ("O_CREAT" in arguments or call == "creat"):
            yield Event("create", path, program=program)
        if _is_below(path, root) and ("O_TRUNC" in arguments or call == "creat"):
            yield Event("truncate", path, program=program)
        return
    if call in _NAMES:
        paths = list(_paths(arguments))
        if not any(_is_below(path, root) for path in paths):
            return
        kind = cast("Kind", "remove" if call in ("unlink", "unlinkat", "rmdir") else re.sub(r"at2?$", "", call))
        yield Event(kind, paths[0], to="".join(paths[1:]), program=program)
        return
    place = _PLACE.search(arguments)
    path = _decoded(place[0]) if place else ""
    if not _is_below(path, root) or path.endswith(" (deleted)"):
        return
    assert call not in _UNMODELLED, f"{call} of {path} is not modelled"
    if call in _SYNCS:
        yield Event("sync", path, program=program)
        return
    text = _TEXT.search(arguments)
    assert text, arguments[:200]
    assert not text[2], f"a write to {path} is longer than the trace shows"
    offset = int(arguments.rpartition(",")[2]) if call == "pwrite64" else None
    yield Event("write", path, data=_bytes(text[1]), offset=offset, program=program)


def _paths(arguments: str) -> Iterator[str]:
    """Yield the paths of a call, each joined with its base folder."""
    folder = ""
    for found in re.finditer(rf"{_PLACE.pattern}|{_TEXT.pattern}", arguments):
        if found[1]:
            folder = _decoded(found[0])
        else:
            yield os.path.normpath(os.path.join(folder, _bytes(found[2]).decode()))


def _decoded(place: str) -> str:
    return _bytes(place.strip("<>")).decode()


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")
