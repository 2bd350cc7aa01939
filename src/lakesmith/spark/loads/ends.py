"""The keys that are gone. A table holds no row of them, and must still know when they ended: a late row, older than
that, brings none of them back.

They are kept beside the table, and written before it is. Where a batch that was never committed, or was rolled back,
has written there since, they are not believed: the next batch tells them anew from all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.declare.loads import Changes, Load, Merge, Scd2
from lakesmith.ledger.batches import Batch
from lakesmith.ports import TableFormat, Write
from lakesmith.quality.rules import kind, quoted
from lakesmith.spark.loads.order import DELETE, descending, listed, rank, with_deletes
from lakesmith.spark.types import spelt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = f"{HIDDEN}place"
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


def as_merge(load: Load) -> Merge | None:
    """The merge that a load with ends comes down to, unless it keeps more than one row a key."""
    match load:
        case Merge():
            return load
        case Changes(key=key, order_by=order_by):
            return Merge(key=key, order_by=order_by, delete=f"{kind(load)} = 'delete'")
        case _:
            return None


def greatest(key: Sequence[str], order_by: Sequence[str], rows: DataFrame) -> DataFrame:
    """The last row of each key, a delete as any other."""
    window = f"PARTITION BY {listed(key)} ORDER BY {descending(rank(rows, order_by))}"
    return rows.selectExpr("*", f"row_number() OVER ({window}) AS {_PLACE}").where(f"{_PLACE} = 1").drop(_PLACE)


def ends_in(load: Merge | Scd2 | Changes, rows: DataFrame) -> DataFrame:
    """The keys whose last row says that they are gone, with its place in the order; a truncate has no key."""
    if isinstance(load, Changes):
        what = rows.selectExpr("*", f"{kind(load)} AS {_PLACE}")
        emptied = what.where(f"{_PLACE} = 'truncate'").select(*map(quoted, (*load.key, *load.order_by)))
        nobody = [
            f"CAST(NULL AS {spelt(field.dataType)}) AS {quoted(field.name)}"
            for field in emptied.schema.fields
            if field.name in load.key
        ]
        emptied = emptied.selectExpr(*nobody, *map(quoted, load.order_by)).distinct()
        others = what.where(f"{_PLACE} <> 'truncate'").selectExpr("*", f"{_PLACE} = 'delete' AS {DELETE}").drop(_PLACE)
    else:
        emptied, others = None, with_deletes(rows, load.delete)
    gone = greatest(load.key, load.order_by, others).where(DELETE)
    gone = gone.select(*map(quoted, (*load.key, *load.order_by)))
    return gone if emptied is None else gone.unionByName(emptied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The ends of one table's keys."""

    format: TableFormat
    location: str
    flow: str

    def follows(self, parent: int) -> bool:
        """Whether nothing was kept after `parent`: by a batch that was never committed, or was rolled back since."""
        facts = self.format.facts(self.location, self.flow)
        return facts is None or facts.sequence // _ATTEMPTS <= parent

    def known(self, spark: SparkSession) -> DataFrame | None:
        """All that there are; None when there is none."""
        facts = self.format.facts(self.location, self.flow)
        return None if facts is None else self.format.read(spark, self.location, facts.version)

    def keep(self, ends: DataFrame, batch: Batch, *, all_there_are: bool) -> None:
        """Add the ends of a batch, or put them in the place of all others."""
        if not all_there_are and ends.isEmpty():
            return
        facts = self.format.facts(self.location, self.flow)
        write = Write(flow=self.flow, sequence=batch.sequence * _ATTEMPTS + batch.attempt, note=batch.note)
        if facts is None or not all_there_are:
            self.format.append(ends, self.location, write)
        else:
            self.format.overwrite(ends, self.location, write)
