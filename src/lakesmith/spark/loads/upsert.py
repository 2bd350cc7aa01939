"""Computes minimal upserts: the rows to insert or update by key, and the rows to delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from lakesmith.columns import DELETE_ROW, HIDDEN, VALID_FROM
from lakesmith.declare.loads import Append, Changes, Merge, Scd2, Snapshot
from lakesmith.ports import Upsert
from lakesmith.spark.loads.latest import first_of_duplicates, latest_rows, window_of
from lakesmith.spark.loads.order import (
    IS_DELETE,
    all_not_null,
    comparable,
    expression,
    first_of,
    greatest,
    null_of,
    order_struct,
    payload,
    sparse_columns,
    with_deletes,
)
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakesmith.spark.loads import KeyedLoad


_ENDED = f"{HIDDEN}ended"
_EMPTIED = f"{HIDDEN}emptied"
_TIMES = f"{HIDDEN}times"


def upsert_with_deletes(load: Merge, rows: DataFrame, known: DataFrame | None, stored: Mapping[str, str]) -> Upsert:
    """Compare the last rows of the batch's keys with the table and with its deleted keys."""
    columns = payload(rows)
    last = greatest(load.key, load.order_by, with_deletes(rows, load.delete))
    if known is not None:
        last = _drop_deleted(load, last, known)
    made = last.withColumnRenamed(IS_DELETE, DELETE_ROW)
    # A delete sorts after a row of the same order. The table stores no deletes.
    order, rest = _sides(load.order_by, made, stored), _sides(columns, made, stored)
    newer = _wins([*order, (f"source.{DELETE_ROW}", "false"), *rest], ">")
    return Upsert(rows=made, key=load.key, newer=newer, by_order=(_wins(order, ">"), _tied(order)))


def _drop_deleted(load: Merge, last: DataFrame, known: DataFrame) -> DataFrame:
    """Drop rows whose key was deleted at their time or later. A truncate deletes only earlier rows."""
    at = order_struct(load.order_by)
    of_key = known.where(all_not_null(load.key)).groupBy(*map(quoted, load.key))
    ended = of_key.agg(expression(f"max({at}) AS {_ENDED}"))
    emptied = known.where(f"{quoted(load.key[0])} IS NULL").agg(expression(f"max({at}) AS {_EMPTIED}"))
    compared = last.join(ended, list(load.key), "left").crossJoin(emptied)
    remaining = compared.where(f"({_ENDED} IS NULL OR {at} > {_ENDED}) AND ({_EMPTIED} IS NULL OR {at} >= {_EMPTIED})")
    return remaining.drop(_ENDED, _EMPTIED)


def upsert_rows(load: Merge | Append, rows: DataFrame, stored: Mapping[str, str]) -> Upsert:
    """Keep the later row of batch and table, or the earlier one for duplicates.

    `stored` are the columns of the table and their types.
    """
    if isinstance(load, Append):
        order = _sides([load.by] if load.by else [], rows, stored)
        same = window_of(load, "source."), window_of(load, "target.")
        return Upsert(
            rows=first_of_duplicates(load, rows),
            key=load.dedup,
            newer=_wins([*order, *_sides(rows.columns, rows, stored)], "<"),
            extra_match=f"{same[0]} <=> {same[1]}" if same[0] and same[1] else None,
            by_order=(_wins(order, "<"), _tied(order)) if order else None,
        )
    made = latest_rows(load, rows)
    order = _sides(load.order_by, made, stored)
    rest = _sides([*([load.soft_delete] if load.soft_delete else []), *rows.columns], made, stored)
    by_order = (_wins(order, ">"), _tied(order)) if order else None
    return Upsert(rows=made, key=load.key, newer=_wins([*order, *rest], ">"), by_order=by_order)


def upsert_difference(load: KeyedLoad, keys: DataFrame | None, new: DataFrame, old: DataFrame) -> Upsert:
    """Return the difference between new and stored rows of some keys, or of all keys when `keys` is None."""
    assert not isinstance(load, Append)
    if isinstance(load, Changes) and load.amounts:
        return _replace_groups(load.key, keys, new, old)
    same = _identity(load)
    if keys is None:
        before = old.select(*map(quoted, same))
    elif same == load.key:
        before = keys
    else:
        before = old.join(keys, list(load.key), "left_semi").select(*map(quoted, same))
    equal = _equal(new, same, "new.", "before.")
    vanished = before.alias("before").join(new.alias("new"), expression(equal), "left_anti")
    marks = vanished.selectExpr(*sparse_columns(new, {name: quoted(name) for name in same}), f"true AS {DELETE_ROW}")
    upsert = upsert_without_deletes(load, new, old)
    inserted = _changed(new, old) if keys is None else new
    rows = inserted.selectExpr("*", f"false AS {DELETE_ROW}").unionByName(marks)
    return replace(upsert, rows=rows, newer=f"source.{DELETE_ROW} OR {upsert.newer}")


