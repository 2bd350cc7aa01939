"""A stream of changes becomes the state that it leads to; what was corrected or reversed stays, with what undoes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import ENTRY, HIDDEN
from lakesmith.declare.loads import Changes
from lakesmith.quality.rules import kind
from lakesmith.spark.loads.order import ascending, content, first_of, listed, only, payload, place
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RANKS = "'moved', 0, 'upsert', 1, 'correction', 2, 'reversal', 3, 'delete', 4"
"""SQL: in which order changes are taken that happened at the same time."""
_KIND = f"{HIDDEN}kind"
_AT = f"{HIDDEN}at"
_AFTER = f"{HIDDEN}after"
_UNDONE = f"{HIDDEN}undone"
_EMPTIED = f"{HIDDEN}emptied"


def entries(load: Changes, rows: DataFrame) -> DataFrame:
    """The current row of each key, and with amounts also what was taken back."""
    stored = payload(rows)
    # A change that came twice is one change.
    once = first_of(rows.select(*map(quoted, stored)), content(rows), "1")
    told = once.selectExpr("*", f"{kind(load)} AS {_KIND}", f"{place(load.order_by)} AS {_AT}")
    events = told.where(f"{_KIND} <> 'truncate'")
    if load.previous_key:
        events = events.unionByName(_moved(load, events))
    rank = [_AT, f"element_at(map({_RANKS}), {_KIND})", *content(rows)]
    ordered = f"PARTITION BY {listed(load.key)} ORDER BY {ascending(rank)}"
    walked = events.selectExpr("*", f"lead(struct({_KIND} AS kind, {_AT} AS at)) OVER ({ordered}) AS {_AFTER}")
    emptied = told.where(f"{_KIND} = 'truncate'").selectExpr(f"collect_set({_AT}) AS {_EMPTIED}")
    walked = walked.crossJoin(emptied).where(
        f"{_KIND} IN ('upsert', 'correction') AND NOT exists({_EMPTIED}, "
        f"t -> t > {_AT} AND ({_AFTER} IS NULL OR t <= {_AFTER}.at))"
    )
    undone = f"coalesce({_AFTER}.kind IN ('correction', 'reversal'), false)"
    kept = walked.where(f"{_AFTER} IS NULL OR {undone}").selectExpr("*", f"{undone} AS {_UNDONE}")
    if not load.amounts:
        return kept.select(*map(quoted, stored))
    as_came = f"struct({listed(stored)}, IF({_KIND} = 'correction', 'correction', 'entry') AS {ENTRY})"
    both = f"IF({_UNDONE}, array({as_came}, {_reversal(load, stored)}), array({as_came}))"
    return kept.selectExpr(f"inline({both})")


def _reversal(load: Changes, stored: list[str]) -> str:
    """SQL: the row that undoes another, at the time of what undid it."""
    told = {name: f"-({quoted(name)})" for name in load.amounts}
    told |= {name: f"{_AFTER}.at.o{number}" for number, name in enumerate(load.order_by)}
    fields = (f"{told.get(name, quoted(name))} AS {quoted(name)}" for name in stored)
    return f"struct({', '.join(fields)}, 'reversal' AS {ENTRY})"


def moves(load: Changes) -> str:
    """SQL: the row had another key before."""
    return " OR ".join(
        f"({quoted(old)} IS NOT NULL AND NOT ({quoted(old)} <=> {quoted(name)}))"
        for name, old in load.previous_key.items()
    )


def key_before(load: Changes) -> dict[str, str]:
    """SQL, by key column: the value that it had before."""
    before = {name: f"coalesce({quoted(old)}, {quoted(name)})" for name, old in load.previous_key.items()}
    return {name: before.get(name, quoted(name)) for name in load.key}


def _moved(load: Changes, events: DataFrame) -> DataFrame:
    """A delete of the key that a row had before, where it has another now."""
    told = {**{name: quoted(name) for name in load.order_by}, **key_before(load)}
    return events.where(moves(load)).selectExpr(*only(events, told), f"'moved' AS {_KIND}", _AT)
