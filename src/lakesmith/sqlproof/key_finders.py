"""Makes queries that find the keys whose result rows change when rows of an input change.

A joined row is what FROM and its joins produce before grouping: one row of each table, or NULLs in place of a table
where an outer join has no match. All result rows of one key derive from the joined rows with this key. So the keys to
find are those of the joined rows that appear or disappear.

The finder for table X reads the changed rows of X, before and after the change, and for every other table the rows
before and after. A joined row can appear or disappear for two reasons:

1. A row in it changed. The query itself finds it through X's row, since every other row in it exists before or after.
2. An outer join had no match in X and now has one, or the other way round. Then a changed row of X matches: the join
   becomes INNER, and later uses of X (in the key, the WHERE, a later join) read NULL. That keeps `WHERE x.id IS NULL`
   exact: for the row without a match the condition holds.

One case could hide a joined row: Y had no match before, but the view of Y holds rows before *and* after, and one of
them matches. That row changed, so the finder for Y finds the joined row by reason 2. Where this happens for several
tables at once, the finder of the first one has to find it: it tries each later one both as joined and as unmatched.
Outer joins that unmatched reads later are omitted: they neither add nor remove a key.

No sqlglot optimizer rule proves this, so the proof is by hand; the queries reuse the author's text (see `spans`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import TokenType, exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.joins import (
    JoinedSource,
    check_using,
    is_row_by_row,
    joined_sources,
    reads_table,
    source_of_column,
)
from lakesmith.sqlproof.key_columns import (
    KeyColumn,
    check_key,
    check_windows,
    column_at,
    column_named,
    column_of_star,
    key_positions,
)
from lakesmith.sqlproof.parsing import SPARK
from lakesmith.sqlproof.proof import (
    count_reads,
    refuse_changing_functions,
    refuse_limit,
    refuse_pipes,
    refuse_what_needs_all_rows,
    unwrapped,
)
from lakesmith.sqlproof.scopes import NotProvable, Scope, column_and_fields, column_parts, line_in
from lakesmith.sqlproof.spans import QuerySpan, SelectSpan, UnsupportedLayout, inside, split_clauses, text_of
from lakesmith.sqlproof.statement import Statement

_MOST_OUTER_JOINS = 4
"""More outer joins would make too many variants of a query."""


def finders(statement: Statement, key: Sequence[str]) -> dict[TableName, str]:
    """Return, by input, the query that finds the keys that its changed rows touch. Raise `NotProvable` without a
    proof."""
    refuse_pipes(statement)
    refuse_changing_functions(statement)
    whole = split_clauses(statement.tokens, range(len(statement.tokens)))
    search = _Search(statement, whole.ctes)
    head = text_of(statement.text, statement.tokens, whole.head, {})
    texts = {}
    for table in dict.fromkeys(reference.table for reference in statement.references):
        selects = search.selects(statement.root, whole, tuple(key), table)
        if selects:
            texts[table] = f"{head} {' UNION '.join(selects)}".strip()
    if not texts:
        raise NotProvable("it reads no table")
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyedSelect:
    """The parts of a SELECT that decide which keys exist."""

    scope: Scope
    keys: tuple[KeyColumn, ...]
    joined: tuple[JoinedSource, ...]
    laterals: range
    where: range
    read: tuple[tuple[exp.Expr, int], ...]
    """Every expression that decides keys, with the position of its join; those after all joins have the number of
    joins."""

    def reads(self, number: int, *, after: int = -1) -> bool:
        """Whether an expression after the join at `after` reads the source of that number."""
        return any(
            self.number(column) == number
            for node, place in self.read
            if place > after
            for column in node.find_all(exp.Column)
        )

    def number(self, column: exp.Column) -> int | None:
        """Return the position of a column's source among the joins, or None for a lateral view or an unknown source."""
        source = source_of_column(self.scope, self.joined, column)
        return next((at for at, each in enumerate(self.joined) if each.source is source), None)


