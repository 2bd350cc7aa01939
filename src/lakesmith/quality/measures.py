"""Rules on a batch as a whole: what has to be measured while its rows are moved, in Spark SQL."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from lakesmith.declare import Table
from lakesmith.declare.checks import (
    Anomaly,
    BatchRule,
    BatchSql,
    Bounds,
    Distinct,
    Drift,
    Freshness,
    NullRate,
    Reconcile,
    RowCount,
    SchemaIs,
    Severity,
)
from lakesmith.errors import Place
from lakesmith.sql import quoted

POINTS = tuple(round(number * 0.02, 2) for number in range(51))
"""At which parts of the values a distribution is taken note of."""
BUCKETS = 32
"""Into so many buckets values are counted that have no order."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A rule on the rows that are about to be written, all together."""

    name: str
    rule: BatchRule
    severity: Severity
    where: str | None = None
    """SQL: only these rows are looked at."""
    owner: str | None = None
    description: str | None = None
    declared_at: Place

    @property
    def shuffles(self) -> bool:
        """Rows have to be brought together."""
        return isinstance(self.rule, Distinct) and self.rule.exact

    @property
    def sketches(self) -> bool:
        """It takes a function that Spark does not compile, of one column."""
        rule = self.rule
        return not self.where and (
            isinstance(rule, Drift | Distinct) or (isinstance(rule, Bounds) and rule.of == "quantile")
        )

    @property
    def remembers(self) -> bool:
        """The batches before have to be asked."""
        rule = self.rule
        return isinstance(rule, Drift | Anomaly) or (isinstance(rule, RowCount) and rule.change is not None)

    @property
    def picks_rows(self) -> bool:
        """Its aggregates cannot be narrowed to some rows, so that rows have to be chosen before."""
        match self.rule:
            case BatchSql(condition=sql) | Anomaly(of=sql) | Reconcile(own=sql):
                return not can_be_narrowed(sql)
            case _:
                return False

    def metrics(self, types: Mapping[str, str]) -> dict[str, str]:
        """SQL aggregates by name, over good rows. `types` are those of the rows' columns."""
        where = None if self.picks_rows else self.where

        def held(column: str) -> str:
            return _only(quoted(column), where)

        rows = f"count({_only('1', where)})"
        match self.rule:
            case BatchSql(condition=condition):
                values = {told: f"CAST({sql} AS string)" for told, sql in aggregates(condition, where).items()}
                return {"met": f"coalesce({narrowed(condition, where)}, false)", **values}
            case Anomaly(of=of):
                return {"value": f"CAST({narrowed(of, where)} AS double)"}
            case Freshness(column=column):
                return {"newest": f"unix_millis(max(CAST({held(column)} AS timestamp)))"}
            case RowCount():
                return {"rows": rows}
            case NullRate(column=column):
                return {"rows": rows, "filled": f"count({held(column)})"}
            case Distinct(column=column, exact=exact):
                counted = f"count(DISTINCT {held(column)})" if exact else f"approx_count_distinct({held(column)}, 0.02)"
                return {"value": counted}
            case Bounds(of="quantile", column=column, at=at):
                return {"value": f"CAST(percentile_approx({held(column)}, {at}) AS string)"}
            case Bounds(of=of, column=column):
                function = "sum" if of == "sum" else "avg"
                return {"value": f"CAST({function}({held(column)}) AS string)"}
            case Reconcile(own=own):
                return {"own": f"CAST({narrowed(own, where)} AS string)"}
            case Drift(column=column):
                spread = _spread(column, types.get(column.lower(), ""), where)
                return {"count": f"count({held(column)})", "spread": spread}
            case SchemaIs():
                return {}
            case _:
                assert_never(self.rule)


def _only(value: str, where: str | None) -> str:
    """SQL: the value in rows that count, NULL in others, which aggregates pass over."""
    return f"IF({where}, {value}, NULL)" if where else value


def _spread(column: str, kind: str, where: str | None) -> str:
    """SQL: a small picture of how the values are spread."""
    if not kind.startswith(_NUMBERS):
        asked = f"{quoted(column)} IS NOT NULL" + (f" AND {where}" if where else "")
        bucket = _only(f"pmod(xxhash64({quoted(column)}), {BUCKETS}L)", asked)
        return f"to_json(histogram_numeric({bucket}, {BUCKETS}))"
    number = quoted(column)
    if kind.startswith(("date", "timestamp")):
        number = f"unix_seconds(CAST({number} AS timestamp))"
    points = ", ".join(map(str, POINTS))
    return f"to_json(percentile_approx(CAST({_only(number, where)} AS double), array({points}), 1000))"


def measures_of(table: Table) -> tuple[Measure, ...]:
    """What is asked of each batch of the table."""
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
    """The aggregates in a condition as they are told when it fails, each with its SQL over the rows that count."""
    import sqlglot
    from sqlglot import exp

    found = dict.fromkeys(
        node.sql(dialect="spark") for node in sqlglot.parse_one(condition, dialect="spark").find_all(exp.AggFunc)
    )
    return {told: narrowed(told, where) for told in found}


@functools.lru_cache(maxsize=4096)
def can_be_narrowed(condition: str) -> bool:
    """Whether every function in the SQL is known, and every aggregate passes over NULL in its first argument."""
    import sqlglot
    from sqlglot import exp

    counted = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.CountIf, exp.ApproxDistinct, exp.ApproxQuantile)
    fine = (*counted, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Median)
    read = sqlglot.parse_one(condition, dialect="spark")
    if read.find(exp.Anonymous, exp.AnonymousAggFunc, exp.Filter, exp.Distinct, exp.Window) is not None:
        return False
    return all(isinstance(node, fine) for node in read.find_all(exp.AggFunc))


def narrowed(condition: str, where: str | None) -> str:
    """SQL: the aggregates of only the rows for which `where` is true."""
    if where is None:
        return condition
    import sqlglot
    from sqlglot import exp

    only = sqlglot.parse_one(where, dialect="spark")

    def held(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.AggFunc):
            return node
        given = exp.Literal.number(1) if isinstance(node.this, exp.Star) else node.this.copy()
        narrow = node.copy()
        narrow.set("this", exp.If(this=only.copy(), true=given, false=exp.null()))
        return narrow

    return sqlglot.parse_one(condition, dialect="spark").transform(held).sql(dialect="spark")
