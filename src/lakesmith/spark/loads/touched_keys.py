"""Finds the keys that changes touch, and all rows of these keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.declare.loads import Append, Changes, Snapshot
from lakesmith.quality.rules import operation_sql
from lakesmith.spark.loads.change_stream import key_before, moves
from lakesmith.spark.loads.order import all_not_null, expression
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakesmith.spark.loads import KeyedLoad


def touched_keys(load: KeyedLoad, rows: DataFrame) -> DataFrame | None:
    """Return the keys of inserted, changed or deleted rows, or None when they touch every key."""
    assert not isinstance(load, Append)
    if isinstance(load, Snapshot):
        return None  # an extract also touches the keys that it lacks
    found = rows.select(*map(quoted, load.key))
    if isinstance(load, Changes):
        if not rows.where(f"{operation_sql(load)} = 'truncate'").isEmpty():
            return None
        if load.previous_key:
            before = (f"{value} AS {quoted(name)}" for name, value in key_before(load).items())
            found = found.unionByName(rows.selectExpr(*before))
    return found.where(all_not_null(load.key)).distinct()


def rows_for_keys(load: KeyedLoad, rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return all rows that affect some keys."""
    assert not isinstance(load, Append | Snapshot)
    found = rows.join(keys, list(load.key), "left_semi")
    if not isinstance(load, Changes):
        return found
    if load.previous_key:
        left = keys.selectExpr(*(f"{quoted(name)} AS {quoted(f'{name} before')}" for name in load.key))
        same = " AND ".join(f"{value} = {quoted(f'{name} before')}" for name, value in key_before(load).items())
        away = rows.where(moves(load)).join(left, expression(same), "left_semi")
        found = found.unionByName(away)  # duplicates of a change count once
    return found.unionByName(rows.where(f"{operation_sql(load)} = 'truncate'"))