class _Search:
    """The finders of one statement."""

    def __init__(self, statement: Statement, ctes: Mapping[str, range]) -> None:
        self.statement = statement
        self.ctes = ctes

    def selects(self, scope: Scope, span: QuerySpan, names: Sequence[str], table: TableName | None) -> list[str]:
        """Return the SELECTs that find `names` for changed rows of `table`, or for all rows when it is None."""
        leaves = list(_union_branches(self.statement, scope))
        if len(leaves) != len(span.selects):
            raise UnsupportedLayout
        places = key_positions(leaves[0], names) if len(leaves) > 1 else []
        found: list[str] = []
        for leaf, select in zip(leaves, span.selects, strict=True):
            own = [column_at(leaf, place) for place in places] or [column_named(leaf, name) for name in names]
            keys = tuple(self._key(leaf, select, *pair) for pair in zip(names, own, strict=True))
            found.extend(self._of_select(leaf, select, keys, table))
        return list(dict.fromkeys(found))

    def _of_select(
        self, scope: Scope, span: SelectSpan, keys: tuple[KeyColumn, ...], table: TableName | None
    ) -> list[str]:
        refuse_what_needs_all_rows(self.statement, scope)
        for reference in self.statement.references:
            if count_reads(scope, reference.table) > 1:
                raise NotProvable(f"it reads {reference.table} more than once", line=reference.line)
        check_windows(scope, keys)
        joined = joined_sources(scope, span)
        try:
            return list(self._variants(_keyed_select(scope, span, keys, joined, where=True), table))
        except NotProvable:
            # A condition on the result of an inner query (`WHERE rank = 1`) only removes rows.
            if not span.where or all(is_row_by_row(each.source) for each in joined):
                raise
            return list(self._variants(_keyed_select(scope, span, keys, joined, where=False), table))

    def _key(self, scope: Scope, span: SelectSpan, name: str, projection: exp.Expr | None) -> KeyColumn:
        """Return the expression of a result column. In a query with groups, Spark ensures that the groups decide it."""
        if projection is None:
            return KeyColumn(name=name, node=column_of_star(scope, name), span=None)
        node = unwrapped(projection)
        check_key(scope, projection, node, name)
        if len(span.items) != len(scope.projections):
            raise UnsupportedLayout
        place = next(at for at, each in enumerate(scope.projections) if each is projection)
        return KeyColumn(name=name, node=node, span=self._without_alias(projection, span.items[place]))

    def _without_alias(self, projection: exp.Expr, span: range) -> range:
        if not isinstance(projection, exp.Alias):
            return span
        tokens = self.statement.tokens
        end = next(at for at in span if tokens[at].start == projection.args["alias"].meta["start"])
        return range(span.start, end - (tokens[end - 1].token_type == TokenType.ALIAS))

    def _variants(self, whole: _KeyedSelect, table: TableName | None) -> Iterator[str]:
        """Yield the variants of one SELECT, each with another set of unmatched sources."""
        read = [
            at
            for at, each in enumerate(whole.joined)
            if each.kind == "ANTI" or (each.kind == "LEFT" and whole.reads(at, after=at))
        ]
        if len(read) > _MOST_OUTER_JOINS:
            raise NotProvable(f"its key, filters and joins read {len(read)} tables of outer joins")
        for number in read:
            source = whole.joined[number].source
            if not is_row_by_row(source) or table is None:
                raise NotProvable(
                    f"its key, filters or joins read the outer join of {source.shown}, which is a subquery",
                    line=source.line,
                )
        at = _position_of(whole, table)
        if at is None and table is not None:
            return
        if at is None or whole.joined[at].kind != "ANTI":
            yield self._select(whole, table, at, frozenset())
        if at is not None and at in read:
            later = [each for each in read if each > at]
            for size in range(len(later) + 1):
                for unmatched in itertools.combinations(later, size):
                    yield self._select(whole, table, at, frozenset((at, *unmatched)))

    def _select(self, whole: _KeyedSelect, table: TableName | None, at: int | None, unmatched: frozenset[int]) -> str:
        """Return one SELECT over the changed rows of the source `at`, with NULLs for the `unmatched` sources."""
        needed = _needed_joins(whole, at, unmatched)
        nulled = at if at in unmatched else None
        keys = ", ".join(f"{self._key_text(whole, key, nulled)} AS `{key.name}`" for key in whole.keys)
        parts = [f"SELECT DISTINCT {keys} FROM"]
        for number in needed:
            each = whole.joined[number]
            if each.kind != "FROM":
                parts.append(f"{_join_words(each, changed=number == at)} JOIN")
            parts.append(self._relation(whole, number, table if number == at else None))
            parts.append(self._condition(whole, number, at, unmatched))
        parts.append(self._text(whole, whole.laterals, nulled))
        if whole.where:
            parts.append(f"WHERE {self._text(whole, whole.where, nulled)}")
        return " ".join(part for part in parts if part)

    def _condition(self, whole: _KeyedSelect, number: int, at: int | None, unmatched: frozenset[int]) -> str:
        """Return the join condition of a source. A changed row has to meet it even where it is then read as NULL."""
        each = whole.joined[number]
        if number == at or number not in unmatched:
            return self._text(whole, each.condition, at if at in unmatched and number != at else None)
        if each.on is None:
            raise NotProvable(
                f"its key, filters or joins read the outer join of {each.source.shown}: write ON",
                clause="USING",
                line=each.source.line,
            )
        return "ON FALSE"

    def _relation(self, whole: _KeyedSelect, number: int, table: TableName | None) -> str:
        """Return a relation of FROM: its own text where it works row by row, else a query of only the used columns."""
        each = whole.joined[number]
        source = each.source
        if is_row_by_row(source) or source.scope is None:
            return self._text(whole, each.relation, None)
        if source.columns is not None or source.scope.renamed:
            raise NotProvable(f"it renames the columns of {source.shown}, which is not supported", line=source.line)
        name = self.statement.tokens[each.relation.start].text.lower()
        is_query = self.statement.tokens[each.relation.start].token_type == TokenType.L_PAREN
        span = inside(self.statement.tokens, each.relation) if is_query else self.ctes.get(name)
        if span is None:
            raise UnsupportedLayout
        inner = split_clauses(self.statement.tokens, span)
        if inner.head:
            raise UnsupportedLayout
        columns = {
            column_and_fields(whole.scope, column)[0]: None
            for node, _ in whole.read
            for column in node.find_all(exp.Column)
            if whole.number(column) == number
        }
        if not columns:
            raise NotProvable(f"it uses no column of {source.shown}", line=source.line)
        selects = self.selects(source.scope, inner, tuple(columns), table)
        alias = f" AS `{source.alias}`" if source.alias else ""
        return f"({' UNION '.join(selects)}){alias}"

    def _key_text(self, whole: _KeyedSelect, key: KeyColumn, nulled: int | None) -> str:
        if key.span is not None:
            return self._text(whole, key.span, nulled)
        assert isinstance(key.node, exp.Column)
        text = key.node.sql(dialect=SPARK)
        return _typed_null(text) if nulled is not None and whole.number(key.node) == nulled else text

    def _text(self, whole: _KeyedSelect, span: range, nulled: int | None) -> str:
        """Return the text of a span, with NULLs for the columns of the source `nulled`."""
        instead: dict[int, tuple[int, str]] = {}
        if nulled is not None:
            for node, _ in whole.read:
                for column in node.find_all(exp.Column):
                    if whole.number(column) == nulled and "start" in column.parts[0].meta:
                        start, end = column.parts[0].meta["start"], column.parts[-1].meta["end"] + 1
                        instead[start] = (end, _typed_null(self.statement.text[start:end]))
        return text_of(self.statement.text, self.statement.tokens, span, instead)


