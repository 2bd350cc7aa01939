"""Finds the clauses of a query in its text, so that a part of it can run exactly as the author wrote it.

This is done by hand, on tokens, because SQL generated from sqlglot's tree may differ in small ways (`a DIV b` becomes a
division and a cast), and a key computed in another way may be another key. All spans are ranges over the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import Parser, Token, TokenType

from lakesmith.sqlproof.scopes import NotProvable

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_JOIN_WORDS = Parser.JOIN_METHODS | Parser.JOIN_SIDES | Parser.JOIN_KINDS
_AFTER_WHERE = (
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.QUALIFY,
    TokenType.WINDOW,
    TokenType.ORDER_BY,
    TokenType.SORT_BY,
    TokenType.CLUSTER_BY,
    TokenType.DISTRIBUTE_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
    TokenType.SEMICOLON,
)


class UnsupportedLayout(NotProvable):
    """The layout of the text is not supported here."""

    def __init__(self) -> None:
        super().__init__("the layout of its text is not supported")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpan:
    """One JOIN, without the keywords of its kind."""

    relation: range
    condition: range
    """ON or USING with what follows; empty when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSpan:
    """One SELECT up to and including its WHERE."""

    items: tuple[range, ...]
    origin: range
    """The first relation of FROM."""
    joins: tuple[JoinSpan, ...]
    laterals: range
    """The LATERAL VIEW clauses."""
    where: range
    """The condition, without the keyword."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpan:
    """A query: its WITH clause, and its SELECTs in the order in which set operators combine them."""

    head: range
    ctes: Mapping[str, range]
    selects: tuple[SelectSpan, ...]


def split_clauses(tokens: Sequence[Token], span: range) -> QuerySpan:
    """Return the clauses of a query. Raise `UnsupportedLayout` where it is not a plain query."""
    span = _unwrapped(tokens, span)
    body = span
    if span and tokens[span.start].token_type == TokenType.WITH:
        first = next((at for at in _outside(tokens, span) if tokens[at].token_type == TokenType.SELECT), None)
        if first is None:
            raise UnsupportedLayout
        body = range(first, span.stop)
    head = range(span.start, body.start)
    return QuerySpan(head=head, ctes=dict(_ctes(tokens, head)), selects=tuple(_selects(tokens, body)))


def text_of(text: str, tokens: Sequence[Token], span: range, instead: Mapping[int, tuple[int, str]]) -> str:
    """Return the text of a span without comments and line breaks. `instead` maps a start offset to an end offset and
    the replacement of the text between them."""
    pieces: list[str] = []
    end = skipped = -1
    for at in span:
        token = tokens[at]
        if token.start < skipped:
            end = token.end
            continue
        gap = " " if pieces and end + 1 < token.start else ""
        skipped, words = instead.get(token.start, (-1, text[token.start : token.end + 1]))
        pieces.append(gap + words)
        end = token.end
    return "".join(pieces)


def _selects(tokens: Sequence[Token], span: range) -> Iterator[SelectSpan]:
    start = span.start
    cuts = list(_set_operators(tokens, span))
    for row_limit in (*cuts, span.stop):
        inner = _unwrapped(tokens, range(start, row_limit))
        if any(_set_operators(tokens, inner)):
            yield from _selects(tokens, inner)
        else:
            yield _select(tokens, inner)
        start = row_limit + 1
        while start < span.stop and tokens[start].token_type in (TokenType.ALL, TokenType.DISTINCT):
            start += 1


def _set_operators(tokens: Sequence[Token], span: range) -> Iterator[int]:
    for at in _outside(tokens, span):
        is_of_star = tokens[at].token_type == TokenType.EXCEPT and tokens[at - 1].token_type == TokenType.STAR
        if tokens[at].token_type in Parser.SET_OPERATIONS and not is_of_star:
            yield at


def _select(tokens: Sequence[Token], span: range) -> SelectSpan:
    if not span or tokens[span.start].token_type != TokenType.SELECT:
        raise UnsupportedLayout
    outside = list(_outside(tokens, span))
    start = span.start + 1
    while start < span.stop and tokens[start].token_type in (TokenType.HINT, TokenType.DISTINCT, TokenType.ALL):
        start += 1

    def first(*kinds: TokenType, after: int) -> int:
        """Return the start of the next such clause; the FROM of IS DISTINCT FROM does not count."""
        return next(
            (
                at
                for at in outside
                if at >= after
                and tokens[at].token_type in kinds
                and not (kinds == (TokenType.FROM,) and tokens[at - 1].token_type == TokenType.DISTINCT)
            ),
            span.stop,
        )

    origin = first(TokenType.FROM, after=start)
    end = first(*_AFTER_WHERE, after=origin)
    where = min(first(TokenType.WHERE, after=origin), end)
    lateral = min(first(TokenType.LATERAL, after=origin), where)
    joins = _joins(tokens, [at for at in outside if origin < at < lateral], lateral)
    return SelectSpan(
        items=tuple(_between_commas(tokens, range(start, origin))),
        origin=range(origin + 1, joins[0][0] if joins else lateral),
        joins=tuple(join for _, join in joins),
        laterals=range(lateral, where),
        where=range(min(where + 1, end), end),
    )


def _joins(tokens: Sequence[Token], outside: Sequence[int], end: int) -> list[tuple[int, JoinSpan]]:
    """Return each JOIN with the position of its first keyword."""
    places = []
    for at in outside:
        if tokens[at].token_type == TokenType.JOIN:
            begins = at
            while tokens[begins - 1].token_type in _JOIN_WORDS:
                begins -= 1
            places.append((begins, at + 1))
    found = []
    stops = [*(begins for begins, _ in places[1:]), end]
    for (begins, relation), stop in zip(places, stops, strict=False):
        condition = next(
            (at for at in outside if relation < at < stop and tokens[at].token_type in (TokenType.ON, TokenType.USING)),
            stop,
        )
        found.append((begins, JoinSpan(relation=range(relation, condition), condition=range(condition, stop))))
    return found


def _ctes(tokens: Sequence[Token], head: range) -> Iterator[tuple[str, range]]:
    outside = list(_outside(tokens, head))
    for at in outside:
        opens = at + 1
        if tokens[at].token_type != TokenType.ALIAS or tokens[opens].token_type != TokenType.L_PAREN:
            continue
        name = at - 1
        if tokens[name].token_type == TokenType.R_PAREN:
            name = max(before for before in outside if before < _matching(tokens, name))
        yield tokens[name].text.lower(), range(opens + 1, _matching(tokens, opens))


def _unwrapped(tokens: Sequence[Token], span: range) -> range:
    """Return the span without final semicolons and enclosing parentheses."""
    while span and tokens[span.stop - 1].token_type == TokenType.SEMICOLON:
        span = span[:-1]
    while (
        span and tokens[span.start].token_type == TokenType.L_PAREN and _matching(tokens, span.start) == span.stop - 1
    ):
        span = span[1:-1]
    return span


def inside(tokens: Sequence[Token], span: range) -> range:
    """Return the content of the parentheses at the start of a span."""
    if not span or tokens[span.start].token_type != TokenType.L_PAREN:
        raise UnsupportedLayout
    return range(span.start + 1, _matching(tokens, span.start))


def _matching(tokens: Sequence[Token], bracket: int) -> int:
    """Return the position of the other bracket of a pair."""
    depth = 0
    forward = tokens[bracket].token_type in _OPENING
    for at in range(bracket, len(tokens)) if forward else range(bracket, -1, -1):
        depth += (tokens[at].token_type in _OPENING) - (tokens[at].token_type in _CLOSING)
        if depth == 0:
            return at
    raise UnsupportedLayout


def _outside(tokens: Sequence[Token], span: range) -> Iterator[int]:
    """Yield the positions of the span that are in no parentheses."""
    depth = 0
    for at in span:
        depth -= tokens[at].token_type in _CLOSING
        if depth == 0:
            yield at
        depth += tokens[at].token_type in _OPENING


def _between_commas(tokens: Sequence[Token], span: range) -> Iterator[range]:
    start = span.start
    for at in _outside(tokens, span):
        if tokens[at].token_type == TokenType.COMMA:
            yield range(start, at)
            start = at + 1
    yield range(start, span.stop)
