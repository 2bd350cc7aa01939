"""What the checks of a table ask of a plan: other tables, and rows that have to be brought together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakesmith.declare import Table, TableName, UnrunPython
from lakesmith.declare.checks import Distinct, Reconcile, References, Unique
from lakesmith.declare.loads import key_columns
from lakesmith.errors import DeclarationError, LakesmithError, did_you_mean


def looked_up(table: Table) -> tuple[TableName, ...]:
    """The tables that its checks refer to: these are brought up to date before."""
    asked = (check.rule.table for check in table.checks if isinstance(check.rule, References))
    return tuple(dict.fromkeys(name for name in asked if name != table.name))


def shuffling(table: Table) -> tuple[str, ...]:
    """The names of the checks for which Spark has to bring rows together; all others see each row as it passes."""
    found = [f"{column.name}.unique" for column in table.columns if column.unique]
    keys = {column.name for column in table.columns if column.key}
    if keys and keys != set(key_columns(table.load)):
        found.append("key.unique")
    for check in table.checks:
        match check.rule:
            case Unique() | References() | Distinct(exact=True):
                found.append(check.name)
    return tuple(found)


def check_errors(
    table: Table, read: tuple[TableName, ...], tables: Mapping[TableName, Table], unrun: UnrunPython
) -> Iterator[LakesmithError]:
    """What is wrong with the tables that checks name. `read` are the table's inputs."""
    for check in table.checks:
        known: Mapping[TableName, Table] = {}
        match check.rule:
            case References(table=name) if name == table.name:
                what = f"the check {check.name} refers to its own table, which has to be there before"
            case References(table=name) if name not in tables and not unrun.may_declare(name):
                what, known = f"the check {check.name} refers to {name}, which is not declared", tables
            case Reconcile(table=name) if name not in read:
                what = f"the check {check.name} compares with {name}, which {table.name} does not read"
                known = {each: tables[each] for each in read if each in tables}
            case _:
                continue
        yield DeclarationError(
            "unknown-table",
            what,
            at=check.declared_at,
            table=str(table.name),
            hint=did_you_mean(str(name), map(str, known), label="tables")
            if known
            else "use `unique`, or another table",
        )
