"""Which keys of a query's result change when rows of an input do, asked of the changed rows in the query's own words.

Call a joined row what FROM and its joins put together before anything is grouped: one row of each table, or nothing
in the place of a table that an outer join did not find. All rows of the result that have one key are made from the
joined rows that have this key, so the keys to look for are those of the joined rows that come or go.

A finder for table X sees of X the rows that changed, as they were and as they are, and of every other table the rows
before and after. A joined row can come or go for two reasons:

1. A row in it changed. It is found by the query itself, with X's row in it, since every other row in it is there
   before or after.
2. An outer join found nothing for X, and now does, or the other way round. Then a changed row of X fits: the join
   is made INNER, and where X is read afterwards (by the key, the WHERE, a later join) it is read as null. That keeps
   `WHERE x.id IS NULL` exact: for the row that was missing the condition holds.

One thing could hide a joined row: nothing was found for Y before, but the view of Y has rows before *and* after, of
which one fits. That row changed, so the finder for Y finds the joined row by reason 2. Where this happens for
several tables at once, the finder for the first of them has to find it: it asks for each later one both ways, as it
is joined and as nothing. Outer joins that are not read afterwards are left out: they neither add nor drop a key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import TokenType, exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.proof import NotProvable, count_reads, normalized_sql, row_by_row, unprovable_reason, unwrapped
from lakesmith.sqlproof.spans import JoinSpan, QuerySpan, SelectSpan, UnsupportedLayout, inside, split_clauses, text_of
from lakesmith.sqlproof.statement import (
    SPARK,
    Reason,
    Scope,
    Source,
    Statement,
    column_name,
    is_aggregate,
    is_star,
    line_in,
    outputs,
    parts,
    projection_named,
    qualified_source,
)

_MOST_OUTER_JOINS = 4
"""More of them that are read would make too many ways to ask."""


def finders(statement: Statement, key: Sequence[str]) -> dict[TableName, str] | Reason:
    """For each input the query that finds the keys which changed rows of it touch, or why that cannot be proved."""
    if (reason := unprovable_reason(statement)) is not None:
        return reason
    try:
        whole = split_clauses(statement.tokens, range(len(statement.tokens)))
        search = _Search(statement, whole.ctes)
        head = text_of(statement.text, statement.tokens, whole.head, {})
        texts = {}
        for table in dict.fromkeys(reference.table for reference in statement.references):
            found = search.selects(statement.root, whole, tuple(key), table)
            if found:
                texts[table] = f"{head} {' UNION '.join(found)}".strip()
    except NotProvable as refused:
        return refused.reason
    except UnsupportedLayout:
        return Reason(text="its text is put together in a way that is not followed")
    if not texts:
        return Reason(text="it reads no table")
    return texts


def refuse_what_needs_all_rows(statement: Statement, scope: Scope) -> None:
    """Raises where a row of the result may depend on rows of any key."""
    if scope.recursive or not isinstance(scope.node, exp.Select):
        raise NotProvable("it is not a plain SELECT")
    if scope.cut is not None:
        kind = TokenType.LIMIT if scope.cut == "LIMIT" else TokenType.OFFSET
        raise NotProvable("which rows it keeps depends on all of them", clause=scope.cut, line=statement.line_of(kind))
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
            "it groups in several ways at once",
            clause="ROLLUP, CUBE or GROUPING SETS",
            line=statement.line_of(TokenType.GROUP_BY),
        )
    for source in scope.sources:
        if source.pivoted:
            raise NotProvable("it turns rows into columns or back", clause="PIVOT", line=source.line)
        if source.table is None and source.scope is None and source.generator is None:
            raise NotProvable(f"it reads {source.shown}, not a table", line=source.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    name: str
    node: exp.Expr
    span: range | None
    """None when it comes out of a `*`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """A source of the FROM clause with the way in which it is joined to those before it."""

    kind: str
    """FROM, INNER, LEFT, SEMI or ANTI."""
    source: Source
    relation: range
    condition: range
    on: exp.Expr | None

    @property
    def may_be_nothing(self) -> bool:
        return self.kind in ("LEFT", "ANTI")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A SELECT as far as it decides which keys there are."""

    scope: Scope
    keys: tuple[_Key, ...]
    joined: tuple[_Joined, ...]
    laterals: range
    where: range
    read: tuple[tuple[exp.Expr, int], ...]
    """Every expression that counts, with the place of the join that it belongs to; those after all joins have the
    number of joins."""

    def reads(self, number: int, *, after: int = -1) -> bool:
        """Whether what comes after the join at `after` reads the source of that number."""
        return any(
            self.number(column) == number
            for node, place in self.read
            if place > after
            for column in node.find_all(exp.Column)
        )

    def number(self, column: exp.Column) -> int | None:
        """The source that a column belongs to: its place among the joins, or None for a lateral view or unknown."""
        source = _source_of(self.scope, self.joined, column)
        return next((at for at, each in enumerate(self.joined) if each.source is source), None)


class _Search:
    """The finders of one statement."""

    def __init__(self, statement: Statement, ctes: Mapping[str, range]) -> None:
        self.statement = statement
        self.ctes = ctes

    def selects(self, scope: Scope, span: QuerySpan, names: Sequence[str], table: TableName | None) -> list[str]:
        """The SELECTs that find `names` where rows of `table` changed; of all rows there are when it is None."""
        leaves = list(_leaves(self.statement, scope))
        if len(leaves) != len(span.selects):
            raise UnsupportedLayout
        places = _places(leaves[0], names) if len(leaves) > 1 else []
        found: list[str] = []
        for leaf, select in zip(leaves, span.selects, strict=True):
            own = [_at(leaf, place) for place in places] or [_named(leaf, name) for name in names]
            keys = tuple(self._key(leaf, select, *pair) for pair in zip(names, own, strict=True))
            found.extend(self._of_select(leaf, select, keys, table))
        return list(dict.fromkeys(found))

    def _of_select(self, scope: Scope, span: SelectSpan, keys: tuple[_Key, ...], table: TableName | None) -> list[str]:
        refuse_what_needs_all_rows(self.statement, scope)
        for reference in self.statement.references:
            if count_reads(scope, reference.table) > 1:
                raise NotProvable(f"it reads {reference.table} more than once", line=reference.line)
        _check_windows(scope, keys)
        joined = _joined(scope, span)
        try:
            return list(self._asked(_parts(scope, span, keys, joined, where=True), table))
        except NotProvable:
            # A condition on what an inner query computes (`WHERE rank = 1`) only drops rows.
            if not span.where or all(_is_plain(each.source) for each in joined):
                raise
            return list(self._asked(_parts(scope, span, keys, joined, where=False), table))

    def _key(self, scope: Scope, span: SelectSpan, name: str, projection: exp.Expr | None) -> _Key:
        """The expression of a result column. In a query that groups, the groups decide it: Spark refuses others."""
        if projection is None:
            return _Key(name=name, node=_out_of_star(scope, name), span=None)
        node = unwrapped(projection)
        _check_key(scope, projection, node, name)
        if len(span.items) != len(scope.projections):
            raise UnsupportedLayout
        place = next(at for at, each in enumerate(scope.projections) if each is projection)
        return _Key(name=name, node=node, span=self._without_alias(projection, span.items[place]))

    def _without_alias(self, projection: exp.Expr, span: range) -> range:
        if not isinstance(projection, exp.Alias):
            return span
        tokens = self.statement.tokens
        end = next(at for at in span if tokens[at].start == projection.args["alias"].meta["start"])
        return range(span.start, end - (tokens[end - 1].token_type == TokenType.ALIAS))

    def _asked(self, whole: _Parts, table: TableName | None) -> Iterator[str]:
        """The ways to ask one SELECT, each for another set of sources that are nothing."""
        read = [
            at
            for at, each in enumerate(whole.joined)
            if each.kind == "ANTI" or (each.kind == "LEFT" and whole.reads(at, after=at))
        ]
        if len(read) > _MOST_OUTER_JOINS:
            raise NotProvable(f"its key, filters and joins look at {len(read)} tables of outer joins")
        for number in read:
            source = whole.joined[number].source
            if not _is_plain(source) or table is None:
                raise NotProvable(
                    f"its key, filters or joins look at the outer join of {source.shown}, with a query between",
                    line=source.line,
                )
        at = _holder(whole, table)
        if at is None and table is not None:
            return
        if at is None or whole.joined[at].kind != "ANTI":
            yield self._select(whole, table, at, frozenset())
        if at is not None and at in read:
            later = [each for each in read if each > at]
            for size in range(len(later) + 1):
                for nothing in itertools.combinations(later, size):
                    yield self._select(whole, table, at, frozenset((at, *nothing)))

    def _select(self, whole: _Parts, table: TableName | None, at: int | None, nothing: frozenset[int]) -> str:
        """One SELECT with the changed rows of the source `at`, where the sources of `nothing` are read as null."""
        kept = _kept(whole, at, nothing)
        gone = at if at in nothing else None
        keys = ", ".join(f"{self._key_text(whole, key, gone)} AS `{key.name}`" for key in whole.keys)
        told = [f"SELECT DISTINCT {keys} FROM"]
        for number in kept:
            each = whole.joined[number]
            if each.kind != "FROM":
                told.append(f"{_kind(each, changed=number == at)} JOIN")
            told.append(self._relation(whole, number, table if number == at else None))
            told.append(self._condition(whole, number, at, nothing))
        told.append(self._text(whole, whole.laterals, gone))
        if whole.where:
            told.append(f"WHERE {self._text(whole, whole.where, gone)}")
        return " ".join(part for part in told if part)

    def _condition(self, whole: _Parts, number: int, at: int | None, nothing: frozenset[int]) -> str:
        """On what a source is joined. The changed row has to meet the condition, also where it is then read as null."""
        each = whole.joined[number]
        if number == at or number not in nothing:
            return self._text(whole, each.condition, at if at in nothing and number != at else None)
        if each.on is None:
            raise NotProvable(
                f"its key, filters or joins look at the outer join of {each.source.shown}: write ON",
                clause="USING",
                line=each.source.line,
            )
        return "ON FALSE"

    def _relation(self, whole: _Parts, number: int, table: TableName | None) -> str:
        """What stands in FROM: its own text where it works row by row, else only the columns that are read of it."""
        each = whole.joined[number]
        source = each.source
        if _is_plain(source) or source.scope is None:
            return self._text(whole, each.relation, None)
        if source.columns is not None or source.scope.renamed:
            raise NotProvable(f"it names the columns of {source.shown} anew, which is not followed", line=source.line)
        name = self.statement.tokens[each.relation.start].text.lower()
        is_query = self.statement.tokens[each.relation.start].token_type == TokenType.L_PAREN
        span = inside(self.statement.tokens, each.relation) if is_query else self.ctes.get(name)
        if span is None:
            raise UnsupportedLayout
        inner = split_clauses(self.statement.tokens, span)
        if inner.head:
            raise UnsupportedLayout
        columns = {
            column_name(whole.scope, column): None
            for node, _ in whole.read
            for column in node.find_all(exp.Column)
            if whole.number(column) == number
        }
        if not columns:
            raise NotProvable(f"it takes no column of {source.shown} into account", line=source.line)
        selects = self.selects(source.scope, inner, tuple(columns), table)
        alias = f" AS `{source.alias}`" if source.alias else ""
        return f"({' UNION '.join(selects)}){alias}"

    def _key_text(self, whole: _Parts, key: _Key, gone: int | None) -> str:
        if key.span is not None:
            return self._text(whole, key.span, gone)
        assert isinstance(key.node, exp.Column)
        text = key.node.sql(dialect=SPARK)
        return _null(text) if gone is not None and whole.number(key.node) == gone else text

    def _text(self, whole: _Parts, span: range, gone: int | None) -> str:
        """The text of a span, in which the columns of the source `gone` are null."""
        instead: dict[int, tuple[int, str]] = {}
        if gone is not None:
            for node, _ in whole.read:
                for column in node.find_all(exp.Column):
                    if whole.number(column) == gone and "start" in column.parts[0].meta:
                        start, end = column.parts[0].meta["start"], column.parts[-1].meta["end"] + 1
                        instead[start] = (end, _null(self.statement.text[start:end]))
        return text_of(self.statement.text, self.statement.tokens, span, instead)


def _holder(whole: _Parts, table: TableName | None) -> int | None:
    return next((at for at, each in enumerate(whole.joined) if table and _holds(each.source, table)), None)


def _null(text: str) -> str:
    """A null that has the type of the column."""
    return f"IF(FALSE, {text}, NULL)"


def _kind(joined: _Joined, *, changed: bool) -> str:
    if changed:
        return {"LEFT": "INNER", "ANTI": "LEFT SEMI", "SEMI": "LEFT SEMI"}.get(joined.kind, joined.kind)
    return joined.kind if joined.kind in ("INNER", "LEFT") else f"LEFT {joined.kind}"


def _kept(whole: _Parts, at: int | None, nothing: frozenset[int]) -> list[int]:
    """The joins that decide which keys there are."""
    kept: list[int] = []
    last = len(whole.joined)
    wanted = {place: node for node, place in whole.read if place < last}
    needed = [node for node, place in whole.read if place == last]
    for number in reversed(range(last)):
        each = whole.joined[number]
        read = any(whole.number(column) == number for node in needed for column in node.find_all(exp.Column))
        omitted = (each.kind == "LEFT" and not read) or (each.kind == "ANTI" and number in nothing)
        if number != at and omitted:
            continue
        kept.append(number)
        if number in wanted and (number == at or number not in nothing):
            needed.append(wanted[number])
    return kept[::-1]


def _leaves(statement: Statement, scope: Scope) -> Iterator[Scope]:
    """The SELECTs of a UNION in their order: rows of one key are made of rows of that key in each of them."""
    if scope.recursive:
        raise NotProvable("it is not a plain SELECT", clause="RECURSIVE")
    if not scope.branches:
        yield scope
        return
    if not isinstance(scope.node, exp.Union) or scope.node.args.get("by_name"):
        raise NotProvable("it combines several queries otherwise than by UNION")
    if scope.cut is not None:
        kind = TokenType.LIMIT if scope.cut == "LIMIT" else TokenType.OFFSET
        raise NotProvable("which rows it keeps depends on all of them", clause=scope.cut, line=statement.line_of(kind))
    for branch in scope.branches:
        yield from _leaves(statement, branch)


def _places(leaf: Scope, names: Sequence[str]) -> list[int]:
    known = outputs(leaf, {})
    low = [] if known is None else [name.lower() for name in known]
    for name in names:
        if name.lower() not in low:
            raise NotProvable(f"it is not plain where '{name}' stands in each part of the UNION: name all columns")
    return [low.index(name.lower()) for name in names]


def _at(leaf: Scope, place: int) -> exp.Expr | None:
    if place >= len(leaf.projections) or any(is_star(node) for node in leaf.projections):
        raise NotProvable("a part of the UNION hides its columns behind a *: name all columns")
    return leaf.projections[place]


def _named(leaf: Scope, name: str) -> exp.Expr | None:
    """The projection that gives a column; None when it comes out of a `*`."""
    found, star = projection_named(leaf, name)
    if len(found) > 1:
        raise NotProvable(f"it gives two columns the name '{name}'", line=line_in(found[1]))
    if not found and not star:
        raise NotProvable(f"it has no column '{name}'")
    return found[0] if found else None


def _out_of_star(scope: Scope, name: str) -> exp.Column:
    stars = [node for node in scope.projections if is_star(node)]
    held = [_of_star(scope, node) for node in stars]
    if len(held) > 1 or held[0] is None:
        raise NotProvable(f"'{name}' comes out of a * over several tables: name the column in the SELECT")
    inner = stars[0].this if isinstance(stars[0], exp.Column) else stars[0]
    if any(inner.args.get(word) for word in ("replace", "rename")):
        raise NotProvable(f"'{name}' comes out of a * that changes columns: name the column in the SELECT")
    if name.lower() in (column.name.lower() for column in inner.args.get("except_") or ()):
        raise NotProvable(f"it has no column '{name}'")
    return exp.column(name, table=held[0].alias or None, quoted=True)


def _of_star(scope: Scope, star: exp.Expr) -> Source | None:
    if isinstance(star, exp.Column):
        return qualified_source(scope, star)
    return scope.sources[0] if len(scope.sources) == 1 else None


def _check_key(scope: Scope, projection: exp.Expr, node: exp.Expr, name: str) -> None:
    line = line_in(projection)
    for inner in node.walk():
        if isinstance(inner, exp.Window):
            raise NotProvable(f"'{name}' is made by a window function", line=line)
        if is_aggregate(inner):
            raise NotProvable(f"'{name}' is an aggregate", line=line)
        if isinstance(inner, exp.UDTF | exp.Explode | exp.Inline | exp.Aliases):
            raise NotProvable(f"'{name}' is made by a generator", line=line)
    if isinstance(projection, exp.Aliases):
        raise NotProvable(f"'{name}' is made by a generator", line=line)
    earlier = itertools.takewhile(lambda each: each is not projection, scope.projections)
    aliases = {each.alias.lower(): each.this for each in earlier if isinstance(each, exp.Alias)}
    for column in node.find_all(exp.Column):
        first = parts(column)[0]
        if qualified_source(scope, column) is None and first in aliases:
            meant = aliases[first]
            if not (isinstance(meant, exp.Column) and meant.name.lower() == first):
                raise NotProvable(
                    f"'{name}' is made from '{first}', which is also the name of another result column", line=line
                )


def _check_windows(scope: Scope, keys: Sequence[_Key]) -> None:
    for window in scope.windows:
        partitions = {normalized_sql(scope, node) for node in window.args.get("partition_by") or ()}
        for key in keys:
            constant = next(key.node.find_all(exp.Column), None) is None
            if not constant and normalized_sql(scope, key.node) not in partitions:
                raise NotProvable(
                    f"a window function looks at rows of other keys: PARTITION BY lacks '{key.name}'",
                    line=line_in(window),
                )


def _joined(scope: Scope, span: SelectSpan) -> tuple[_Joined, ...]:
    """The sources in their order. Joins whose every row may be missing on either side are not followed."""
    clauses = scope.node.args.get("joins") or ()
    sources = [source for at, source in enumerate(scope.sources) if source.generator is None or at == 0]
    if not sources:
        raise NotProvable("it reads no table")
    if sources[0].generator is not None:
        raise NotProvable(f"it reads {sources[0].shown}, not a table", line=sources[0].line)
    kinds = [_join_kind(join, source) for join, source in zip(clauses, sources[1:], strict=False)]
    if not len(clauses) == len(span.joins) == len(sources) - 1:
        raise NotProvable("it joins tables in parentheses or laterally, which is not followed", line=sources[-1].line)
    spans = [JoinSpan(relation=span.origin, condition=range(0)), *span.joins]
    conditions = [None, *(join.args.get("on") for join in clauses)]
    return tuple(
        _Joined(kind=kind, source=source, relation=each.relation, condition=each.condition, on=on)
        for kind, source, each, on in zip(["FROM", *kinds], sources, spans, conditions, strict=True)
    )


def _join_kind(join: exp.Expr, source: Source) -> str:
    side, kind = join.args.get("side") or "", join.args.get("kind") or ""
    if isinstance(join.this, exp.Lateral):
        raise NotProvable("it joins a LATERAL query, which is not followed", clause="LATERAL", line=source.line)
    if join.args.get("method"):
        raise NotProvable(
            f"it joins {source.shown} by columns that it does not name", clause=join.args["method"], line=source.line
        )
    if side in ("RIGHT", "FULL"):
        hint = ": write it as a LEFT JOIN" if side == "RIGHT" else ""
        raise NotProvable(
            f"it joins {source.shown} in a way that keeps rows of it that fit nothing{hint}",
            clause=f"{side} JOIN",
            line=source.line,
        )
    condition = join.args.get("on")
    # The parser gives a JOIN without a condition the condition TRUE.
    if not join.args.get("using") and (condition is None or isinstance(condition, exp.Boolean)):
        raise NotProvable(
            f"it joins {source.shown} without a condition, so a row of it touches every key", line=source.line
        )
    if kind in ("SEMI", "ANTI"):
        return str(kind)
    if kind not in ("", "INNER", "OUTER"):
        raise NotProvable(f"it joins {source.shown} by {kind} JOIN, which is not followed", line=source.line)
    return "LEFT" if side == "LEFT" else "INNER"


def _parts(
    scope: Scope, span: SelectSpan, keys: tuple[_Key, ...], joined: tuple[_Joined, ...], *, where: bool
) -> _Parts:
    last = len(joined)
    read = [(key.node, last) for key in keys]
    read += [(each.on, at) for at, each in enumerate(joined) if each.on is not None]
    read += [(lateral.this, last) for lateral in scope.node.args.get("laterals") or ()]
    if where and scope.node.args.get("where") is not None:
        read.append((scope.node.args["where"].this, last))
    # Which table a column belongs to matters only where one can be missing, or is asked for some columns alone.
    if any(each.may_be_nothing or not _is_plain(each.source) for each in joined):
        for column in (column for node, _ in read for column in node.find_all(exp.Column)):
            if _source_of(scope, joined, column) is None:
                name = parts(column)[0]
                raise NotProvable(
                    f"it is not plain which table '{name}' belongs to: write table.{name}", line=line_in(column)
                )
        _check_using(scope, joined)
    return _Parts(
        scope=scope,
        keys=keys,
        joined=joined,
        laterals=span.laterals,
        where=span.where if where else range(0),
        read=tuple(read),
    )


def _check_using(scope: Scope, joined: Sequence[_Joined]) -> None:
    """A column of USING is the first table's: only then it is never null, and no query between has to give it."""
    for at, join in enumerate(scope.node.args.get("joins") or (), start=1):
        for column in join.args.get("using") or ():
            if at > 1 and column.name.lower() not in _first_using(scope):
                raise NotProvable(
                    f"it is not plain which table '{column.name}' of USING belongs to: write ON",
                    clause="USING",
                    line=line_in(column),
                )
            for each in (joined[0], joined[at]):
                if not _is_plain(each.source):
                    raise NotProvable(
                        f"it joins {each.source.shown} by USING, with a query between: write ON",
                        clause="USING",
                        line=line_in(column),
                    )


def _first_using(scope: Scope) -> set[str]:
    joins = scope.node.args.get("joins") or ()
    return {column.name.lower() for column in joins[0].args.get("using") or ()} if joins else set()


def _source_of(scope: Scope, joined: Sequence[_Joined], column: exp.Column) -> Source | None:
    """The source of a column, None where the text does not tell."""
    source = qualified_source(scope, column)
    if source is not None:
        return source
    name = parts(column)[0]
    for each in scope.sources:
        if each.generator is not None and name in (known.lower() for known in each.columns or ()):
            return each
    if len(joined) == 1 or name in _first_using(scope):
        return joined[0].source
    return None


def _is_plain(source: Source) -> bool:
    """Whether it is a table, or made from one row by row: what is true of some rows of it is true of these alone."""
    return source.scope is None or row_by_row(source.scope)


def _holds(source: Source, table: TableName) -> bool:
    return source.table == table or (source.scope is not None and count_reads(source.scope, table) > 0)
