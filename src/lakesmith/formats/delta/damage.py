"""Which file of a table is damaged or missing: a reader that stops seldom says, and some do not even stop."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.names import LogNames, checkpoint_path, commit_path, log_names, log_of
from lakesmith.formats.delta.seals import breaks_seal, seal_of

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
    names = log_names(location)
    for path in names.beside_commits(version):
        _refuse_broken_seal(path)
    refuse_damaged_commits(location, names.checkpoint(version), version)


def refuse_damaged_commits(location: str, after: int, until: int) -> None:
    """Likewise, of the commits after < number <= until that are there."""
    for number in range(after + 1, until + 1):
        commit = commit_path(location, number)
        try:
            said = [_action(line) for line in content_of(commit).splitlines() if not line.isspace()]
        except FileNotFoundError:  # cleaned up, or missing: whoever opens the table says so
            continue
        if not said:
            raise _told(f"{commit} is empty")
        if not _ACTIONS.issuperset(said):
            raise _told(f"{commit} says what no commit says, in line {_first_strange(said)}")


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
    _refuse_broken_seal(checkpoint_path(location, version))


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
        names = log_names(location)
        refuse_damage(location, max(names.commits | names.checkpoints, default=-1))
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


def _faults(location: str, names: LogNames) -> Iterator[str]:
    """What is wrong with files that no seal tells of, the gravest first."""
    newest = max(names.commits | names.checkpoints, default=-1)
    summed = names.checkpoint(newest)
    for number in range(summed + 1, newest + 1):
        path = commit_path(location, number)
        if number not in names.commits:
            yield f"{path} is missing"
            continue
        for place, line in enumerate(_content(path).splitlines(), 1):
            if not _is_json(line):
                yield f"{path} is damaged: line {place} is not JSON"
    if summed >= 0 and (told := _unreadable(checkpoint_path(location, summed))):
        yield told
    hint = os.path.join(log_of(location), "_last_checkpoint")
    if os.path.exists(hint):
        said = _content(hint)
        if _is_json(said) and json.loads(said).get("version") not in {number for number, _ in names.others}:
            yield f"{hint} names a checkpoint that is not there"


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:  # one that comes while a file is read does not name it
        raise OSError(error.errno, error.strerror, path) from error


def _action(line: bytes) -> bytes:
    found = _ACTION.match(line)
    return found[1] if found else b""


def _first_strange(said: list[bytes]) -> int:
    return next(place for place, action in enumerate(said, 1) if action not in _ACTIONS)


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
