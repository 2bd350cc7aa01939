"""Compare a stored table's columns and types with its declared contract."""

from __future__ import annotations

from collections.abc import Iterator

from lakesmith.columns import AUDIT
from lakesmith.contracts.differences import type_differences
from lakesmith.declare import Table
from lakesmith.declare.loads import added_columns
from lakesmith.ports import TableFacts
from lakesmith.reports import ColumnDifference, ContractCheck

_WHAT = {"added": "is not in the contract", "removed": "is not in the table", "type": "has another type"}


def compare_stored_table(table: Table, facts: TableFacts | None) -> ContractCheck:
    """Return where the stored table differs from its contract. A table that is not built yet does not differ."""
    found = tuple(_disagreements(table, facts)) if facts else ()
    return ContractCheck(
        table=str(table.name),
        state="not built" if facts is None else "differs" if found else "agrees",
        columns=len(table.columns),
        differences=found,
    )


def _disagreements(table: Table, facts: TableFacts) -> Iterator[ColumnDifference]:
    stored = {column.name.lower(): column for column in facts.columns}
    strict = table.contract == "strict"
    for column in table.columns:
        found = stored.pop(column.name.lower(), None)
        if found is None:
            yield ColumnDifference(column=column.name, declared=column.type, stored=None, what=_WHAT["removed"])
        elif column.type is not None:
            for change in type_differences(column.name, column.type, found.type):
                if change.kind != "added" or strict:
                    yield ColumnDifference(
                        column=change.path, declared=column.type, stored=found.type, what=_WHAT[change.kind]
                    )
    if strict:
        ours = {name.lower() for name in (*AUDIT, *added_columns(table.load))}
        for name, column_fact in stored.items():
            if name not in ours:
                yield ColumnDifference(
                    column=column_fact.name, declared=None, stored=column_fact.type, what=_WHAT["added"]
                )
