"""What the load `changes` makes of a stream of changes: the table T, as a bag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.models.rows import Row, places, values

KINDS = {
    "I": "insert",
    "INSERT": "insert",
    "C": "insert",
    "CREATE": "insert",
    "R": "insert",
    "READ": "insert",
    "U": "update",
    "UPDATE": "update",
    "D": "delete",
    "DELETE": "delete",
    "T": "truncate",
    "TRUNCATE": "truncate",
    "CORRECTION": "correction",
    "REVERSAL": "reversal",
}

TURNS = {"truncate": 0, "moved": 1, "insert": 2, "update": 2, "correction": 3, "reversal": 4, "delete": 5}
"""What comes first of what has the same order."""


def kind(row: Row, op: str, amounts: Sequence[str]) -> str | None:
    """None for a row whose op is not known; corrections and reversals are known only where there are amounts."""
    found = KINDS.get((row[op] or "").upper())
    return None if found in ("correction", "reversal") and not amounts else found


@dataclass
class Event:
    """What happens to one key."""

    kind: str
    row: Row
    turn: tuple[Any, ...]
    """Events are walked by this."""


def changes(
    rows: Sequence[Row],
    *,
    columns: Sequence[str],
    key: Sequence[str],
    order_by: Sequence[str],
    op: str,
    amounts: Sequence[str] = (),
    previous_key: Mapping[str, str] | None = None,
) -> list[Row]:
    """What the events of each key leave. `previous_key` says which column holds the earlier value of a key column."""
    truncates: list[Event] = []
    events: dict[tuple[Any, ...], list[Event]] = {}
    for row in {values(row, columns): row for row in rows}.values():  # what came twice is one change
        what, order, content = kind(row, op, amounts), places(row, order_by), places(row, columns)
        if what is None or row[order_by[0]] is None:
            continue
        if what == "truncate":
            truncates.append(Event("delete", row, (order, TURNS["truncate"], content)))
            continue
        own = values(row, key)
        if None in own:
            continue
        events.setdefault(own, []).append(Event(what, row, (order, TURNS[what], content)))
        other = _earlier_key(row, key, previous_key or {})
        if other != own:
            events.setdefault(other, []).append(Event("delete", row, (order, TURNS["moved"], content)))
    table = []
    for mine in events.values():
        table += _walk(sorted(mine + truncates, key=lambda event: event.turn), order_by, amounts)
    if not amounts:
        for row in table:
            del row["_entry"]
    return table


def _earlier_key(row: Row, key: Sequence[str], previous: Mapping[str, str]) -> tuple[Any, ...]:
    """The row's key with each earlier value that is told; its own key where none is."""
    return tuple(
        row[previous[column]] if column in previous and row[previous[column]] is not None else row[column]
        for column in key
    )


def _walk(events: Sequence[Event], order_by: Sequence[str], amounts: Sequence[str]) -> list[Row]:
    stays: list[Row] = []
    current: Row | None = None
    for event in events:
        if event.kind in ("correction", "reversal") and current is not None:
            stays += [current, _reversal(current, event.row, order_by, amounts)]
        if event.kind in ("delete", "reversal"):
            current = None
        elif event.kind == "correction":
            current = {**event.row, "_entry": "correction"}
        else:
            current = {**event.row, "_entry": "entry"}
    return stays if current is None else [*stays, current]


def _reversal(row: Row, cause: Row, order_by: Sequence[str], amounts: Sequence[str]) -> Row:
    negated = {column: None if row[column] is None else -row[column] for column in amounts}
    return {**row, **negated, **{column: cause[column] for column in order_by}, "_entry": "reversal"}
