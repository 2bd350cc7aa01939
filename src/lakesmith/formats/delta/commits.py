"""Reads the commits of a table's log, from the newest back.

`commitInfo` is optional in Delta and free-form: another writer may omit it or put anything into it. So the effect of a
commit on rows is read from its file actions, and its time falls back to the modification time of the commit file.
delta-rs' own history numbers commits by counting them, which is wrong as soon as one has no `commitInfo`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeGuard

from lakesmith.errors import UsageError
from lakesmith.formats.delta.integrity import action_kind, commit_lines, list_log, parse_action
from lakesmith.formats.delta.log_files import commit_path, display_name
from lakesmith.formats.delta.snapshot import open_snapshot_if_any
from lakesmith.ports import MAINTENANCE_NOTE, CommitFact, in_commit_order

UNKNOWN = "unknown"
"""The operation of a commit that names none."""
_NO_DATA_CHANGE = re.compile(rb'"dataChange"\s*:\s*false')
_MAINTENANCE = ("OPTIMIZE", "VACUUM START", "VACUUM END")
_LATEST = 253_402_300_800_000
"""Milliseconds from 1970 to the end of the year 9999, the last that Python can represent."""


def table_commits(location: str, after: int = -1) -> Iterator[CommitFact]:
    """The commits of versions > `after`, newest first; none where there is no table."""
    table = open_snapshot_if_any(location)
    if table is not None:
        yield from read_commits(location, table.version(), after)


def version_at(location: str, when: datetime) -> int:
    """The version that was current at `when`."""
    past = [commit for commit in in_commit_order(table_commits(location)) if commit.committed_at <= when]
    if not past:
        raise UsageError(
            "before-first-version",
            f"{display_name(location)} had no version yet at {when:%Y-%m-%d %H:%M:%S} UTC",
            hint="choose a later time; `lakesmith history TABLE` lists the versions",
        )
    return past[-1].version


def read_commits(location: str, newest: int, after: int = -1) -> Iterator[CommitFact]:
    """The commits after < version <= newest that the log still has, newest first. Each is read on demand."""
    for version in reversed(list_log(location).commits_between(after, newest)):
        try:
            yield _read_commit(commit_path(location, version), version)
        except FileNotFoundError:  # cleaned up since the log was listed
            continue


def is_maintenance(commit: CommitFact) -> bool:
    """Whether a commit changes no row, so that readers need not process it."""
    maintains = commit.operation in _MAINTENANCE and not commit.changes_rows
    return maintains or (commit.note or "").startswith(MAINTENANCE_NOTE)


def _read_commit(path: str, version: int) -> CommitFact:
    info: dict[str, Any] = {}
    sequences: dict[str, int] = {}
    adds = removes = False
    modified = os.stat(path).st_mtime
    for number, line in enumerate(commit_lines(path), 1):
        match action_kind(line):
            case b"commitInfo":
                info = _object(parse_action(path, number, line)["commitInfo"])
            case b"txn":
                txn = _object(parse_action(path, number, line)["txn"])
                if isinstance(txn.get("appId"), str) and _is_number(txn.get("version")):
                    sequences[txn["appId"]] = txn["version"]
            case b"remove":
                removes = removes or not _NO_DATA_CHANGE.search(line)
            case b"add" | b"cdc":
                adds = adds or not _NO_DATA_CHANGE.search(line)
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
