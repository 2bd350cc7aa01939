"""New rows of a history against what the table holds: enough, as long as none of them is late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN, IS_CURRENT, VALID_FROM, VALID_TO
from lakesmith.declare.loads import Scd2
from lakesmith.quality.rules import quoted
from lakesmith.spark.loads.history import SINCE
from lakesmith.spark.loads.order import DELETE, payload, with_deletes
from lakesmith.spark.types import spelt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LAST = f"{HIDDEN}last"


def late_keys(load: Scd2, rows: DataFrame, old: DataFrame, ends: DataFrame | None) -> DataFrame:
    """The keys with a row that is not later than everything that the table knows of the key."""
    time, key = quoted(load.order_by[0]), [quoted(name) for name in load.key]
    known = old.selectExpr(*key, f"greatest({time}, {VALID_TO}) AS {_LAST}")
    if ends is not None:
        known = known.unionByName(ends.selectExpr(*key, f"{time} AS {_LAST}"))
    last = known.groupBy(*key).agg({_LAST: "max"}).withColumnRenamed(f"max({_LAST})", _LAST)
    return rows.join(last, list(load.key)).where(f"{time} <= {_LAST}").select(*key).distinct()


def continued(load: Scd2, rows: DataFrame, old: DataFrame) -> DataFrame:
    """The rows of keys that are in order, and for each the interval that is open, as a row of its own."""
    stored = payload(rows)
    marked = with_deletes(rows, load.delete).selectExpr("*", f"CAST(NULL AS {_type(old)}) AS {SINCE}")
    open_now = old.where(IS_CURRENT)
    held = [
        quoted(name) if name in old.columns else f"CAST(NULL AS {_types(rows)[name]}) AS {quoted(name)}"
        for name in stored
    ]
    return marked.unionByName(
        open_now.selectExpr(*held, f"false AS {DELETE}", f"{VALID_FROM} AS {SINCE}"), allowMissingColumns=True
    )


def _type(old: DataFrame) -> str:
    return _types(old)[VALID_FROM]


def _types(rows: DataFrame) -> dict[str, str]:
    return {field.name: spelt(field.dataType) for field in rows.schema.fields}
