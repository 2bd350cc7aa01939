"""One row a key: the latest, or the first of those that mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN, KEY_TWICE
from lakesmith.declare.loads import Append, Merge
from lakesmith.spark.loads.order import (
    DELETE,
    ascending,
    content,
    expression,
    first_of,
    greatest,
    listed,
    payload,
    rank,
    with_deletes,
)
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = f"{HIDDEN}place"
_GONE = f"{HIDDEN}gone"
_ROW = f"{HIDDEN}row"
_DAY = 86_400_000_000


def latest(load: Merge, rows: DataFrame) -> DataFrame:
    """The greatest row of each key; none where that says that the key is gone, unless such rows stay."""
    if not load.order_by:
        return _one_each(load, rows)
    stored = payload(rows)
    rows = with_deletes(rows, load.delete)
    if load.update:
        return _updated(load, rows).select(*map(quoted, stored))
    rows = greatest(load.key, load.order_by, rows)
    if load.soft_delete:
        return rows.selectExpr(*map(quoted, stored), f"{DELETE} AS {quoted(load.soft_delete)}")
    return rows.where(f"NOT {DELETE}").select(*map(quoted, stored))


def _one_each(load: Merge, rows: DataFrame) -> DataFrame:
    """The rows as they are; an error where two have the same key."""
    counted = rows.selectExpr("*", f"count(*) OVER (PARTITION BY {listed(load.key)}) AS {_PLACE}")
    return counted.where(f"IF({_PLACE} > 1, raise_error('{KEY_TWICE}'), true)").drop(_PLACE)


def _updated(load: Merge, rows: DataFrame) -> DataFrame:
    """The columns that follow from the latest row, the others from the first one since the key was gone."""
    place = f"struct({', '.join(rank(rows, load.order_by))})"
    changing = {*load.update, *load.order_by}
    stored = payload(rows)
    gone = f"max(CASE WHEN {DELETE} THEN {_PLACE} END) OVER (PARTITION BY {listed(load.key)})"
    kept = (
        rows.selectExpr("*", f"{place} AS {_PLACE}")
        .selectExpr("*", f"{gone} AS {_GONE}")
        .where(f"{_GONE} IS NULL OR {_PLACE} > {_GONE}")
    )
    whole = f"struct({listed(stored)})"
    ends = kept.groupBy(*map(quoted, load.key)).agg(
        expression(f"max_by({whole}, {_PLACE}) AS {_ROW}"), expression(f"min_by({whole}, {_PLACE}) AS {_GONE}")
    )
    return ends.selectExpr(
        *(f"{_ROW if name in changing else _GONE}.{quoted(name)} AS {quoted(name)}" for name in stored)
    )


def deduplicated(load: Append, rows: DataFrame) -> DataFrame:
    """Of rows that mean the same within a window, the earliest."""
    window = window_of(load)
    same = [*map(quoted, load.dedup), *([window] if window else [])]
    order = ascending([*([quoted(load.by)] if load.by else []), *content(rows)])
    return first_of(rows, same, order).select(*map(quoted, payload(rows)))


def window_of(load: Append, side: str = "") -> str | None:
    """SQL: the number of the window that a row falls into, when rows are the same within windows only."""
    if load.within is None or load.by is None:
        return None
    length = load.within.days * _DAY + load.within.seconds * 1_000_000 + load.within.microseconds
    return f"floor(unix_micros(CAST({side}{quoted(load.by)} AS timestamp)) / {length})"
