"""Adds a flag column for each rule that needs more than the row itself: unique, references and Python predicates."""

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
from lakesmith.ports import TableFolder, TableFormat
from lakesmith.quality import RowRule, Rules
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.loads import is_keyed
from lakesmith.spark.loads.order import all_not_null
from lakesmith.sql import literal, quoted
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOUND = f"{HIDDEN}found"
_LEAST, _MOST = f"{HIDDEN}least", f"{HIDDEN}most"


def add_rule_flags(
    incoming: IncomingBatch, format: TableFormat, warehouse: Warehouse, *, many_batches: bool = False
) -> IncomingBatch:
    """Add a flag for each rule that needs one: true, false, or NULL where the rule does not apply.

    With `many_batches`, the rows come from many batches, and `unique` within one batch does not apply.
    """
    rows = incoming.rows
    for rule in incoming.rules.flags:
        match rule.flag_rule:
            case Unique() if many_batches:
                rows = rows.selectExpr("*", f"CAST(NULL AS boolean) AS {rule.flag}")
            case Unique() as check:
                rows = _unique(rows, rule, check, incoming, format, warehouse)
            case References() as check:
                rows = _references(rows, rule, check, incoming, format, warehouse)
            case Predicate() as check:
                rows = rows.withColumn(
                    rule.flag, call_predicate(check, rows, str(incoming.table.name), rule.declared_at)
                )
            case _:
                raise AssertionError(f"{rule.name} needs no flag")
    return replace(incoming, rows=rows)


def is_comparable(rules: Rules, format: TableFormat, folder: TableFolder, version: int) -> bool:
    """Whether the rules can compare rows with a version of the table. True when no rule does."""
    return version < 0 or not _across_table(rules) or format.is_readable(folder, version)


def without_own_rows(incoming: IncomingBatch) -> IncomingBatch:
    """Return the batch so that `unique` ignores rows which the batch itself committed.

    Used when the version before the commit was cleaned up or vacuumed by another writer.
    """
    rules = _across_table(incoming.rules)
    if not rules:
        return incoming
    if not isinstance(incoming.table.origin, Source):
        raise DataError(
            "batch-unknown",
            f"batch {incoming.batch.sequence} was interrupted, and the table version before it was cleaned up or "
            f"vacuumed since: the check {rules[0].name} cannot separate its rows from earlier rows",
            at=rules[0].declared_at,
            table=str(incoming.table.name),
            hint=f"rebuild the table: lakesmith run {incoming.table.name} --full-refresh",
        )
    batch = incoming.batch
    own = f"(_run_id = {literal(batch.run_id)} AND _ingested_at = timestamp_millis({batch.pinned_at}))"
    return replace(incoming, own_rows=own)


def _across_table(rules: Rules) -> list[RowRule]:
    return [rule for rule in rules.flags if isinstance(rule.flag_rule, Unique) and rule.flag_rule.within == "table"]


def _unique(
    rows: DataFrame, rule: RowRule, check: Unique, incoming: IncomingBatch, format: TableFormat, warehouse: Warehouse
) -> DataFrame:
    columns = _actual_names(check.columns, rows)
    applies = all_not_null(columns)
    if rule.where:
        applies = f"{applies} AND coalesce(({rule.where}), false)"
    # Rows that the rule skips are spread by hash; otherwise one task would get them all.
    hashed = ", ".join(quoted(f.name) for f in rows.schema.fields if "map<" not in f.dataType.simpleString())
    by = [f"IF({applies}, {quoted(columns[0])}, NULL)", f"IF({applies}, 0, pmod(xxhash64({hashed}), 64))"]
    parts = ", ".join([*by, *map(quoted, columns[1:])])
    over, keys = f"OVER (PARTITION BY {parts})", _keys(incoming, rows.columns)
    only = f"count(*) {over} = 1"
    if keys and sorted(keys) != sorted(columns):
        # The table stores one row per key, so rows of the same key are not duplicates of each other.
        own = f"struct({', '.join(map(quoted, keys))})"
        only = f"min({own}) {over} = max({own}) {over}"
    elif keys:
        only = "true"
    rows = rows.selectExpr("*", f"IF({applies}, {only}, NULL) AS {rule.flag}")
    if check.within == "batch" or incoming.facts is None or incoming.replaces:
        return rows
    table = format.read(rows.sparkSession, warehouse.table(incoming.table.name), incoming.facts.version)
    if incoming.own_rows is not None:
        table = table.where(f"NOT coalesce({incoming.own_rows}, false)")
    return _compare_with_table(rows, rule.flag, columns, table, incoming)


def _compare_with_table(
    rows: DataFrame, flag: str, columns: Sequence[str], table: DataFrame, incoming: IncomingBatch
) -> DataFrame:
    """Set the flag to false where the table has the same values (in a row of another key, for keyed loads)."""
    keys = _keys(incoming, table.columns)
    if sorted(keys) == sorted(columns):
        return rows  # the table never has two rows of one key
    own = f"struct({', '.join(quoted(key) for key in keys)})" if keys else "true"
    by_values = table.where(all_not_null(columns)).groupBy(*map(quoted, columns))
    from pyspark.sql import functions as F

    stored = by_values.agg(F.min(F.expr(own)).alias(_LEAST), F.max(F.expr(own)).alias(_MOST))
    stored = stored.withColumn(_FOUND, F.lit(True))
    other = f"({_LEAST} <> {own} OR {_MOST} <> {own})" if keys else "true"
    joined = rows.join(stored, list(columns), "left")
    result = f"IF(coalesce({_FOUND}, false) AND {other}, IF({flag} IS NULL, NULL, false), {flag}) AS {flag}"
    return joined.selectExpr(*(result if name == flag else quoted(name) for name in rows.columns))


def _references(
    rows: DataFrame,
    rule: RowRule,
    check: References,
    incoming: IncomingBatch,
    format: TableFormat,
    warehouse: Warehouse,
) -> DataFrame:
    from pyspark.sql import functions as F

    pinned = incoming.batch.lookups.get(str(check.table))
    if pinned is None:
        raise DataError(
            "reference-missing",
            f"the check {rule.name} refers to {check.table}, which has no rows yet",
            at=rule.declared_at,
            table=str(incoming.table.name),
            hint=f"`lakesmith run +{check.table}` builds it",
        )
    columns = _actual_names(check.columns, rows)
    hidden = [f"{HIDDEN}key_{number}" for number in range(len(columns))]
    keys = [f"{quoted(key)} AS {name}" for key, name in zip(check.key, hidden, strict=True)]
    table = format.read(rows.sparkSession, warehouse.table(check.table), pinned.version)
    referenced = table.selectExpr(*keys).where(all_not_null(hidden)).distinct().withColumn(_FOUND, F.lit(True))
    applies = all_not_null(columns)
    same = F.expr(" AND ".join(f"{quoted(name)} = {key}" for name, key in zip(columns, hidden, strict=True)))
    joined = rows.join(referenced, same, "left")
    flag = f"IF({applies}, {_FOUND} IS NOT NULL, NULL) AS {rule.flag}"
    return joined.selectExpr(*map(quoted, rows.columns), flag)


def _keys(incoming: IncomingBatch, columns: Sequence[str]) -> list[str]:
    """Return the key columns of the load, or none when the load has no key."""
    load = incoming.table.load
    return [key for key in key_columns(load) if key in columns] if is_keyed(load) else []


def _actual_names(columns: Sequence[str], rows: DataFrame) -> list[str]:
    actual = {name.lower(): name for name in rows.columns}
    return [actual.get(name.lower(), name) for name in columns]
