"""Traces a partition column to the table that decides it, so that only touched partitions are recomputed.

The proof has to hold for every row: each output row of a partition may depend only on rows of the traced
table whose expression has that partition's value. Where that cannot be proved, the result is the reason, and
the table gets a full build. `sqlglot.lineage` is not used: it finds where a value comes from, but not whether a window,
a group or an outer join mixes partitions, and it returns generated SQL (`to_date(ts)` becomes a
cast) instead of the author's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.output_columns import projection_named
from lakesmith.sqlproof.parsing import one_line
from lakesmith.sqlproof.proof import (
    NotProvable,
    count_reads,
    fields,
    normalized_sql,
    refuse_limit,
    unprovable_reason,
    unwrapped,
)
from lakesmith.sqlproof.rowwise import set_operation
from lakesmith.sqlproof.scopes import Reason, Scope, Source, column_parts, is_aggregate, line_in, qualified_source
from lakesmith.sqlproof.statement import Statement


@dataclass(frozen=True, slots=True)
class TracedColumn:
    """A column of a scope as an expression over the columns of one table."""

    table: TableName
    text: str


def trace(statement: Statement, by: str) -> TracedColumn | Reason:
    """Return the table and the expression over its columns that decide `by`, or why that cannot be proved."""
    if (reason := unprovable_reason(statement)) is not None:
        return reason
    try:
        found = _column(statement, statement.root, by)
    except NotProvable as error:
        return error.reason
    if count_reads(statement.root, found.table) > 1:
        return Reason(text=f"it reads {found.table} more than once")
    return found


def _column(statement: Statement, scope: Scope, name: str) -> TracedColumn:
    """Trace the column `name` of a scope to a table."""
    combined = set_operation(scope, statement)
    if combined is not None:
        raise NotProvable(combined.text, line=combined.line, clause=combined.clause)
    if scope.recursive or not isinstance(scope.node, exp.Select):
        raise NotProvable("it is not a plain SELECT")
    refuse_limit(statement, scope)
    found, star = projection_named(scope, name)
    if len(found) > 1:
        raise NotProvable(f"two of its columns are named '{name}'", line=line_in(found[1]))
    if not found:
        return _through_star(statement, scope, name, star)
    node = found[0]
    while isinstance(node, exp.Alias | exp.Paren):
        node = node.this
    source = _only_source(scope, node, name)
    _check_rows(scope, node, name)
    tokens = _tokens_of(statement, found[0])
    return _written_over(statement, scope, source, node, tokens)


def _through_star(statement: Statement, scope: Scope, name: str, star: bool) -> TracedColumn:
    if not star:
        raise NotProvable(f"it has no column '{name}'")
    if len(scope.sources) != 1:
        raise NotProvable(f"a * over several tables hides '{name}': name the column in the SELECT")
    column = exp.column(name, quoted=True)
    _check_rows(scope, column, name)
    return _of_source(statement, scope.sources[0], name, f"`{name}`")


def _only_source(scope: Scope, node: exp.Expr, name: str) -> Source:
    """Return the one source that the expression reads."""
    for inner in node.walk():
        if isinstance(inner, exp.Query):
            raise NotProvable(f"'{name}' comes from a subquery", line=line_in(node))
        if isinstance(inner, exp.Window):
            raise NotProvable(f"'{name}' comes from a window function", line=line_in(node))
        if is_aggregate(inner):
            raise NotProvable(f"'{name}' is an aggregate", line=line_in(node))
        if isinstance(inner, exp.UDTF | exp.Explode | exp.Aliases):
            raise NotProvable(f"'{name}' comes from a generator", line=line_in(node))
    columns = list(node.find_all(exp.Column))
    if not columns:
        raise NotProvable(f"'{name}' reads no column", line=line_in(node))
    sources = {id(source): source for source in (_source_of(scope, column, name) for column in columns)}
    if len(sources) > 1:
        tables = " and ".join(sorted(source.shown for source in sources.values()))
        raise NotProvable(f"'{name}' reads columns of {tables}", line=line_in(node))
    source = next(iter(sources.values()))
    if source.generator is not None:
        raise NotProvable(f"'{name}' comes from a generator", line=line_in(node))
    if source.null_extended:
        raise NotProvable(
            f"'{name}' comes from {source.shown}, whose rows an outer join may replace by NULL",
            line=source.line,
        )
    return source


def _source_of(scope: Scope, column: exp.Column, name: str) -> Source:
    source = qualified_source(scope, column)
    if source is not None:
        return source
    written = column_parts(column)[0]
    earlier = [node for node in scope.projections if isinstance(node, exp.Alias) and node.alias.lower() == written]
    if any(not _is_column(node.this, written) and column not in node.find_all(exp.Column) for node in earlier):
        raise NotProvable(
            f"'{name}' reads '{written}', which is also the name of another result column",
            line=line_in(column),
        )
    if len(scope.sources) == 1:
        return scope.sources[0]
    raise NotProvable(f"the table of '{written}' is ambiguous: write table.{written}", line=line_in(column))


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == name


def _check_rows(scope: Scope, node: exp.Expr, name: str) -> None:
    """Raise where rows of one partition may depend on rows of another."""
    group = scope.node.args.get("group")
    if group is not None:
        if group.args.get("totals") or group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None:
            raise NotProvable("it groups by several sets of columns", clause="ROLLUP, CUBE or GROUPING SETS")
        if not group.args.get("all") and not _decided_by(scope, node, _group_keys(scope, group)):
            raise NotProvable(f"it does not group by '{name}'", clause="GROUP BY", line=line_in(group))
    elif scope.aggregates:
        raise NotProvable("it aggregates over all rows")
    for window in scope.windows:
        keys = [(key, False) for key in window.args.get("partition_by") or ()]
        if not _decided_by(scope, node, [*keys, *_aliased_keys(scope, keys)]):
            raise NotProvable(
                f"a window function reads rows of other partitions: PARTITION BY lacks '{name}'",
                line=line_in(window),
            )
    if any(source.pivoted for source in scope.sources):
        raise NotProvable("it pivots or unpivots", clause="PIVOT")


Key = tuple[exp.Expr, bool]
"""A key's expression, and whether it is written as the name or number of a result column."""


