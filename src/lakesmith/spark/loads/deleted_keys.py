"""Stores deleted keys (tombstones) beside a table, so that a late row does not bring a deleted key back.

They are written before the table. When a batch that never committed or was rolled back has written them, they are
invalid, and the next batch rebuilds them from all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.declare.loads import Changes, Load, Merge, Scd2
from lakesmith.failpoints import failpoint
from lakesmith.ledger.batch import Batch
from lakesmith.ports import TableFolder, TableFormat, Write
from lakesmith.quality.rules import operation_sql
from lakesmith.spark.loads.order import IS_DELETE, greatest, null_of, with_deletes
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 1000


def tracks_deleted_keys(load: Load) -> bool:
    """Whether the load deletes keys without leaving a row that records it."""
    match load:
        case Merge(delete=str(), soft_delete=None, update=()) | Scd2(delete=str()):
            return True
        case Changes(amounts=(), previous_key=previous):
            return not previous
        case _:
            return False


def as_merge(load: Merge | Changes) -> Merge:
    """Return the merge that is equivalent to a load with deleted keys."""
    if isinstance(load, Merge):
        return load
    return Merge(key=load.key, order_by=load.order_by, delete=f"{operation_sql(load)} = 'delete'")


def find_deleted_keys(load: Merge | Scd2 | Changes, rows: DataFrame) -> DataFrame:
    """Return the keys whose last row is a delete, with its order columns. A truncate is a row with a NULL key."""
    columns = (*load.key, *load.order_by)
    if not isinstance(load, Changes):
        last = greatest(load.key, load.order_by, with_deletes(rows, load.delete))
        return last.where(IS_DELETE).select(*map(quoted, columns))
    emptied = rows.where(f"{operation_sql(load)} = 'truncate'").selectExpr(
        *(f"{null_of(rows, name)} AS {quoted(name)}" for name in load.key), *map(quoted, load.order_by)
    )
    return find_deleted_keys(as_merge(load), rows.where(f"{operation_sql(load)} <> 'truncate'")).unionByName(
        emptied.distinct()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedKeys:
    """The deleted keys of one table."""

    format: TableFormat
    folder: TableFolder
    flow: str

    def is_current(self, parent: int) -> bool:
        """Whether they exist and no batch after `parent` has written them (one that never committed or was rolled
        back)."""
        facts = self.format.facts(self.folder, self.flow)
        return facts is not None and facts.sequence // _ATTEMPTS <= parent

    def fence(self, batch: Batch, *, valid: bool = True) -> None:
        """Prevent suspended runs from writing to them. Invalid deleted keys stay invalid for the next batch."""
        facts = self.format.facts(self.folder, self.flow)
        own = batch.sequence * _ATTEMPTS + batch.attempt
        if facts is None or facts.sequence == own:
            return
        valid = valid and self.is_current(batch.parent)
        sequence = own if valid else (batch.sequence + 1) * _ATTEMPTS
        if facts.sequence < sequence:
            self.format.advance(self.folder, Write(flow=self.flow, sequence=sequence, note=batch.note))

    def read(self, spark: SparkSession) -> DataFrame | None:
        """Return all deleted keys, or None when they were never written."""
        facts = self.format.facts(self.folder, self.flow)
        return None if facts is None else self.format.read(spark, self.folder, facts.version)

    def store(self, load: Load, rows: DataFrame, batch: Batch, *, replace_all: bool = False, few: bool = False) -> None:
        """Add the keys that the rows delete, or replace all deleted keys by them. With `few`, the rows are in
        memory."""
        if not tracks_deleted_keys(load):
            return
        assert isinstance(load, Merge | Scd2 | Changes)
        deleted = find_deleted_keys(load, rows)
        if not replace_all and deleted.isEmpty():
            return
        facts = self.format.facts(self.folder, self.flow)
        write = Write(flow=self.flow, sequence=batch.sequence * _ATTEMPTS + batch.attempt, note=batch.note, few=few)
        if facts is None or not replace_all:
            self.format.append(deleted, self.folder, write)
        else:
            self.format.overwrite(deleted, self.folder, write)
        failpoint("deleted_keys.stored", self.flow)
