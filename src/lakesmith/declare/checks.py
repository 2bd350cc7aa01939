"""Checks: rules on each row, or on the batch as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from lakesmith.declare.names import TableName
from lakesmith.errors import Place

Severity = Literal["warn", "quarantine", "fail"]
Value = str | int | Decimal | bool
"""A value as written; a text may be a date or a time."""
Season = Literal["hour", "weekday", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSql:
    """A condition on one row: rows for which it is false fail. As in SQL, unknown (NULL) is not false."""

    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """None of the columns is NULL."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """No two rows have the same values in the columns. Rows with NULL in one of them are not compared."""

    columns: tuple[str, ...]
    within: Literal["batch", "table"] = "batch"
    """`table` also compares with stored rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """The value is in the list."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The value is within a range, bounds included."""

    column: str
    min: Value | None = None
    max: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A regular expression matches somewhere in the value."""

    column: str
    matches: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """The length of the text in characters is within a range."""

    column: str
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The values exist in another table, at the version that the batch was pinned with."""

    columns: tuple[str, ...]
    table: TableName
    key: tuple[str, ...]
    """The referenced columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A Python function returns the condition: it receives the rows and returns a Column."""

    function: str
    """`module.function`, with the module in the lake's folder."""
    folder: str = field(default="", compare=False)
    """The lake's folder, absolute."""
    text: str = ""
    """A hash of the module: changing the module changes the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSql:
    """A condition on aggregates of the batch, such as `count(*) > 0`."""

    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The newest value of a time column is recent enough."""

    column: str
    within: float
    """The maximum age in seconds at the time when the batch was pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """The number of rows of the batch, or its deviation from earlier batches."""

    min: int | None = None
    max: int | None = None
    change: float | None = None
    """The maximum deviation from the mean of earlier good batches."""
    last: int = 7
    """How many earlier batches are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRate:
    """At most this share of the rows is NULL."""

    column: str
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """The number of distinct values."""

    column: str
    min: int | None = None
    max: int | None = None
    exact: bool = False
    """Count exactly, which needs a shuffle; otherwise within 2%, in the pass that writes the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A sum, a mean or a quantile of a column is within a range."""

    of: Literal["sum", "mean", "quantile"]
    column: str
    at: Decimal | None = None
    """The quantile: 0.5 is the median."""
    min: int | Decimal | None = None
    max: int | Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcile:
    """An aggregate of the batch equals that of the input rows that it was built from."""

    table: TableName
    """The input table."""
    own: str
    """SQL: the aggregate of the batch."""
    theirs: str
    """SQL: the aggregate of the input."""
    tolerance: float | None = None
    """The maximum relative difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The distribution of a column's values is like that of earlier good batches."""

    column: str
    method: Literal["psi", "ks"] = "psi"
    max: Decimal = Decimal("0.2")
    last: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """An aggregate is close to what its history, at this hour or on this weekday, predicts."""

    of: str = "count(*)"
    season: Season = "weekday"
    deviations: Decimal = Decimal(4)
    """The maximum deviation from the median, in multiples of the usual spread."""
    last: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIs:
    """The rows have these columns."""

    columns: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    exact: bool = False
    """No other columns, and in this order."""


RowRule = RowSql | Required | Unique | In | Range | Pattern | Length | References | Predicate
BatchRule = BatchSql | Freshness | RowCount | NullRate | Distinct | Bounds | Reconcile | Drift | Anomaly | SchemaIs
CheckRule = RowRule | BatchRule


@dataclass(frozen=True, slots=True)
class Limit:
    """A tolerated share or number of failed rows."""

    share: float | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A rule with a severity."""

    name: str
    rule: CheckRule
    on_fail: Severity
    where: str | None = None
    """SQL: only these rows are checked."""
    fail_above: Limit | None = None
    """The batch is rejected when more rows fail the check."""
    owner: str | None = None
    """Who is notified."""
    description: str | None = None
    """Shown with failures of the check."""
    declared_at: Place = field(compare=False)

    @property
    def row_rule(self) -> RowRule | None:
        return self.rule if isinstance(self.rule, RowRule) else None

    @property
    def batch_rule(self) -> BatchRule | None:
        return self.rule if isinstance(self.rule, BatchRule) else None


def columns_named(rule: CheckRule) -> tuple[str, ...]:
    """Return the columns that a rule names outside of SQL."""
    match rule:
        case Required() | Unique() | References() | SchemaIs():
            return rule.columns
        case In() | Range() | Pattern() | Length() | Freshness() | NullRate() | Distinct() | Bounds() | Drift():
            return (rule.column,)
        case _:
            return ()


def sql_named(rule: CheckRule) -> tuple[str, ...]:
    """Return the SQL conditions and aggregates of a rule over the table's own columns."""
    match rule:
        case RowSql() | BatchSql():
            return (rule.condition,)
        case Reconcile():
            return (rule.own,)
        case Anomaly():
            return (rule.of,)
        case _:
            return ()
