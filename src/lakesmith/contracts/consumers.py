"""Whom a change of a column hits: the columns that are made from it, as far as SQL can be followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakesmith.declare import SqlQuery, Table, TableName
from lakesmith.declare.checks import References
from lakesmith.plan.graph import Graph
from lakesmith.plan.lineage import lineage
from lakesmith.sqlproof.query import read_query


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
        one and makes no column from it, or where nobody can tell, and then all that is made from it; and the checks
        that look a column up. `was` are all columns that the table had."""
        if not columns:
            return ()
        edges = self._made_from(table, was)
        hit = {table: {column.lower() for column in columns}}
        spelt: dict[TableName, dict[str, None]] = {}
        whole: set[TableName] = set()
        waiting = [table]
        while waiting:
            source = waiting.pop()
            for reader in self._graph.downstream(source):
                made = [
                    target
                    for column in hit.get(source, ())
                    for target in edges.get(f"{source}.{column}", ())
                    if target.rpartition(".")[0] == str(reader)
                ]
                new = {target.rpartition(".")[2].lower() for target in made} - hit.setdefault(reader, set())
                spelt.setdefault(reader, {}).update(dict.fromkeys(made))
                hit[reader] |= new
                unseen = source in whole or (not made and self._may_read(reader, source, hit[source]))
                if new or (unseen and reader not in whole):
                    waiting.append(reader)
                if unseen:
                    whole.add(reader)
        names = [name for reader, found in spelt.items() for name in ([str(reader)] if reader in whole else found)]
        return tuple(sorted({*names, *self._lookups(hit, whole)}))

    def _lookups(self, hit: Mapping[TableName, set[str]], whole: set[TableName]) -> Iterator[str]:
        """The checks that look values up in a column that is hit."""
        for name, table in self._tables.items():
            for check in table.checks:
                if isinstance(check.rule, References):
                    other, key = check.rule.table, {column.lower() for column in check.rule.key}
                    if other in whole or key & hit.get(other, set()):
                        yield f"{name} (check {check.name})"

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
