"""Shared by the models: how values and rows sort, and which rows have a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Condition = Callable[[Row], bool | None]
"""A SQL condition on a row; None is NULL."""


def never(row: Row) -> bool:
    """The condition of a load that deletes nothing."""
    return False


def place(value: Any) -> tuple[bool, Any]:
    """Return the sort key of a value: NULL comes first."""
    return (False, 0) if value is None else (True, value)


def places(row: Row, columns: Iterable[str]) -> tuple[tuple[bool, Any], ...]:
    return tuple(place(row[column]) for column in columns)


def values(row: Row, columns: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def by_key(rows: Iterable[Row], key: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows of each key, without rows with a NULL key, which go to quarantine."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if None not in values(row, key):
            groups.setdefault(values(row, key), []).append(row)
    return groups
