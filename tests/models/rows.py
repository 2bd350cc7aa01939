"""What the models share: how values and rows sort, and which rows have a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Condition = Callable[[Row], bool | None]
"""What a SQL condition says of a row; None is NULL."""


def never(row: Row) -> bool:
    """The condition of a load that deletes nothing."""
    return False


def place(value: Any) -> tuple[bool, Any]:
    """Where a value sorts: NULL comes before everything."""
    return (False, 0) if value is None else (True, value)


def places(row: Row, columns: Iterable[str]) -> tuple[tuple[bool, Any], ...]:
    return tuple(place(row[column]) for column in columns)


def values(row: Row, columns: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def by_key(rows: Iterable[Row], key: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each key. Rows with NULL in the key are not among them: they go to quarantine."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if None not in values(row, key):
            groups.setdefault(values(row, key), []).append(row)
    return groups
