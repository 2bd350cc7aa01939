"""Detects rollbacks under a batch: its rows continue a version, and without that version they would leave a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.commits import read_commits
from lakesmith.ports import TableFolder, Write

if TYPE_CHECKING:
    from deltalake import DeltaTable


def refuse_if_rolled_back(table: DeltaTable | None, folder: TableFolder, write: Write) -> None:
    """Raise where the table was rolled back after the version that the batch is based on."""
    if table is None or write.based_on is None or table.version() <= write.based_on:
        return
    commits = read_commits(folder, table.version(), write.based_on)
    if any(commit.operation == "RESTORE" for commit in commits):
        raise InfrastructureError(
            "commit-conflict",
            f"somebody rolled the table back while batch {write.sequence} was being made for it",
            hint="nothing is lost: run again to re-read the rolled-back rows",
        )
