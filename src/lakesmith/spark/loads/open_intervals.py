"""Continues stored histories with new rows, for keys without late rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN, IS_CURRENT, VALID_FROM, VALID_TO
from lakesmith.declare.loads import Scd2
from lakesmith.spark.loads.history import SINCE
from lakesmith.spark.loads.order import IS_DELETE, expression, null_of, payload, sparse_columns, with_deletes
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LAST = f"{HIDDEN}last"


def late_keys(load: Scd2, rows: DataFrame, old: DataFrame, deleted_keys: DataFrame | None) -> DataFrame:
    """Return the keys with a late row: one that is not later than all stored rows and deletes of its key."""
    time, key = quoted(load.order_by[0]), [quoted(name) for name in load.key]
    known = old.selectExpr(*key, f"greatest({time}, {VALID_TO}) AS {_LAST}")
    if deleted_keys is not None:
        known = known.unionByName(deleted_keys.selectExpr(*key, f"{time} AS {_LAST}"))
    last = known.groupBy(*key).agg(expression(f"max({_LAST}) AS {_LAST}"))
    return rows.join(last, list(load.key)).where(f"{time} <= {_LAST}").select(*key).distinct()


def continue_intervals(load: Scd2, rows: DataFrame, old: DataFrame) -> DataFrame:
    """Return the new rows, and the open intervals of the table as rows that mark their start."""
    marked = with_deletes(rows, load.delete).selectExpr("*", f"{null_of(old, VALID_FROM)} AS {SINCE}")
    stored = sparse_columns(rows, {name: quoted(name) for name in payload(rows) if name in old.columns})
    open_now = old.where(IS_CURRENT).selectExpr(*stored, f"false AS {IS_DELETE}", f"{VALID_FROM} AS {SINCE}")
    return marked.unionByName(open_now, allowMissingColumns=True)
