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
    differences = tuple(_differences(table, facts)) if facts else ()
    return ContractCheck(
        table=str(table.name),
        state="not built" if facts is None else "differs" if differences else "agrees",
        columns=len(table.columns),
        differences=differences,
    )


def _differences(table: Table, facts: TableFacts) -> Iterator[ColumnDifference]:
    stored = {column.name.lower(): column for column in facts.columns}
    strict = table.contract == "strict"
    for column in table.columns:
        fact = stored.pop(column.name.lower(), None)
        if fact is None:
            yield ColumnDifference(column=column.name, declared=column.type, stored=None, what=_WHAT["removed"])
        elif column.type is not None:
            for each in type_differences(column.name, column.type, fact.type):
                if each.kind != "added" or strict:
                    what = _WHAT[each.kind]
                    yield ColumnDifference(column=each.path, declared=column.type, stored=fact.type, what=what)
    if strict:
        ours = {name.lower() for name in (*AUDIT, *added_columns(table.load))}
        for name, fact in stored.items():
            if name not in ours:
                yield ColumnDifference(column=fact.name, declared=None, stored=fact.type, what=_WHAT["added"])
