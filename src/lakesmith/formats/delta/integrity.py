"""Finds corrupt or missing files of a table's log: the error of a failed reader seldom names them, and some readers
return wrong rows instead of failing."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.checksums import checksum_name, is_corrupt
from lakesmith.formats.delta.log_cache import cached_commit
from lakesmith.formats.delta.log_files import (
    LOG,
    POINTER,
    LogListing,
    checkpoint_name,
    commit_name,
    list_log_files,
    open_parquet,
)
from lakesmith.ports import TableFolder

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


def refuse_corruption(folder: TableFolder, version: int) -> None:
    """On a disk: raise where a file of a version does not match its checksums, or a commit is empty or has an unknown
    action. Readers take a flipped bit for a value, skip such lines, and would return other rows. Other stores return
    the bytes that were written."""
    if folder.disk is None:
        return
    names = list_log(folder, version)
    for name in names.other_files(version):
        _refuse_corrupt_file(folder, name)
    for number in names.commits_between(names.checkpoint(version), version):
        with suppress(FileNotFoundError):  # cleaned up, or missing: opening the table reports it
            commit_lines(folder, number)


def list_log(folder: TableFolder, version: int | None = None) -> LogListing:
    """List the log; the error for an unreadable folder names it."""
    try:
        return list_log_files(folder, version)
    except InfrastructureError as error:
        raise _unreadable(f"{folder}/{LOG}", error) from error


def commit_lines(folder: TableFolder, version: int) -> list[bytes]:
    """The lines of a commit, one action each; raises where it is corrupt, and FileNotFoundError where it is gone."""
    name = commit_name(version)
    content = cached_commit(folder, version, lambda: _read_checked(folder, name))
    lines = [line for line in content.splitlines() if not line.isspace()]
    if not lines:
        raise _error(f"{folder}/{name} is empty")
    unknown = next((number for number, line in enumerate(lines, 1) if action_kind(line) not in _ACTIONS), None)
    if unknown is not None:
        raise _error(f"{folder}/{name} is corrupt: line {unknown} is not an action of Delta")
    return lines


def parse_action(folder: TableFolder, version: int, number: int, line: bytes) -> dict[str, Any]:
    """The action in a line of a commit; raises where it is not JSON, or adds or removes a file in other types than
    Delta's."""
    try:
        action: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise _error(_invalid_line(folder, commit_name(version), number)) from error
    if not all(_is_file_action(action[kind]) for kind in ("add", "remove") if kind in action):
        what = f"{folder}/{commit_name(version)} is corrupt"
        raise _error(f"{what}: line {number} has a value of another type than Delta's")
    return action


def _is_file_action(action: Any) -> bool:
    """Whether an action names its file, and describes it in the types of Delta."""
    return isinstance(action, dict) and all(
        isinstance(action.get(name), kind) for name, kind in _FILE_ACTION_TYPES.items()
    )


def _invalid_line(folder: TableFolder, name: str, number: int) -> str:
    return f"{folder}/{name} is corrupt: line {number} is not JSON"


def _read_checked(folder: TableFolder, name: str) -> bytes:
    """The bytes of a file of a log; raises where they do not match its checksums."""
    content = _content(folder, name)
    _refuse_corrupt_file(folder, name, content)
    return content


def refuse_corrupt_checkpoint(folder: TableFolder, version: int) -> None:
    """Raise where a checkpoint does not match its checksums."""
    _refuse_corrupt_file(folder, checkpoint_name(version))


def _refuse_corrupt_file(folder: TableFolder, name: str, content: bytes | None = None) -> None:
    try:
        corrupt = is_corrupt(folder, name, content)
    except FileNotFoundError:  # cleaned up meanwhile
        return
    except OSError as error:
        raise _unreadable(f"{folder}/{name}", error) from error
    if corrupt:
        why = f"it does not match its checksum file {checksum_name(name)}"
        raise _error(f"{folder}/{name} is corrupt: {why}", hint=_CHECKSUM_HINT)


def log_failure(folder: TableFolder, reason: str) -> InfrastructureError:
    """The error for a log that a reader failed on. It names the corrupt file, if there is one."""
    try:
        names = list_log(folder)
        refuse_corruption(folder, _newest(names))
        found = next(_faults(folder, names), None)
    except InfrastructureError as corruption:
        return corruption
    except OSError as error:
        return _unreadable(str(error.filename or f"{folder}/{LOG}"), error)
    if found is not None:
        return _error(found)
    shown = reason.splitlines()[0] if reason else "no reason was given"
    unreadable = f"{folder}/{LOG} is unreadable"
    return disk_failure(reason, unreadable) or _error(f"{unreadable}: {shown}")


def _newest(names: LogListing) -> int:
    return max((*names.commits, *(number for number, _ in names.checkpoints)), default=-1)


def _faults(folder: TableFolder, names: LogListing) -> Iterator[str]:
    """Faults of files without checksums, the gravest first."""
    newest_checkpoint, checkpoint = max(names.checkpoints, default=(-1, ""))
    for number in range(newest_checkpoint + 1, _newest(names) + 1):
        name = commit_name(number)
        if number not in names.commits:
            yield f"{folder}/{name} is missing"
            continue
        for line_number, line in enumerate(_content(folder, name).splitlines(), 1):
            if not _is_json(line):
                yield _invalid_line(folder, name, line_number)
    if checkpoint and (fault := _parquet_fault(folder, checkpoint)):
        yield fault
    pointer = folder.read(POINTER)
    if pointer and _is_json(pointer) and json.loads(pointer).get("version") not in dict(names.checkpoints):
        yield f"{folder}/{POINTER} names a checkpoint that does not exist"


def _content(folder: TableFolder, name: str) -> bytes:
    try:
        content = folder.read(name)
    except InfrastructureError as error:
        raise _unreadable(f"{folder}/{name}", error) from error
    if content is None:
        raise FileNotFoundError(errno.ENOENT, "the file is gone", f"{folder}/{name}")
    return content


def action_kind(line: bytes) -> bytes:
    """The kind of action in a line of a commit; empty where it is none."""
    found = _ACTION.match(line)
    return found[1] if found else b""


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _parquet_fault(folder: TableFolder, name: str) -> str | None:
    import pyarrow as pa

    try:
        for _ in open_parquet(folder, folder.key(name), page_checksum_verification=True).iter_batches():
            pass
    except pa.ArrowException as error:
        return f"{folder}/{name} is corrupt: {str(error).splitlines()[0]}"
    return None


def _unreadable(path: str, error: Exception) -> InfrastructureError:
    reason = str(error.__cause__ or error) if isinstance(error, InfrastructureError) else str(error)
    return disk_failure(reason, f"cannot read {path}") or _error(f"cannot read {path}: {reason}")


def _error(what: str, hint: str = _HINT) -> InfrastructureError:
    return InfrastructureError("table-unreadable", what, hint=hint)
