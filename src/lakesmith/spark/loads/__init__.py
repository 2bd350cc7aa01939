"""What each load makes of the rows that a query gives: one function from all rows of some keys to those keys' part of
the table. However the rows were cut into batches, and in whatever order they came, the table is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from lakesmith.declare.loads import Append, Changes, Load, Merge, Scd2, Snapshot
from lakesmith.spark.loads.change_stream import entries
from lakesmith.spark.loads.extracts import as_events, as_history
from lakesmith.spark.loads.history import intervals
from lakesmith.spark.loads.latest import deduplicated, latest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Shaped = Merge | Scd2 | Changes | Snapshot | Append
"""Loads that look at several rows of a key to tell what the table holds."""


def is_keyed(load: Load) -> TypeGuard[Shaped]:
    """Whether rows of one key are weighed against each other."""
    return isinstance(load, Merge | Scd2 | Changes | Snapshot) or (isinstance(load, Append) and bool(load.dedup))


def shaped(load: Shaped, rows: DataFrame) -> DataFrame:
    """The table's rows, from all rows that the query gives for some keys or for all."""
    match load:
        case Append():
            return deduplicated(load, rows)
        case Merge():
            return latest(load, rows)
        case Scd2():
            return intervals(load, rows)
        case Changes():
            return entries(load, rows)
        case Snapshot(into="merge"):
            return latest(Merge(key=load.key, order_by=(load.taken,)), as_events(load, rows))
        case Snapshot():
            return intervals(as_history(load), as_events(load, rows))
