"""Checks: rules on each row, or on the batch as a whole.

The rules are the models of their written keys too: their annotations hold the form and the meaning of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from lakesmith.declare.forms import Amount, AnyValue, ColumnName, Duration, Share, TableReference, Text, Type
from lakesmith.errors import Place

Severity = Literal["warn", "quarantine", "fail"]
Season = Literal["hour", "weekday", "none"]
_COLUMN = "The column that is checked."
_LEAST = "The minimum, inclusive."
_MOST = "The maximum, inclusive."


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
    """No two rows have the same values in these columns. Rows with NULL in one of them are not compared."""

    SHORT: ClassVar[str] = "columns"
    columns: Annotated[tuple[ColumnName, ...], "The columns that are unique together."]
    within: Annotated[Literal["batch", "table"], "`table` also compares with stored rows; `batch` by default."] = (
        "batch"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """The value is in a list."""

    column: Annotated[ColumnName, _COLUMN]
    values: Annotated[tuple[AnyValue, ...], "The accepted values."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The value is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[AnyValue | None, "The minimum, inclusive: a number, a day or a time."] = None
    max: Annotated[AnyValue | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A regular expression matches somewhere in the value."""

    column: Annotated[ColumnName, _COLUMN]
    matches: Annotated[Text, "A Java regular expression; use `^` and `$` to match the whole text."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """The length of the text in characters is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The values exist in another table, at the version that the batch was pinned with."""

    columns: Annotated[tuple[ColumnName, ...], "The columns that refer to the other table."]
    table: Annotated[TableReference, "The referenced table, layer.table."]
    key: Annotated[tuple[ColumnName, ...], "The referenced columns; the same names by default."] = ()


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

    column: Annotated[ColumnName, _COLUMN]
    within: Annotated[Duration, "The maximum age of the newest value when the batch is pinned, such as `2h`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """The number of rows of the batch, or its deviation from earlier batches."""

    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None
    change: Annotated[Share | None, "The maximum deviation from the mean of earlier batches, such as `50%`."] = None
    last: Annotated[int, "How many earlier batches are compared; 7 by default."] = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRate:
    """At most this share of the rows is NULL."""

    column: Annotated[ColumnName, _COLUMN]
    max: Annotated[Share, "The maximum share of NULL, such as `5%`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """The number of distinct values."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None
    exact: Annotated[bool, "Count exactly, which needs a shuffle; otherwise within 2%."] = False


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
    """A total of the batch equals the total of the input rows that it was built from."""

    table: Annotated[TableReference, "The input, layer.table."]
    own: Annotated[Text, "SQL: an aggregate of the batch, such as `sum(amount)`."]
    theirs: Annotated[Text, "SQL: the aggregate of the input; the same by default."] = ""
    tolerance: Annotated[Share | None, "The maximum difference, such as `1%`."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The distribution of values is like that of earlier good batches."""

    SHORT: ClassVar[str] = "column"
    column: Annotated[ColumnName, _COLUMN]
    method: Annotated[
        Literal["psi", "ks"], "`psi`, the population stability index, or `ks`, Kolmogorov and Smirnov's."
    ] = "psi"
    max: Annotated[Amount, "The maximum distance; 0.2 by default."] = Decimal("0.2")
    last: Annotated[int, "How many earlier good batches are compared; 10 by default."] = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """An aggregate is close to what its history predicts."""

    SHORT: ClassVar[str] = "of"
    of: Annotated[Text, "SQL: the monitored aggregate; `count(*)` by default."] = "count(*)"
    season: Annotated[
        Season, "Batches of the same `hour`, the same `weekday` or all (`none`) are compared; `weekday`."
    ] = "weekday"
    deviations: Annotated[Amount, "The maximum deviation, in multiples of the usual spread; 4 by default."] = 4
    last: Annotated[int, "How many earlier good batches are compared; 60 by default."] = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIs:
    """The rows have these columns."""

    columns: Annotated[tuple[ColumnName, ...], "Required columns."] = ()
    types: Annotated[Mapping[ColumnName, Type], "By column, its required type."] = field(default_factory=dict)
    exact: Annotated[bool, "No other columns, and in this order."] = False


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
