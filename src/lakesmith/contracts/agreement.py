"""Holds a stored table to its declared contract, by what its log tells of columns and types."""

from __future__ import annotations

from collections.abc import Iterator

from lakesmith.columns import AUDIT
from lakesmith.contracts.differences import type_differences
from lakesmith.declare import Table
from lakesmith.declare.loads import added_columns
from lakesmith.ports import TableFacts
from lakesmith.reports import ContractCheck, Disagreement

_WHAT = {"added": "is not in the contract", "removed": "is not in the table", "type": "has another type"}


def agreement(table: Table, facts: TableFacts | None) -> ContractCheck:
    """Whether the table is as its contract says. One that is not there yet breaks no promise."""
    found = tuple(_disagreements(table, facts)) if facts else ()
    return ContractCheck(
        table=str(table.name),
        state="not built" if facts is None else "differs" if found else "agrees",
        columns=len(table.columns),
        disagreements=found,
    )


def _disagreements(table: Table, facts: TableFacts) -> Iterator[Disagreement]:
    stored = {column.name.lower(): column for column in facts.columns}
    strict = table.contract == "strict"
    for column in table.columns:
        found = stored.pop(column.name.lower(), None)
        if found is None:
            yield Disagreement(column=column.name, declared=column.type, stored=None, what=_WHAT["removed"])
        elif column.type is not None:
            for change in type_differences(column.name, column.type, found.type):
                if change.kind != "added" or strict:
                    yield Disagreement(
                        column=change.path, declared=column.type, stored=found.type, what=_WHAT[change.kind]
                    )
    if strict:
        ours = {name.lower() for name in (*AUDIT, *added_columns(table.load))}
        for name, column_fact in stored.items():
            if name not in ours:
                yield Disagreement(column=column_fact.name, declared=None, stored=column_fact.type, what=_WHAT["added"])
