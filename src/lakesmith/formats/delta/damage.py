"""Which file of a table is damaged or missing: a reader that stops seldom says, and some do not even stop."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError

_COMMIT = re.compile(r"(\d{20})\.json")
_SUM = re.compile(r"(\d{20})\.checkpoint\..*parquet")
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


def refuse_damage(location: str, version: int) -> None:
    """Raise where a commit of which the version is made is empty or says what no commit says: readers pass over such
    lines, and would give a table without the rows."""
    log = f"{location}/_delta_log"
    for commit in _since_sum(log, version):
        try:
            with open(commit, "rb") as file:
                said = [_action(line) for line in file if not line.isspace()]
        except FileNotFoundError:  # cleaned up since, or missing: whoever opens the table says so
            continue
        except OSError as error:
            raise _unread(commit, str(error)) from error
        if not said:
            raise _told(f"{commit} is empty")
        if not _ACTIONS.issuperset(said):
            raise _told(f"{commit} says what no commit says, in line {_first_strange(said)}")


def log_failure(location: str, said: str) -> InfrastructureError:
    """The error for a log that could not be read, by the name of the file that is to blame where there is one."""
    log = f"{location}/_delta_log"
    try:
        found = next(_damages(log), None)
    except OSError as error:
        return _unread(str(error.filename or log), str(error))
    if found is not None:
        return _told(found)
    shown = said.splitlines()[0] if said else "no reason was given"
    return disk_failure(said, f"{log} cannot be read") or _told(f"{log} cannot be read: {shown}")


def _damages(log: str) -> Iterator[str]:
    """What is wrong, the gravest first."""
    commits = {int(found[1]) for name in os.listdir(log) if (found := _COMMIT.fullmatch(name))}
    sums = {int(found[1]): name for name in os.listdir(log) if (found := _SUM.fullmatch(name))}
    summed = max(sums, default=-1)
    newest = max(commits, default=summed)
    for number in range(summed + 1, newest + 1):
        path = f"{log}/{number:020}.json"
        if number not in commits:
            yield f"{path} is missing"
            continue
        lines = _content(path).splitlines()
        if not lines:
            yield f"{path} is empty"
        for place, line in enumerate(lines, 1):
            if not _is_json(line):
                yield f"{path} is damaged: line {place} is not JSON"
    if summed >= 0 and (told := _unreadable(f"{log}/{sums[summed]}")):
        yield told
    hint = f"{log}/_last_checkpoint"
    if os.path.exists(hint):
        said = _content(hint)
        if _is_json(said) and json.loads(said).get("version") not in sums:
            yield f"{hint} names a checkpoint that is not there"


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:  # one that comes while a file is read does not name it
        raise OSError(error.errno, error.strerror, path) from error


def _since_sum(log: str, version: int) -> list[str]:
    names = os.listdir(log)
    sums = [int(found[1]) for name in names if (found := _SUM.fullmatch(name))]
    summed = max((number for number in sums if number <= version), default=-1)
    commits = [(int(found[1]), name) for name in names if (found := _COMMIT.fullmatch(name))]
    return [f"{log}/{name}" for number, name in sorted(commits) if summed < number <= version]


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


def _told(what: str) -> InfrastructureError:
    return InfrastructureError("table-unreadable", what, hint=_HINT)
