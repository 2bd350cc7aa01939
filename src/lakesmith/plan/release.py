"""A release: all tables of a lake, each at a version that was made from those of the others."""

from __future__ import annotations

from collections.abc import Mapping

from lakesmith.declare import TableName
from lakesmith.plan.steps import Progress
from lakesmith.ports import TableFacts


def together(
    facts: Mapping[TableName, TableFacts], progress: Mapping[TableName, Progress]
) -> dict[TableName, int] | str:
    """The versions of tables that fit together, or why they do not.

    Without progress is a table that another lake writes, or that is out of use: of that one the version counts that was
    read.
    """
    read: dict[TableName, int] = {}
    for name, made in progress.items():
        if made.definition is None:
            return f"no batch of this lake tells what {name} was made from"
        if made.unfinished is not None:
            return f"a batch of {name} was cut short"
        for text, position in made.positions.items():
            source = TableName.parse(text)
            found = facts.get(source) if source else None
            if source is None or found is None or found.table_id != position.table_id:
                return f"{name} was made from another {text}"
            if source not in progress:
                if read.setdefault(source, position.version) != position.version:
                    return f"{text} was read by several tables, at different versions"
            elif not found.changed <= position.version <= found.version:
                return f"{name} was made from version {position.version} of {text}, and not from {found.version}"
    return {name: read.get(name, found.version) for name, found in facts.items()}
