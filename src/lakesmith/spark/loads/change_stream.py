"""The load `changes`: turns a stream of changes into the current rows, with rows for corrections and reversals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import ENTRY, HIDDEN
from lakesmith.declare.loads import Changes
from lakesmith.quality.rules import operation_sql
from lakesmith.spark.loads.order import ascending, column_list, content, first_of, order_struct, payload, sparse_columns
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RANKS = "'moved', 0, 'upsert', 1, 'correction', 2, 'reversal', 3, 'delete', 4"
"""SQL map entries: in which order changes of the same time apply."""
_KIND = f"{HIDDEN}kind"
_AT = f"{HIDDEN}at"
_AFTER = f"{HIDDEN}after"
_UNDONE = f"{HIDDEN}undone"
_EMPTIED = f"{HIDDEN}emptied"


def apply_changes(load: Changes, rows: DataFrame) -> DataFrame:
    """Return the current row of each key. With amounts, also the entries that were corrected, and their reversals."""
    stored = payload(rows)
    # A change that arrives twice counts once.
    once = first_of(rows.select(*map(quoted, stored)), content(rows), "1")
    changes = once.selectExpr("*", f"{operation_sql(load)} AS {_KIND}", f"{order_struct(load.order_by)} AS {_AT}")
    events = changes.where(f"{_KIND} <> 'truncate'")
    if load.previous_key:
        events = events.unionByName(_moved(load, events))
    rank = [_AT, f"element_at(map({_RANKS}), {_KIND})", *content(rows)]
    ordered = f"PARTITION BY {column_list(load.key)} ORDER BY {ascending(rank)}"
    ordered_events = events.selectExpr("*", f"lead(struct({_KIND} AS kind, {_AT} AS at)) OVER ({ordered}) AS {_AFTER}")
    emptied = changes.where(f"{_KIND} = 'truncate'").selectExpr(f"collect_set({_AT}) AS {_EMPTIED}")
    ordered_events = ordered_events.crossJoin(emptied).where(
        f"{_KIND} IN ('upsert', 'correction') AND NOT exists({_EMPTIED}, "
        f"t -> t > {_AT} AND ({_AFTER} IS NULL OR t <= {_AFTER}.at))"
    )
    undone = f"coalesce({_AFTER}.kind IN ('correction', 'reversal'), false)"
    current = ordered_events.where(f"{_AFTER} IS NULL OR {undone}").selectExpr("*", f"{undone} AS {_UNDONE}")
    if not load.amounts:
        return current.select(*map(quoted, stored))
    entry = f"struct({column_list(stored)}, IF({_KIND} = 'correction', 'correction', 'entry') AS {ENTRY})"
    both = f"IF({_UNDONE}, array({entry}, {_reversal(load, stored)}), array({entry}))"
    return current.selectExpr(f"inline({both})")


def _reversal(load: Changes, stored: list[str]) -> str:
    """Return SQL: the row that reverses another, at the time of the reversal."""
    values = {name: f"-({quoted(name)})" for name in load.amounts}
    values |= {name: f"{_AFTER}.at.o{number}" for number, name in enumerate(load.order_by)}
    fields = (f"{values.get(name, quoted(name))} AS {quoted(name)}" for name in stored)
    return f"struct({', '.join(fields)}, 'reversal' AS {ENTRY})"


def moves(load: Changes) -> str:
    """Return SQL: whether the row had another key before."""
    return " OR ".join(
        f"({quoted(old)} IS NOT NULL AND NOT ({quoted(old)} <=> {quoted(name)}))"
        for name, old in load.previous_key.items()
    )


def key_before(load: Changes) -> dict[str, str]:
    """Return SQL by key column: its previous value."""
    before = {name: f"coalesce({quoted(old)}, {quoted(name)})" for name, old in load.previous_key.items()}
    return {name: before.get(name, quoted(name)) for name in load.key}


def _moved(load: Changes, events: DataFrame) -> DataFrame:
    """Return deletes of the previous keys of rows whose key changed."""
    values = {**{name: quoted(name) for name in load.order_by}, **key_before(load)}
    return events.where(moves(load)).selectExpr(*sparse_columns(events, values), f"'moved' AS {_KIND}", _AT)