def _position_of(whole: _KeyedSelect, table: TableName | None) -> int | None:
    return next((at for at, each in enumerate(whole.joined) if table and reads_table(each.source, table)), None)


def _typed_null(text: str) -> str:
    """Return a NULL of the column's type."""
    return f"IF(FALSE, {text}, NULL)"


def _join_words(joined: JoinedSource, *, changed: bool) -> str:
    if changed:
        return {"LEFT": "INNER", "ANTI": "LEFT SEMI", "SEMI": "LEFT SEMI"}.get(joined.kind, joined.kind)
    return joined.kind if joined.kind in ("INNER", "LEFT") else f"LEFT {joined.kind}"


def _needed_joins(whole: _KeyedSelect, at: int | None, unmatched: frozenset[int]) -> list[int]:
    """Return the joins that decide which keys exist."""
    found: list[int] = []
    last = len(whole.joined)
    nodes_at = {place: node for node, place in whole.read if place < last}
    needed = [node for node, place in whole.read if place == last]
    for number in reversed(range(last)):
        each = whole.joined[number]
        read = any(whole.number(column) == number for node in needed for column in node.find_all(exp.Column))
        omitted = (each.kind == "LEFT" and not read) or (each.kind == "ANTI" and number in unmatched)
        if number != at and omitted:
            continue
        found.append(number)
        if number in nodes_at and (number == at or number not in unmatched):
            needed.append(nodes_at[number])
    return found[::-1]


def _union_branches(statement: Statement, scope: Scope) -> Iterator[Scope]:
    """Yield the SELECTs of a UNION in order: rows of one key derive from rows of that key in each of them."""
    if scope.recursive:
        raise NotProvable("it is not a plain SELECT", clause="RECURSIVE")
    if not scope.branches:
        yield scope
        return
    if not isinstance(scope.node, exp.Union) or scope.node.args.get("by_name"):
        raise NotProvable("it combines queries by something else than UNION")
    refuse_limit(statement, scope)

    for branch in scope.branches:
        yield from _union_branches(statement, branch)


def _keyed_select(
    scope: Scope, span: SelectSpan, keys: tuple[KeyColumn, ...], joined: tuple[JoinedSource, ...], *, where: bool
) -> _KeyedSelect:
    last = len(joined)
    read = [(key.node, last) for key in keys]
    read += [(each.on, at) for at, each in enumerate(joined) if each.on is not None]
    read += [(lateral.this, last) for lateral in scope.node.args.get("laterals") or ()]
    if where and scope.node.args.get("where") is not None:
        read.append((scope.node.args["where"].this, last))
    # A column's table matters only where a source may be unmatched, or is read for some columns only.
    if any(each.may_be_unmatched or not is_row_by_row(each.source) for each in joined):
        for column in (column for node, _ in read for column in node.find_all(exp.Column)):
            if source_of_column(scope, joined, column) is None:
                name = column_parts(column)[0]
                raise NotProvable(f"the table of '{name}' is ambiguous: write table.{name}", line=line_in(column))
        check_using(scope, joined)
    return _KeyedSelect(
        scope=scope,
        keys=keys,
        joined=joined,
        laterals=span.laterals,
        where=span.where if where else range(0),
        read=tuple(read),
    )
