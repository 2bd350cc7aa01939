"""What the proofs share: how often a table is read, and whether two expressions are equal."""

from __future__ import annotations

from sqlglot import TokenType, exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.parsing import SPARK
from lakesmith.sqlproof.rowwise import changing
from lakesmith.sqlproof.scopes import Reason, Scope, column_name, column_parts, is_star, qualified_source
from lakesmith.sqlproof.statement import Statement


class NotProvable(Exception):
    """Why something cannot be proved."""

    def __init__(self, words: str, *, line: int | None = None, clause: str | None = None) -> None:
        super().__init__(words)
        self.reason = Reason(text=words, line=line, clause=clause)


def unprovable_reason(statement: Statement) -> Reason | None:
    """Return why nothing can be proved of the statement, or None."""
    if statement.pipes:
        return Reason(text="it uses pipe syntax, which is not supported", clause="|>")
    return changing(statement)


def refuse_limit(statement: Statement, scope: Scope) -> None:
    """Raise where a LIMIT or OFFSET decides which rows the scope returns."""
    if scope.row_limit is not None:
        kind = TokenType.LIMIT if scope.row_limit == "LIMIT" else TokenType.OFFSET
        line = statement.line_of(kind)
        raise NotProvable("which rows it returns depends on all rows", clause=scope.row_limit, line=line)


def refuse_what_needs_all_rows(statement: Statement, scope: Scope) -> None:
    """Raise where a result row may depend on rows of any key."""
    if scope.recursive or not isinstance(scope.node, exp.Select):
        raise NotProvable("it is not a plain SELECT")
    refuse_limit(statement, scope)
    if scope.nested:
        tables = [source for source in scope.nested[0].sources if source.line is not None]
        raise NotProvable("it has a subquery in an expression", line=tables[0].line if tables else None)
    group = scope.node.args.get("group")
    if group is None and (scope.aggregates or scope.node.args.get("having")):
        raise NotProvable("it aggregates over all rows")
    if group is not None and (
        group.args.get("totals") or group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None
    ):
        raise NotProvable(
            "it groups by several sets of columns",
            clause="ROLLUP, CUBE or GROUPING SETS",
            line=statement.line_of(TokenType.GROUP_BY),
        )
    for source in scope.sources:
        if source.pivoted:
            raise NotProvable("it pivots or unpivots", clause="PIVOT", line=source.line)
        if source.table is None and source.scope is None and source.generator is None:
            raise NotProvable(f"it reads {source.shown}, not a table", line=source.line)


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
        return exp.to_identifier(".".join((*prefix, *fields(scope, inner))), quoted=True)

    return unwrapped(node).copy().transform(named).sql(dialect=SPARK).lower()


def fields(scope: Scope, column: exp.Column) -> list[str]:
    """Return a column's name and the struct fields after it."""
    written = column_parts(column)
    return (
        written if qualified_source(scope, column) is None else written[written.index(column_name(scope, column), 1) :]
    )
