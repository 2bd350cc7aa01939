"""Decides whether a query's groups can be updated from new rows alone, without reading earlier rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlglot import TokenType, exp

from lakesmith.sqlproof.output_columns import output_names
from lakesmith.sqlproof.proof import (
    normalized_sql,
    refuse_changing_functions,
    refuse_pipes,
    refuse_set_operations,
    refuse_what_needs_all_rows,
    row_by_row,
    single_source,
    unwrapped,
)
from lakesmith.sqlproof.scopes import NotProvable, Scope, column_parts, is_aggregate, is_star, line_in
from lakesmith.sqlproof.statement import Statement

Combination = Literal["add", "least", "greatest"]

_COMBINED_BY: dict[type[exp.Expr], Combination] = {
    exp.Count: "add",
    exp.CountIf: "add",
    exp.Sum: "add",
    exp.Min: "least",
    exp.Max: "greatest",
}


def combinations(statement: Statement, key: Sequence[str]) -> tuple[dict[str, Combination], list[str]]:
    """Return how the columns besides the key combine, and which of them are sums.

    Raise `NotProvable` where new rows alone are not enough.
    """
    scope = statement.root
    refuse_pipes(statement)
    refuse_changing_functions(statement)
    refuse_set_operations(statement, scope)
    refuse_what_needs_all_rows(statement, scope)
    source = single_source(scope)
    if source.generator is not None or (source.scope is not None and not row_by_row(source.scope)):
        raise NotProvable(f"it reads {source.shown}, which does not work row by row", line=source.line)
    _check_clauses(statement, scope)
    _check_groups(statement, scope, key)
    return _combine(scope, {name.lower() for name in key})


def _check_clauses(statement: Statement, scope: Scope) -> None:
    clauses = scope.node.args
    if clauses.get("group") is None:
        raise NotProvable("it does not group by its key")
    if clauses.get("having") is not None:
        raise NotProvable(
            "new rows may bring back a group that it excludes",
            clause="HAVING",
            line=statement.line_of(TokenType.HAVING),
        )
    if scope.windows or clauses.get("qualify") is not None:
        raise NotProvable("it uses a window function", line=statement.line_of(TokenType.OVER))
    if clauses.get("distinct") is not None:
        raise NotProvable("it removes duplicate rows", clause="DISTINCT", line=statement.line_of(TokenType.DISTINCT))


def _check_groups(statement: Statement, scope: Scope, key: Sequence[str]) -> None:
    """Raise where the groups are not the keys: with more groups a key would silently have two rows."""
    key_columns = {name.lower() for name in key}
    named = {name.lower(): node for node in scope.projections for name in output_names(node)}
    missing = [name for name in key if name.lower() not in named]
    if missing or any(is_star(node) for node in scope.projections):
        raise NotProvable(f"it has no column '{missing[0]}'" if missing else "a * hides its columns")
    for name in key:
        if any(is_aggregate(inner) for inner in named[name.lower()].walk()):
            raise NotProvable(f"'{name}' is an aggregate", line=line_in(named[name.lower()]))
    group = scope.node.args["group"]
    if group.args.get("all"):
        return
    line = statement.line_of(TokenType.GROUP_BY)
    grouped: set[str] = set()
    for node in group.expressions:
        column = _column_of(scope, node)
        if column is None or column not in key_columns:
            raise NotProvable(
                f"it groups by more than the key: {node.sql(dialect='spark')}", clause="GROUP BY", line=line
            )
        grouped.add(column)
    for name in key:
        constant = next(named[name.lower()].find_all(exp.Column), None) is None
        if name.lower() not in grouped and not constant:
            raise NotProvable(f"it does not group by '{name}'", clause="GROUP BY", line=line)


def _column_of(scope: Scope, node: exp.Expr) -> str | None:
    """Return the result column that is exactly what GROUP BY names."""
    if isinstance(node, exp.Literal) and not node.is_string:
        place = int(node.this) - 1
        names = output_names(scope.projections[place]) if 0 <= place < len(scope.projections) else ()
        return names[0].lower() if names else None
    for projection in scope.projections:
        names = output_names(projection)
        if names and normalized_sql(scope, projection) == normalized_sql(scope, node):
            return names[0].lower()
    if not isinstance(node, exp.Column) or len(node.parts) > 1:
        return None
    name = node.name.lower()
    for projection in scope.projections:
        # A name may also be a column of the table, which then wins in Spark: `upper(k) AS k … GROUP BY k`.
        reads = (column_parts(column)[-1] for column in projection.find_all(exp.Column))
        if name in (each.lower() for each in output_names(projection)) and name not in reads:
            return name
    return None


def _combine(scope: Scope, key: set[str]) -> tuple[dict[str, Combination], list[str]]:
    by_column: dict[str, Combination] = {}
    sums: list[str] = []
    for projection in scope.projections:
        names = output_names(projection)
        if len(names) != 1:
            raise NotProvable("it returns several columns from one expression", line=line_in(projection))
        if names[0].lower() in key:
            continue
        call = unwrapped(projection)
        if isinstance(call, exp.Filter):
            call = call.this
        combination = _COMBINED_BY.get(type(call))
        if combination is None or call.find(exp.Distinct) is not None:
            raise NotProvable(
                f"'{names[0]}' cannot be updated from new rows: only count, sum, min and max can",
                line=line_in(projection),
            )
        by_column[names[0]] = combination
        if isinstance(call, exp.Sum):
            sums.append(names[0])
    return by_column, sums
