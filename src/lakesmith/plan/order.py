"""The order in which a run builds tables, and the cycles that prevent one."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from lakesmith.declare import LAYERS, PythonQuery, SqlQuery, Table, TableName
from lakesmith.declare.checks import Check, References
from lakesmith.errors import DeclarationError, LakesmithError, Place
from lakesmith.sqlproof.query import read_query

Edges = Mapping[TableName, tuple[TableName, ...]]
"""By table, the tables that have to be built before it."""
Tables = Mapping[TableName, Table]


def place_of_input(table: Table, name: TableName) -> Place:
    """Return the place where a table declares that it reads another."""
    if isinstance(table.origin, SqlQuery):
        line = read_query(table.origin).lines.get(name)
        if line is not None:
            return Place(table.origin.declared_at.file, line)
    if isinstance(table.origin, PythonQuery):
        return table.origin.declared_at
    return table.declared_at


def readers_of(edges: Edges) -> dict[TableName, tuple[TableName, ...]]:
    """Return, by table, the tables that read it."""
    readers: dict[TableName, list[TableName]] = {name: [] for name in edges}
    for name, read in edges.items():
        for each in read:
            readers[each].append(name)
    return {name: tuple(sorted(names, key=_rank)) for name, names in readers.items()}


def run_order(edges: Edges) -> tuple[TableName, ...]:
    """Return each table after all that it needs, without the tables on a cycle and those that need them."""
    waiting = {name: len(needed) for name, needed in edges.items()}
    downstream = readers_of(edges)
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


def input_cycles(upstream: Edges, tables: Tables) -> Iterator[LakesmithError]:
    """One error for each ring of inputs, walking from input to input until a table comes back."""
    stuck = set(upstream) - set(run_order(upstream))
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
        places = [place_of_input(tables[each], read) for each, read in _steps(ring)]
        yield DeclarationError(
            "cycle",
            f"tables read each other in a cycle: {_ring_text(ring)} (at {', '.join(map(str, places))})",
            at=places[0],
            table=str(ring[0]),
            hint="let one of them read something earlier instead",
        )


def check_cycles(needs: Edges, upstream: Edges, tables: Tables) -> Iterator[LakesmithError]:
    """One error for each shortest ring that a check closes. `needs` are inputs and tables that checks reference.

    An earlier version of the referenced table would not do: a first run, or a full refresh, finds none.
    """
    reported: set[frozenset[tuple[TableName, TableName]]] = set()
    for name in sorted(needs, key=_rank):
        for other in (each for each in needs[name] if each not in upstream[name]):
            ring = _shortest(needs, other, name)
            if ring is None or (steps := frozenset(_steps(ring))) in reported:
                continue
            reported.add(steps)
            checks = _references(tables[name], other)
            edges = ", ".join(_edge(tables[reader], read, upstream) for reader, read in _steps(ring))
            names = ", ".join(check.name for check in checks)
            yield DeclarationError(
                "cycle",
                f"no run order exists: {_ring_text(ring)} ({edges})",
                at=checks[0].declared_at,
                table=str(name),
                hint=f"let {names} reference a table that is not built from {name}, "
                f"or move {'it' if len(checks) == 1 else 'them'} to a new table that reads {name}",
            )


def _references(table: Table, other: TableName) -> list[Check]:
    """Return the checks of a table that reference another."""
    return [check for check in table.checks if isinstance(check.rule, References) and check.rule.table == other]


def _edge(table: Table, needed: TableName, upstream: Edges) -> str:
    """Describe why a table needs another, and where that is declared."""
    if needed in upstream[table.name]:
        return f"input of {table.name} at {place_of_input(table, needed)}"
    checks = _references(table, needed)
    word = "check" if len(checks) == 1 else "checks"
    return f"{word} {', '.join(check.name for check in checks)} of {table.name} at {checks[0].declared_at}"


def _shortest(needs: Edges, start: TableName, end: TableName) -> list[TableName] | None:
    """The ring `end` → `start` → … → `end` with the fewest tables."""
    came_from: dict[TableName, TableName] = {start: end}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        if name == end:
            ring = []
            while (name := came_from[name]) != end:
                ring.append(name)
            return [end, *reversed(ring)]
        for each in needs[name]:
            if each not in came_from:
                came_from[each] = name
                queue.append(each)
    return None


def _steps(ring: Sequence[TableName]) -> list[tuple[TableName, TableName]]:
    return list(zip(ring, (*ring[1:], ring[0]), strict=True))


def _ring_text(ring: Sequence[TableName]) -> str:
    return " → ".join(str(each) for each in (*ring, ring[0]))


def _rank(name: TableName) -> tuple[int, str]:
    return LAYERS.index(name.layer), name.name
