"""The keys that changes touch, and all rows that those keys have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.declare.loads import Append, Changes, Snapshot
from lakesmith.quality.rules import kind, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakesmith.spark.loads import Shaped


def touched_keys(load: Shaped, rows: DataFrame) -> DataFrame | None:
    """The keys of rows that came, changed or went away; None when these touch every key."""
    if isinstance(load, Snapshot):
        return None  # a key that an extract does not have is touched by it too
    names = load.dedup if isinstance(load, Append) else load.key
    found = rows.selectExpr(*map(quoted, names))
    if isinstance(load, Changes):
        if rows.where(f"{kind(load)} = 'truncate'").limit(1).count():
            return None
        if load.previous_key:
            before = (
                f"coalesce({quoted(load.previous_key[name])}, {quoted(name)}) AS {quoted(name)}"
                if name in load.previous_key
                else quoted(name)
                for name in names
            )
            found = found.unionByName(rows.selectExpr(*before))
    return found.where(" AND ".join(f"{quoted(name)} IS NOT NULL" for name in names)).distinct()


def rows_of(load: Shaped, rows: DataFrame, keys: DataFrame) -> DataFrame:
    """All rows that have something to say about some keys."""
    assert not isinstance(load, Snapshot)
    names = list(load.dedup if isinstance(load, Append) else load.key)
    told = rows.join(keys, names, "left_semi")
    if not isinstance(load, Changes):
        return told
    if load.previous_key:
        moved = {name: load.previous_key.get(name, name) for name in names}
        left = keys.selectExpr(*(f"{quoted(name)} AS {quoted(f'{name} before')}" for name in names))
        same = " AND ".join(
            f"coalesce({quoted(old)}, {quoted(name)}) = {quoted(f'{name} before')}" for name, old in moved.items()
        )
        from pyspark.sql import functions as F

        differs = " OR ".join(
            f"({quoted(old)} IS NOT NULL AND NOT ({quoted(old)} <=> {quoted(name)}))"
            for name, old in load.previous_key.items()
        )
        away = rows.where(differs).join(left, F.expr(same), "left_semi")
        told = told.unionByName(away)  # what came twice is one change
    return told.unionByName(rows.where(f"{kind(load)} = 'truncate'"))
