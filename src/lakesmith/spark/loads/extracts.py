"""Full extracts become changes: a key that an extract has and the next one has not is gone with the next one."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.declare.loads import Snapshot
from lakesmith.quality.rules import quoted
from lakesmith.spark.loads.order import DELETE, content, descending, expression, first_of, listed, only, payload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = f"{HIDDEN}place"
_NEXT = f"{HIDDEN}next"
_GONE = f"{HIDDEN}gone"


def as_events(load: Snapshot, rows: DataFrame) -> DataFrame:
    """The rows of all extracts, and a delete for each key that the next extract has not."""
    stored = payload(rows)
    key, taken = listed(load.key), quoted(load.taken)
    kept = first_of(rows, [key, taken], descending(content(rows)))
    following = rows.select(taken).distinct().selectExpr(taken, f"lead({taken}) OVER (ORDER BY {taken}) AS {_GONE}")
    seen = kept.join(following, load.taken).selectExpr(
        *map(quoted, stored), _GONE, f"lead({taken}) OVER (PARTITION BY {key} ORDER BY {taken}) AS {_NEXT}"
    )
    gone = seen.where(f"{_GONE} IS NOT NULL AND NOT ({_NEXT} <=> {_GONE})")
    told = {**{name: quoted(name) for name in load.key}, load.taken: _GONE}
    deletes = gone.selectExpr(*only(rows, told), f"true AS {DELETE}")
    return seen.selectExpr(*map(quoted, stored), f"false AS {DELETE}").unionByName(deletes)


def shrunk(load: Snapshot, rows: DataFrame, arrived: DataFrame | None) -> str | None:
    """In words, how an extract lost more keys than it may against the one before; None when none did. Those are judged
    that have rows among `arrived`, and without it the newest."""
    if load.max_shrink is None:
        return None
    taken, key = quoted(load.taken), listed(load.key)
    counted = rows.groupBy(taken).agg(expression(f"count(DISTINCT {key}) AS {_PLACE}")).orderBy(taken).collect()
    extracts = [(row[load.taken], row[_PLACE]) for row in counted]
    new = {at for at, _ in extracts[-1:]}
    if arrived is not None:
        new = {row[0] for row in arrived.select(taken).distinct().collect()}
    for (_, before), (at, now) in pairwise(extracts):
        if at in new and now < before * (1 - Decimal(str(load.max_shrink))):
            return f"the extract of {at} has {now:,} keys, and the one before had {before:,}"
    return None
