"""Which table reads which: the run order, and the errors that make a graph impossible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakesmith.declare import Append, ReplacePartitions, Source, Table, TableName, UnrunPython
from lakesmith.errors import DeclarationError, LakesmithError, did_you_mean, raise_all
from lakesmith.plan.checks import check_errors, referenced_tables
from lakesmith.plan.order import check_cycles, input_cycles, place_of_input, readers_of, run_order
from lakesmith.sqlproof.query import inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The tables and their inputs. `Graph.of` makes it and raises what cannot be built."""

    order: tuple[TableName, ...]
    """Every table after its inputs and the tables that its checks reference; among equals by layer and name."""
    incomplete: frozenset[TableName]
    """Tables with an unknown input, because its Python file was not run."""
    _upstream: Mapping[TableName, tuple[TableName, ...]]
    _downstream: Mapping[TableName, tuple[TableName, ...]]

    @staticmethod
    def of(tables: Mapping[TableName, Table], unrun: UnrunPython | None = None) -> Graph:
        """Return the graph of these tables. Raise all of its errors at once.

        A table that a Python file may declare which was not run is unknown, not an error.
        """
        unrun = unrun or UnrunPython()
        incomplete: set[TableName] = set()
        errors: list[LakesmithError] = []
        upstream: dict[TableName, tuple[TableName, ...]] = {}
        for name, table in tables.items():
            try:
                read = inputs(table, tables)
            except LakesmithError as error:
                errors.extend(error.errors)
                read = ()
            upstream[name] = tuple(each for each in read if each in tables)
            unknown = [each for each in read if each not in tables]
            errors.extend(_unknown_inputs(table, [each for each in unknown if not unrun.may_declare(each)], tables))
            if any(map(unrun.may_declare, unknown)):
                incomplete.add(name)
            errors.extend(_load_errors(table, read, tables))
            errors.extend(check_errors(table, read, tables, unrun))
        needs = {
            name: tuple(dict.fromkeys((*read, *(each for each in referenced_tables(tables[name]) if each in tables))))
            for name, read in upstream.items()
        }
        order = run_order(needs)
        if len(order) < len(tables):
            errors.extend(input_cycles(upstream, tables))
            errors.extend(check_cycles(needs, upstream, tables))
        raise_all(errors)
        return Graph(
            order=order, incomplete=frozenset(incomplete), _upstream=upstream, _downstream=readers_of(upstream)
        )

    def upstream(self, name: TableName) -> tuple[TableName, ...]:
        """Return the table's inputs, in order of appearance."""
        return self._upstream[name]

    def downstream(self, name: TableName) -> tuple[TableName, ...]:
        """Return the tables that read it."""
        return self._downstream[name]

    def ancestors(self, name: TableName, depth: int | None = None) -> frozenset[TableName]:
        """Return the tables that it is built from, at most `depth` tables away."""
        return _reachable(self._upstream, name, depth)

    def descendants(self, name: TableName, depth: int | None = None) -> frozenset[TableName]:
        """Return the tables that are built from it, at most `depth` tables away."""
        return _reachable(self._downstream, name, depth)


def is_append_only(table: Table) -> bool:
    """Whether rows of the table never change and are never deleted."""
    # With dedup, an earlier row that arrives late replaces the stored one.
    return table.adopted is None and (isinstance(table.origin, Source) or table.load == Append())


def _unknown_inputs(
    table: Table, unknown: Iterable[TableName], tables: Mapping[TableName, Table]
) -> list[LakesmithError]:
    return [
        DeclarationError(
            "unknown-table",
            f"{table.name} reads {name}, which is not declared",
            at=place_of_input(table, name),
            table=str(table.name),
            hint=did_you_mean(str(name), map(str, tables), label="tables"),
        )
        for name in unknown
    ]


def _load_errors(table: Table, read: tuple[TableName, ...], tables: Mapping[TableName, Table]) -> list[LakesmithError]:
    errors: list[LakesmithError] = []
    if table.load == Append():
        for name in read:
            if name in tables and not is_append_only(tables[name]):
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
        if name_of is None or not column or name_of not in read:
            errors.append(
                DeclarationError(
                    "unknown-table",
                    f"same_as '{table.load.same_as}' is not a column of a table that {table.name} reads",
                    at=table.declared_at,
                    table=str(table.name),
                    hint=did_you_mean(layer_and_name, map(str, read), label="tables that it reads"),
                )
            )
    return errors


def _reachable(
    edges: Mapping[TableName, tuple[TableName, ...]], start: TableName, depth: int | None
) -> frozenset[TableName]:
    reached: set[TableName] = set()
    newest = {start}
    while newest and (depth is None or depth > 0):
        newest = {other for name in newest for other in edges[name]} - reached
        reached |= newest
        depth = None if depth is None else depth - 1
    return frozenset(reached - {start})
