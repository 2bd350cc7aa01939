"""The commits of a table's log, read from the newest back.

`commitInfo` is optional in Delta and free-form: another writer may leave it out or put anything into it. What a commit
does to rows is therefore read from its file actions, and its time falls back to the commit file's modification time.
delta-rs' own history numbers commits by counting them, which is wrong as soon as one has no `commitInfo`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeGuard

from lakesmith.formats.delta.integrity import action_of, broken_line, commit_lines, listed
from lakesmith.formats.delta.names import commit_path
from lakesmith.ports import QUIET, CommitFact

UNKNOWN = "unknown"
"""The operation of a commit that names none."""
_KEEPS_ROWS = re.compile(rb'"dataChange"\s*:\s*false')
_MAINTENANCE = ("OPTIMIZE", "VACUUM START", "VACUUM END")
_LATEST = 253_402_300_800_000
"""Milliseconds from 1970 to the end of the year 9999, the last that Python can represent."""


def commits_back(location: str, newest: int, after: int = -1) -> Iterator[CommitFact]:
    """The commits after < version <= newest that the log still has, newest first. Each is read when it is reached."""
    for version in reversed(listed(location).since(after, newest)):
        try:
            yield _read(commit_path(location, version), version)
        except FileNotFoundError:  # cleaned up since the log was listed
            continue


def is_quiet(commit: CommitFact) -> bool:
    """Whether a commit changes no row, so that readers need not follow it."""
    maintains = commit.operation in _MAINTENANCE and not commit.changes_rows
    return maintains or (commit.note or "").startswith(QUIET)


def _read(path: str, version: int) -> CommitFact:
    info: dict[str, Any] = {}
    sequences: dict[str, int] = {}
    adds = removes = False
    modified = os.stat(path).st_mtime
    for place, line in enumerate(commit_lines(path), 1):
        match action_of(line):
            case b"commitInfo":
                info = _object(_parsed(path, place, line)["commitInfo"])
            case b"txn":
                txn = _object(_parsed(path, place, line)["txn"])
                if isinstance(txn.get("appId"), str) and _is_number(txn.get("version")):
                    sequences[txn["appId"]] = txn["version"]
            case b"remove":
                removes = removes or not _KEEPS_ROWS.search(line)
            case b"add" | b"cdc":
                adds = adds or not _KEEPS_ROWS.search(line)
    note = info.get("userMetadata")
    operation = info.get("operation")
    return CommitFact(
        version=version,
        committed_at=_committed_at(info, modified),
        operation=operation if isinstance(operation, str) else UNKNOWN,
        parameters=_texts(info.get("operationParameters")),
        metrics=_texts(info.get("operationMetrics")),
        note=note if isinstance(note, str) else None,
        sequences=sequences,
        changes_rows=adds or removes,
        removes_rows=removes,
    )


def _parsed(path: str, place: int, line: bytes) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise broken_line(path, place) from error
    return parsed


def _committed_at(info: dict[str, Any], modified: float) -> datetime:
    times = (info.get("inCommitTimestamp"), info.get("timestamp"))
    milliseconds = next((time for time in times if _is_number(time) and 0 <= time < _LATEST), modified * 1000)
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(values: object) -> dict[str, str]:
    return {name: str(value) for name, value in _object(values).items()}
