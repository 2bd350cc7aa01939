"""Checks unit tests against the lake: which tables a table reads, and which columns exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakesmith.declare import Source, Table, TableName
from lakesmith.declare.checks import Reconcile, References
from lakesmith.declare.loads import added_columns
from lakesmith.declare.tests import Row, TableTest
from lakesmith.errors import DeclarationError, LakesmithError, UsageError, did_you_mean
from lakesmith.plan.graph import Graph

Schemas = Mapping[TableName, tuple[str, ...]]


def read_by(table: Table, graph: Graph) -> tuple[TableName, ...]:
    """Return the tables that a table reads, for its rows and for its checks."""
    checked = [check.rule.table for check in table.checks if isinstance(check.rule, References | Reconcile)]
    return tuple(dict.fromkeys((*graph.upstream(table.name), *(name for name in checked if name != table.name))))


def check_tests(
    tests: Iterable[TableTest], tables: Mapping[TableName, Table], graph: Graph, schemas: Schemas
) -> list[LakesmithError]:
    """Return the errors: rows for tables that are not read, and unknown columns. Tables without a known schema pass."""
    return [error for test in tests for error in _errors(test, tables, graph, schemas)]


def chosen_tests(tests: Iterable[TableTest], selected: frozenset[TableName], name: str | None) -> tuple[TableTest, ...]:
    """Return the tests of the selected tables whose names contain `name`."""
    of_tables = [test for test in tests if test.table in selected]
    matching = tuple(test for test in of_tables if name is None or name.lower() in test.name.lower())
    if name is not None and not matching:
        hint = did_you_mean(name, {test.name for test in of_tables}, label="tests")
        raise UsageError("no-match", f"no test has '{name}' in its name", hint=hint)
    return matching


def untested(
    tests: Iterable[TableTest], selected: frozenset[TableName], tables: Mapping[TableName, Table]
) -> tuple[str, ...]:
    """Return the selected tables with a query and without a test."""
    tested = {test.table for test in tests}
    queried = (name for name in selected - tested if not isinstance(tables[name].origin, Source))
    return tuple(str(name) for name in sorted(queried))


def known_columns(table: Table, schemas: Schemas) -> tuple[str, ...] | None:
    """Return all columns of a table, or None where they are not known."""
    if table.name in schemas:
        return schemas[table.name]
    if table.contract == "strict" and table.columns:
        return (*(column.name for column in table.columns), *added_columns(table.load))
    return None


def _errors(
    test: TableTest, tables: Mapping[TableName, Table], graph: Graph, schemas: Schemas
) -> Iterator[LakesmithError]:
    reads = read_by(tables[test.table], graph)
    for number, batch in enumerate((test.given, *test.then)):
        for name, rows in batch.items():
            if name not in reads and (name != test.table or number):
                at = rows[0].at if rows else test.declared_at
                what = f"{test.table} does not read {name}"
                if name == test.table:
                    what = f"rows of {name} itself can only be given before its first run"
                hint = did_you_mean(str(name), map(str, reads), label="tables that it reads")
                yield DeclarationError("not-testable", what, at=at, table=str(test.table), hint=hint)
            else:
                yield from _unknown_columns(rows, tables[name], known_columns(tables[name], schemas))
    yield from _unknown_columns(test.expect or (), tables[test.table], known_columns(tables[test.table], schemas))


def _unknown_columns(rows: Sequence[Row], table: Table, columns: tuple[str, ...] | None) -> Iterator[LakesmithError]:
    if columns is None:
        return
    lower = {name.lower() for name in columns}
    reported: set[str] = set()
    for row in rows:
        for name in row.values:
            audit = table.name.layer == "bronze" and name.startswith("_")
            if name.lower() not in lower and name not in reported and not audit:
                reported.add(name)
                yield DeclarationError(
                    "unknown-column",
                    f"column '{name}' is not in {table.name}",
                    at=row.at,
                    table=str(table.name),
                    hint=did_you_mean(name, columns, label="columns"),
                )
