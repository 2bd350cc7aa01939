"""Evaluates declared checks over an Arrow table with DuckDB, independent of the code of a run."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from lakesmith.declare import Column
from lakesmith.declare.checks import (
    Bounds,
    Check,
    Freshness,
    In,
    Length,
    NullRate,
    Pattern,
    Range,
    Required,
    RowCount,
    Unique,
)


def broken(checks: tuple[Check, ...], columns: tuple[Column, ...], rows: pa.Table, now: str) -> list[str]:
    """Return the names of the checks and of the columns that the rows break."""
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", rows)

        def count(sql: str, *values: object) -> int:
            (found,) = connection.execute(f"SELECT count(*) FROM t WHERE {sql}", list(values)).fetchall()[0]
            return int(found)

        def evaluate(sql: str) -> object:
            return connection.execute(f"SELECT {sql} FROM t").fetchall()[0][0]

        def passes(check: Check) -> bool:
            rule = check.rule
            match rule:
                case Required(columns=names):
                    return not any(count(f"{_name(name)} IS NULL") for name in names)
                case Unique(columns=(name,)):
                    return evaluate(f"count({_name(name)}) = count(DISTINCT {_name(name)})") is True
                case In(column=name, values=values):
                    marks = ", ".join("?" for _ in values)
                    return not count(f"{_name(name)} NOT IN ({marks})", *values)
                case Range(column=name):
                    low = rule.min is not None and count(f"{_name(name)} < {_literal(rule.min)}")
                    high = rule.max is not None and count(f"{_name(name)} > {_literal(rule.max)}")
                    return not low and not high
                case Pattern(column=name, matches=matches):
                    return not count(f"NOT regexp_matches({_name(name)}, ?)", matches)
                case Length(column=name):
                    return not count(f"length({_name(name)}) NOT BETWEEN ? AND ?", rule.min or 0, rule.max or 10**9)
                case NullRate(column=name, max=most):
                    return bool(count(f"{_name(name)} IS NULL") <= most * rows.num_rows)
                case RowCount(min=least):
                    return bool(rows.num_rows >= (least or 0))
                case Bounds(of="mean", column=name):
                    return _between(evaluate(f"avg(CAST({_name(name)} AS DOUBLE))"), rule)
                case Bounds(of="quantile", column=name, at=at):
                    return _between(evaluate(f"quantile_cont(CAST({_name(name)} AS DOUBLE), {at})"), rule)
                case Freshness(column=name, within=within):
                    newest = f"epoch(TIMESTAMPTZ '{now}') - epoch(CAST(max({_name(name)}) AS TIMESTAMPTZ)) <= {within}"
                    return evaluate(newest) is True
                case _:
                    raise AssertionError(f"{check.name}: {rule} was not to be proposed")

        found = [check.name for check in checks if not passes(check)]
        found += [c.name for c in columns if c.required and count(f"{_name(c.name)} IS NULL")]
        found += [
            c.name
            for c in columns
            if c.unique and evaluate(f"count({_name(c.name)}) = count(DISTINCT {_name(c.name)})") is not True
        ]
        return found


def _between(value: object, bounds: Bounds) -> bool:
    assert isinstance(value, float)
    low, high = bounds.min, bounds.max
    return (low is None or low <= value) and (high is None or value <= high)


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
