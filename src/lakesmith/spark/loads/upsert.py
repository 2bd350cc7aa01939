"""What has to change in a table, and nothing else: rows to put in by key, and rows to take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesmith.columns import GONE, HIDDEN, VALID_FROM
from lakesmith.declare.loads import Append, Changes, Merge, Scd2, Snapshot
from lakesmith.ports import Upsert
from lakesmith.spark.loads.latest import deduplicated, latest, window_of
from lakesmith.spark.loads.order import (
    DELETE,
    comparable,
    expression,
    greatest,
    have_values,
    nothing,
    only,
    payload,
    place,
    with_deletes,
)
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakesmith.spark.loads import Shaped


_ENDED = f"{HIDDEN}ended"
_EMPTIED = f"{HIDDEN}emptied"


def of_ends(load: Merge, rows: DataFrame, known: DataFrame | None, stored: Mapping[str, str]) -> Upsert:
    """The last rows of a batch's keys against the table's, and against what is known of keys that are gone."""
    columns = payload(rows)
    last = greatest(load.key, load.order_by, with_deletes(rows, load.delete))
    if known is not None:
        last = _not_ended(load, last, known)
    rank = [*load.order_by, GONE, *columns]
    made = last.withColumnRenamed(DELETE, GONE)
    target = _side("target", rank, made, {**stored, GONE: "boolean"}).replace(f"target.{quoted(GONE)}", "false")
    order = _by_order(load.order_by, made, stored, ">")
    return Upsert(rows=made, key=load.key, newer=f"{_side('source', rank, made, None)} > {target}", by_order=order)


def _not_ended(load: Merge, last: DataFrame, known: DataFrame) -> DataFrame:
    """Without rows of keys that ended at their time or later; a truncate ends only what was before it."""
    at = place(load.order_by)
    of_key = known.where(have_values(load.key)).groupBy(*map(quoted, load.key))
    ended = of_key.agg(expression(f"max({at}) AS {_ENDED}"))
    emptied = known.where(f"{quoted(load.key[0])} IS NULL").agg(expression(f"max({at}) AS {_EMPTIED}"))
    told = last.join(ended, list(load.key), "left").crossJoin(emptied)
    kept = told.where(f"({_ENDED} IS NULL OR {at} > {_ENDED}) AND ({_EMPTIED} IS NULL OR {at} >= {_EMPTIED})")
    return kept.drop(_ENDED, _EMPTIED)


def of_batch(load: Merge | Append, rows: DataFrame, stored: Mapping[str, str]) -> Upsert:
    """The rows of a batch against the table's, whichever of both is the later, or for duplicates the earlier one.

    `stored` are the columns of the table and their types.
    """
    if isinstance(load, Append):
        rank = [*([load.by] if load.by else []), *rows.columns]
        newer = f"{_side('source', rank, rows, None)} < {_side('target', rank, rows, stored)}"
        same = window_of(load, "source."), window_of(load, "target.")
        also = f"{same[0]} <=> {same[1]}" if same[0] and same[1] else None
        order = _by_order([load.by], rows, stored, "<") if load.by else None
        return Upsert(rows=deduplicated(load, rows), key=load.dedup, newer=newer, also=also, by_order=order)
    made = latest(load, rows)
    rank = [*load.order_by, *([load.soft_delete] if load.soft_delete else []), *rows.columns]
    newer = f"{_side('source', rank, made, None)} > {_side('target', rank, made, stored)}"
    return Upsert(rows=made, key=load.key, newer=newer, by_order=_by_order(load.order_by, made, stored, ">"))


def _by_order(order: Sequence[str], rows: DataFrame, stored: Mapping[str, str], wins: str) -> tuple[str, str] | None:
    if not order:
        return None
    source, target = _side("source", order, rows, None), _side("target", order, rows, stored)
    return f"{source} {wins} {target}", f"{source} = {target}"


def difference(load: Shaped, keys: DataFrame | None, new: DataFrame, old: DataFrame) -> Upsert:
    """The rows that some keys have from now on against those that they have; of all keys when `keys` is None."""
    assert not isinstance(load, Append)
    if isinstance(load, Changes) and load.amounts:
        return _exchanged(load.key, keys, new, old)
    same = _identity(load)
    if keys is None:
        before = old.select(*map(quoted, same))
    elif same == load.key:
        before = keys
    else:
        before = old.join(keys, list(load.key), "left_semi").select(*map(quoted, same))
    equal = _equal(new, same, "new.", "before.")
    gone = before.alias("before").join(new.alias("new"), expression(equal), "left_anti")
    marks = gone.selectExpr(*only(new, {name: quoted(name) for name in same}), f"true AS {GONE}")
    upsert = additions(load, new, old)
    rows = new.selectExpr("*", f"false AS {GONE}").unionByName(marks)
    return replace(upsert, rows=rows, newer=f"source.{GONE} OR {upsert.newer}")


def additions(load: Merge | Scd2 | Changes | Snapshot, new: DataFrame, old: DataFrame) -> Upsert:
    """The same where no row goes away: each is as it was, is another now, or is new."""
    same = _identity(load)
    rest = [name for name in new.columns if name not in same and name in old.columns]
    differs = f"NOT ({_equal(new, rest, 'source.', 'target.')})" if rest else "false"
    # A column that the table gains with these rows.
    for name in new.columns:
        if name not in old.columns:
            differs = f"({differs} OR source.{quoted(name)} IS NOT NULL)"
    more = [name for name in same if name not in load.key]
    also = _equal(new, more, "source.", "target.") if more else None
    return Upsert(rows=new, key=tuple(load.key), newer=differs, also=also)


def _exchanged(key: tuple[str, ...], keys: DataFrame | None, new: DataFrame, old: DataFrame) -> Upsert:
    """All rows of the keys whose rows differ, taken away and put in: rows of one key may be alike in every column."""
    held = old.select(*map(quoted, new.columns))
    if keys is not None:
        held = held.join(keys, list(key), "left_semi").select(*map(quoted, new.columns))
    differing = new.exceptAll(held).unionByName(held.exceptAll(new)).select(*map(quoted, key)).distinct()
    away = held.join(differing, list(key), "left_semi").select(*map(quoted, new.columns)).distinct()
    put = new.join(differing, list(key), "left_semi").select(*map(quoted, new.columns))
    rows = put.selectExpr("*", f"false AS {GONE}").unionByName(away.selectExpr("*", f"true AS {GONE}"))
    rest = [name for name in new.columns if name not in key]
    # A row that is put in is the same as no other.
    return Upsert(rows=rows, key=key, newer="true", also=f"source.{GONE} AND {_equal(new, rest, 'source.', 'target.')}")


def _identity(load: Merge | Scd2 | Changes | Snapshot) -> tuple[str, ...]:
    """The columns that tell a row of the table from any other."""
    if isinstance(load, Scd2) or (isinstance(load, Snapshot) and load.into == "scd2"):
        return (*load.key, VALID_FROM)
    return tuple(load.key)


def _equal(rows: DataFrame, names: Sequence[str], one: str, other: str) -> str:
    """SQL: two rows have the same values in some columns."""
    return " AND ".join(f"{comparable(rows, name, one)} <=> {comparable(rows, name, other)}" for name in names)


def _side(side: str, rank: Sequence[str], rows: DataFrame, stored: Mapping[str, str] | None) -> str:
    """SQL: where a row stands in the order; a column that the table does not have yet is empty there."""

    def value(name: str) -> str:
        if stored is not None and name not in stored:
            return "CAST(NULL AS string)" if comparable(rows, name) != quoted(name) else nothing(rows, name)
        return comparable(rows, name, f"{side}.")

    return f"struct({', '.join(f'{value(name)} AS c{number}' for number, name in enumerate(rank))})"
