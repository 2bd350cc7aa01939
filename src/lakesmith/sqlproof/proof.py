"""What the proofs share: which queries they refuse, and whether two expressions are equal."""

from __future__ import annotations

from sqlglot import TokenType, exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.functions import CHANGING
from lakesmith.sqlproof.parsing import SPARK
from lakesmith.sqlproof.scopes import (
    NotProvable,
    Scope,
    Source,
    column_and_fields,
    is_aggregate,
    is_star,
    qualified_source,
)
from lakesmith.sqlproof.statement import Statement

_SET_OPERATIONS = {
    exp.Union: ("UNION", TokenType.UNION),
    exp.Intersect: ("INTERSECT", TokenType.INTERSECT),
    exp.Except: ("EXCEPT", TokenType.EXCEPT),
}


def refuse_pipes(statement: Statement) -> None:
    if statement.pipes:
        raise NotProvable("it uses pipe syntax, which is not supported", clause="|>")


def refuse_changing_functions(statement: Statement) -> None:
    """Raise where the query calls a function whose value differs each time."""
    called = statement.called(CHANGING)
    if called is not None:
        raise NotProvable(f"{called[0]}() differs at each evaluation", line=called[1])


def refuse_set_operations(statement: Statement, scope: Scope) -> None:
    for kind, (word, token) in _SET_OPERATIONS.items():
        if isinstance(scope.node, kind):
            raise NotProvable("it combines several queries", clause=word, line=statement.line_of(token))


def refuse_limit(statement: Statement, scope: Scope, text: str = "which rows it returns depends on all rows") -> None:
    """Raise where a LIMIT or OFFSET decides which rows the scope returns."""
    if scope.row_limit is not None:
        raise NotProvable(text, clause=scope.row_limit, line=statement.line_of(TokenType[scope.row_limit]))


def refuse_subqueries(scope: Scope, text: str = "it has a subquery in an expression") -> None:
    if scope.nested:
        lines = [source.line for source in scope.nested[0].sources if source.line is not None]
        raise NotProvable(text, line=lines[0] if lines else None)


def refuse_pivots(scope: Scope) -> None:
    for source in scope.sources:
        if source.pivoted:
            raise NotProvable("it pivots or unpivots", clause="PIVOT", line=source.line)


def refuse_grouping_sets(statement: Statement, scope: Scope) -> None:
    group = scope.node.args.get("group")
    if group is not None and (group.args.get("totals") or group.find(exp.Rollup, exp.Cube, exp.GroupingSets)):
        line = statement.line_of(TokenType.GROUP_BY)
        raise NotProvable("it groups by several sets of columns", clause="ROLLUP, CUBE or GROUPING SETS", line=line)


def single_source(scope: Scope) -> Source:
    """Return the only source besides generators. Raise where the scope joins."""
    sources = scope.main_sources
    if not sources:
        raise NotProvable("it reads no table")
    if len(sources) > 1:
        raise NotProvable(f"it joins {sources[1].shown}", line=sources[1].line)
    return sources[0]


def refuse_what_needs_all_rows(statement: Statement, scope: Scope) -> None:
    """Raise where a result row may depend on rows of any key."""
    if scope.recursive or not isinstance(scope.node, exp.Select):
        raise NotProvable("it is not a plain SELECT")
    refuse_limit(statement, scope)
    refuse_subqueries(scope)
    if scope.node.args.get("group") is None and (scope.aggregates or scope.node.args.get("having")):
        raise NotProvable("it aggregates over all rows")
    refuse_grouping_sets(statement, scope)
    refuse_pivots(scope)
    for source in scope.sources:
        if source.table is None and source.scope is None and source.generator is None:
            raise NotProvable(f"it reads {source.shown}, not a table", line=source.line)


def refuse_values_of_other_rows(node: exp.Expr, name: str, line: int | None) -> None:
    """Raise where the expression of the column `name` is more than a function of one row."""
    for inner in node.walk():
        if isinstance(inner, exp.Window):
            raise NotProvable(f"'{name}' comes from a window function", line=line)
        if is_aggregate(inner):
            raise NotProvable(f"'{name}' is an aggregate", line=line)
        if isinstance(inner, exp.UDTF | exp.Explode | exp.Inline | exp.Aliases):
            raise NotProvable(f"'{name}' comes from a generator", line=line)


def row_by_row(scope: Scope) -> bool:
    """Whether each row of the scope derives from one row of one table."""
    clauses = scope.node.args
    tables = [source for source in scope.sources if source.generator is None]
    return (
        isinstance(scope.node, exp.Select)
        and not (scope.recursive or scope.row_limit or scope.windows or scope.nested or scope.aggregates)
        and not any(clauses.get(clause) for clause in ("group", "having", "distinct", "qualify"))
        and len(tables) == 1
        and not tables[0].pivoted
        and (tables[0].table is not None or (tables[0].scope is not None and row_by_row(tables[0].scope)))
    )


def count_reads(scope: Scope, table: TableName) -> int:
    inner = [source.scope for source in scope.sources if source.scope is not None]
    here = sum(source.table == table for source in scope.sources)
    return here + sum(count_reads(each, table) for each in (*inner, *scope.branches, *scope.nested))


def unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Alias | exp.Paren):
        node = node.this
    return node


def normalized_sql(scope: Scope, node: exp.Expr, *, qualified: bool = True) -> str:
    """Return the expression in a normal form, in which most equal expressions are equal texts."""

    def named(inner: exp.Expr) -> exp.Expr:
        if not isinstance(inner, exp.Column) or is_star(inner):
            return inner
        source = qualified_source(scope, inner) or (scope.sources[0] if len(scope.sources) == 1 else None)
        prefix = (source.alias,) if qualified and source is not None else ()
        return exp.to_identifier(".".join((*prefix, *column_and_fields(scope, inner))), quoted=True)

    return unwrapped(node).copy().transform(named).sql(dialect=SPARK).lower()
