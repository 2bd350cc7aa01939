"""Decides whether each output row depends on one input row only, so that changed rows are enough."""

from __future__ import annotations

from sqlglot import TokenType, exp

from lakesmith.sqlproof.functions import AGGREGATES
from lakesmith.sqlproof.proof import (
    refuse_changing_functions,
    refuse_limit,
    refuse_pipes,
    refuse_pivots,
    refuse_set_operations,
    refuse_subqueries,
    single_source,
)
from lakesmith.sqlproof.scopes import NotProvable, Scope
from lakesmith.sqlproof.statement import Statement


def check_rowwise(statement: Statement) -> None:
    """Raise `NotProvable` where the statement does not provably work row by row."""
    refuse_pipes(statement)
    _check_scope(statement, statement.root)
    called = statement.called(AGGREGATES)
    if called is not None:
        raise NotProvable("it aggregates", clause=f"{called[0]}()", line=called[1])
    refuse_changing_functions(statement)


def _check_scope(statement: Statement, scope: Scope) -> None:
    refuse_set_operations(statement, scope)
    if scope.recursive or not isinstance(scope.node, exp.Select):
        raise NotProvable("it is not a plain SELECT from one table")
    source = single_source(scope)
    refuse_pivots(scope)
    if source.table is None and source.scope is None:
        raise NotProvable(f"it reads {source.shown}, not a table", line=source.line)
    _check_clauses(statement, scope)
    for each in scope.sources:
        if each.scope is not None:
            _check_scope(statement, each.scope)


def _check_clauses(statement: Statement, scope: Scope) -> None:
    clauses = scope.node.args
    if clauses.get("group") is not None:
        raise NotProvable("it aggregates", clause="GROUP BY", line=statement.line_of(TokenType.GROUP_BY))
    if clauses.get("distinct") is not None:
        raise NotProvable("it removes duplicate rows", clause="DISTINCT", line=statement.line_of(TokenType.DISTINCT))
    refuse_limit(statement, scope, "it returns only some rows")
    if scope.windows:
        raise NotProvable("it uses a window function", line=statement.line_of(TokenType.OVER))
    if clauses.get("qualify") is not None:
        raise NotProvable("it uses a window function", clause="QUALIFY")
    if clauses.get("having") is not None:
        raise NotProvable("it aggregates", clause="HAVING", line=statement.line_of(TokenType.HAVING))
    refuse_subqueries(scope, "it has a subquery")
