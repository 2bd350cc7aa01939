"""Which file of a table is damaged or missing: a reader that stops seldom says, and some do not even stop."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.checksums import breaks_seal, seal_of
from lakesmith.formats.delta.names import LogNames, checkpoint_name, commit_path, log_names, log_of

_ACTION = re.compile(rb'\s*\{\s*"(\w+)"')
_ACTIONS = {
    b"add",
    b"remove",
    b"cdc",
    b"metaData",
    b"protocol",
    b"txn",
    b"commitInfo",
    b"domainMetadata",
    b"checkpointMetadata",
    b"sidecar",
}
_HINT = (
    "put the file back as it was, from a copy of the warehouse; a table of silver or gold can be made anew: "
    "remove its folder and run"
)
_HINT_OF_SEAL = f"{_HINT}; where somebody wrote the file anew on purpose, remove its seal"


def refuse_damage(location: str, version: int) -> None:
    """Raise where a file that a version is made of is not what its seal says, or a commit is empty or says what no
    commit says: readers take a flipped bit for a value, pass over such lines, and would give other rows."""
    names = listed(location)
    for path in names.beside_commits(version):
        _refuse_broken_seal(path)
    refuse_damaged_commits(location, names.since(names.checkpoint(version), version))


def listed(location: str) -> LogNames:
    """What is in the log; a folder that cannot be read is named."""
    try:
        return log_names(location)
    except OSError as error:
        raise _unread(log_of(location), str(error)) from error


def refuse_damaged_commits(location: str, numbers: Iterable[int]) -> None:
    """Likewise, of some commits."""
    for number in numbers:
        with suppress(FileNotFoundError):  # cleaned up, or missing: whoever opens the table says so
            commit_lines(commit_path(location, number))


def commit_lines(path: str) -> list[bytes]:
    """The lines of a commit, an action each; raises where it is damaged."""
    lines = [line for line in content_of(path).splitlines() if not line.isspace()]
    if not lines:
        raise _told(f"{path} is empty")
    strange = next((place for place, line in enumerate(lines, 1) if action_of(line) not in _ACTIONS), None)
    if strange is not None:
        raise _told(f"{path} says what no commit says, in line {strange}")
    return lines


def broken_line(path: str, place: int) -> InfrastructureError:
    """The error for a line of a commit that is no JSON."""
    return _told(f"{path} is damaged: line {place} is not JSON")


def content_of(path: str) -> bytes:
    """The bytes of a file of a log, which are what they were when it was written, or an error that names it."""
    try:
        content = _content(path)
        _refuse_broken_seal(path, content)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unread(path, str(error)) from error
    return content


def refuse_damaged_checkpoint(location: str, version: int) -> None:
    """Raise where a checkpoint is not what its seal says."""
    _refuse_broken_seal(os.path.join(log_of(location), checkpoint_name(version)))


def _refuse_broken_seal(path: str, content: bytes | None = None) -> None:
    try:
        broken = breaks_seal(path, content)
    except FileNotFoundError:  # cleaned up since
        return
    except OSError as error:
        raise _unread(path, str(error)) from error
    if broken:
        seal = os.path.basename(seal_of(path))
        raise _told(f"{path} is damaged: it is not what its seal says ({seal})", hint=_HINT_OF_SEAL)


def log_failure(location: str, said: str) -> InfrastructureError:
    """The error for a log that could not be read, by the name of the file that is to blame where there is one."""
    try:
        names = listed(location)
        refuse_damage(location, _newest(names))
        found = next(_faults(location, names), None)
    except InfrastructureError as damage:
        return damage
    except OSError as error:
        return _unread(str(error.filename or log_of(location)), str(error))
    if found is not None:
        return _told(found)
    shown = said.splitlines()[0] if said else "no reason was given"
    unread = f"{log_of(location)} cannot be read"
    return disk_failure(said, unread) or _told(f"{unread}: {shown}")


def _newest(names: LogNames) -> int:
    return max((*names.commits, *(number for number, _ in names.checkpoints)), default=-1)


def _faults(location: str, names: LogNames) -> Iterator[str]:
    """What is wrong with files that no seal tells of, the gravest first."""
    summed, checkpoint = max(names.checkpoints, default=(-1, ""))
    for number in range(summed + 1, _newest(names) + 1):
        path = commit_path(location, number)
        if number not in names.commits:
            yield f"{path} is missing"
            continue
        for place, line in enumerate(_content(path).splitlines(), 1):
            if not _is_json(line):
                yield f"{path} is damaged: line {place} is not JSON"
    if checkpoint and (told := _unreadable(os.path.join(names.folder, checkpoint))):
        yield told
    hint = os.path.join(names.folder, "_last_checkpoint")
    if os.path.exists(hint):
        said = _content(hint)
        if _is_json(said) and json.loads(said).get("version") not in dict(names.checkpoints):
            yield f"{hint} names a checkpoint that is not there"


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:  # one that comes while a file is read does not name it
        raise OSError(error.errno, error.strerror, path) from error


def action_of(line: bytes) -> bytes:
    """The kind of action in a line of a commit; nothing where it is none."""
    found = _ACTION.match(line)
    return found[1] if found else b""


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _unreadable(path: str) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for _ in pq.ParquetFile(path, page_checksum_verification=True).iter_batches():
            pass
    except pa.ArrowException as error:
        return f"{path} is damaged: {str(error).splitlines()[0]}"
    return None


def _unread(path: str, said: str) -> InfrastructureError:
    return disk_failure(said, f"cannot read {path}") or _told(f"{path} cannot be read: {said}")


def _told(what: str, hint: str = _HINT) -> InfrastructureError:
    return InfrastructureError("table-unreadable", what, hint=hint)
