"""New rows of a history against what the table holds: enough, as long as none of them is late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN, IS_CURRENT, VALID_FROM, VALID_TO
from lakesmith.declare.loads import Scd2
from lakesmith.spark.loads.history import SINCE
from lakesmith.spark.loads.order import DELETE, expression, nothing, only, payload, with_deletes
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LAST = f"{HIDDEN}last"


def late_keys(load: Scd2, rows: DataFrame, old: DataFrame, ends: DataFrame | None) -> DataFrame:
    """The keys with a row that is not later than everything that the table knows of the key."""
    time, key = quoted(load.order_by[0]), [quoted(name) for name in load.key]
    known = old.selectExpr(*key, f"greatest({time}, {VALID_TO}) AS {_LAST}")
    if ends is not None:
        known = known.unionByName(ends.selectExpr(*key, f"{time} AS {_LAST}"))
    last = known.groupBy(*key).agg(expression(f"max({_LAST}) AS {_LAST}"))
    return rows.join(last, list(load.key)).where(f"{time} <= {_LAST}").select(*key).distinct()


def continued(load: Scd2, rows: DataFrame, old: DataFrame) -> DataFrame:
    """The rows of keys that are in order, and for each the interval that is open, as a row of its own."""
    marked = with_deletes(rows, load.delete).selectExpr("*", f"{nothing(old, VALID_FROM)} AS {SINCE}")
    held = only(rows, {name: quoted(name) for name in payload(rows) if name in old.columns})
    open_now = old.where(IS_CURRENT).selectExpr(*held, f"false AS {DELETE}", f"{VALID_FROM} AS {SINCE}")
    return marked.unionByName(open_now, allowMissingColumns=True)
