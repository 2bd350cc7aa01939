"""The load `snapshot`: turns full extracts into changes, by comparing each extract with the one before."""

from __future__ import annotations

from collections.abc import Container, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lakesmith.columns import HIDDEN
from lakesmith.declare.loads import Scd2, Snapshot
from lakesmith.errors import DataError
from lakesmith.spark.loads.history import SINCE
from lakesmith.spark.loads.order import (
    IS_DELETE,
    all_not_null,
    column_list,
    content,
    descending,
    expression,
    first_of,
    null_of,
    payload,
    sparse_columns,
)
from lakesmith.spark.types import EXACT_JSON, sql_type
from lakesmith.sql import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = f"{HIDDEN}keys"
_EXTRACT = f"{HIDDEN}extract"
_NUMBER = f"{HIDDEN}number"
_FOLLOWING = f"{HIDDEN}following"
_CONTENT = f"{HIDDEN}content"
_BEFORE = f"{HIDDEN}earlier"
_NEXT = f"{HIDDEN}next"
_CHANGED = f"{HIDDEN}changed"
_MISSING = f"{HIDDEN}missing"

Sizes = Sequence[tuple[Any, int]]
"""Number of keys of each extract, in order."""


def as_history(load: Snapshot) -> Scd2:
    """Return the SCD2 load for the changes of the extracts."""
    return Scd2(key=load.key, order_by=(load.taken,), track=load.track, ignore=load.ignore)


def extract_changes(load: Snapshot, rows: DataFrame, stored: DataFrame | None = None) -> DataFrame:
    """Return the changes of each extract against the one before: new and changed rows, and deletes of missing keys.
    An unchanged row is no change, so that a change keeps its date.

    `stored` are the rows of the extract before all of these. The result has only those whose key has another change.
    """
    walked = _compared(load, rows, stored)
    if stored is not None:
        new = f"(({_CHANGED} AND {_EXTRACT} IS NOT NULL) OR {_MISSING})"
        touched = f"max({new}) OVER (PARTITION BY {column_list(load.key)})"
        walked = walked.selectExpr("*", f"{touched} AS {_NEXT}").where(_NEXT)
    since = SINCE in walked.columns
    key = {name: quoted(name) for name in load.key}
    row = [*map(quoted, payload(rows)), *([SINCE] if since else []), f"false AS {IS_DELETE}"]
    delete = [
        *sparse_columns(rows, {**key, load.taken: _FOLLOWING}),
        *([f"{null_of(walked, SINCE)} AS {SINCE}"] if since else []),
        f"true AS {IS_DELETE}",
    ]
    events = f"IF({_CHANGED}, struct({', '.join(row)}), NULL), IF({_MISSING}, struct({', '.join(delete)}), NULL)"
    return walked.where(f"{_CHANGED} OR {_MISSING}").selectExpr(f"inline(filter(array({events}), e -> e IS NOT NULL))")


def _compared(load: Snapshot, rows: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Return one row per key and extract, with whether it changed since the extract before, and whether the next
    extract lacks it."""
    key, taken = column_list(load.key), quoted(load.taken)
    every = first_of(rows.where(all_not_null([load.taken])), [key, taken], descending(content(rows)))
    every = every.selectExpr("*", f"{taken} AS {_EXTRACT}")
    if stored is not None:
        before = stored.selectExpr("*", f"{null_of(rows, load.taken)} AS {_EXTRACT}")
        every = every.unionByName(before, allowMissingColumns=True)
    # The extract without a date is the stored state of the table. It sorts first.
    numbered = (
        every.select(_EXTRACT)
        .distinct()
        .selectExpr(
            _EXTRACT,
            f"row_number() OVER (ORDER BY {_EXTRACT}) AS {_NUMBER}",
            f"lead({_EXTRACT}) OVER (ORDER BY {_EXTRACT}) AS {_FOLLOWING}",
        )
    )
    values = ", ".join(value for name, value in zip(payload(rows), content(rows), strict=True) if name != load.taken)
    ordered = f"PARTITION BY {key} ORDER BY {_NUMBER}"
    return (
        every.alias("every")
        .join(numbered.alias("numbered"), expression(f"every.{_EXTRACT} <=> numbered.{_EXTRACT}"))
        .selectExpr("every.*", _NUMBER, _FOLLOWING, f"struct({values}) AS {_CONTENT}")
        .selectExpr(
            "*",
            f"lag(struct({_NUMBER} AS number, {_CONTENT} AS content)) OVER ({ordered}) AS {_BEFORE}",
            f"lead({_NUMBER}) OVER ({ordered}) AS {_NEXT}",
        )
        .selectExpr(
            "*",
            f"NOT coalesce({_BEFORE}.number = {_NUMBER} - 1 AND {_BEFORE}.content <=> {_CONTENT}, false) AS {_CHANGED}",
            f"{_FOLLOWING} IS NOT NULL AND NOT ({_NEXT} <=> {_NUMBER} + 1) AS {_MISSING}",
        )
        .drop(_NUMBER, _CONTENT, _BEFORE, _NEXT)
    )


def are_later(load: Snapshot, rows: DataFrame, newest: str | None) -> bool:
    """Whether all extracts in these rows are later than the newest extract of the table."""
    if newest is None:
        return False
    taken = quoted(load.taken)
    ((later,),) = rows.selectExpr(
        f"min({taken}) IS NULL OR min({taken}) > {_decode_date(load, rows, newest)}"
    ).collect()
    return bool(later)


def newest_extract(load: Snapshot, rows: DataFrame, known: str | None) -> str | None:
    """Return the newest extract of these rows or of the table, whichever is later. As JSON, whose times do not depend
    on the session's time zone."""
    newest = f"max({quoted(load.taken)})"
    newest = f"greatest({newest}, {_decode_date(load, rows, known)})" if known else newest
    encoded = f"IF({newest} IS NULL, NULL, to_json(named_struct('taken', {newest}), {EXACT_JSON}))"
    ((found,),) = rows.selectExpr(encoded).collect()
    return None if found is None else str(found)


def _decode_date(load: Snapshot, rows: DataFrame, encoded: str) -> str:
    """Return SQL: the date of an extract, from JSON."""
    column = literal(f"taken {sql_type(rows.schema[load.taken].dataType)}")
    return f"from_json({literal(encoded)}, {column}, {EXACT_JSON}).taken"


def extract_sizes(load: Snapshot, rows: DataFrame) -> Sizes:
    """Return the number of keys of each extract in these rows."""
    taken = quoted(load.taken)
    counted = rows.groupBy(taken).agg(expression(f"count(DISTINCT {column_list(load.key)}) AS {_KEYS}")).orderBy(taken)
    return [(row[load.taken], row[_KEYS]) for row in counted.collect() if row[load.taken] is not None]


def fail_if_shrunk(load: Snapshot, extracts: Sizes, new: Container[Any]) -> None:
    """Raise when a new extract has lost more keys than `max_shrink` allows against the one before."""
    for (_, before), (at, now) in pairwise(extracts):
        if at in new and load.max_shrink is not None and now < before * (1 - Decimal(str(load.max_shrink))):
            raise DataError(
                "snapshot-shrank",
                f"the extract of {at} has {now:,} keys, the one before had {before:,}: "
                f"more than max_shrink ({load.max_shrink:.0%}) are missing",
                hint="the table is unchanged; if the extract is right, raise max_shrink and run again",
            )
