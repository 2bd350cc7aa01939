"""Which table is made from which: the order that builds may go in, and what makes a graph impossible."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakesmith.declare import (
    LAYERS,
    Append,
    PythonQuery,
    ReplacePartitions,
    Source,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems, did_you_mean, raise_all
from lakesmith.plan.checks import check_errors, looked_up
from lakesmith.plan.query import inputs, read_query


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The tables and their inputs. Made by `Graph.of`, which refuses what cannot be built."""

    order: tuple[TableName, ...]
    """Every table after its inputs; among equals by layer and name."""
    _upstream: Mapping[TableName, tuple[TableName, ...]]
    _downstream: Mapping[TableName, tuple[TableName, ...]]

    @staticmethod
    def of(tables: Mapping[TableName, Table]) -> Graph:
        """The graph of these tables. Raises everything that is wrong with it at once."""
        errors: list[LakesmithError] = []
        upstream: dict[TableName, tuple[TableName, ...]] = {}
        for name, table in tables.items():
            try:
                read = inputs(table, tables)
            except Problems as several:
                errors.extend(several.errors)
                read = ()
            except LakesmithError as error:
                errors.append(error)
                read = ()
            errors.extend(_unknown_inputs(table, read, tables))
            upstream[name] = tuple(each for each in read if each in tables)
            errors.extend(_load_errors(table, upstream[name], tables))
            errors.extend(check_errors(table, upstream[name], tables))
        order = _ordered(upstream)
        if len(order) == len(upstream):
            order = _with_lookups(order, upstream, tables)
        errors.extend(_cycles(upstream, set(upstream) - set(order), tables))
        raise_all(errors)
        return Graph(order=order, _upstream=upstream, _downstream=_turned(upstream))

    def upstream(self, name: TableName) -> tuple[TableName, ...]:
        """The table's inputs, in order of appearance."""
        return self._upstream[name]

    def downstream(self, name: TableName) -> tuple[TableName, ...]:
        """The tables that read it."""
        return self._downstream[name]

    def ancestors(self, name: TableName, depth: int | None = None) -> frozenset[TableName]:
        """All that it is made from, at most `depth` tables away."""
        return _reached(self._upstream, name, depth)

    def descendants(self, name: TableName, depth: int | None = None) -> frozenset[TableName]:
        """All that is made from it, at most `depth` tables away."""
        return _reached(self._downstream, name, depth)


def place_of_input(table: Table, name: TableName) -> Place:
    """Where a table says that it reads another."""
    if isinstance(table.origin, SqlQuery):
        line = read_query(table.origin).lines.get(name)
        if line is not None:
            return Place(table.origin.declared_at.file, line)
    if isinstance(table.origin, PythonQuery):
        return table.origin.declared_at
    return table.declared_at


def is_append_only(table: Table) -> bool:
    """Whether rows that are in the table never change and never go."""
    # Where one of several rows is kept, an earlier one that comes late takes the place of the one that is there.
    return table.adopted is None and (isinstance(table.origin, Source) or table.load == Append())


def _unknown_inputs(table: Table, read: Iterable[TableName], tables: Mapping[TableName, Table]) -> list[LakesmithError]:
    return [
        DeclarationError(
            "unknown-table",
            f"{table.name} reads {name}, which is not declared",
            at=place_of_input(table, name),
            table=str(table.name),
            hint=did_you_mean(str(name), (str(known) for known in tables), label="tables"),
        )
        for name in read
        if name not in tables
    ]


def _load_errors(
    table: Table, upstream: tuple[TableName, ...], tables: Mapping[TableName, Table]
) -> list[LakesmithError]:
    errors: list[LakesmithError] = []
    if table.load == Append():
        for name in upstream:
            if not is_append_only(tables[name]):
                errors.append(
                    DeclarationError(
                        "append-needs-append-only",
                        f"{table.name} appends rows of {name}, whose rows change: some would be added twice",
                        at=place_of_input(table, name),
                        table=str(table.name),
                        hint="use load: merge with a key, or read a bronze table or one whose load is a plain append",
                    )
                )
    if isinstance(table.load, ReplacePartitions) and table.load.same_as is not None:
        layer_and_name, _, column = table.load.same_as.rpartition(".")
        name_of = TableName.parse(layer_and_name)
        if name_of is None or not column or name_of not in upstream:
            errors.append(
                DeclarationError(
                    "unknown-table",
                    f"same_as '{table.load.same_as}' is not a column of a table that {table.name} reads",
                    at=table.declared_at,
                    table=str(table.name),
                    hint=did_you_mean(layer_and_name, (str(name) for name in upstream), label="tables that it reads"),
                )
            )
    return errors


def _turned(upstream: Mapping[TableName, tuple[TableName, ...]]) -> dict[TableName, tuple[TableName, ...]]:
    readers: dict[TableName, list[TableName]] = {name: [] for name in upstream}
    for name, read in upstream.items():
        for each in read:
            readers[each].append(name)
    return {name: tuple(sorted(found, key=_rank)) for name, found in readers.items()}


def _rank(name: TableName) -> tuple[int, str]:
    return LAYERS.index(name.layer), name.name


def _ordered(upstream: Mapping[TableName, tuple[TableName, ...]]) -> tuple[TableName, ...]:
    """Each table after its inputs; tables on a cycle, and what is made from them, are left out."""
    waiting = {name: len(read) for name, read in upstream.items()}
    downstream = _turned(upstream)
    ready = [(_rank(name), name) for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[TableName] = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(name)
        for reader in downstream[name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, (_rank(reader), reader))
    return tuple(order)


def _with_lookups(
    order: tuple[TableName, ...],
    upstream: Mapping[TableName, tuple[TableName, ...]],
    tables: Mapping[TableName, Table],
) -> tuple[TableName, ...]:
    """Each table also after those that its checks refer to; where these are made from it, as they were before."""
    waits = {name: (*read, *(t for t in looked_up(tables[name]) if t in tables)) for name, read in upstream.items()}
    found = _ordered(waits)
    return found if len(found) == len(order) else order


def _cycles(
    upstream: Mapping[TableName, tuple[TableName, ...]],
    stuck: set[TableName],
    tables: Mapping[TableName, Table],
) -> list[LakesmithError]:
    """One error for each ring, walking from input to input until a table comes back."""
    errors: list[LakesmithError] = []
    left = set(stuck)
    for start in sorted(stuck, key=_rank):
        walked: list[TableName] = []
        name = start
        while name in left and name not in walked:
            walked.append(name)
            name = min((each for each in upstream[name] if each in stuck), key=_rank)
        left -= set(walked)
        if name not in walked:
            continue
        ring = walked[walked.index(name) :]
        first = ring.index(min(ring, key=_rank))
        ring = [*ring[first:], *ring[:first]]
        told = " → ".join(str(each) for each in (*ring, ring[0]))
        reads = list(zip(ring, (*ring[1:], ring[0]), strict=True))
        places = [place_of_input(tables[each], read) for each, read in reads]
        errors.append(
            DeclarationError(
                "cycle",
                f"tables are made from each other: {told} (at {', '.join(map(str, places))})",
                at=places[0],
                table=str(ring[0]),
                hint="let one of them read something earlier instead",
            )
        )
    return errors


def _reached(
    edges: Mapping[TableName, tuple[TableName, ...]], start: TableName, depth: int | None
) -> frozenset[TableName]:
    found: set[TableName] = set()
    edge = {start}
    while edge and (depth is None or depth > 0):
        edge = {each for name in edge for each in edges[name]} - found
        found |= edge
        depth = None if depth is None else depth - 1
    return frozenset(found - {start})
