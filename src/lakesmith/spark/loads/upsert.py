"""What has to change in a table, and nothing else: rows to put in by key, and rows to take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakesmith.columns import GONE, HIDDEN, VALID_FROM
from lakesmith.declare.loads import Append, Changes, Merge, Scd2, Snapshot
from lakesmith.quality.rules import literal, quoted
from lakesmith.spark.loads.ends import greatest
from lakesmith.spark.loads.latest import deduplicated, latest, window_of
from lakesmith.spark.loads.order import DELETE, payload, with_deletes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakesmith.spark.loads import Shaped


_BOUNDED = ("byte", "short", "integer", "long", "string", "date")
"""Types of keys whose values SQL text tells exactly."""
_ENDED = f"{HIDDEN}ended"
_EMPTIED = f"{HIDDEN}emptied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows to put in or, where `GONE` is true, to take away. `source` and `target` name the sides in SQL."""

    rows: DataFrame
    key: tuple[str, ...]
    newer: str
    """SQL: the row of the table is to be replaced."""
    also: str | None = None
    """SQL: what else makes two rows the same, beside their key."""
    held: tuple[DataFrame, ...] = ()
    """What is kept in memory until the rows are written."""


def within_bounds(upsert: Upsert) -> Upsert:
    """The same, told also between which values the key lies: files of the table that lie outside are not read."""
    name = upsert.key[0]
    kind = next(field.dataType for field in upsert.rows.schema.fields if field.name == name).typeName()
    if kind not in _BOUNDED:
        return upsert
    held = quoted(name)
    least, greatest = upsert.rows.selectExpr(
        f"CAST(min({held}) AS string)", f"CAST(max({held}) AS string)"
    ).first() or (
        None,
        None,
    )
    if least is None or greatest is None:
        return upsert
    low, high = (f"CAST({literal(bound)} AS {kind})" for bound in (least, greatest))
    bounds = f"target.{held} BETWEEN {low} AND {high}"
    return replace(upsert, also=f"{bounds} AND ({upsert.also})" if upsert.also else bounds)


def of_ends(load: Merge, rows: DataFrame, known: DataFrame | None, stored: Mapping[str, str]) -> Upsert:
    """The last rows of a batch's keys against the table's, and against what is known of keys that are gone."""
    columns = payload(rows)
    last = greatest(load.key, load.order_by, with_deletes(rows, load.delete))
    if known is not None:
        last = _not_ended(load, last, known)
    rank = [*load.order_by, GONE, *columns]
    made = last.withColumnRenamed(DELETE, GONE)
    target = _side("target", rank, made, {**stored, GONE: "boolean"}).replace(f"target.{quoted(GONE)}", "false")
    return Upsert(rows=made, key=load.key, newer=f"{_side('source', rank, made, None)} > {target}")


def _not_ended(load: Merge, last: DataFrame, known: DataFrame) -> DataFrame:
    """Without rows of keys that ended at their time or later; a truncate ends only what was before it."""
    place = f"struct({', '.join(f'{quoted(name)} AS o{number}' for number, name in enumerate(load.order_by))})"
    of_key = known.dropna(subset=list(load.key)).groupBy(*map(quoted, load.key))
    ended = of_key.agg(_expression(f"max({place}) AS {_ENDED}"))
    emptied = known.where(f"{quoted(load.key[0])} IS NULL").agg(_expression(f"max({place}) AS {_EMPTIED}"))
    told = last.join(ended, list(load.key), "left").crossJoin(emptied.hint("broadcast"))
    kept = told.where(f"({_ENDED} IS NULL OR {place} > {_ENDED}) AND ({_EMPTIED} IS NULL OR {place} >= {_EMPTIED})")
    return kept.drop(_ENDED, _EMPTIED)


def _expression(text: str) -> Column:
    from pyspark.sql import functions as F

    return F.expr(text)


