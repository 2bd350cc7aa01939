"""The models of the blocks `checks`, `contract` and `quarantine`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from lakesmith.declare.checks import Limit, Season, Severity, Value
from lakesmith.declare.contract import Compatibility, Contract, Reaction
from lakesmith.load.field_types import Block
from lakesmith.load.rules import (
    AMOUNT,
    LIMIT,
    VALUE,
    ColumnName,
    Day,
    Duration,
    LowName,
    Share,
    TableReference,
    Text,
    Type,
    VersionText,
)

_Value = Annotated[Value, VALUE]
_Amount = Annotated[float, AMOUNT]
_COLUMN = "The column that is checked."
_LEAST = "The minimum, inclusive."
_MOST = "The maximum, inclusive."


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueBlock(Block):
    """No two rows have the same values in these columns."""

    SHORT: ClassVar[str | None] = "columns"

    columns: Annotated[tuple[ColumnName, ...], "The columns that are unique together."]
    within: Annotated[
        Literal["batch", "table"] | None, "`table` also compares with stored rows; `batch` by default."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InBlock(Block):
    """The value is in a list."""

    column: Annotated[ColumnName, _COLUMN]
    values: Annotated[tuple[_Value, ...], "The accepted values."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBlock(Block):
    """The value is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[_Value | None, "The minimum, inclusive: a number, a day or a time."] = None
    max: Annotated[_Value | None, "The maximum, inclusive."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternBlock(Block):
    """A regular expression matches somewhere in the value."""

    column: Annotated[ColumnName, _COLUMN]
    matches: Annotated[Text, "A Java regular expression; use `^` and `$` to match the whole text."]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBlock(Block):
    """The length of the text in characters is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencesBlock(Block):
    """The values exist in another table."""

    columns: Annotated[tuple[ColumnName, ...], "The columns that refer to the other table."]
    table: Annotated[TableReference, "The referenced table, layer.table."]
    key: Annotated[tuple[ColumnName, ...], "The referenced columns; the same names by default."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessBlock(Block):
    """The newest value of a time column is recent enough."""

    column: Annotated[ColumnName, _COLUMN]
    within: Annotated[Duration, "The maximum age of the newest value, such as `2h`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCountBlock(Block):
    """The number of rows of the batch."""

    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None
    change: Annotated[Share | None, "The maximum deviation from the mean of earlier batches, such as `50%`."] = None
    last: Annotated[int | None, "How many earlier batches are compared; 7 by default."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRateBlock(Block):
    """The share of rows that may be NULL."""

    column: Annotated[ColumnName, _COLUMN]
    max: Annotated[Share, "The maximum share of NULL, such as `5%`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctBlock(Block):
    """The number of distinct values."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None
    exact: Annotated[bool, "Count exactly, which needs a shuffle; otherwise within 2%."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SumBlock(Block):
    """An aggregate of the batch is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[_Amount | None, _LEAST] = None
    max: Annotated[_Amount | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileBlock(Block):
    """A quantile of the batch is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    at_: Annotated[Share, "The quantile: `0.5` is the median."]
    min: Annotated[_Amount | None, _LEAST] = None
    max: Annotated[_Amount | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileBlock(Block):
    """A total of the batch equals the total of the input rows that it was built from."""

    table: Annotated[TableReference, "The input, layer.table."]
    own: Annotated[Text, "SQL: an aggregate of the batch, such as `sum(amount)`."]
    theirs: Annotated[Text | None, "SQL: the aggregate of the input; the same by default."] = None
    tolerance: Annotated[Share | None, "The maximum difference, such as `1%`."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftBlock(Block):
    """The distribution of values is like that of earlier good batches."""

    SHORT: ClassVar[str | None] = "column"

    column: Annotated[ColumnName, _COLUMN]
    method: Annotated[
        Literal["psi", "ks"] | None, "`psi`, the population stability index, or `ks`, Kolmogorov and Smirnov's."
    ] = None
    max: Annotated[_Amount | None, "The maximum distance; 0.2 by default."] = None
    last: Annotated[int | None, "How many earlier good batches are compared; 10 by default."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyBlock(Block):
    """An aggregate is close to what its history predicts."""

    SHORT: ClassVar[str | None] = "of"

    of: Annotated[Text | None, "SQL: the monitored aggregate; `count(*)` by default."] = None
    season: Annotated[
        Season | None, "Batches of the same `hour`, the same `weekday` or all (`none`) are compared; `weekday`."
    ] = None
    deviations: Annotated[_Amount | None, "The maximum deviation, in multiples of the usual spread; 4 by default."] = (
        None
    )
    last: Annotated[int | None, "How many earlier good batches are compared; 60 by default."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaBlock(Block):
    """The rows have these columns."""

    columns: Annotated[tuple[ColumnName, ...], "Required columns."] = ()
    types: Annotated[Mapping[ColumnName, Type], "By column, its required type."] = field(default_factory=dict)
    exact: Annotated[bool, "No other columns, and in this order."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckBlock(Block):
    """A rule with a severity; exactly one key is the rule."""

    where: Annotated[
        Text | None,
        "Alone, a condition on each row: rows for which it is false fail. "
        "With a rule, only rows for which it is true are checked.",
    ] = None
    sql: Annotated[Text | None, "A condition on each row; unknown (NULL) is not false."] = None
    expect: Annotated[Text | None, "A condition on aggregates of the batch, such as `count(*) > 0`."] = None
    required: Annotated[tuple[ColumnName, ...] | None, "Columns that must not be NULL."] = None
    unique: Annotated[UniqueBlock | None, "No two rows have the same values in these columns."] = None
    in_: Annotated[InBlock | None, "The value is in a list."] = None
    range: Annotated[RangeBlock | None, "The value is within a range."] = None
    pattern: Annotated[PatternBlock | None, "A regular expression matches somewhere in the value."] = None
    length: Annotated[LengthBlock | None, "The length of the text in characters is within a range."] = None
    references: Annotated[ReferencesBlock | None, "The values exist in another table."] = None
    python: Annotated[Text | None, "`module.function` in the lake's folder that returns a Column."] = None
    freshness: Annotated[FreshnessBlock | None, "The newest value of a time column is recent enough."] = None
    row_count: Annotated[
        RowCountBlock | None, "The number of rows of the batch, also compared with earlier batches."
    ] = None
    null_rate: Annotated[NullRateBlock | None, "The share of rows that may be NULL."] = None
    distinct: Annotated[DistinctBlock | None, "The number of distinct values."] = None
    sum: Annotated[SumBlock | None, "The sum of a column is within a range."] = None
    mean: Annotated[SumBlock | None, "The mean of a column is within a range."] = None
    quantile: Annotated[QuantileBlock | None, "A quantile of a column is within a range."] = None
    reconcile: Annotated[ReconcileBlock | None, "A total of the batch equals that of its input."] = None
    drift: Annotated[DriftBlock | None, "The distribution of values is like that of earlier good batches."] = None
    anomaly: Annotated[AnomalyBlock | None, "An aggregate is close to what its history predicts."] = None
    schema: Annotated[SchemaBlock | None, "The rows have these columns."] = None
    on_fail: Annotated[
        Severity | None,
        "`warn` reports, `quarantine` quarantines the row, `fail` rejects the batch. By default `quarantine` for rules "
        "on rows, `fail` for rules on the batch, `warn` for `drift` and `anomaly`.",
    ] = None
    fail_above: Annotated[
        Annotated[Limit, LIMIT] | None,
        "Rules on rows: more failed rows than this, such as `2%` or `100`, reject the batch.",
    ] = None
    owner: Annotated[Text | None, "Who is notified when the check fails."] = None
    description: Annotated[Text | None, "Why the check exists; shown with its failures."] = None


RULES = [
    "sql",
    "expect",
    "required",
    "unique",
    "in_",
    "range",
    "pattern",
    "length",
    "references",
    "python",
    "freshness",
    "row_count",
    "null_rate",
    "distinct",
    "sum",
    "mean",
    "quantile",
    "reconcile",
    "drift",
    "anomaly",
    "schema",
]
"""A check has exactly one of these keys, or `where` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftsBlock(Block):
    """The reaction to data that differs from the contract."""

    new_column: Annotated[Reaction | None, "A field that is neither declared nor in the table."] = None
    missing_column: Annotated[Reaction | None, "A declared column that is missing in a row."] = None
    type: Annotated[Reaction | None, "A value that does not fit its column."] = None
    nullability: Annotated[Reaction | None, "NULL in a required column."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousBlock(Block):
    """An earlier major version that is still readable, as a view."""

    until: Annotated[Day, "The last day of the view, such as `2027-06-30`."]
    columns: Annotated[Mapping[ColumnName, Text], "SQL over the current table, for columns that no longer exist."] = (
        field(default_factory=dict)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBlock(Block):
    """A schema registry that also holds the contract."""

    connection: Annotated[LowName, "A name below `connections` of the environment."]
    subject: Annotated[Text | None, "The subject in the registry; `layer.table-value` by default."] = None
    truth: Annotated[
        Literal["here", "registry"] | None,
        "`here` publishes the declaration; `registry` checks it against the registered schema. `here` by default.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractBlock(Block):
    """What may change, and what happens when it does."""

    mode: Annotated[Contract | None, "`additive` adds new columns, `strict` rejects them, `open` accepts all."] = None
    version: Annotated[
        VersionText | None, "The contract's version, such as `2` or `2.1.0`; by default it is counted."
    ] = None
    compatibility: Annotated[
        Compatibility | None,
        "Which changes need no new major version; `forward` by default, which never breaks readers.",
    ] = None
    drift: Annotated[DriftsBlock | None, "The reaction to data that differs from the contract."] = None
    previous: Annotated[
        Mapping[Text, PreviousBlock], "By major version, earlier versions that are still readable as views."
    ] = field(default_factory=dict)
    registry: Annotated[RegisteredBlock | None, "A schema registry that also holds the contract."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineBlock(Block):
    """How long rows may stay in quarantine."""

    alert_after: Annotated[Duration | None, "Alert about rows in quarantine for longer than this, such as `7d`."] = None
    alert_rows: Annotated[int | None, "Alert about more quarantined rows than this."] = None
    discard_after: Annotated[Duration | None, "A run discards rows that are in quarantine for longer than this."] = None
