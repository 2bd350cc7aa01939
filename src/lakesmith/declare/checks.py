"""What a check asks: of each row, or of the batch as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from lakesmith.declare.names import TableName
from lakesmith.errors import Place

Severity = Literal["warn", "quarantine", "fail"]
Value = str | int | Decimal | bool
"""A value as it is written; a text may stand for a day or a time."""
Season = Literal["hour", "weekday", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSql:
    """A condition on one row: rows for which it is false have failed. As in SQL, unknown (NULL) is not false."""

    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """A row has a value in each of the columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """No two rows have the same values in the columns. Rows without a value in one of them are not compared."""

    columns: tuple[str, ...]
    within: Literal["batch", "table"] = "batch"
    """`table` also compares with the rows that are there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """The value is one of these."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The value lies between two others, which belong to the range."""

    column: str
    min: Value | None = None
    max: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A regular expression is found in the value."""

    column: str
    matches: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """The text has so many characters."""

    column: str
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The values are those of a row of another table, as it was when the batch was pinned."""

    columns: tuple[str, ...]
    table: TableName
    key: tuple[str, ...]
    """The columns of the other table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A Python function makes the condition: it gets the rows and returns a Column."""

    function: str
    """`module.function`, the module being one of the lake's folder."""
    folder: str = field(default="", compare=False)
    """The lake's folder, absolute."""
    text: str = ""
    """A hash of the module: a change of it is a change of the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSql:
    """A condition on aggregates of the batch, such as `count(*) > 0`."""

    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The newest value of a column of times is not older than this."""

    column: str
    within: float
    """Seconds before the moment in which the batch was pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """How many rows the batch brings, or how much it differs from the batches before."""

    min: int | None = None
    max: int | None = None
    change: float | None = None
    """The greatest part by which it may differ from the mean of the good batches before."""
    last: int = 7
    """How many batches before are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRate:
    """At most such a part of the rows has no value."""

    column: str
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """How many different values there are."""

    column: str
    min: int | None = None
    max: int | None = None
    exact: bool = False
    """Counted one by one, which shuffles; else within 2 per cent, in the pass that moves the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A sum, a mean or a quantile of a column lies between two numbers."""

    of: Literal["sum", "mean", "quantile"]
    column: str
    at: Decimal | None = None
    """For a quantile, which: 0.5 is the median."""
    min: int | Decimal | None = None
    max: int | Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcile:
    """An aggregate of the rows that came is that of the input rows which they were made from."""

    table: TableName
    """The input."""
    own: str
    """SQL: the aggregate of the batch."""
    theirs: str
    """SQL: the aggregate of the input."""
    tolerance: float | None = None
    """The greatest part by which they may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The values of a column are spread as they were in the good batches before."""

    column: str
    method: Literal["psi", "ks"] = "psi"
    max: Decimal = Decimal("0.2")
    last: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """An aggregate is what its history, at this hour or on this weekday, makes one expect."""

    of: str = "count(*)"
    season: Season = "weekday"
    deviations: Decimal = Decimal(4)
    """How many times the usual spread it may be away from the middle."""
    last: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIs:
    """The rows have these columns."""

    columns: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    exact: bool = False
    """And no other, in this order."""


RowRule = RowSql | Required | Unique | In | Range | Pattern | Length | References | Predicate
BatchRule = BatchSql | Freshness | RowCount | NullRate | Distinct | Bounds | Reconcile | Drift | Anomaly | SchemaIs
CheckRule = RowRule | BatchRule


@dataclass(frozen=True, slots=True)
class Limit:
    """How much is tolerated: a part of the rows, or a number of them."""

    share: float | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A rule with a severity."""

    name: str
    rule: CheckRule
    on_fail: Severity
    where: str | None = None
    """SQL: only these rows are looked at."""
    fail_above: Limit | None = None
    """The batch is refused when more rows break the rule."""
    owner: str | None = None
    """Who is told."""
    description: str | None = None
    """Shown to whoever meets the failure."""
    declared_at: Place = field(compare=False)

    @property
    def row_rule(self) -> RowRule | None:
        return self.rule if isinstance(self.rule, RowRule) else None

    @property
    def batch_rule(self) -> BatchRule | None:
        return self.rule if isinstance(self.rule, BatchRule) else None


def columns_named(rule: CheckRule) -> tuple[str, ...]:
    """The columns of the table that a rule names, apart from those in SQL."""
    match rule:
        case Required() | Unique() | References() | SchemaIs():
            return rule.columns
        case In() | Range() | Pattern() | Length() | Freshness() | NullRate() | Distinct() | Bounds() | Drift():
            return (rule.column,)
        case _:
            return ()


def sql_named(rule: CheckRule) -> tuple[str, ...]:
    """The conditions and aggregates over the table's columns that a rule holds as SQL."""
    match rule:
        case RowSql() | BatchSql():
            return (rule.condition,)
        case Reconcile():
            return (rule.own,)
        case Anomaly():
            return (rule.of,)
        case _:
            return ()