def of_batch(load: Merge | Append, rows: DataFrame, stored: Mapping[str, str]) -> Upsert:
    """The rows of a batch against the table's, whichever of both is the later, or for duplicates the earlier one.

    `stored` are the columns of the table and their types.
    """
    if isinstance(load, Append):
        rank = [*([load.by] if load.by else []), *rows.columns]
        newer = f"{_side('source', rank, rows, None)} < {_side('target', rank, rows, stored)}"
        same = window_of(load, "source."), window_of(load, "target.")
        also = f"{same[0]} <=> {same[1]}" if same[0] and same[1] else None
        return Upsert(rows=deduplicated(load, rows), key=load.dedup, newer=newer, also=also)
    made = latest(load, rows)
    rank = [*load.order_by, *([load.soft_delete] if load.soft_delete else []), *rows.columns]
    newer = f"{_side('source', rank, made, None)} > {_side('target', rank, made, stored)}"
    return Upsert(rows=made, key=load.key, newer=newer)


def difference(load: Shaped, keys: DataFrame | None, new: DataFrame, old: DataFrame) -> Upsert:
    """The rows that some keys have from now on against those that they have; of all keys when `keys` is None."""
    key = load.dedup if isinstance(load, Append) else load.key
    same = _identity(load, new.columns)
    one_a_key = len(same) == len(key)
    if keys is None:
        before = old.select(*map(quoted, same))
    elif one_a_key:
        before = keys
    else:
        before = old.join(keys.hint("broadcast"), list(key), "left_semi").select(*map(quoted, same))
    equal = _equal(new, same, "new.", "before.")
    from pyspark.sql import functions as F

    gone = before.alias("before").join(new.alias("new"), F.expr(equal), "left_anti")
    types = {field.name: field.dataType.simpleString() for field in new.schema.fields}
    marks = gone.selectExpr(
        *(quoted(name) if name in same else f"CAST(NULL AS {types[name]}) AS {quoted(name)}" for name in new.columns),
        f"true AS {GONE}",
    )
    rows = new.selectExpr("*", f"false AS {GONE}").unionByName(marks)
    rest = [name for name in new.columns if name not in same and name in old.columns]
    differs = f"NOT ({_equal(new, rest, 'source.', 'target.')})" if rest else "false"
    # A column that the table gains with these rows.
    for name in new.columns:
        if name not in old.columns:
            differs = f"({differs} OR source.{quoted(name)} IS NOT NULL)"
    more = [name for name in same if name not in key]
    also = _equal(new, more, "source.", "target.") if more else None
    return Upsert(rows=rows, key=tuple(key), newer=f"source.{GONE} OR {differs}", also=also)


def _identity(load: Shaped, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that tell a row of the table from any other."""
    match load:
        case Scd2(key=key) | Snapshot(key=key, into="scd2"):
            return (*key, VALID_FROM)
        case Changes(amounts=amounts) if amounts:
            return tuple(columns)
        case Append(dedup=key) | Merge(key=key) | Changes(key=key) | Snapshot(key=key):
            return tuple(key)


def _equal(rows: DataFrame, names: Sequence[str], one: str, other: str) -> str:
    """SQL: two rows have the same values in some columns."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}

    def value(side: str, name: str) -> str:
        held = f"{side}{quoted(name)}"
        return f"to_json({held})" if "map<" in types[name] else held

    return " AND ".join(f"{value(one, name)} <=> {value(other, name)}" for name in names)


def _side(side: str, rank: Sequence[str], rows: DataFrame, stored: Mapping[str, str] | None) -> str:
    """SQL: where a row stands in the order; a column that the table does not have yet is empty there."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}

    def value(name: str) -> str:
        if stored is not None and name not in stored:
            return f"CAST(NULL AS {types[name]})"
        held = f"{side}.{quoted(name)}"
        return f"to_json({held})" if "map<" in types[name] else held

    return f"struct({', '.join(f'{value(name)} AS c{number}' for number, name in enumerate(rank))})"
