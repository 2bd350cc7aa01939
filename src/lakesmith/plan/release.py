"""A release: all tables of a lake, each at a version that was made from those of the others."""

from __future__ import annotations

from collections.abc import Mapping

from lakesmith.declare import TableName
from lakesmith.plan.steps import Progress
from lakesmith.ports import TableFacts


def apart(facts: Mapping[TableName, TableFacts], progress: Mapping[TableName, Progress]) -> str | None:
    """Why the tables, as they are, are no release, or None when they are one. Adopted tables have no progress."""
    for name, made in progress.items():
        if made.definition is None:
            return f"no batch of this lake tells what {name} was made from"
        if made.unfinished is not None:
            return f"a batch of {name} was cut short"
        for text, read in made.positions.items():
            source = TableName.parse(text)
            found = facts.get(source) if source else None
            if found is None or found.table_id != read.table_id:
                return f"{name} was made from another {text}"
            if not found.changed <= read.version <= found.version:
                return f"{name} was made from version {read.version} of {text}, and not from {found.version}"
    return None
