"""Turn the load block of a table into a load."""

from __future__ import annotations

from dataclasses import replace

from lakesmith.declare import Append, Changes, Load, Replace, TableName
from lakesmith.errors import DeclarationError, LakesmithError
from lakesmith.load.models import LoadBlock


def read_load(name: TableName, block: LoadBlock, problems: list[LakesmithError]) -> Load:
    """Return the load of the block."""
    written = (block.append, block.merge, block.scd2, block.changes, block.snapshot, block.replace_partitions)
    load: Load = next((each for each in written if each is not None), Replace())
    match load:
        case Append(dedup=(), by=None):
            problems.append(
                DeclarationError(
                    "missing-key",
                    "append without dedup and by has no keys",
                    at=block.places["append"],
                    table=str(name),
                    hint="write load: append, or add dedup: …, the columns that identify duplicates",
                )
            )
        case Changes():
            keys = {key.lower(): key for key in load.key}
            previous = {keys.get(key.lower(), key): column for key, column in load.previous_key.items()}
            return replace(load, previous_key=previous)
    return load
