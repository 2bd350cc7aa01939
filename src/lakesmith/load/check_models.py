"""What may be written below `checks`, `contract` and `quarantine`."""

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
_COLUMN = "The column that is looked at."
_LEAST = "The least that is fine."
_MOST = "The most that is fine."


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueBlock(Block):
    """No two rows have the same values."""

    SHORT: ClassVar[str | None] = "columns"

    columns: Annotated[tuple[ColumnName, ...], "The columns whose values together are unique."]
    within: Annotated[
        Literal["batch", "table"] | None, "`table` also compares with the rows that are there; `batch` by default."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InBlock(Block):
    """The value is one of a few."""

    column: Annotated[ColumnName, _COLUMN]
    values: Annotated[tuple[_Value, ...], "The values that are fine."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBlock(Block):
    """The value lies between two others."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[_Value | None, "The least value that is fine: a number, a day or a time."] = None
    max: Annotated[_Value | None, "The greatest value that is fine."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternBlock(Block):
    """A regular expression is found in the value."""

    column: Annotated[ColumnName, _COLUMN]
    matches: Annotated[Text, "A regular expression of Java; `^` and `$` hold it to the whole text."]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBlock(Block):
    """The text has so many characters."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencesBlock(Block):
    """The values are those of a row of another table."""

    columns: Annotated[tuple[ColumnName, ...], "The columns that refer to the other table."]
    table: Annotated[TableReference, "layer.table that they refer to."]
    key: Annotated[tuple[ColumnName, ...], "The columns of the other table; the same names by default."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessBlock(Block):
    """The newest value of a column of times is young enough."""

    column: Annotated[ColumnName, _COLUMN]
    within: Annotated[Duration, "How old the newest value may be, such as `2h`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCountBlock(Block):
    """How many rows the batch brings."""

    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None
    change: Annotated[Share | None, "How far it may be from the mean of the batches before, such as `50%`."] = None
    last: Annotated[int | None, "How many batches before are looked at; 7 by default."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRateBlock(Block):
    """How many rows may have no value."""

    column: Annotated[ColumnName, _COLUMN]
    max: Annotated[Share, "The greatest part of the rows, such as `5%`."]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctBlock(Block):
    """How many different values there are."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[int | None, _LEAST] = None
    max: Annotated[int | None, _MOST] = None
    exact: Annotated[bool, "Counted one by one, which shuffles; else within 2 per cent."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SumBlock(Block):
    """A number of the whole batch lies between two others."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[_Amount | None, _LEAST] = None
    max: Annotated[_Amount | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileBlock(Block):
    """A quantile of the batch lies between two numbers."""

    column: Annotated[ColumnName, _COLUMN]
    at_: Annotated[Share, "Which quantile: `0.5` is the median."]
    min: Annotated[_Amount | None, _LEAST] = None
    max: Annotated[_Amount | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileBlock(Block):
    """A total of the batch is the total of the input rows that it was made from."""

    table: Annotated[TableReference, "The input, layer.table."]
    own: Annotated[Text, "SQL: the aggregate of the batch, such as `sum(amount)`."]
    theirs: Annotated[Text | None, "SQL: the aggregate of the input; the same by default."] = None
    tolerance: Annotated[Share | None, "How far they may be apart, such as `1%`."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftBlock(Block):
    """Values are spread as they were in the good batches before."""

    SHORT: ClassVar[str | None] = "column"

    column: Annotated[ColumnName, _COLUMN]
    method: Annotated[
        Literal["psi", "ks"] | None, "`psi`, the population stability index, or `ks`, Kolmogorov and Smirnov's."
    ] = None
    max: Annotated[_Amount | None, "The greatest distance that is fine; 0.2 by default."] = None
    last: Annotated[int | None, "How many good batches before are looked at; 10 by default."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyBlock(Block):
    """An aggregate is what its history makes one expect."""

    SHORT: ClassVar[str | None] = "of"

    of: Annotated[Text | None, "SQL: the aggregate that is watched; `count(*)` by default."] = None
    season: Annotated[
        Season | None, "Batches of the same `hour`, the same `weekday` or all (`none`) are compared; `weekday`."
    ] = None
    deviations: Annotated[_Amount | None, "How many times the usual spread it may be away; 4 by default."] = None
    last: Annotated[int | None, "How many good batches before are looked at; 60 by default."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaBlock(Block):
    """The rows have these columns."""

    columns: Annotated[tuple[ColumnName, ...], "Columns that have to be there."] = ()
    types: Annotated[Mapping[ColumnName, Type], "By column, the type that it has to have."] = field(
        default_factory=dict
    )
    exact: Annotated[bool, "There is no other column, and they come in this order."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckBlock(Block):
    """A rule with a severity: one key says what it asks."""

    where: Annotated[
        Text | None,
        "Alone, a condition on each row: rows for which it is false have failed. "
        "Beside a rule, only rows for which it is true are looked at.",
    ] = None
    sql: Annotated[Text | None, "A condition on each row; unknown (NULL) is not false."] = None
    expect: Annotated[Text | None, "A condition on aggregates of the batch, such as `count(*) > 0`."] = None
    required: Annotated[tuple[ColumnName, ...] | None, "Columns that have to have a value."] = None
    unique: Annotated[UniqueBlock | None, "No two rows have the same values."] = None
    in_: Annotated[InBlock | None, "The value is one of a few."] = None
    range: Annotated[RangeBlock | None, "The value lies between two others."] = None
    pattern: Annotated[PatternBlock | None, "A regular expression is found in the value."] = None
    length: Annotated[LengthBlock | None, "The text has so many characters."] = None
    references: Annotated[ReferencesBlock | None, "The values are those of a row of another table."] = None
    python: Annotated[Text | None, "`module.function` of the lake's folder that returns a Column."] = None
    freshness: Annotated[FreshnessBlock | None, "The newest value of a column of times is young enough."] = None
    row_count: Annotated[RowCountBlock | None, "How many rows the batch brings, also against those before."] = None
    null_rate: Annotated[NullRateBlock | None, "How many rows may have no value."] = None
    distinct: Annotated[DistinctBlock | None, "How many different values there are."] = None
    sum: Annotated[SumBlock | None, "The sum of a column lies between two numbers."] = None
    mean: Annotated[SumBlock | None, "The mean of a column lies between two numbers."] = None
    quantile: Annotated[QuantileBlock | None, "A quantile of a column lies between two numbers."] = None
    reconcile: Annotated[ReconcileBlock | None, "A total of the batch is that of its input."] = None
    drift: Annotated[DriftBlock | None, "Values are spread as in the good batches before."] = None
    anomaly: Annotated[AnomalyBlock | None, "An aggregate is what its history makes one expect."] = None
    schema: Annotated[SchemaBlock | None, "The rows have these columns."] = None
    on_fail: Annotated[
        Severity | None,
        "`warn` reports, `quarantine` sets the row aside, `fail` refuses the batch. By default `quarantine` for rules "
        "on rows, `fail` for rules on the batch, `warn` for `drift` and `anomaly`.",
    ] = None
    fail_above: Annotated[
        Annotated[Limit, LIMIT] | None,
        "Rules on rows: more of them, such as `2%` or `100`, refuse the batch.",
    ] = None
    owner: Annotated[Text | None, "Who is told when it is broken."] = None
    description: Annotated[Text | None, "Why the rule is there; shown to whoever meets the failure."] = None


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
"""The keys of which a check has one; or `where` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftsBlock(Block):
    """What is done with data that is not as the contract says."""

    new_column: Annotated[Reaction | None, "A field that is neither declared nor in the table."] = None
    missing_column: Annotated[Reaction | None, "A declared column that a row does not bring."] = None
    type: Annotated[Reaction | None, "A value that does not fit its column."] = None
    nullability: Annotated[Reaction | None, "A required column without a value."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousBlock(Block):
    """An earlier major version that can still be read, as a view."""

    until: Annotated[Day, "The last day on which it can be read, such as `2027-06-30`."]
    columns: Annotated[
        Mapping[ColumnName, Text], "SQL over the table as it is now, for columns that are not there any more."
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBlock(Block):
    """A schema registry that has the contract too."""

    connection: Annotated[LowName, "A name below `connections` of the environment."]
    subject: Annotated[Text | None, "The registry's name of the schema; `layer.table-value` by default."] = None
    truth: Annotated[
        Literal["here", "registry"] | None,
        "`here` publishes the declaration; `registry` holds the declaration to what is there. `here` by default.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractBlock(Block):
    """What may change, and what happens when it does."""

    mode: Annotated[Contract | None, "`additive` takes new columns in, `strict` refuses them, `open` takes all."] = None
    version: Annotated[VersionText | None, "The contract's version, such as `2` or `2.1.0`; else it is counted."] = None
    compatibility: Annotated[
        Compatibility | None, "Which changes need no new major version; `forward` by default: readers are not broken."
    ] = None
    drift: Annotated[DriftsBlock | None, "What is done with data that is not as the contract says."] = None
    previous: Annotated[Mapping[Text, PreviousBlock], "By major version, those that can still be read as views."] = (
        field(default_factory=dict)
    )
    registry: Annotated[RegisteredBlock | None, "A schema registry that has the contract too."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineBlock(Block):
    """How long rows may lie in quarantine."""

    alert_after: Annotated[Duration | None, "Rows that lie there for longer are told of, such as `7d`."] = None
    alert_rows: Annotated[int | None, "More rows than these are told of."] = None
    discard_after: Annotated[Duration | None, "Rows that lie there for longer are discarded by a run."] = None
