"""Implements each load as one function from all rows of some keys to the table rows of these keys.

The result does not depend on the order of arrival or on how the rows were split into batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from lakesmith.declare.loads import Append, Changes, Load, Merge, Scd2, Snapshot
from lakesmith.spark.loads.change_stream import apply_changes
from lakesmith.spark.loads.extracts import as_history, extract_changes
from lakesmith.spark.loads.history import intervals
from lakesmith.spark.loads.latest import first_of_duplicates, latest_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KeyedLoad = Merge | Scd2 | Changes | Snapshot | Append
"""Loads that compare all rows of a key to compute the rows of the table."""


def is_keyed(load: Load) -> TypeGuard[KeyedLoad]:
    """Whether the load compares rows of one key."""
    return isinstance(load, Merge | Scd2 | Changes | Snapshot) or (isinstance(load, Append) and bool(load.dedup))


def apply_load(load: KeyedLoad, rows: DataFrame) -> DataFrame:
    """Return the rows of the table, from all query rows of some or all keys."""
    match load:
        case Append():
            return first_of_duplicates(load, rows)
        case Merge():
            return latest_rows(load, rows)
        case Scd2():
            return intervals(load, rows)
        case Changes():
            return apply_changes(load, rows)
        case Snapshot(into="merge"):
            return latest_rows(Merge(key=load.key, order_by=(load.taken,)), extract_changes(load, rows))
        case Snapshot():
            return intervals(as_history(load), extract_changes(load, rows))
