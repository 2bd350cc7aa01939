"""What has to change in a table, and nothing else: rows to put in by key, and rows to take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from lakesmith.columns import GONE, HIDDEN, VALID_FROM
from lakesmith.declare.loads import Append, Changes, Merge, Scd2, Snapshot
from lakesmith.ports import Upsert
from lakesmith.spark.loads.latest import deduplicated, latest, window_of
from lakesmith.spark.loads.order import (
    DELETE,
    comparable,
    expression,
    first_of,
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
_TIMES = f"{HIDDEN}times"


def of_ends(load: Merge, rows: DataFrame, known: DataFrame | None, stored: Mapping[str, str]) -> Upsert:
    """The last rows of a batch's keys against the table's, and against what is known of keys that are gone."""
    columns = payload(rows)
    last = greatest(load.key, load.order_by, with_deletes(rows, load.delete))
    if known is not None:
        last = _not_ended(load, last, known)
    made = last.withColumnRenamed(DELETE, GONE)
    # A delete is later than a row of the same order; the table holds no delete.
    order, rest = _sides(load.order_by, made, stored), _sides(columns, made, stored)
    newer = _wins([*order, (f"source.{GONE}", "false"), *rest], ">")
    return Upsert(rows=made, key=load.key, newer=newer, by_order=(_wins(order, ">"), _tied(order)))


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
        order = _sides([load.by] if load.by else [], rows, stored)
        same = window_of(load, "source."), window_of(load, "target.")
        return Upsert(
            rows=deduplicated(load, rows),
            key=load.dedup,
            newer=_wins([*order, *_sides(rows.columns, rows, stored)], "<"),
            also=f"{same[0]} <=> {same[1]}" if same[0] and same[1] else None,
            by_order=(_wins(order, "<"), _tied(order)) if order else None,
        )
    made = latest(load, rows)
    order = _sides(load.order_by, made, stored)
    rest = _sides([*([load.soft_delete] if load.soft_delete else []), *rows.columns], made, stored)
    by_order = (_wins(order, ">"), _tied(order)) if order else None
    return Upsert(rows=made, key=load.key, newer=_wins([*order, *rest], ">"), by_order=by_order)


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
    put = _changed(new, old) if keys is None else new
    rows = put.selectExpr("*", f"false AS {GONE}").unionByName(marks)
    return replace(upsert, rows=rows, newer=f"source.{GONE} OR {upsert.newer}")


def _changed(new: DataFrame, old: DataFrame) -> DataFrame:
    """The rows that the table does not have as they are. To merge the others too would copy every file of it."""
    known = [name for name in new.columns if name in old.columns]
    gained = (f"new.{quoted(name)} IS NULL" for name in new.columns if name not in old.columns)
    same = " AND ".join([_equal(new, known, "new.", "old."), *gained])
    return new.alias("new").join(old.alias("old"), expression(same), "left_anti")


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
    # Not by EXCEPT ALL and DISTINCT, which take no maps.
    content = [f"{comparable(new, name)} AS {quoted(name)}" for name in new.columns]
    counted = new.selectExpr(*content, f"1 AS {_TIMES}").unionByName(held.selectExpr(*content, f"-1 AS {_TIMES}"))
    counted = counted.groupBy(*map(quoted, new.columns)).agg(expression(f"sum({_TIMES}) AS {_TIMES}"))
    differing = counted.where(f"{_TIMES} <> 0").select(*map(quoted, key)).distinct()
    away = held.join(differing, list(key), "left_semi").select(*map(quoted, new.columns))
    away = first_of(away, (comparable(new, name) for name in new.columns), "1")
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


def _sides(names: Sequence[str], rows: DataFrame, stored: Mapping[str, str]) -> list[tuple[str, str]]:
    """SQL: columns of the batch's row and of the table's; a column that the table does not have yet is NULL there."""

    def target(name: str) -> str:
        if name in stored:
            return comparable(rows, name, "target.")
        return "CAST(NULL AS string)" if comparable(rows, name) != quoted(name) else nothing(rows, name)

    return [(comparable(rows, name, "source."), target(name)) for name in names]


def _wins(sides: Sequence[tuple[str, str]], sign: Literal["<", ">"]) -> str:
    """SQL: the first columns that differ decide for the batch's row; NULL is less than any value.

    Column by column: Spark casts structs to a common type before it compares them, and Delta's MERGE rejects the cast
    where a field is NOT NULL on one side only.
    """
    cases = (
        f"WHEN NOT ({source} <=> {target}) "
        f"THEN coalesce({source} {sign} {target}, {target if sign == '>' else source} IS NULL)"
        for source, target in sides
    )
    return f"CASE {' '.join(cases)} ELSE false END"


def _tied(sides: Sequence[tuple[str, str]]) -> str:
    """SQL: no column differs."""
    return " AND ".join(f"{source} <=> {target}" for source, target in sides)
