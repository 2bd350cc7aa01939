"""The values of an analysed statement: what each scope sees, and which source a column belongs to.

`sqlglot.optimizer.scope` is not used: it knows neither the clause of a column, nor that an outer join may replace rows
by NULLs, nor that a semi join only checks a source. And `qualify`, which its column attribution rests on, rewrites the
tree and needs the schema of every table; these values keep the author's text and work without schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from lakesmith.declare import TableName
from lakesmith.sqlproof.functions import AGGREGATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A table of the lake at one place of the text."""

    table: TableName
    start: int
    end: int
    line: int
    aliased: bool


class Fault(Exception):
    """An error in a statement, at a line of its own text."""

    def __init__(
        self, code: str, what: str, line: int, hint: str | None = None, *, unlayered: str | None = None
    ) -> None:
        super().__init__(what)
        self.code, self.what, self.line, self.hint = code, what, line, hint
        self.unlayered = unlayered
        """The table's name when it was written without a layer."""


class NotProvable(Exception):
    """The reason why something cannot be proved, at a line of the statement's own text."""

    def __init__(self, text: str, *, line: int | None = None, clause: str | None = None) -> None:
        super().__init__(text)
        self.text, self.line, self.clause = text, line, clause

    def describe(self, first_line: int) -> str:
        line = None if self.line is None else f"line {self.line + first_line - 1}"
        detail = ", ".join(part for part in (self.clause, line) if part)
        return f"{self.text} ({detail})" if detail else self.text


@dataclass(slots=True, kw_only=True, eq=False)
class Source:
    """One thing that a FROM clause names."""

    alias: str
    shown: str
    """Its name in messages."""
    holder: Scope
    """The scope whose FROM clause this is."""
    line: int | None = None
    table: TableName | None = None
    scope: Scope | None = None
    """For a CTE or a subquery, what is inside."""
    columns: tuple[str, ...] | None = None
    """The columns where the statement itself names them all."""
    generator: exp.Expr | None = None
    """The expression of a LATERAL VIEW."""
    aliased: bool = False
    pivoted: bool = False
    null_extended: bool = False
    """An outer join may replace its rows by NULLs."""
    hidden: bool = False
    """A semi or anti join reads it only to filter."""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column in one clause of a scope."""

    node: exp.Column
    clause: str


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """One SELECT, or one UNION of them, and the names that can be seen from it."""

    number: int
    node: exp.Expr
    parent: Scope | None
    sources: list[Source] = field(default_factory=list)
    branches: list[Scope] = field(default_factory=list)
    """The sides of a UNION, INTERSECT or EXCEPT."""
    nested: list[Scope] = field(default_factory=list)
    """Subqueries inside expressions."""
    uses: list[ColumnUse] = field(default_factory=list)
    using: list[exp.Identifier] = field(default_factory=list)
    """Columns of JOIN … USING."""
    windows: list[exp.Window] = field(default_factory=list)
    aggregates: bool = False
    row_limit: str | None = None
    """`LIMIT` or `OFFSET`, when there is one."""
    recursive: bool = False
    renamed: tuple[str, ...] = ()
    """The column names that a CTE lists: WITH name (a, b) AS …."""

    @property
    def projections(self) -> Sequence[exp.Expr]:
        return self.node.expressions if isinstance(self.node, exp.Select) else ()

    @property
    def main_sources(self) -> list[Source]:
        """The sources without the generators that follow the first one."""
        return [source for at, source in enumerate(self.sources) if source.generator is None or at == 0]

    def outward(self) -> Iterator[Scope]:
        """Yield this scope and the scopes around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def named(self, alias: str) -> Source | None:
        return next((source for source in self.sources if source.alias == alias), None)

    def unaliased(self, table: str) -> Source | None:
        """Return the source that is this table, if it has no alias."""
        return next((each for each in self.sources if not each.aliased and str(each.table) == table), None)


def column_parts(column: exp.Column) -> list[str]:
    """Return the identifiers of a column reference, in lower case."""
    return [part.name.lower() if isinstance(part, exp.Identifier) else "*" for part in column.parts]


def qualified_source(scope: Scope, column: exp.Column) -> Source | None:
    """Return the source that a column names by its alias or by `layer.table`, in this scope only."""
    return _qualified(scope, column_parts(column))[0]


def column_and_fields(scope: Scope, column: exp.Column) -> list[str]:
    """Return a column's name and the struct fields after it, without the source before it."""
    written = column_parts(column)
    return written[_qualified(scope, written)[1] :]


def _qualified(scope: Scope, written: Sequence[str]) -> tuple[Source | None, int]:
    """Return the source that the first identifiers name, and how many of them do."""
    source = scope.unaliased(".".join(written[:2])) if len(written) > 2 else None
    if source is not None:
        return source, 2
    source = scope.named(written[0]) if len(written) > 1 else None
    return source, 0 if source is None else 1


def is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is an aggregate."""
    if isinstance(node, exp.AggFunc):
        return True
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.Binary)
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in AGGREGATES
    return isinstance(node, exp.Func) and any(name.lower() in AGGREGATES for name in node.sql_names())


def line_in(node: exp.Expr) -> int | None:
    for found in node.find_all(exp.Identifier, exp.Star):
        line = found.meta.get("line")
        if line is not None:
            return int(line)
    line = node.meta.get("line")
    return None if line is None else int(line)
