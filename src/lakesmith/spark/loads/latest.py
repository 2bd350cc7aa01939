"""The loads `merge` and `append` with `dedup`: select the latest row per key, or the first of duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import DUPLICATE_KEY, HIDDEN
from lakesmith.declare.loads import Append, Merge
from lakesmith.spark.loads.order import (
    IS_DELETE,
    ascending,
    column_list,
    content,
    expression,
    first_of,
    greatest,
    payload,
    rank,
    with_deletes,
)
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = f"{HIDDEN}place"
_DELETED = f"{HIDDEN}deleted"
_ROW = f"{HIDDEN}row"


def latest_rows(load: Merge, rows: DataFrame) -> DataFrame:
    """Return the latest row of each key. A key whose latest row is a delete has none, except with `soft_delete`."""
    if not load.order_by:
        return _fail_on_duplicate_key(load, rows)
    stored = payload(rows)
    rows = with_deletes(rows, load.delete)
    if load.update:
        return _updated(load, rows).select(*map(quoted, stored))
    rows = greatest(load.key, load.order_by, rows)
    if load.soft_delete:
        return rows.selectExpr(*map(quoted, stored), f"{IS_DELETE} AS {quoted(load.soft_delete)}")
    return rows.where(f"NOT {IS_DELETE}").select(*map(quoted, stored))


def _fail_on_duplicate_key(load: Merge, rows: DataFrame) -> DataFrame:
    """Return the rows unchanged. Spark raises an error where two have the same key."""
    counted = rows.selectExpr("*", f"count(*) OVER (PARTITION BY {column_list(load.key)}) AS {_PLACE}")
    return counted.where(f"IF({_PLACE} > 1, raise_error('{DUPLICATE_KEY}'), true)").drop(_PLACE)


def _updated(load: Merge, rows: DataFrame) -> DataFrame:
    """Return `update` columns from the latest row, and the others from the first row after the last delete."""
    position = f"struct({', '.join(rank(rows, load.order_by))})"
    changing = {*load.update, *load.order_by}
    stored = payload(rows)
    last_delete = f"max(CASE WHEN {IS_DELETE} THEN {_PLACE} END) OVER (PARTITION BY {column_list(load.key)})"
    since_delete = (
        rows.selectExpr("*", f"{position} AS {_PLACE}")
        .selectExpr("*", f"{last_delete} AS {_DELETED}")
        .where(f"{_DELETED} IS NULL OR {_PLACE} > {_DELETED}")
    )
    row = f"struct({column_list(stored)})"
    bounds = since_delete.groupBy(*map(quoted, load.key)).agg(
        expression(f"max_by({row}, {_PLACE}) AS {_ROW}"), expression(f"min_by({row}, {_PLACE}) AS {_DELETED}")
    )
    return bounds.selectExpr(
        *(f"{_ROW if name in changing else _DELETED}.{quoted(name)} AS {quoted(name)}" for name in stored)
    )


def first_of_duplicates(load: Append, rows: DataFrame) -> DataFrame:
    """Return the earliest of duplicates within a window."""
    window = window_of(load)
    same = [*map(quoted, load.dedup), *([window] if window else [])]
    order = ascending([*([quoted(load.by)] if load.by else []), *content(rows)])
    return first_of(rows, same, order).select(*map(quoted, payload(rows)))


def window_of(load: Append, side: str = "") -> str | None:
    """Return SQL: the number of the dedup window of a row. None when the load has no window."""
    if load.within is None or load.by is None:
        return None
    length = round(load.within * 1_000_000)
    return f"floor(unix_micros(CAST({side}{quoted(load.by)} AS timestamp)) / {length})"