def _changed(new: DataFrame, old: DataFrame) -> DataFrame:
    """Return the rows that the table lacks or has with other values. Merging all rows would rewrite every file."""
    known = [name for name in new.columns if name in old.columns]
    gained = (f"new.{quoted(name)} IS NULL" for name in new.columns if name not in old.columns)
    same = " AND ".join([_equal(new, known, "new.", "old."), *gained])
    return new.alias("new").join(old.alias("old"), expression(same), "left_anti")


def upsert_without_deletes(load: Merge | Scd2 | Changes | Snapshot, new: DataFrame, old: DataFrame) -> Upsert:
    """Return the difference when no row is deleted: each row is unchanged, changed or new."""
    same = _identity(load)
    rest = [name for name in new.columns if name not in same and name in old.columns]
    differs = f"NOT ({_equal(new, rest, 'source.', 'target.')})" if rest else "false"
    # A column that this batch adds to the table.
    for name in new.columns:
        if name not in old.columns:
            differs = f"({differs} OR source.{quoted(name)} IS NOT NULL)"
    more = [name for name in same if name not in load.key]
    extra_match = _equal(new, more, "source.", "target.") if more else None
    return Upsert(rows=new, key=tuple(load.key), newer=differs, extra_match=extra_match)


def _replace_groups(key: tuple[str, ...], keys: DataFrame | None, new: DataFrame, old: DataFrame) -> Upsert:
    """Delete and insert all rows of the keys whose rows differ, because rows of one key may be identical."""
    stored = old.select(*map(quoted, new.columns))
    if keys is not None:
        stored = stored.join(keys, list(key), "left_semi").select(*map(quoted, new.columns))
    # EXCEPT ALL and DISTINCT do not support maps.
    content = [f"{comparable(new, name)} AS {quoted(name)}" for name in new.columns]
    counted = new.selectExpr(*content, f"1 AS {_TIMES}").unionByName(stored.selectExpr(*content, f"-1 AS {_TIMES}"))
    counted = counted.groupBy(*map(quoted, new.columns)).agg(expression(f"sum({_TIMES}) AS {_TIMES}"))
    differing = counted.where(f"{_TIMES} <> 0").select(*map(quoted, key)).distinct()
    deleted = stored.join(differing, list(key), "left_semi").select(*map(quoted, new.columns))
    deleted = first_of(deleted, (comparable(new, name) for name in new.columns), "1")
    inserted = new.join(differing, list(key), "left_semi").select(*map(quoted, new.columns))
    rows = inserted.selectExpr("*", f"false AS {DELETE_ROW}").unionByName(
        deleted.selectExpr("*", f"true AS {DELETE_ROW}")
    )
    rest = [name for name in new.columns if name not in key]
    # An inserted row matches no other row.
    return Upsert(
        rows=rows,
        key=key,
        newer="true",
        extra_match=f"source.{DELETE_ROW} AND {_equal(new, rest, 'source.', 'target.')}",
    )


def _identity(load: Merge | Scd2 | Changes | Snapshot) -> tuple[str, ...]:
    """Return the columns that identify a row of the table."""
    if isinstance(load, Scd2) or (isinstance(load, Snapshot) and load.into == "scd2"):
        return (*load.key, VALID_FROM)
    return tuple(load.key)


def _equal(rows: DataFrame, names: Sequence[str], one: str, other: str) -> str:
    """Return SQL: whether two rows have the same values in some columns."""
    return " AND ".join(f"{comparable(rows, name, one)} <=> {comparable(rows, name, other)}" for name in names)


def _sides(names: Sequence[str], rows: DataFrame, stored: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return SQL pairs: each column of the batch's row and of the table's row, NULL where the table lacks it."""

    def target(name: str) -> str:
        if name in stored:
            return comparable(rows, name, "target.")
        return "CAST(NULL AS string)" if comparable(rows, name) != quoted(name) else null_of(rows, name)

    return [(comparable(rows, name, "source."), target(name)) for name in names]


def _wins(sides: Sequence[tuple[str, str]], sign: Literal["<", ">"]) -> str:
    """Return SQL: whether the batch's row wins, by the first column that differs. NULL is less than any value.

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
    """Return SQL: whether no column differs."""
    return " AND ".join(f"{source} <=> {target}" for source, target in sides)
