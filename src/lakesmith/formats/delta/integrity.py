"""Finds corrupt or missing files of a table's log: the error of a failed reader seldom names them, and some readers
return wrong rows instead of failing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.checksums import checksum_path, is_corrupt
from lakesmith.formats.delta.log_files import LogListing, checkpoint_name, commit_path, list_log_files, log_folder

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
_FILE_ACTION_TYPES: Mapping[str, Any] = {
    "path": str,
    "size": int | None,
    "partitionValues": dict | None,
    "stats": str | None,
    "deletionVector": dict | None,
}
_HINT = "restore the file from a backup; a silver or gold table can also be rebuilt: remove its folder and run"
_CHECKSUM_HINT = f"{_HINT}; if somebody rewrote the file on purpose, remove its checksum file"


def refuse_corruption(location: str, version: int) -> None:
    """Raise where a file of a version does not match its checksums, or a commit is empty or has an unknown action.
    Readers take a flipped bit for a value, skip such lines, and would return other rows."""
    names = list_log(location)
    for path in names.other_files(version):
        _refuse_corrupt_file(path)
    refuse_corrupt_commits(location, names.commits_between(names.checkpoint(version), version))


def list_log(location: str) -> LogListing:
    """List the log; the error for an unreadable folder names it."""
    try:
        return list_log_files(location)
    except OSError as error:
        raise _unreadable(log_folder(location), str(error)) from error


def refuse_corrupt_commits(location: str, numbers: Iterable[int]) -> None:
    """Raise where one of some commits is corrupt."""
    for number in numbers:
        with suppress(FileNotFoundError):  # cleaned up, or missing: opening the table reports it
            commit_lines(commit_path(location, number))


def commit_lines(path: str) -> list[bytes]:
    """The lines of a commit, one action each; raises where it is corrupt."""
    lines = [line for line in read_checked(path).splitlines() if not line.isspace()]
    if not lines:
        raise _error(f"{path} is empty")
    unknown = next((number for number, line in enumerate(lines, 1) if action_kind(line) not in _ACTIONS), None)
    if unknown is not None:
        raise _error(f"{path} is corrupt: line {unknown} is not an action of Delta")
    return lines


def parse_action(path: str, number: int, line: bytes) -> dict[str, Any]:
    """The action in a line of a commit; raises where it is not JSON, or adds or removes a file in other types than
    Delta's."""
    try:
        action: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise _error(_invalid_line(path, number)) from error
    if not all(_is_file_action(action[kind]) for kind in ("add", "remove") if kind in action):
        raise _error(f"{path} is corrupt: line {number} has a value of another type than Delta's")
    return action


def _is_file_action(action: Any) -> bool:
    """Whether an action names its file, and describes it in the types of Delta."""
    return isinstance(action, dict) and all(
        isinstance(action.get(name), kind) for name, kind in _FILE_ACTION_TYPES.items()
    )


def _invalid_line(path: str, number: int) -> str:
    return f"{path} is corrupt: line {number} is not JSON"


def read_checked(path: str) -> bytes:
    """The bytes of a file of a log; raises where they do not match its checksums."""
    try:
        content = _content(path)
        _refuse_corrupt_file(path, content)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, str(error)) from error
    return content


def refuse_corrupt_checkpoint(location: str, version: int) -> None:
    """Raise where a checkpoint does not match its checksums."""
    _refuse_corrupt_file(os.path.join(log_folder(location), checkpoint_name(version)))


def _refuse_corrupt_file(path: str, content: bytes | None = None) -> None:
    try:
        corrupt = is_corrupt(path, content)
    except FileNotFoundError:  # cleaned up meanwhile
        return
    except OSError as error:
        raise _unreadable(path, str(error)) from error
    if corrupt:
        name = os.path.basename(checksum_path(path))
        raise _error(f"{path} is corrupt: it does not match its checksum file {name}", hint=_CHECKSUM_HINT)


def log_failure(location: str, reason: str) -> InfrastructureError:
    """The error for a log that a reader failed on. It names the corrupt file, if there is one."""
    try:
        names = list_log(location)
        refuse_corruption(location, _newest(names))
        found = next(_faults(location, names), None)
    except InfrastructureError as corruption:
        return corruption
    except OSError as error:
        return _unreadable(str(error.filename or log_folder(location)), str(error))
    if found is not None:
        return _error(found)
    shown = reason.splitlines()[0] if reason else "no reason was given"
    unreadable = f"{log_folder(location)} is unreadable"
    return disk_failure(reason, unreadable) or _error(f"{unreadable}: {shown}")


def _newest(names: LogListing) -> int:
    return max((*names.commits, *(number for number, _ in names.checkpoints)), default=-1)


def _faults(location: str, names: LogListing) -> Iterator[str]:
    """Faults of files without checksums, the gravest first."""
    newest_checkpoint, checkpoint = max(names.checkpoints, default=(-1, ""))
    for number in range(newest_checkpoint + 1, _newest(names) + 1):
        path = commit_path(location, number)
        if number not in names.commits:
            yield f"{path} is missing"
            continue
        for line_number, line in enumerate(_content(path).splitlines(), 1):
            if not _is_json(line):
                yield _invalid_line(path, line_number)
    if checkpoint and (fault := _parquet_fault(os.path.join(names.folder, checkpoint))):
        yield fault
    pointer = os.path.join(names.folder, "_last_checkpoint")
    if os.path.exists(pointer):
        content = _content(pointer)
        if _is_json(content) and json.loads(content).get("version") not in dict(names.checkpoints):
            yield f"{pointer} names a checkpoint that does not exist"


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:  # an error during the read does not name the file
        raise OSError(error.errno, error.strerror, path) from error


def action_kind(line: bytes) -> bytes:
    """The kind of action in a line of a commit; empty where it is none."""
    found = _ACTION.match(line)
    return found[1] if found else b""


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _parquet_fault(path: str) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for _ in pq.ParquetFile(path, page_checksum_verification=True).iter_batches():
            pass
    except pa.ArrowException as error:
        return f"{path} is corrupt: {str(error).splitlines()[0]}"
    return None


def _unreadable(path: str, reason: str) -> InfrastructureError:
    return disk_failure(reason, f"cannot read {path}") or _error(f"cannot read {path}: {reason}")


def _error(what: str, hint: str = _HINT) -> InfrastructureError:
    return InfrastructureError("table-unreadable", what, hint=hint)
