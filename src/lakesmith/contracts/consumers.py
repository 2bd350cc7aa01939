"""Whom a change of a column hits: the columns that are made from it, as far as SQL can be followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakesmith.declare import SqlQuery, Table, TableName
from lakesmith.plan.graph import Graph
from lakesmith.plan.lineage import lineage
from lakesmith.plan.query import read_query


class Readers:
    """Looks the readers of columns up when somebody asks for them: most plans never do."""

    def __init__(
        self, graph: Graph, tables: Mapping[TableName, Table], schemas: Mapping[TableName, Sequence[str]]
    ) -> None:
        self._graph = graph
        self._tables = tables
        self._schemas = schemas
        self._edges: dict[TableName, dict[str, list[str]]] = {}

    def of(self, table: TableName, columns: Sequence[str], was: Sequence[str]) -> tuple[str, ...]:
        """The columns made from these columns, however far away, as `layer.table.column`; a table alone where it reads
        one and makes no column from it, or where nobody can tell. `was` are all columns that the table had."""
        if not columns:
            return ()
        edges = self._made_from(table, was)
        found: dict[str, None] = {}
        waiting = [f"{table}.{column}".lower() for column in columns]
        while waiting:
            for target in edges.get(waiting.pop(), ()):
                if target not in found:
                    found[target] = None
                    waiting.append(target.lower())
        by_column = {name.rpartition(".")[0] for name in found}
        named = {column.lower() for column in columns}
        for reader in self._graph.downstream(table):
            if str(reader) not in by_column and self._may_read(reader, table, named):
                found[str(reader)] = None
        return tuple(sorted(found))

    def _made_from(self, table: TableName, was: Sequence[str]) -> Mapping[str, Sequence[str]]:
        if table not in self._edges:
            schemas = dict(self._schemas)
            if table in schemas:
                # A column that is gone is still named by those who read it.
                schemas[table] = tuple(dict.fromkeys((*schemas[table], *was)))
            made: dict[str, list[str]] = {}
            for edge in lineage(self._graph, self._tables, table, schemas).columns:
                made.setdefault(edge.source.lower(), []).append(edge.target)
            self._edges[table] = made
        return self._edges[table]

    def _may_read(self, reader: TableName, table: TableName, columns: set[str]) -> bool:
        origin = self._tables[reader].origin
        if not isinstance(origin, SqlQuery):
            return True
        read = read_query(origin).reads.get(table)
        return read is not None and bool(columns & {column.lower() for column in read})
