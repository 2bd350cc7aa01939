"""Answers, as a column of each row, the rules that one row alone cannot: unique, references and Python predicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.declare import Source
from lakesmith.declare.checks import Predicate, References, Unique
from lakesmith.declare.loads import key_columns
from lakesmith.errors import DataError
from lakesmith.load import call_predicate
from lakesmith.ports import TableFormat
from lakesmith.quality import RowRule, Rules
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.loads import is_keyed
from lakesmith.sql import literal, quoted
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOUND = f"{HIDDEN}found"
_LEAST, _MOST = f"{HIDDEN}least", f"{HIDDEN}most"


def flagged(arrival: IncomingBatch, format: TableFormat, warehouse: Warehouse, *, alone: bool = False) -> IncomingBatch:
    """The arrival, its rows with a flag for each rule that needs one: true, false, or NULL where it is not asked.

    With `alone`, the rows are those of many batches, and are not asked whether one batch had another like them.
    """
    rows = arrival.rows
    for rule in arrival.rules.flags:
        match rule.asks:
            case Unique() if alone:
                rows = rows.selectExpr("*", f"CAST(NULL AS boolean) AS {rule.flag}")
            case Unique() as asks:
                rows = _unique(rows, rule, asks, arrival, format, warehouse)
            case References() as asks:
                rows = _references(rows, rule, asks, arrival, format, warehouse)
            case Predicate() as asks:
                rows = rows.withColumn(rule.flag, call_predicate(asks, rows, str(arrival.table.name), rule.declared_at))
            case _:
                raise AssertionError(f"{rule.name} needs no flag")
    return replace(arrival, rows=rows)


def is_comparable(rules: Rules, format: TableFormat, location: str, version: int) -> bool:
    """Whether rows can be compared with a version of their table as the rules demand, where they demand it."""
    return version < 0 or not _across_table(rules) or format.is_readable(location, version)


def without_own_rows(arrival: IncomingBatch) -> IncomingBatch:
    """The arrival of a batch that is in the table already, where another writer has cleaned up or vacuumed the version
    before it: `unique` compares with the rows that the table has from others."""
    rules = _across_table(arrival.rules)
    if not rules:
        return arrival
    if not isinstance(arrival.table.origin, Source):
        raise DataError(
            "batch-unknown",
            f"batch {arrival.batch.sequence} was interrupted, and the version of the table before it was cleaned up or "
            f"vacuumed since: the check {rules[0].name} cannot tell its rows from those that were there before",
            at=rules[0].declared_at,
            table=str(arrival.table.name),
            hint=f"rebuild the table: lakesmith run {arrival.table.name} --full-refresh",
        )
    batch = arrival.batch
    own = f"(_run_id = {literal(batch.run_id)} AND _ingested_at = timestamp_millis({batch.pinned_at}))"
    return replace(arrival, own_rows=own)


def _across_table(rules: Rules) -> list[RowRule]:
    return [rule for rule in rules.flags if isinstance(rule.asks, Unique) and rule.asks.within == "table"]


def _unique(
    rows: DataFrame, rule: RowRule, asks: Unique, arrival: IncomingBatch, format: TableFormat, warehouse: Warehouse
) -> DataFrame:
    columns = _spelt(asks.columns, rows)
    asked = _have_values(columns)
    if rule.where:
        asked = f"{asked} AND coalesce(({rule.where}), false)"
    # Rows that are not asked would all meet in one task, were they not spread.
    hashed = ", ".join(quoted(f.name) for f in rows.schema.fields if "map<" not in f.dataType.simpleString())
    by = [f"IF({asked}, {quoted(columns[0])}, NULL)", f"IF({asked}, 0, pmod(xxhash64({hashed}), 64))"]
    parts = ", ".join([*by, *map(quoted, columns[1:])])
    over, keys = f"OVER (PARTITION BY {parts})", _keys(arrival, rows.columns)
    only = f"count(*) {over} = 1"
    if keys and sorted(keys) != sorted(columns):
        # Of the states of one key only one is stored at a time: they are no others of each other.
        own = f"struct({', '.join(map(quoted, keys))})"
        only = f"min({own}) {over} = max({own}) {over}"
    elif keys:
        only = "true"
    alone = f"IF({asked}, {only}, NULL)"
    rows = rows.selectExpr("*", f"{alone} AS {rule.flag}")
    if asks.within == "batch" or arrival.facts is None or arrival.replaces:
        return rows
    table = format.read(rows.sparkSession, warehouse.table(arrival.table.name), arrival.facts.version)
    if arrival.own_rows is not None:
        table = table.where(f"NOT coalesce({arrival.own_rows}, false)")
    return _unlike_table(rows, rule.flag, columns, table, arrival)


def _unlike_table(
    rows: DataFrame, flag: str, columns: Sequence[str], table: DataFrame, arrival: IncomingBatch
) -> DataFrame:
    """False also where the table has the values, in a row of another key where the load has keys."""
    keys = _keys(arrival, table.columns)
    if sorted(keys) == sorted(columns):
        return rows  # of one key the table never has two rows
    own = f"struct({', '.join(quoted(key) for key in keys)})" if keys else "true"
    held = table.where(_have_values(columns)).groupBy(*map(quoted, columns))
    from pyspark.sql import functions as F

    there = held.agg(F.min(F.expr(own)).alias(_LEAST), F.max(F.expr(own)).alias(_MOST))
    there = there.withColumn(_FOUND, F.lit(True))
    other = f"({_LEAST} <> {own} OR {_MOST} <> {own})" if keys else "true"
    joined = rows.join(there, list(columns), "left")
    told = f"IF(coalesce({_FOUND}, false) AND {other}, IF({flag} IS NULL, NULL, false), {flag}) AS {flag}"
    return joined.selectExpr(*(told if name == flag else quoted(name) for name in rows.columns))


def _references(
    rows: DataFrame, rule: RowRule, asks: References, arrival: IncomingBatch, format: TableFormat, warehouse: Warehouse
) -> DataFrame:
    from pyspark.sql import functions as F

    pinned = arrival.batch.lookups.get(str(asks.table))
    if pinned is None:
        raise DataError(
            "reference-missing",
            f"the check {rule.name} refers to {asks.table}, which holds nothing yet",
            at=rule.declared_at,
            table=str(arrival.table.name),
            hint=f"`lakesmith run +{asks.table}` builds it",
        )
    columns = _spelt(asks.columns, rows)
    hidden = [f"{HIDDEN}key_{number}" for number in range(len(columns))]
    kept = [f"{quoted(key)} AS {name}" for key, name in zip(asks.key, hidden, strict=True)]
    table = format.read(rows.sparkSession, warehouse.table(asks.table), pinned.version)
    there = table.selectExpr(*kept).where(_have_values(hidden)).distinct().withColumn(_FOUND, F.lit(True))
    asked = _have_values(columns)
    same = F.expr(" AND ".join(f"{quoted(name)} = {key}" for name, key in zip(columns, hidden, strict=True)))
    joined = rows.join(there, same, "left")
    flag = f"IF({asked}, {_FOUND} IS NOT NULL, NULL) AS {rule.flag}"
    return joined.selectExpr(*map(quoted, rows.columns), flag)


def _keys(arrival: IncomingBatch, columns: Sequence[str]) -> list[str]:
    """The columns by which the table knows a thing again, where it does."""
    load = arrival.table.load
    return [key for key in key_columns(load) if key in columns] if is_keyed(load) else []


def _spelt(columns: Sequence[str], rows: DataFrame) -> list[str]:
    spelt = {name.lower(): name for name in rows.columns}
    return [spelt.get(name.lower(), name) for name in columns]


def _have_values(columns: Sequence[str]) -> str:
    return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in columns)
