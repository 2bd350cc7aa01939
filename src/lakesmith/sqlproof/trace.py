"""Traces a partition column to the table that decides it, so that only touched partitions are recomputed.

The proof has to hold for every row: each output row of a partition may depend only on rows of the traced
table whose expression has that partition's value. Where that cannot be proved, the result is the reason, and
the table gets a full build. `sqlglot.lineage` is not used: it finds where a value comes from, but not whether a window,
a group or an outer join mixes partitions, and it returns generated SQL (`to_date(ts)` becomes a
cast) instead of the author's text.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import TokenType, exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.output_columns import projection_named
from lakesmith.sqlproof.proof import (
    count_reads,
    normalized_sql,
    refuse_changing_functions,
    refuse_grouping_sets,
    refuse_limit,
    refuse_pipes,
    refuse_pivots,
    refuse_set_operations,
    refuse_values_of_other_rows,
    unwrapped,
)
from lakesmith.sqlproof.scopes import (
    NotProvable,
    Scope,
    Source,
    column_and_fields,
    column_parts,
    line_in,
    qualified_source,
)
from lakesmith.sqlproof.spans import text_of
from lakesmith.sqlproof.statement import Statement

Traced = tuple[TableName, str]
"""A column of a scope as a table and SQL over its columns."""


def trace(statement: Statement, by: str) -> Traced:
    """Return the table and the expression over its columns that decide `by`. Raise `NotProvable` without a proof."""
    refuse_pipes(statement)
    refuse_changing_functions(statement)
    table, text = _column(statement, statement.root, by)
    if count_reads(statement.root, table) > 1:
        raise NotProvable(f"it reads {table} more than once")
    return table, text


def _column(statement: Statement, scope: Scope, name: str) -> Traced:
    """Trace the column `name` of a scope to a table."""
    refuse_set_operations(statement, scope)
    if scope.recursive or not isinstance(scope.node, exp.Select):
        raise NotProvable("it is not a plain SELECT")
    refuse_limit(statement, scope)
    projections, star = projection_named(scope, name)
    if len(projections) > 1:
        raise NotProvable(f"two of its columns are named '{name}'", line=line_in(projections[1]))
    if not projections:
        return _through_star(statement, scope, name, star)
    node = unwrapped(projections[0])
    source = _only_source(scope, node, name)
    _check_rows(statement, scope, node, name)
    return _written_over(statement, scope, source, node, _span_of(statement, projections[0]))


def _through_star(statement: Statement, scope: Scope, name: str, star: bool) -> Traced:
    if not star:
        raise NotProvable(f"it has no column '{name}'")
    if len(scope.sources) != 1:
        raise NotProvable(f"a * over several tables hides '{name}': name the column in the SELECT")
    _check_rows(statement, scope, exp.column(name, quoted=True), name)
    return _of_source(statement, scope.sources[0], name, f"`{name}`")


def _only_source(scope: Scope, node: exp.Expr, name: str) -> Source:
    """Return the one source that the expression reads."""
    if node.find(exp.Query) is not None:
        raise NotProvable(f"'{name}' comes from a subquery", line=line_in(node))
    refuse_values_of_other_rows(node, name, line_in(node))
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
    for node in scope.projections:
        if isinstance(node, exp.Alias) and node.alias.lower() == written:
            is_that_column = isinstance(node.this, exp.Column) and node.this.name.lower() == written
            if not is_that_column and column not in node.find_all(exp.Column):
                what = f"'{name}' reads '{written}', which is also the name of another result column"
                raise NotProvable(what, line=line_in(column))
    if len(scope.sources) == 1:
        return scope.sources[0]
    raise NotProvable(f"the table of '{written}' is ambiguous: write table.{written}", line=line_in(column))


def _check_rows(statement: Statement, scope: Scope, node: exp.Expr, name: str) -> None:
    """Raise where rows of one partition may depend on rows of another."""
    refuse_grouping_sets(statement, scope)
    group = scope.node.args.get("group")
    if group is not None:
        if not group.args.get("all") and not _decided_by(scope, node, _group_keys(scope, group)):
            raise NotProvable(f"it does not group by '{name}'", clause="GROUP BY", line=line_in(group))
    elif scope.aggregates:
        raise NotProvable("it aggregates over all rows")
    for window in scope.windows:
        keys = window.args.get("partition_by") or []
        if not _decided_by(scope, node, [*keys, *_aliased_keys(scope, keys)]):
            raise NotProvable(
                f"a window function reads rows of other partitions: PARTITION BY lacks '{name}'",
                line=line_in(window),
            )
    refuse_pivots(scope)


def _group_keys(scope: Scope, group: exp.Expr) -> list[exp.Expr]:
    keys: list[exp.Expr] = []
    for key in group.expressions:
        if not isinstance(key, exp.Literal) or key.is_string:
            keys.append(key)
        elif 0 < int(key.this) <= len(scope.projections):
            keys.append(unwrapped(scope.projections[int(key.this) - 1]))
    return [*keys, *_aliased_keys(scope, keys)]


def _aliased_keys(scope: Scope, keys: Iterable[exp.Expr]) -> list[exp.Expr]:
    """Return what the keys mean that are names of result columns.

    A name may also be a column of the source, which then wins in Spark. Both meanings are returned: with the
    wrong one, the result column would not be a function of the keys, and Spark rejects the query.
    """
    names = {key.name.lower() for key in keys if isinstance(key, exp.Column) and len(key.parts) == 1}
    return [node.this for node in scope.projections if isinstance(node, exp.Alias) and node.alias.lower() in names]


def _decided_by(scope: Scope, node: exp.Expr, keys: Iterable[exp.Expr]) -> bool:
    """Whether the keys' values determine the expression's value."""
    if any(_same(scope, node, key) for key in keys):
        return True
    if isinstance(node, exp.Column):
        return False
    inner = [child for child in node.iter_expressions() if next(child.find_all(exp.Column), None) is not None]
    return bool(inner) and all(_decided_by(scope, child, keys) for child in inner)


def _same(scope: Scope, node: exp.Expr, key: exp.Expr) -> bool:
    qualified = any(qualified_source(scope, column) is not None for column in key.find_all(exp.Column))
    return normalized_sql(scope, node, qualified=qualified) == normalized_sql(scope, key, qualified=qualified)


def _span_of(statement: Statement, projection: exp.Expr) -> range:
    """Return the tokens of a projection without its alias."""
    tokens = statement.tokens
    if not isinstance(projection, exp.Alias):
        places = [found.meta for found in projection.find_all(exp.Identifier) if "start" in found.meta]
        first, last = min(place["start"] for place in places), max(place["end"] for place in places)
        inside = [at for at, token in enumerate(tokens) if first <= token.start and token.end <= last]
        return range(inside[0], inside[-1] + 1)
    alias_start = projection.args["alias"].meta["start"]
    end = next(at for at, token in enumerate(tokens) if token.start == alias_start)
    end -= tokens[end - 1].token_type == TokenType.ALIAS
    start, depth = end, 0
    while start > 0:
        token_type = tokens[start - 1].token_type
        if token_type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END):
            depth += 1
        elif token_type in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE):
            depth -= 1
        elif depth == 0 and token_type in (TokenType.COMMA, TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL):
            break
        start -= 1
    return range(start, end)


def _written_over(statement: Statement, scope: Scope, source: Source, node: exp.Expr, span: range) -> Traced:
    """Return the projection's own text with each column replaced by its expression in the table below."""
    replacements: dict[int, tuple[int, str]] = {}
    table: TableName | None = None
    for column in node.find_all(exp.Column):
        name = column.parts[-len(column_and_fields(scope, column))]
        start, end = name.meta["start"], name.meta["end"] + 1
        table, text = _of_source(statement, source, name.name, statement.text[start:end])
        replacements[column.parts[0].meta["start"]] = (end, text)
    assert table is not None  # the expression reads the columns of one source
    return table, text_of(statement.text, statement.tokens, span, replacements)


def _of_source(statement: Statement, source: Source, name: str, text: str) -> Traced:
    if source.table is not None:
        return source.table, text
    if source.scope is None or source.columns is not None or source.scope.renamed:
        raise NotProvable(f"'{name}' comes from {source.shown}, which is not supported", line=source.line)
    table, below = _column(statement, source.scope, name)
    return table, below if below.replace("`", "").isidentifier() else f"({below})"
