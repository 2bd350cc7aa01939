"""Attributes columns to tables: the columns that a query reads, unknown columns, and column lineage.

`sqlglot.lineage` is not used. Without the schema of every table it raises for a LATERAL VIEW and for a name of an
earlier result column, and returns a `*` and unattributed columns as if they were origins. It also attributes a column
of USING to both tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.output_columns import Schemas, expand, output_names, source_columns
from lakesmith.sqlproof.scopes import (
    ColumnUse,
    Scope,
    Source,
    column_and_fields,
    column_parts,
    is_star,
    qualified_source,
)
from lakesmith.sqlproof.statement import Statement

Origins = frozenset[tuple[TableName, str]]

_AFTER_THE_RESULT = ("expressions", "group", "having", "order", "sort", "qualify", "distribute", "cluster")
"""The clauses that can name result columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownColumn:
    """A column that no table in its scope has."""

    name: str
    tables: tuple[str, ...]
    known: tuple[str, ...]
    line: int


def reads(statement: Statement) -> dict[TableName, frozenset[str]]:
    """Return the columns that are read of each table, without tables for which the text is ambiguous."""
    if statement.pipes:
        return {}
    names_read: dict[TableName, set[str]] = {reference.table: set() for reference in statement.references}
    undecided: set[TableName] = set()
    for scope in statement.scopes:
        here = set(_tables(scope))
        for table in here:
            names_read[table].update(column.name.lower() for column in scope.using)
        if any(is_star(node) for node in scope.projections):
            undecided |= here
        undecided |= {source.table for source in scope.sources if source.pivoted and source.table is not None}
        for use in scope.uses:
            seen = _visible_owner(scope, use.node)
            if seen is not None:
                source, name = seen
            elif len(scope.sources) == 1 and scope.parent is None:
                source, name = scope.sources[0], column_parts(use.node)[0]
                if _is_result_name(scope, use, name):
                    continue
            else:
                undecided |= {table for each in scope.outward() for table in _tables(each)}
                continue
            if source.table is not None and name != "*":
                names_read[source.table].add(name)
    return {table: frozenset(names) for table, names in names_read.items() if table not in undecided}


def unknown(statement: Statement, schemas: Schemas) -> list[UnknownColumn]:
    """Return the columns that no table in their scope has, where the schemas of all these tables are known."""
    columns = [_unknown(scope, use, schemas) for scope in statement.scopes for use in scope.uses]
    return sorted((column for column in columns if column is not None), key=lambda column: column.line)


def origins(statement: Statement, schemas: Schemas) -> dict[str, Origins]:
    """Return, for each result column that can be traced, the table columns that it is derived from."""
    if statement.pipes:
        return {}
    results = _Lineage(schemas).results(statement.root) or []
    return {name: origins for name, origins in results if name and origins is not None}


def _tables(scope: Scope) -> Iterator[TableName]:
    return (source.table for source in scope.sources if source.table is not None)


def _visible_owner(scope: Scope, column: exp.Column) -> tuple[Source, str] | None:
    """Return the source that a qualified column names, here or in an outer scope, and the column's own name."""
    for each in scope.outward():
        source = qualified_source(each, column)
        if source is not None:
            return source, column_and_fields(each, column)[0]
    return None


def _is_result_name(scope: Scope, use: ColumnUse, name: str) -> bool:
    """Whether an unqualified name means a result column: not where that column is derived from the name."""
    if use.clause not in _AFTER_THE_RESULT:
        return False
    return any(
        node.alias.lower() == name and use.node not in node.find_all(exp.Column)
        for node in scope.projections
        if isinstance(node, exp.Alias)
    )


def _unknown(scope: Scope, use: ColumnUse, schemas: Schemas) -> UnknownColumn | None:
    written = column_parts(use.node)
    if is_star(use.node) or written[0] == "_metadata":
        return None
    seen = _visible_owner(scope, use.node)
    if seen is not None:
        candidates, name = [seen[0]], seen[1]
    else:
        candidates, name = [source for each in scope.outward() for source in each.sources], written[0]
    known: list[str] = []
    for source in candidates:
        columns = source_columns(source, schemas)
        if columns is None:
            return None
        known.extend(columns)
    if not candidates or name in {column.lower() for column in known}:
        return None
    if seen is None and any(_is_result_name(each, use, name) for each in scope.outward()):
        return None
    identifier = next(part for part in use.node.parts[1 if seen else 0 :] if part.name.lower() == name)
    return UnknownColumn(
        name=identifier.name,
        tables=tuple(dict.fromkeys(source.shown for source in candidates)),
        known=tuple(dict.fromkeys(known)),
        line=int(identifier.meta.get("line") or 1),
    )


