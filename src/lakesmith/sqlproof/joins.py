"""The sources of a FROM clause with the kind of each join. Raises for joins that key finders do not support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.proof import count_reads, row_by_row
from lakesmith.sqlproof.scopes import NotProvable, Scope, Source, column_parts, line_in, qualified_source
from lakesmith.sqlproof.spans import JoinSpan, SelectSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSource:
    """A source of the FROM clause with the kind of its join to earlier sources."""

    kind: str
    """FROM, INNER, LEFT, SEMI or ANTI."""
    source: Source
    relation: range
    condition: range
    on: exp.Expr | None

    @property
    def may_be_unmatched(self) -> bool:
        return self.kind in ("LEFT", "ANTI")


def joined_sources(scope: Scope, span: SelectSpan) -> tuple[JoinedSource, ...]:
    """Return the sources in order. Joins in which both sides may lack a row are not supported."""
    clauses = scope.node.args.get("joins") or ()
    sources = scope.main_sources
    if not sources:
        raise NotProvable("it reads no table")
    if sources[0].generator is not None:
        raise NotProvable(f"it reads {sources[0].shown}, not a table", line=sources[0].line)
    kinds = [_join_kind(join, source) for join, source in zip(clauses, sources[1:], strict=False)]
    if not len(clauses) == len(span.joins) == len(sources) - 1:
        raise NotProvable("it joins tables in parentheses or laterally, which is not supported", line=sources[-1].line)
    spans = [JoinSpan(relation=span.origin, condition=range(0)), *span.joins]
    conditions = [None, *(join.args.get("on") for join in clauses)]
    return tuple(
        JoinedSource(kind=kind, source=source, relation=each.relation, condition=each.condition, on=on)
        for kind, source, each, on in zip(["FROM", *kinds], sources, spans, conditions, strict=True)
    )


def _join_kind(join: exp.Expr, source: Source) -> str:
    side, kind = join.args.get("side") or "", join.args.get("kind") or ""
    if isinstance(join.this, exp.Lateral):
        raise NotProvable("it joins a LATERAL query, which is not supported", clause="LATERAL", line=source.line)
    if join.args.get("method"):
        raise NotProvable(f"it joins {source.shown} by implicit columns", clause=join.args["method"], line=source.line)
    if side in ("RIGHT", "FULL"):
        hint = ": write it as a LEFT JOIN" if side == "RIGHT" else ""
        raise NotProvable(
            f"its join keeps unmatched rows of {source.shown}{hint}",
            clause=f"{side} JOIN",
            line=source.line,
        )
    condition = join.args.get("on")
    # The parser gives a JOIN without a condition the condition TRUE.
    if not join.args.get("using") and (condition is None or isinstance(condition, exp.Boolean)):
        raise NotProvable(
            f"it joins {source.shown} without a condition, so each of its rows touches every key", line=source.line
        )
    if kind in ("SEMI", "ANTI"):
        return str(kind)
    if kind not in ("", "INNER", "OUTER"):
        raise NotProvable(f"it joins {source.shown} by {kind} JOIN, which is not supported", line=source.line)
    return "LEFT" if side == "LEFT" else "INNER"


def check_using(scope: Scope, joined: Sequence[JoinedSource]) -> None:
    """Raise where a column of USING is not the first table's, so that it may be NULL, or comes from a subquery."""
    for at, join in enumerate(scope.node.args.get("joins") or (), start=1):
        for column in join.args.get("using") or ():
            if at > 1 and column.name.lower() not in _first_using(scope):
                raise NotProvable(
                    f"the table of '{column.name}' in USING is ambiguous: write ON",
                    clause="USING",
                    line=line_in(column),
                )
            for each in (joined[0], joined[at]):
                if not is_row_by_row(each.source):
                    raise NotProvable(
                        f"it joins {each.source.shown} by USING, and that is a subquery: write ON",
                        clause="USING",
                        line=line_in(column),
                    )


def _first_using(scope: Scope) -> set[str]:
    joins = scope.node.args.get("joins") or ()
    return {column.name.lower() for column in joins[0].args.get("using") or ()} if joins else set()


def source_of_column(scope: Scope, joined: Sequence[JoinedSource], column: exp.Column) -> Source | None:
    """Return the source of a column, or None where it is ambiguous."""
    source = qualified_source(scope, column)
    if source is not None:
        return source
    name = column_parts(column)[0]
    for each in scope.sources:
        if each.generator is not None and name in (known.lower() for known in each.columns or ()):
            return each
    if len(joined) == 1 or name in _first_using(scope):
        return joined[0].source
    return None


def is_row_by_row(source: Source) -> bool:
    """Whether it is a table, or derives from one row by row: reading some of its rows then gives the same rows."""
    return source.scope is None or row_by_row(source.scope)


def reads_table(source: Source, table: TableName) -> bool:
    return source.table == table or (source.scope is not None and count_reads(source.scope, table) > 0)
