"""Lineage by table and, where the SQL can be analysed, by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakesmith.declare import Source, SqlQuery, Table, TableName, source_text
from lakesmith.plan.graph import Graph
from lakesmith.reports import Edge, Lineage
from lakesmith.sqlproof.query import column_origins, table_columns


def lineage(
    graph: Graph,
    tables: Mapping[TableName, Table],
    name: TableName | None,
    schemas: Mapping[TableName, Sequence[str]],
) -> Lineage:
    """Return the ancestors and descendants of `name`, or the whole lake.

    A table without a known schema has the columns that its own SQL names, so that lineage works before
    the first run. Python queries have table edges only.
    """
    around = (
        frozenset(graph.order) if name is None else graph.ancestors(name) | graph.descendants(name) | frozenset({name})
    )
    nodes = tuple(each for each in graph.order if each in around)
    return Lineage(
        table=None if name is None else str(name),
        nodes=tuple(str(node) for node in nodes),
        edges=tuple(
            Edge(source=str(source), target=str(node))
            for node in nodes
            for source in graph.upstream(node)
            if source in around
        ),
        columns=_column_edges(graph, tables, nodes, schemas),
        sources={str(node): source_text(origin) for node in nodes if isinstance(origin := tables[node].origin, Source)},
    )


def _column_edges(
    graph: Graph,
    tables: Mapping[TableName, Table],
    nodes: Sequence[TableName],
    schemas: Mapping[TableName, Sequence[str]],
) -> tuple[Edge, ...]:
    columns_of: dict[TableName, Sequence[str]] = dict(schemas)
    chosen = set(nodes)
    needed = chosen.union(*(graph.ancestors(node) for node in nodes)) if nodes else chosen
    edges: list[Edge] = []
    for node in graph.order:
        query = tables[node].origin
        if node not in needed or not isinstance(query, SqlQuery):
            continue
        if node in chosen:
            edges.extend(
                Edge(source=f"{table}.{column}", target=f"{node}.{target}")
                for target, origins in column_origins(query, columns_of).items()
                for table, column in sorted(origins)
                if table in chosen
            )
        if node not in columns_of:
            columns = table_columns(tables[node], columns_of)
            if columns is not None:
                columns_of[node] = columns
    return tuple(edges)
