"""Reads the commits of a table's log, from the newest back.

`commitInfo` is optional in Delta and free-form: another writer may omit it or put anything into it. So the effect of a
commit on rows is read from its file actions, and its time falls back to the modification time of the commit file.
delta-rs' own history numbers commits by counting them, which is wrong as soon as one has no `commitInfo`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard

from lakesmith.errors import UsageError
from lakesmith.formats.delta.integrity import action_kind, commit_lines, list_log, parse_action
from lakesmith.formats.delta.log_files import commit_name, display_name
from lakesmith.formats.delta.snapshot import open_snapshot_if_any
from lakesmith.ports import MAINTENANCE_NOTE, CommitFact, TableFolder, in_commit_order

if TYPE_CHECKING:
    from deltalake import DeltaTable

UNKNOWN = "unknown"
"""The operation of a commit that names none."""
_NO_DATA_CHANGE = re.compile(rb'"dataChange"\s*:\s*false')
_MAINTENANCE = ("OPTIMIZE", "VACUUM START", "VACUUM END")
_RECENT = 3
"""The commits that are read before delta-rs is asked."""
_LATEST = 253_402_300_800_000
"""Milliseconds from 1970 to the end of the year 9999, the last that Python can represent."""


def table_commits(folder: TableFolder, after: int = -1) -> Iterator[CommitFact]:
    """The commits of versions > `after`, newest first; none where there is no table."""
    table = open_snapshot_if_any(folder)
    if table is not None:
        yield from read_commits(folder, table.version(), after)


def version_at(folder: TableFolder, when: datetime) -> int:
    """The version that was current at `when`."""
    past = [commit for commit in in_commit_order(table_commits(folder)) if commit.committed_at <= when]
    if not past:
        raise UsageError(
            "before-first-version",
            f"{display_name(folder)} had no version yet at {when:%Y-%m-%d %H:%M:%S} UTC",
            hint="choose a later time; `lakesmith history TABLE` lists the versions",
        )
    return past[-1].version


def read_commits(folder: TableFolder, newest: int, after: int = -1) -> Iterator[CommitFact]:
    """The commits after < version <= newest that the log still has, newest first. Each is read on demand."""
    version = newest
    while version > after:
        try:
            yield _read_commit(folder, version)
        except FileNotFoundError:  # cleaned up, or lost: only a listing shows whether there are earlier ones
            version = max(list_log(folder).commits_between(after, version - 1), default=after)
        else:
            version -= 1


def committed_sequence(folder: TableFolder, table: DeltaTable, flow: str) -> int:
    """The newest batch number of a flow in the table; 0 where there is none."""
    # delta-rs reads the whole log again to find it, and nearly always a recent commit has it.
    for commit in islice(read_commits(folder, table.version()), _RECENT):
        if flow in commit.sequences:
            return commit.sequences[flow]
    return table.transaction_version(flow) or 0


def is_maintenance(commit: CommitFact) -> bool:
    """Whether a commit changes no row, so that readers need not process it."""
    maintains = commit.operation in _MAINTENANCE and not commit.changes_rows
    return maintains or (commit.note or "").startswith(MAINTENANCE_NOTE)


def _read_commit(folder: TableFolder, version: int) -> CommitFact:
    info: dict[str, Any] = {}
    sequences: dict[str, int] = {}
    adds = removes = False
    for number, line in enumerate(commit_lines(folder, version), 1):
        match action_kind(line):
            case b"commitInfo":
                info = _object(parse_action(folder, version, number, line)["commitInfo"])
            case b"txn":
                txn = _object(parse_action(folder, version, number, line)["txn"])
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
        committed_at=_committed_at(folder, version, info),
        operation=operation if isinstance(operation, str) else UNKNOWN,
        parameters=_texts(info.get("operationParameters")),
        metrics=_texts(info.get("operationMetrics")),
        note=note if isinstance(note, str) else None,
        sequences=sequences,
        changes_rows=adds or removes,
        removes_rows=removes,
    )


def _committed_at(folder: TableFolder, version: int, info: dict[str, Any]) -> datetime:
    times = (info.get("inCommitTimestamp"), info.get("timestamp"))
    milliseconds = next((time for time in times if _is_number(time) and 0 <= time < _LATEST), None)
    if milliseconds is None:
        found = folder.stat(commit_name(version))
        milliseconds = found.modified if found else 0
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(values: object) -> dict[str, str]:
    return {name: str(value) for name, value in _object(values).items()}
