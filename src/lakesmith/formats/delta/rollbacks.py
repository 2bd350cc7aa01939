"""A batch continues what the table held when it was made. Where that was rolled back since, it would leave a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.commits import commits_back
from lakesmith.ports import Write

if TYPE_CHECKING:
    from deltalake import DeltaTable


def refuse_if_rolled_back(table: DeltaTable | None, location: str, write: Write) -> None:
    """Raise where somebody has rolled the table back since the version that the batch was made for."""
    if table is None or write.since is None or table.version() <= write.since:
        return
    commits = commits_back(location, table.version(), write.since)
    if any(commit.operation == "RESTORE" for commit in commits):
        raise InfrastructureError(
            "commit-conflict",
            f"somebody rolled the table back while batch {write.sequence} was made for it",
            hint="nothing is lost: run again, and what was rolled back is read again",
        )