def _group_keys(scope: Scope, group: exp.Expr) -> list[Key]:
    keys: list[Key] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and not key.is_string:
            position = int(key.this) - 1
            if 0 <= position < len(scope.projections):
                keys.append((unwrapped(scope.projections[position]), True))
            continue
        keys.append((key, False))
    return [*keys, *_aliased_keys(scope, keys)]


def _aliased_keys(scope: Scope, keys: Sequence[Key]) -> list[Key]:
    """Return what the keys mean that are names of result columns.

    A name may also be a column of the source, which then wins in Spark. Both meanings are returned: with the
    wrong one, the result column would not be a function of the keys, and Spark rejects the query.
    """
    names = {key.name.lower() for key, _ in keys if isinstance(key, exp.Column) and len(key.parts) == 1}
    return [
        (node.this, True) for node in scope.projections if isinstance(node, exp.Alias) and node.alias.lower() in names
    ]


def _decided_by(scope: Scope, node: exp.Expr, keys: Sequence[Key]) -> bool:
    """Whether the keys' values determine the expression's value."""
    if any(_same(scope, node, key) for key, _ in keys):
        return True
    if isinstance(node, exp.Column):
        return False
    inner = [child for child in node.iter_expressions() if next(child.find_all(exp.Column), None) is not None]
    return bool(inner) and all(_decided_by(scope, child, keys) for child in inner)


def _same(scope: Scope, node: exp.Expr, key: exp.Expr) -> bool:
    qualified = any(qualified_source(scope, column) is not None for column in key.find_all(exp.Column))
    return normalized_sql(scope, node, qualified=qualified) == normalized_sql(scope, key, qualified=qualified)


def _tokens_of(statement: Statement, projection: exp.Expr) -> list[Token]:
    """Return the tokens of a projection without its alias."""
    tokens = statement.tokens
    if not isinstance(projection, exp.Alias):
        identifiers = [found.meta for found in projection.find_all(exp.Identifier) if "start" in found.meta]
        first = min(meta["start"] for meta in identifiers)
        last = max(meta["end"] for meta in identifiers)
        return [token for token in tokens if first <= token.start and token.end <= last]
    alias_start = projection.args["alias"].meta["start"]
    end = next(at for at, token in enumerate(tokens) if token.start == alias_start)
    if tokens[end - 1].token_type == TokenType.ALIAS:
        end -= 1
    start, depth = end, 0
    while start > 0:
        kind = tokens[start - 1].token_type
        if kind in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END):
            depth += 1
        elif kind in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE):
            depth -= 1
        elif depth == 0 and kind in (TokenType.COMMA, TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL):
            break
        start -= 1
    return tokens[start:end]


def _written_over(
    statement: Statement, scope: Scope, source: Source, node: exp.Expr, tokens: Sequence[Token]
) -> TracedColumn:
    """Return the projection's own text with each column replaced by its expression in the table below."""
    table: TableName | None = None
    text = ""
    at = 0
    spans = sorted(
        (column for column in node.find_all(exp.Column)),
        key=lambda column: int(column.parts[0].meta["start"]),
    )
    for column in spans:
        written = list(column.parts)
        own = len(written) - len(fields(scope, column))
        name = written[own]
        below = _of_source(statement, source, name.name, statement.text[name.meta["start"] : name.meta["end"] + 1])
        table = below.table
        first = next(i for i, token in enumerate(tokens) if token.start == written[0].meta["start"])
        last = next(i for i, token in enumerate(tokens) if token.start == name.meta["start"])
        text = _append_tokens(text, statement, tokens, at, first) + below.text
        at = last + 1
    if table is None:
        raise NotProvable("it reads no column")
    return TracedColumn(table, _append_tokens(text, statement, tokens, at, len(tokens)))


def _append_tokens(before: str, statement: Statement, tokens: Sequence[Token], start: int, end: int) -> str:
    def gap(at: int) -> str:
        return " " if 0 < at < len(tokens) and tokens[at - 1].end + 1 < tokens[at].start else ""

    between = gap(start) + one_line(statement.text, tokens[start:end]) if start < end else ""
    return before + between + gap(end)


def _of_source(statement: Statement, source: Source, name: str, text: str) -> TracedColumn:
    if source.table is not None:
        return TracedColumn(source.table, text)
    if source.scope is None or source.columns is not None or source.scope.renamed:
        raise NotProvable(f"'{name}' comes from {source.shown}, which is not supported", line=source.line)
    below = _column(statement, source.scope, name)
    plain_name = below.text.replace("`", "").isidentifier()
    return below if plain_name else TracedColumn(below.table, f"({below.text})")
