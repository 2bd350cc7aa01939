"""A release: all tables of a lake at consistent versions, each built from the versions of the others."""

from __future__ import annotations

from collections.abc import Mapping

from lakesmith.declare import TableName
from lakesmith.plan.steps import Progress
from lakesmith.ports import TableFacts


def consistent_versions(
    facts: Mapping[TableName, TableFacts], progress: Mapping[TableName, Progress]
) -> dict[TableName, int] | str:
    """Return the consistent versions of the tables, or why they are not consistent.

    A table without progress is written by another lake, or is out of use: its version is the one that was read.
    """
    read: dict[TableName, int] = {}
    for name, own in progress.items():
        if own.definition is None:
            return f"no batch of this lake records which inputs {name} was built from"
        if own.unfinished is not None:
            return f"a batch of {name} was interrupted"
        for text, position in own.positions.items():
            source = TableName.parse(text)
            current = facts.get(source) if source else None
            if source is None or current is None or current.table_id != position.table_id:
                return f"{name} was built from an earlier {text} that was dropped or recreated"
            if source not in progress:
                if read.setdefault(source, position.version) != position.version:
                    return f"{text} was read by several tables, at different versions"
            elif not current.changed <= position.version <= current.version:
                return f"{name} was built from version {position.version} of {text}, not from {current.version}"
    return {name: read.get(name, current.version) for name, current in facts.items()}
