"""The models of the blocks `checks` and `contract`, where these are not declarations themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from lakesmith.declare.checks import (
    Anomaly,
    BatchSql,
    Distinct,
    Drift,
    Freshness,
    In,
    Length,
    Limit,
    NullRate,
    Pattern,
    Predicate,
    Range,
    Reconcile,
    References,
    Required,
    RowCount,
    RowSql,
    SchemaIs,
    Severity,
    Unique,
)
from lakesmith.declare.contract import Compatibility, Contract, Reaction, Registered
from lakesmith.declare.forms import Amount, ColumnName, Day, Form, Share, Text, VersionText
from lakesmith.load.field_types import Block, Blocks, keys_of

_COLUMN = "The column that is checked."
_LEAST = "The minimum, inclusive."
_MOST = "The maximum, inclusive."


@dataclass(frozen=True, slots=True, kw_only=True)
class SumBlock(Block):
    """An aggregate of the batch is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    min: Annotated[Amount | None, _LEAST] = None
    max: Annotated[Amount | None, _MOST] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileBlock(Block):
    """A quantile of the batch is within a range."""

    column: Annotated[ColumnName, _COLUMN]
    at_: Annotated[Share, "The quantile: `0.5` is the median."]
    min: Annotated[Amount | None, _LEAST] = None
    max: Annotated[Amount | None, _MOST] = None


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
    unique: Annotated[Unique | None, "No two rows have the same values in these columns."] = None
    in_: Annotated[In | None, "The value is in a list."] = None
    range: Annotated[Range | None, "The value is within a range."] = None
    pattern: Annotated[Pattern | None, "A regular expression matches somewhere in the value."] = None
    length: Annotated[Length | None, "The length of the text in characters is within a range."] = None
    references: Annotated[References | None, "The values exist in another table."] = None
    python: Annotated[Text | None, "`module.function` in the lake's folder that returns a Column."] = None
    freshness: Annotated[Freshness | None, "The newest value of a time column is recent enough."] = None
    row_count: Annotated[RowCount | None, "The number of rows of the batch, also compared with earlier batches."] = None
    null_rate: Annotated[NullRate | None, "The share of rows that may be NULL."] = None
    distinct: Annotated[Distinct | None, "The number of distinct values."] = None
    sum: Annotated[SumBlock | None, "The sum of a column is within a range."] = None
    mean: Annotated[SumBlock | None, "The mean of a column is within a range."] = None
    quantile: Annotated[QuantileBlock | None, "A quantile of a column is within a range."] = None
    reconcile: Annotated[Reconcile | None, "A total of the batch equals that of its input."] = None
    drift: Annotated[Drift | None, "The distribution of values is like that of earlier good batches."] = None
    anomaly: Annotated[Anomaly | None, "An aggregate is close to what its history predicts."] = None
    schema: Annotated[SchemaIs | None, "The rows have these columns."] = None
    on_fail: Annotated[
        Severity | None,
        "`warn` reports, `quarantine` quarantines the row, `fail` rejects the batch. By default `quarantine` for rules "
        "on rows, `fail` for rules on the batch, `warn` for `drift` and `anomaly`.",
    ] = None
    fail_above: Annotated[
        Annotated[Limit, Form.LIMIT] | None,
        "Rules on rows: more failed rows than this, such as `2%` or `100`, reject the batch.",
    ] = None
    owner: Annotated[Text | None, "Who is notified when the check fails."] = None
    description: Annotated[Text | None, "Why the check exists; shown with its failures."] = None


_OPTIONS = ("at", "places", "where", "on_fail", "fail_above", "owner", "description")
RULES = [name for name in CheckBlock.__dataclass_fields__ if name not in _OPTIONS]
"""A check has exactly one of these keys, or `where` alone."""
RULE_KEYS: Mapping[type, str] = {
    **{key.kind.model: name for name, key in keys_of(CheckBlock).items() if isinstance(key.kind, Blocks)},
    Required: "required",
    RowSql: "sql",
    BatchSql: "expect",
    Predicate: "python",
}
"""By type of a rule, its key; a sum, a mean and a quantile share `Bounds`."""


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
    registry: Annotated[Registered | None, "A schema registry that also holds the contract."] = None
