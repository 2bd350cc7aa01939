"""Find who reads a column: the columns computed from it, as far as lineage can follow SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakesmith.declare import SqlQuery, Table, TableName
from lakesmith.declare.checks import References
from lakesmith.plan.graph import Graph
from lakesmith.plan.lineage import lineage
from lakesmith.sqlproof.query import read_query


class Consumers:
    """Finds the consumers of columns. Lineage is computed on first use, because most plans never need it."""

    def __init__(
        self, graph: Graph, tables: Mapping[TableName, Table], schemas: Mapping[TableName, Sequence[str]]
    ) -> None:
        self._graph = graph
        self._tables = tables
        self._schemas = schemas
        self._edges: dict[TableName, dict[str, list[str]]] = {}

    def of(self, table: TableName, columns: Sequence[str], was: Sequence[str]) -> tuple[str, ...]:
        """Return the columns computed from these columns at any distance, as `layer.table.column`, then the checks that
        look up a column. Only the table is named when it reads a column without computing one from it, or when its
        columns are unknown. `was` are all columns that the table had."""
        if not columns:
            return ()
        edges = self._column_edges(table, was)
        affected = {table: {column.lower() for column in columns}}
        columns_of: dict[TableName, dict[str, None]] = {}
        unresolved: set[TableName] = set()
        waiting = [table]
        while waiting:
            source = waiting.pop()
            for reader in self._graph.downstream(source):
                targets = [
                    target
                    for column in affected.get(source, ())
                    for target in edges.get(f"{source}.{column}", ())
                    if target.rpartition(".")[0] == str(reader)
                ]
                new = {target.rpartition(".")[2].lower() for target in targets} - affected.setdefault(reader, set())
                columns_of.setdefault(reader, {}).update(dict.fromkeys(targets))
                affected[reader] |= new
                is_unresolved = source in unresolved or (
                    not targets and self._may_read(reader, source, affected[source])
                )
                if new or (is_unresolved and reader not in unresolved):
                    waiting.append(reader)
                if is_unresolved:
                    unresolved.add(reader)
        names = [
            name
            for reader, targets in columns_of.items()
            for name in ([str(reader)] if reader in unresolved else targets)
        ]
        return tuple(sorted({*names, *self._lookups(affected, unresolved)}))

    def _lookups(self, affected: Mapping[TableName, set[str]], unresolved: set[TableName]) -> Iterator[str]:
        """Return the checks that look up values in an affected column."""
        for name, table in self._tables.items():
            for check in table.checks:
                if isinstance(check.rule, References):
                    other, key = check.rule.table, {column.lower() for column in check.rule.key}
                    if other in unresolved or key & affected.get(other, set()):
                        yield f"{name} (check {check.name})"

    def _column_edges(self, table: TableName, was: Sequence[str]) -> Mapping[str, Sequence[str]]:
        if table not in self._edges:
            schemas = dict(self._schemas)
            if table in schemas:
                # Readers still name a removed column.
                schemas[table] = tuple(dict.fromkeys((*schemas[table], *was)))
            targets: dict[str, list[str]] = {}
            for edge in lineage(self._graph, self._tables, table, schemas).columns:
                targets.setdefault(edge.source.lower(), []).append(edge.target)
            self._edges[table] = targets
        return self._edges[table]

    def _may_read(self, reader: TableName, table: TableName, columns: set[str]) -> bool:
        origin = self._tables[reader].origin
        if not isinstance(origin, SqlQuery):
            return True
        read = read_query(origin).reads.get(table)
        return read is not None and bool(columns & {column.lower() for column in read})
