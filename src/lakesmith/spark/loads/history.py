"""Intervals: from when until when each state of a key held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN, IS_CURRENT, OVERLAP, VALID_FROM, VALID_TO
from lakesmith.declare.loads import Scd2
from lakesmith.spark.loads.order import DELETE, ascending, content, listed, payload, rank, with_deletes
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINCE = f"{HIDDEN}since"
"""In a row that stands for an interval which is open: from when it holds."""
_NEXT = f"{HIDDEN}next"
_STATE = f"{HIDDEN}state"
_BEFORE = f"{HIDDEN}earlier"
_OPENS = f"{HIDDEN}opens"
_NUMBER = f"{HIDDEN}number"
_AFTER = f"{HIDDEN}after"
_GONE = f"{HIDDEN}closed"


def intervals(load: Scd2, rows: DataFrame) -> DataFrame:
    """Each state that a key was in, with the values of the last row that left it there."""
    stored = payload(rows)
    rows = with_deletes(rows, load.delete)
    time = quoted(load.order_by[0])
    key = listed(load.key)
    ordered = f"PARTITION BY {key} ORDER BY {time}"
    # All that follows is by key and in order of time: one shuffle, one sort.
    every = f"PARTITION BY {key} ORDER BY {ascending(dict.fromkeys([time, *rank(rows, load.order_by)]))}"
    last_of_time = rows.selectExpr("*", f"lead({time}) OVER ({every}) AS {_NEXT}").where(
        f"{_NEXT} IS NULL OR {_NEXT} > {time}"
    )
    state = f"struct({DELETE}, {', '.join(f'CASE WHEN NOT {DELETE} THEN {c} END' for c in _tracked(load, rows))})"
    marked = last_of_time.selectExpr("*", f"{state} AS {_STATE}").selectExpr(
        "*", f"lag({_STATE}) OVER ({ordered}) AS {_BEFORE}"
    )
    opens = f"NOT {DELETE} AND ({_BEFORE} IS NULL OR NOT ({_BEFORE} <=> {_STATE}))"
    counted = marked.selectExpr("*", f"{opens} AS {_OPENS}").selectExpr(
        "*",
        f"sum(CAST({_OPENS} AS int)) OVER ({ordered}) AS {_NUMBER}",
        f"lead(struct({time} AS at, {_OPENS} OR {DELETE} AS ends, {DELETE} AS gone)) OVER ({ordered}) AS {_AFTER}",
    )
    first = f"coalesce({SINCE}, {time})" if SINCE in rows.columns else time
    since = f"min({first}) OVER (PARTITION BY {key}, {_NUMBER})"
    ends = counted.selectExpr("*", f"{since} AS {VALID_FROM}").where(
        f"NOT {DELETE} AND ({_AFTER} IS NULL OR {_AFTER}.ends)"
    )
    made = ends.selectExpr(
        *map(quoted, stored),
        VALID_FROM,
        f"{_AFTER}.at AS {VALID_TO}",
        f"{_AFTER} IS NULL AS {IS_CURRENT}",
        f"coalesce({_AFTER}.gone, false) AS {_GONE}",
    )
    return _proved(load, made)


def _proved(load: Scd2, made: DataFrame) -> DataFrame:
    """The intervals; an error before anything is written where two overlap, or where one is missing between two that no
    delete stands between."""
    following = f"lead({VALID_FROM}) OVER (PARTITION BY {listed(load.key)} ORDER BY {VALID_FROM})"
    right = (
        f"CASE WHEN {VALID_TO} <= {VALID_FROM} THEN false WHEN {_NEXT} IS NULL THEN true "
        f"WHEN {_GONE} THEN {VALID_TO} <= {_NEXT} ELSE coalesce({VALID_TO} = {_NEXT}, false) END"
    )
    checked = made.selectExpr("*", f"{following} AS {_NEXT}").where(f"IF({right}, true, raise_error('{OVERLAP}'))")
    return checked.drop(_NEXT, _GONE)


def _tracked(load: Scd2, rows: DataFrame) -> list[str]:
    """SQL: the values whose change opens a new interval."""
    other = {*load.key, *load.order_by, *load.ignore}
    values = dict(zip(payload(rows), content(rows), strict=True))
    return [value for name, value in values.items() if (name in load.track if load.track else name not in other)]
