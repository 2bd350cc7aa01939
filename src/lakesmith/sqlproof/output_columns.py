"""The names of a scope's result columns, with `*` expanded where the schemas are known.

sqlglot's `output_name` is not used: it names a CAST by its column and a literal by its value, but a table needs
explicit names. `qualify` expands a `*` only with the schema of every table, and coalesces the columns of USING.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.functions import GENERATORS
from lakesmith.sqlproof.scopes import Scope, Source, is_star, qualified_source

Schemas = Mapping[TableName, Sequence[str]]


def outputs(scope: Scope, schemas: Schemas) -> tuple[str, ...] | None:
    """Return the names of a scope's columns in order, or None where `*` hides them."""
    if scope.renamed:
        return scope.renamed
    if scope.branches:
        return outputs(scope.branches[0], schemas)
    if not isinstance(scope.node, exp.Select) or scope.recursive:
        return None
    names: list[str] = []
    for node in scope.projections:
        if is_star(node):
            expanded = expand(scope, node, schemas)
            if expanded is None:
                return None
            names.extend(column for _, column in expanded)
            continue
        named = output_names(node)
        if named == ():
            return None
        names.extend(named)
    return tuple(names)


def expand(scope: Scope, star: exp.Expr, schemas: Schemas) -> list[tuple[Source, str]] | None:
    """Return the columns of a `*`, each with its source, or None where they are unknown."""
    shared: set[str] = set()
    if isinstance(star, exp.Column):
        source = qualified_source(scope, star)
        sources = [] if source is None else [source]
        star = star.this
    else:
        sources = [source for source in scope.sources if not source.hidden]
        shared = {column.name.lower() for column in scope.using}
    if not sources or star.args.get("replace") or star.args.get("rename"):
        return None
    excluded = {column.name.lower() for column in star.args.get("except_") or ()}
    seen: set[str] = set()
    columns_of_star: list[tuple[Source, str]] = []
    for source in sources:
        columns = source_columns(source, schemas)
        if columns is None:
            return None
        for column in columns:
            low = column.lower()
            if low in excluded or (low in shared and low in seen):
                continue
            seen.add(low)
            columns_of_star.append((source, column))
    return columns_of_star


def source_columns(source: Source, schemas: Schemas) -> tuple[str, ...] | None:
    """Return the columns of one source, or None where they are unknown."""
    if source.pivoted:
        return None
    if source.columns is not None:
        return source.columns
    if source.table is not None:
        columns = schemas.get(source.table)
        return None if columns is None else tuple(columns)
    return None if source.scope is None else outputs(source.scope, schemas)


def projection_named(scope: Scope, column: str) -> tuple[list[exp.Expr], bool]:
    """Return the projections with that output name, and whether there is also a `*`."""
    low = column.lower()
    named = [node for node in scope.projections if low in (name.lower() for name in output_names(node))]
    return named, any(is_star(node) for node in scope.projections)


def output_names(node: exp.Expr) -> tuple[str, ...]:
    """Return the column names of a projection; none when it has no name."""
    while isinstance(node, exp.Paren):
        node = node.this
    match node:
        case exp.Star():
            return ("*",)
        case exp.Aliases():
            return tuple(name.name for name in node.expressions)
        case exp.Alias():
            return (node.alias,)
        case exp.Column():
            return (node.name or "*",)
        case exp.Dot():
            return (node.name,) if node.name else ()
        case _:
            return ()


def is_generator(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in GENERATORS
    return isinstance(node, exp.Func) and any(name.lower() in GENERATORS for name in node.sql_names())
