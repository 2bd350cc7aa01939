"""The keys that are gone. A table holds no row of them, and must still know when they ended: a late row, older than
that, brings none of them back.

They are kept beside the table, and written before it is. Where a batch that was never committed, or was rolled back,
has written there since, they are not believed: the next batch tells them anew from all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.declare.loads import Changes, Load, Merge, Scd2
from lakesmith.failpoints import reach
from lakesmith.ledger.batch import Batch
from lakesmith.ports import TableFormat, Write
from lakesmith.quality.rules import kind
from lakesmith.spark.loads.order import DELETE, greatest, nothing, with_deletes
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 1000


def has_ends(load: Load) -> bool:
    """Whether keys of the table may be gone without a row that tells so."""
    match load:
        case Merge(delete=str(), soft_delete=None, update=()) | Scd2(delete=str()):
            return True
        case Changes(amounts=(), previous_key=previous):
            return not previous
        case _:
            return False


def as_merge(load: Merge | Changes) -> Merge:
    """The merge that a load with ends comes down to, which keeps one row a key."""
    if isinstance(load, Merge):
        return load
    return Merge(key=load.key, order_by=load.order_by, delete=f"{kind(load)} = 'delete'")


def ends_in(load: Merge | Scd2 | Changes, rows: DataFrame) -> DataFrame:
    """The keys whose last row says that they are gone, with its place in the order; a truncate has no key."""
    told = (*load.key, *load.order_by)
    if not isinstance(load, Changes):
        last = greatest(load.key, load.order_by, with_deletes(rows, load.delete))
        return last.where(DELETE).select(*map(quoted, told))
    emptied = rows.where(f"{kind(load)} = 'truncate'").selectExpr(
        *(f"{nothing(rows, name)} AS {quoted(name)}" for name in load.key), *map(quoted, load.order_by)
    )
    return ends_in(as_merge(load), rows.where(f"{kind(load)} <> 'truncate'")).unionByName(emptied.distinct())


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedKeys:
    """The ends of one table's keys."""

    format: TableFormat
    location: str
    flow: str

    def follows(self, parent: int) -> bool:
        """Whether they are there, and none was kept after `parent`: by a batch that was never committed, or was rolled
        back since."""
        facts = self.format.facts(self.location, self.flow)
        return facts is not None and facts.sequence // _ATTEMPTS <= parent

    def fence(self, batch: Batch, *, believed: bool = True) -> None:
        """Let no run that was suspended add to them any more. Those that are not believed are not from now on either:
        the next batch has this one before it."""
        facts = self.format.facts(self.location, self.flow)
        own = batch.sequence * _ATTEMPTS + batch.attempt
        if facts is None or facts.sequence == own:
            return
        believed = believed and self.follows(batch.parent)
        sequence = own if believed else (batch.sequence + 1) * _ATTEMPTS
        if facts.sequence < sequence:
            self.format.advance(self.location, Write(flow=self.flow, sequence=sequence, note=batch.note))

    def known(self, spark: SparkSession) -> DataFrame | None:
        """All that there are; None when there is none."""
        facts = self.format.facts(self.location, self.flow)
        return None if facts is None else self.format.read(spark, self.location, facts.version)

    def keep(self, load: Load, rows: DataFrame, batch: Batch, *, all_there_are: bool = False) -> None:
        """Add the ends that rows of a batch tell, or put them in the place of all others."""
        if not has_ends(load):
            return
        assert isinstance(load, Merge | Scd2 | Changes)
        ends = ends_in(load, rows)
        if not all_there_are and ends.isEmpty():
            return
        facts = self.format.facts(self.location, self.flow)
        write = Write(flow=self.flow, sequence=batch.sequence * _ATTEMPTS + batch.attempt, note=batch.note)
        if facts is None or not all_there_are:
            self.format.append(ends, self.location, write)
        else:
            self.format.overwrite(ends, self.location, write)
        reach("ends.kept", self.flow)
