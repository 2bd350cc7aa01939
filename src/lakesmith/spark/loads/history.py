"""The load `scd2`: computes the validity interval of each state of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import BROKEN_INTERVALS, HIDDEN, IS_CURRENT, VALID_FROM, VALID_TO
from lakesmith.declare.loads import Scd2
from lakesmith.spark.loads.order import IS_DELETE, ascending, column_list, content, payload, rank, with_deletes
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINCE = f"{HIDDEN}since"
"""Set in rows that represent a stored open interval: when it starts."""
_NEXT = f"{HIDDEN}next"
_STATE = f"{HIDDEN}state"
_BEFORE = f"{HIDDEN}earlier"
_OPENS = f"{HIDDEN}opens"
_NUMBER = f"{HIDDEN}number"
_AFTER = f"{HIDDEN}after"
_DELETED = f"{HIDDEN}closed"


def intervals(load: Scd2, rows: DataFrame) -> DataFrame:
    """Return one row per state of a key, with the values of the last row in that state."""
    stored = payload(rows)
    rows = with_deletes(rows, load.delete)
    time = quoted(load.order_by[0])
    key = column_list(load.key)
    ordered = f"PARTITION BY {key} ORDER BY {time}"
    # All windows below use the same key and order: one shuffle, one sort.
    every = f"PARTITION BY {key} ORDER BY {ascending(dict.fromkeys([time, *rank(rows, load.order_by)]))}"
    last_of_time = rows.selectExpr("*", f"lead({time}) OVER ({every}) AS {_NEXT}").where(
        f"{_NEXT} IS NULL OR {_NEXT} > {time}"
    )
    state = f"struct({IS_DELETE}, {', '.join(f'CASE WHEN NOT {IS_DELETE} THEN {c} END' for c in _tracked(load, rows))})"
    marked = last_of_time.selectExpr("*", f"{state} AS {_STATE}").selectExpr(
        "*", f"lag({_STATE}) OVER ({ordered}) AS {_BEFORE}"
    )
    opens = f"NOT {IS_DELETE} AND ({_BEFORE} IS NULL OR NOT ({_BEFORE} <=> {_STATE}))"
    counted = marked.selectExpr("*", f"{opens} AS {_OPENS}").selectExpr(
        "*",
        f"sum(CAST({_OPENS} AS int)) OVER ({ordered}) AS {_NUMBER}",
        f"lead(struct({time} AS at, {_OPENS} OR {IS_DELETE} AS ends, {IS_DELETE} AS deleted)) OVER ({ordered}) "
        f"AS {_AFTER}",
    )
    first = f"coalesce({SINCE}, {time})" if SINCE in rows.columns else time
    since = f"min({first}) OVER (PARTITION BY {key}, {_NUMBER})"
    closed = counted.selectExpr("*", f"{since} AS {VALID_FROM}").where(
        f"NOT {IS_DELETE} AND ({_AFTER} IS NULL OR {_AFTER}.ends)"
    )
    made = closed.selectExpr(
        *map(quoted, stored),
        VALID_FROM,
        f"{_AFTER}.at AS {VALID_TO}",
        f"{_AFTER} IS NULL AS {IS_CURRENT}",
        f"coalesce({_AFTER}.deleted, false) AS {_DELETED}",
    )
    return _assert_gapless(load, made)


def _assert_gapless(load: Scd2, made: DataFrame) -> DataFrame:
    """Return the intervals. Spark raises an error, before anything is written, where two overlap, or where there is a
    gap without a delete."""
    following = f"lead({VALID_FROM}) OVER (PARTITION BY {column_list(load.key)} ORDER BY {VALID_FROM})"
    right = (
        f"CASE WHEN {VALID_TO} <= {VALID_FROM} THEN false WHEN {_NEXT} IS NULL THEN true "
        f"WHEN {_DELETED} THEN {VALID_TO} <= {_NEXT} ELSE coalesce({VALID_TO} = {_NEXT}, false) END"
    )
    checked = made.selectExpr("*", f"{following} AS {_NEXT}").where(
        f"IF({right}, true, raise_error('{BROKEN_INTERVALS}'))"
    )
    return checked.drop(_NEXT, _DELETED)


def _tracked(load: Scd2, rows: DataFrame) -> list[str]:
    """Return SQL: the values whose change opens a new interval."""
    other = {*load.key, *load.order_by, *load.ignore}
    values = dict(zip(payload(rows), content(rows), strict=True))
    return [value for name, value in values.items() if (name in load.track if load.track else name not in other)]