class _Lineage:
    """Traces columns through the scopes of one statement, each scope once."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.done: dict[int, list[tuple[str, Origins | None]] | None] = {}

    def results(self, scope: Scope) -> list[tuple[str, Origins | None]] | None:
        """Return each result column in order with its origins; None where a `*` hides the columns."""
        if scope.number < 0 or scope.recursive:
            return None
        if scope.number not in self.done:
            self.done[scope.number] = self._results(scope)
        return self.done[scope.number]

    def _results(self, scope: Scope) -> list[tuple[str, Origins | None]] | None:
        if scope.branches:
            sides = [self.results(side) for side in scope.branches]
            if sides[0] is None or sides[1] is None or len(sides[0]) != len(sides[1]):
                return None
            return [
                (name, None if one is None or other is None else one | other)
                for (name, one), (_, other) in zip(sides[0], sides[1], strict=True)
            ]
        found: list[tuple[str, Origins | None]] = []
        for node in scope.projections:
            if is_star(node):
                expanded = expand(scope, node, self.schemas)
                if expanded is None:
                    return None
                found.extend((column, self._of_source(source, column)) for source, column in expanded)
                continue
            origins = self._of_expression(scope, node)
            found.extend((name, origins) for name in output_names(node) or ("",))
        return found

    def _of_expression(self, scope: Scope, node: exp.Expr) -> Origins | None:
        inner = {id(each.node): each for each in scope.nested}
        found: set[tuple[TableName, str]] = set()
        stack = [node]
        while stack:
            each = stack.pop()
            if isinstance(each, exp.Column):
                origins = self._of_column(scope, each)
                if origins is None:
                    return None
                found |= origins
            elif isinstance(each, exp.Query) and not isinstance(each, exp.Subquery):
                nested = inner.get(id(each))
                for _, origins in (self.results(nested) or []) if nested is not None else []:
                    found |= origins or frozenset()
            else:
                stack.extend(each.iter_expressions())
        return frozenset(found)

    def _of_column(self, scope: Scope, column: exp.Column) -> Origins | None:
        seen = _visible_owner(scope, column)
        if seen is not None:
            return self._of_source(*seen)
        name = column_parts(column)[0]
        for each in scope.outward():
            having: list[Source] = []
            hiding: list[Source] = []
            for source in each.sources:
                columns = source_columns(source, self.schemas)
                if columns is None:
                    hiding.append(source)
                elif name in {known.lower() for known in columns}:
                    having.append(source)
            if having and not hiding:
                every = [self._of_source(source, name) for source in having]
                return frozenset().union(*(origins for origins in every if origins is not None))
            alias = self._earlier_result(each, column, name)
            if alias is not None and not having:
                return self._of_expression(each, alias)
            if len(having) + len(hiding) == 1:
                return self._of_source((having or hiding)[0], name)
            if hiding:
                return None
        return None

    @staticmethod
    def _earlier_result(scope: Scope, column: exp.Column, name: str) -> exp.Expr | None:
        for node in scope.projections:
            if column in node.find_all(exp.Column):
                return None
            if isinstance(node, exp.Alias) and node.alias.lower() == name:
                return node
        return None

    def _of_source(self, source: Source, name: str) -> Origins | None:
        low = name.lower()
        if source.pivoted:
            return None
        if source.table is not None:
            return frozenset({(source.table, low)})
        if source.generator is not None:
            return self._of_expression(source.holder, source.generator)
        if source.scope is None:
            return frozenset()
        results = self.results(source.scope)
        if results is None:
            return None
        names = source.columns or source.scope.renamed or tuple(result for result, _ in results)
        return next(
            (origins for shown, (_, origins) in zip(names, results, strict=False) if shown.lower() == low),
            None,
        )
