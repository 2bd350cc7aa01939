"""Other writers of a table: delta-rs without Lakesmith's notes, and commits with little or odd `commitInfo`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Transaction

ODD: Mapping[str, object] = {
    "none": None,
    "empty": {},
    "no time": {"operation": "WRITE"},
    "texts in place of numbers": {"timestamp": "yesterday", "operationMetrics": {"numOutputRows": "many"}},
    "numbers in place of texts": {"operation": 7, "userMetadata": 7, "timestamp": 10**30, "inCommitTimestamp": -1},
    "objects in place of texts": {"operation": {"name": "WRITE"}, "userMetadata": {"job": "nightly"}},
    "lists in place of objects": {"operationParameters": ["mode"], "operationMetrics": [1], "operation": None},
    "text of its own": {"operation": "nightly job", "userMetadata": "run by cron run 7", "timestamp": True},
}
"""By name, the `commitInfo` of a foreign commit; None for a commit without it."""


def commits_by_others(table: Path, count: int) -> None:
    """Let delta-rs make commits that move no row."""
    for number in range(count):
        opened = DeltaTable(str(table))
        properties = CommitProperties(app_transactions=[Transaction("somebody.else", number)])
        opened.create_write_transaction([], "append", opened.schema(), commit_properties=properties)


def cleaned_by_others(table: Path) -> None:
    """Let delta-rs make a checkpoint and delete every commit before it."""
    DeltaTable(str(table)).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    opened = DeltaTable(str(table))
    opened.create_checkpoint()
    opened.cleanup_metadata()


def compacted_by_others(table: Path) -> None:
    """Let delta-rs rewrite the rows to new files, and delete the old files."""
    DeltaTable(str(table)).optimize.compact()
    DeltaTable(str(table)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def set_commit_info(table: Path, version: int, info: object) -> None:
    """Replace the `commitInfo` of a commit; with None, remove it."""
    commit = table / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    others = [action for action in actions if "commitInfo" not in action]
    first = [] if info is None else [{"commitInfo": info}]
    commit.write_text("".join(json.dumps(action) + "\n" for action in [*first, *others]))
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
