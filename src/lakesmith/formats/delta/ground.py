"""A batch continues what the table held when it was made. Where that was rolled back since, it would leave a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.errors import InfrastructureError
from lakesmith.ports import Write

if TYPE_CHECKING:
    from deltalake import DeltaTable


def check_ground(table: DeltaTable | None, write: Write) -> None:
    """Raise where somebody has rolled the table back since the version that the batch was made for."""
    version = _rolled_back(table, write)
    if version is not None:
        raise InfrastructureError(
            "commit-conflict",
            f"somebody rolled the table back in version {version}, while batch {write.sequence} was made for it",
            hint="nothing is lost: run again, and what was rolled back is read again",
        )


def check_committed(table: DeltaTable, write: Write) -> None:
    """The same after a commit that Delta made: between the look before and its own there is a moment."""
    version = _rolled_back(table, write)
    if version is not None:
        raise InfrastructureError(
            "committed-on-rollback",
            f"somebody rolled the table back in version {version}, just before batch {write.sequence} was committed: "
            "what was rolled back is missing below it",
            hint=f"take the batch back, `lakesmith restore TABLE --to {version}`, and run again: all is read again",
        )


def _rolled_back(table: DeltaTable | None, write: Write) -> int | None:
    """The version with which the table was rolled back before the batch was committed, or is so far."""
    if table is None or write.since is None or table.version() <= write.since:
        return None
    commits = table.history(table.version() - write.since)
    own = next((entry["version"] for entry in commits if entry.get("userMetadata") == write.note), table.version() + 1)
    back = [entry["version"] for entry in commits if entry.get("operation") == "RESTORE" and entry["version"] < own]
    return max(back, default=None)
