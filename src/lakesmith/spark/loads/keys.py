"""The keys that changes touch, and all rows that those keys have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.declare.loads import Append, Changes, Snapshot
from lakesmith.quality.rules import kind
from lakesmith.spark.loads.change_stream import key_before, moves
from lakesmith.spark.loads.order import expression, have_values
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakesmith.spark.loads import Shaped


def touched_keys(load: Shaped, rows: DataFrame) -> DataFrame | None:
    """The keys of rows that came, changed or went away; None when these touch every key."""
    assert not isinstance(load, Append)
    if isinstance(load, Snapshot):
        return None  # a key that an extract does not have is touched by it too
    found = rows.select(*map(quoted, load.key))
    if isinstance(load, Changes):
        if not rows.where(f"{kind(load)} = 'truncate'").isEmpty():
            return None
        if load.previous_key:
            before = (f"{value} AS {quoted(name)}" for name, value in key_before(load).items())
            found = found.unionByName(rows.selectExpr(*before))
    return found.where(have_values(load.key)).distinct()


def rows_of(load: Shaped, rows: DataFrame, keys: DataFrame) -> DataFrame:
    """All rows that have something to say about some keys."""
    assert not isinstance(load, Append | Snapshot)
    told = rows.join(keys, list(load.key), "left_semi")
    if not isinstance(load, Changes):
        return told
    if load.previous_key:
        left = keys.selectExpr(*(f"{quoted(name)} AS {quoted(f'{name} before')}" for name in load.key))
        same = " AND ".join(f"{value} = {quoted(f'{name} before')}" for name, value in key_before(load).items())
        away = rows.where(moves(load)).join(left, expression(same), "left_semi")
        told = told.unionByName(away)  # what came twice is one change
    return told.unionByName(rows.where(f"{kind(load)} = 'truncate'"))
