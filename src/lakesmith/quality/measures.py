"""Compile checks on a whole batch to the Spark SQL aggregates that are measured while its rows are written."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from lakesmith.declare import Table, checks
from lakesmith.errors import Place
from lakesmith.sql import quoted

POINTS = tuple(round(number * 0.02, 2) for number in range(51))
"""The quantiles by which a distribution is stored."""
BUCKETS = 32
"""The number of hash buckets for values without an order."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A check on all rows of a batch before they are committed."""

    name: str
    rule: checks.BatchRule
    severity: checks.Severity
    where: str | None = None
    """SQL: the check measures only these rows."""
    owner: str | None = None
    description: str | None = None
    declared_at: Place

    @property
    def shuffles(self) -> bool:
        """The aggregate needs a shuffle."""
        return isinstance(self.rule, checks.Distinct) and self.rule.exact

    @property
    def sketches(self) -> bool:
        """The aggregate is a sketch of one column, which Spark does not compile."""
        match self.rule:
            case checks.Drift() | checks.Distinct() | checks.Bounds(of="quantile"):
                return not self.where
            case _:
                return False

    @property
    def uses_history(self) -> bool:
        """The check compares with earlier batches."""
        rule = self.rule
        if isinstance(rule, checks.RowCount):
            return rule.change is not None
        return isinstance(rule, checks.Drift | checks.Anomaly)

    @property
    def filters_rows(self) -> bool:
        """Its aggregates cannot be restricted to some rows, so the rows must be filtered first."""
        match self.rule:
            case checks.BatchSql(condition=sql) | checks.Anomaly(of=sql) | checks.Reconcile(own=sql):
                return not can_be_narrowed(sql)
            case _:
                return False

    def metrics(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return SQL aggregates over good rows, by name. `types` are the types of the rows' columns."""
        where = None if self.filters_rows else self.where

        def value_of(column: str) -> str:
            return _only(quoted(column), where)

        match self.rule:
            case checks.BatchSql(condition=condition):
                values = {text: f"CAST({sql} AS string)" for text, sql in aggregates(condition, where).items()}
                return {"passes": f"coalesce({narrowed(condition, where)}, false)", **values}
            case checks.Anomaly(of=of):
                return {"value": f"CAST({narrowed(of, where)} AS double)"}
            case checks.Freshness(column=column):
                return {"newest": f"unix_millis(max(CAST({value_of(column)} AS timestamp)))"}
            case checks.RowCount():
                return {"rows": f"count({_only('1', where)})"}
            case checks.NullRate(column=column):
                return {"rows": f"count({_only('1', where)})", "filled": f"count({value_of(column)})"}
            case checks.Distinct(column=column, exact=exact):
                counted = "count(DISTINCT {})" if exact else "approx_count_distinct({}, 0.02)"
                return {"value": counted.format(value_of(column))}
            case checks.Bounds(of="quantile", column=column, at=at):
                return {"value": f"CAST(percentile_approx({value_of(column)}, {at}) AS string)"}
            case checks.Bounds(of=of, column=column):
                function = "sum" if of == "sum" else "avg"
                return {"value": f"CAST({function}({value_of(column)}) AS string)"}
            case checks.Reconcile(own=own):
                return {"own": f"CAST({narrowed(own, where)} AS string)"}
            case checks.Drift(column=column):
                spread = _distribution(column, types.get(column.lower(), ""), where)
                return {"count": f"count({value_of(column)})", "spread": spread}
            case checks.SchemaIs():
                return {}
            case _:
                assert_never(self.rule)


def _only(value: str, where: str | None) -> str:
    """Return SQL for the value in rows that match `where` and NULL in others, which aggregates ignore."""
    return f"IF({where}, {value}, NULL)" if where else value


def _distribution(column: str, type: str, where: str | None) -> str:
    """Return SQL for a small summary of the distribution, as JSON."""
    if not type.startswith(_NUMBERS):
        present = f"{quoted(column)} IS NOT NULL" + (f" AND {where}" if where else "")
        bucket = _only(f"pmod(xxhash64({quoted(column)}), {BUCKETS}L)", present)
        return f"to_json(histogram_numeric({bucket}, {BUCKETS}))"
    number = quoted(column)
    if type.startswith(("date", "timestamp")):
        number = f"unix_seconds(CAST({number} AS timestamp))"
    points = ", ".join(map(str, POINTS))
    return f"to_json(percentile_approx(CAST({_only(number, where)} AS double), array({points}), 1000))"


def measures_of(table: Table) -> tuple[Measure, ...]:
    """Return the checks on each batch of the table."""
    return tuple(
        Measure(
            name=check.name,
            rule=check.batch_rule,
            severity=check.on_fail,
            where=check.where,
            owner=check.owner or table.owner,
            description=check.description,
            declared_at=check.declared_at,
        )
        for check in table.checks
        if check.batch_rule is not None
    )


def aggregates(condition: str, where: str | None = None) -> dict[str, str]:
    """Return the aggregates of a condition, by the text that a failure shows, as SQL restricted to `where`."""
    import sqlglot
    from sqlglot import exp

    nodes = sqlglot.parse_one(condition, dialect="spark").find_all(exp.AggFunc)
    return {text: narrowed(text, where) for text in dict.fromkeys(node.sql(dialect="spark") for node in nodes)}


@functools.lru_cache(maxsize=4096)
def can_be_narrowed(condition: str) -> bool:
    """Whether sqlglot knows every function in the SQL and every aggregate ignores NULL in its first argument."""
    import sqlglot
    from sqlglot import exp

    counted = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.CountIf, exp.ApproxDistinct, exp.ApproxQuantile)
    fine = (*counted, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Median)
    read = sqlglot.parse_one(condition, dialect="spark")
    if read.find(exp.Anonymous, exp.AnonymousAggFunc, exp.Filter, exp.Distinct, exp.Window) is not None:
        return False
    return all(isinstance(node, fine) for node in read.find_all(exp.AggFunc))


def narrowed(condition: str, where: str | None) -> str:
    """Return the SQL with each aggregate restricted to rows for which `where` is true."""
    if where is None:
        return condition
    import sqlglot
    from sqlglot import exp

    only = sqlglot.parse_one(where, dialect="spark")

    def restricted(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.AggFunc):
            return node
        argument = exp.Literal.number(1) if isinstance(node.this, exp.Star) else node.this.copy()
        narrow = node.copy()
        narrow.set("this", exp.If(this=only.copy(), true=argument, false=exp.null()))
        return narrow

    return sqlglot.parse_one(condition, dialect="spark").transform(restricted).sql(dialect="spark")
