"""Full extracts become changes: a key that an extract has and the next one has not is gone with the next one."""

from __future__ import annotations

from collections.abc import Container, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lakesmith.columns import HIDDEN
from lakesmith.declare.loads import Snapshot
from lakesmith.errors import DataError
from lakesmith.spark.loads.order import DELETE, content, descending, expression, first_of, have_values, listed, only
from lakesmith.spark.types import spelt
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = f"{HIDDEN}keys"
_EXTRACT = f"{HIDDEN}extract"
_NEXT = f"{HIDDEN}next"
_GONE = f"{HIDDEN}gone"

Sizes = Sequence[tuple[Any, int]]
"""How many keys each extract has, in order."""


def as_events(load: Snapshot, rows: DataFrame, held: DataFrame | None = None) -> DataFrame:
    """The rows of all extracts, and a delete for each key that the next extract has not. `held` are the rows of the
    extract before all of these."""
    key, taken = listed(load.key), quoted(load.taken)
    every = first_of(rows, [key, taken], descending(content(rows))).selectExpr("*", f"{taken} AS {_EXTRACT}")
    every = every.where(f"{_EXTRACT} IS NOT NULL")
    if held is not None:
        every = every.unionByName(
            held.selectExpr("*", f"CAST(NULL AS {spelt(rows.schema[load.taken].dataType)}) AS {_EXTRACT}"),
            allowMissingColumns=True,
        )
    # An extract without a name comes first.
    following = every.select(_EXTRACT).distinct()
    following = following.selectExpr(_EXTRACT, f"lead({_EXTRACT}) OVER (ORDER BY {_EXTRACT}) AS {_GONE}")
    seen = (
        every.alias("seen")
        .join(following.alias("following"), expression(f"seen.{_EXTRACT} <=> following.{_EXTRACT}"))
        .selectExpr(
            "seen.*", _GONE, f"lead(seen.{_EXTRACT}) OVER (PARTITION BY {key} ORDER BY seen.{_EXTRACT}) AS {_NEXT}"
        )
    )
    gone = seen.where(f"{_GONE} IS NOT NULL AND NOT ({_NEXT} <=> {_GONE})")
    told = {**{name: quoted(name) for name in load.key}, load.taken: _GONE}
    deletes = gone.selectExpr(*only(rows, told), f"true AS {DELETE}")
    return seen.drop(_EXTRACT, _GONE, _NEXT).selectExpr("*", f"false AS {DELETE}").unionByName(deletes, True)


def go_on(load: Snapshot, arrived: DataFrame, rows: DataFrame) -> bool:
    """Whether all extracts that have rows among `arrived` are later than the others, and `rows` has no more of them."""
    from pyspark.sql import functions as F

    def counted(frame: DataFrame) -> dict[Any, int]:
        return {row[0]: row[1] for row in frame.groupBy(quoted(load.taken)).count().collect()}

    came = counted(arrived.where(have_values([load.taken])))
    return bool(came) and came == counted(rows.where(F.col(quoted(load.taken)) >= F.lit(min(came))))


def sizes(load: Snapshot, rows: DataFrame) -> Sizes:
    """Of the extracts that have rows among these."""
    taken = quoted(load.taken)
    counted = rows.groupBy(taken).agg(expression(f"count(DISTINCT {listed(load.key)}) AS {_KEYS}")).orderBy(taken)
    return [(row[load.taken], row[_KEYS]) for row in counted.collect() if row[load.taken] is not None]


def refuse_shrunk(load: Snapshot, extracts: Sizes, new: Container[Any]) -> None:
    """Raise when one of the new extracts lost more keys than it may against the one before."""
    for (_, before), (at, now) in pairwise(extracts):
        if at in new and load.max_shrink is not None and now < before * (1 - Decimal(str(load.max_shrink))):
            raise DataError(
                "snapshot-shrank",
                f"the extract of {at} has {now:,} keys, and the one before had {before:,}: "
                f"more than max_shrink ({load.max_shrink:.0%}) are missing",
                hint="the table stays as it is; when the extract is right, raise max_shrink and run again",
            )
