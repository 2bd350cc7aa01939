"""What the checks of a table need from a plan: other tables, and shuffles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakesmith.declare import Table, TableName, UnrunPython
from lakesmith.declare.checks import Distinct, Reconcile, References, Unique
from lakesmith.declare.loads import key_columns
from lakesmith.errors import DeclarationError, LakesmithError, did_you_mean


def referenced_tables(table: Table) -> tuple[TableName, ...]:
    """Return the tables that its checks reference; a run updates them first."""
    names = (check.rule.table for check in table.checks if isinstance(check.rule, References))
    return tuple(dict.fromkeys(name for name in names if name != table.name))


def shuffle_checks(table: Table) -> tuple[str, ...]:
    """Return the names of the checks for which Spark shuffles rows. All other checks run in the pass over the rows."""
    names = [f"{column.name}.unique" for column in table.columns if column.unique]
    keys = {column.name for column in table.columns if column.key}
    if keys and keys != set(key_columns(table.load)):
        names.append("key.unique")
    for check in table.checks:
        match check.rule:
            case Unique() | References() | Distinct(exact=True):
                names.append(check.name)
    return tuple(names)


def check_errors(
    table: Table, read: tuple[TableName, ...], tables: Mapping[TableName, Table], unrun: UnrunPython
) -> Iterator[LakesmithError]:
    """Yield the errors in tables that checks name. `read` are the table's inputs."""
    for check in table.checks:
        candidates: Mapping[TableName, Table] = {}
        match check.rule:
            case References(table=name) if name == table.name:
                what = f"the check {check.name} references its own table, which must exist before the check runs"
            case References(table=name) if name not in tables and not unrun.may_declare(name):
                what, candidates = f"the check {check.name} references {name}, which is not declared", tables
            case Reconcile(table=name) if name not in read:
                what = f"the check {check.name} compares with {name}, which {table.name} does not read"
                candidates = {each: tables[each] for each in read if each in tables}
            case _:
                continue
        yield DeclarationError(
            "unknown-table",
            what,
            at=check.declared_at,
            table=str(table.name),
            hint=did_you_mean(str(name), map(str, candidates), label="tables")
            if candidates
            else "use `unique`, or another table",
        )
