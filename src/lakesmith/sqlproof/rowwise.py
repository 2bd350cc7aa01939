"""Decides whether each output row depends on one input row only, so that changed rows are enough."""

from __future__ import annotations

from sqlglot import TokenType, exp

from lakesmith.sqlproof.functions import AGGREGATES, CHANGING
from lakesmith.sqlproof.scopes import Reason, Scope
from lakesmith.sqlproof.statement import Statement

_SET_OPERATIONS = {
    exp.Union: ("UNION", TokenType.UNION),
    exp.Intersect: ("INTERSECT", TokenType.INTERSECT),
    exp.Except: ("EXCEPT", TokenType.EXCEPT),
}


def not_rowwise(statement: Statement) -> Reason | None:
    """Return why the statement does not work row by row, or None when it provably does."""
    if statement.pipes:
        return Reason(text="it uses pipe syntax, which is not supported", clause="|>")
    return _scope_reason(statement, statement.root) or _function_reason(statement)


def changing(statement: Statement) -> Reason | None:
    """Return the called function whose value differs each time, or None."""
    called = statement.called(CHANGING)
    return None if called is None else Reason(text=f"{called[0]}() differs at each evaluation", line=called[1])


def set_operation(scope: Scope, statement: Statement) -> Reason | None:
    """Return UNION, INTERSECT or EXCEPT as the reason, if the scope is one."""
    for kind, (word, token) in _SET_OPERATIONS.items():
        if isinstance(scope.node, kind):
            return Reason(text="it combines several queries", clause=word, line=statement.line_of(token))
    return None


def _function_reason(statement: Statement) -> Reason | None:
    called = statement.called(AGGREGATES)
    if called is not None:
        return Reason(text="it aggregates", clause=f"{called[0]}()", line=called[1])
    return changing(statement)


def _scope_reason(statement: Statement, scope: Scope) -> Reason | None:
    combined = set_operation(scope, statement)
    if combined is not None:
        return combined
    if scope.recursive or not isinstance(scope.node, exp.Select):
        return Reason(text="it is not a plain SELECT from one table")
    return (
        _source_reason(scope)
        or _clause_reason(statement, scope)
        or next(
            (_scope_reason(statement, source.scope) for source in scope.sources if source.scope is not None),
            None,
        )
    )


def _source_reason(scope: Scope) -> Reason | None:
    main = [source for source in scope.sources if source.generator is None or source is scope.sources[0]]
    if not main:
        return Reason(text="it reads no table")
    if len(main) > 1:
        return Reason(text=f"it joins {main[1].shown}", line=main[1].line)
    if main[0].pivoted:
        return Reason(text="it pivots or unpivots", clause="PIVOT", line=main[0].line)
    if main[0].table is None and main[0].scope is None:
        return Reason(text=f"it reads {main[0].shown}, not a table", line=main[0].line)
    return None


def _clause_reason(statement: Statement, scope: Scope) -> Reason | None:
    clauses = scope.node.args
    if clauses.get("group") is not None:
        return Reason(text="it aggregates", clause="GROUP BY", line=statement.line_of(TokenType.GROUP_BY))
    if clauses.get("distinct") is not None:
        line = statement.line_of(TokenType.DISTINCT)
        return Reason(text="it removes duplicate rows", clause="DISTINCT", line=line)
    if scope.row_limit is not None:
        kind = TokenType.LIMIT if scope.row_limit == "LIMIT" else TokenType.OFFSET
        return Reason(text="it returns only some rows", clause=scope.row_limit, line=statement.line_of(kind))
    if scope.windows:
        return Reason(text="it uses a window function", line=statement.line_of(TokenType.OVER))
    if clauses.get("qualify") is not None:
        return Reason(text="it uses a window function", clause="QUALIFY")
    if clauses.get("having") is not None:
        return Reason(text="it aggregates", clause="HAVING", line=statement.line_of(TokenType.HAVING))
    if scope.nested:
        tables = [source for source in scope.nested[0].sources if source.line is not None]
        return Reason(text="it has a subquery", line=tables[0].line if tables else None)
    return None
