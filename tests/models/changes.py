"""The model of the load `changes`: from a stream of changes to the table T, as a bag."""

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
"""The order of rows with the same order columns."""


def kind(row: Row, op: str, amounts: Sequence[str]) -> str | None:
    """Return None for a row with an unknown op; corrections and reversals need amounts."""
    found = KINDS.get((row[op] or "").upper())
    return None if found in ("correction", "reversal") and not amounts else found


@dataclass
class Event:
    """The events of one key."""

    kind: str
    row: Row
    turn: tuple[Any, ...]
    """The sort key of events."""


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
    """Return the rows after the events of each key. `previous_key` names the columns with earlier values of key
    columns."""
    truncates: list[Event] = []
    events: dict[tuple[Any, ...], list[Event]] = {}
    for row in {values(row, columns): row for row in rows}.values():  # a repeated row is one change
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
    """Return the row's previous key: each earlier value that is set, or else the present one."""
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
