"""Loads: how rows are written to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Literal, assert_never

from lakesmith.columns import ENTRY, IS_CURRENT, VALID_FROM, VALID_TO

OPS: Mapping[str, Literal["upsert", "delete", "truncate", "correction", "reversal"]] = {
    "I": "upsert",
    "INSERT": "upsert",
    "C": "upsert",
    "CREATE": "upsert",
    "R": "upsert",
    "READ": "upsert",
    "U": "upsert",
    "UPDATE": "upsert",
    "D": "delete",
    "DELETE": "delete",
    "T": "truncate",
    "TRUNCATE": "truncate",
    "CORRECTION": "correction",
    "REVERSAL": "reversal",
}
"""The accepted values, in any letter case, of the operation column, and their meanings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Every new row of the input is added, once."""

    dedup: tuple[str, ...] = ()
    """Of rows with the same values in these columns, one is kept."""
    by: str | None = None
    """The time of a row: the earliest is kept."""
    within: timedelta | None = None
    """Duplicates are found only within one window of this length; windows are counted from 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """The whole table is rebuilt and replaced in one commit. Readers never see it empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePartitions:
    """Only the partitions that the input's changes affect are rebuilt, in one commit."""

    by: str
    """The column that the table is partitioned by."""
    same_as: str | None = None
    """`layer.table.column` whose value decides the partition of a row. Not needed for SQL tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One row per key, the latest by `order_by`. Never overwrites a newer row with an older one."""

    key: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    """Empty where the query returns one row per key, as an aggregate does."""
    delete: str | None = None
    """SQL: true for rows that delete their key."""
    soft_delete: str | None = None
    """The column that marks rows of deleted keys, which then stay."""
    update: tuple[str, ...] = ()
    """The only columns that a later row updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2:
    """Every version of a key with the time from which and until which it was valid."""

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    """The time first; further columns order rows of the same time."""
    delete: str | None = None
    """SQL: true for rows that delete their key."""
    track: tuple[str, ...] = ()
    """The columns whose change starts a new version; all others when empty."""
    ignore: tuple[str, ...] = ()
    """Columns whose change starts no new version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The current state after applying a stream of changes from another database."""

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    op: str
    """The column with the operation."""
    amounts: tuple[str, ...] = ()
    """The amount columns that corrections and reversals negate: both the row and its reversal stay."""
    previous_key: Mapping[str, str] = field(default_factory=dict)
    """By key column, the column with the key before it changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Full extracts, one after the other: what changed between them, and which keys were deleted."""

    key: tuple[str, ...]
    taken: str
    """The column that is the same in all rows of one extract, and that orders extracts. A stored row keeps
    the value of the extract that last changed it."""
    into: Literal["merge", "scd2"] = "merge"
    track: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_shrink: float | None = None
    """An extract that lost a larger share of its rows since the previous one is rejected."""


Load = Append | Replace | ReplacePartitions | Merge | Scd2 | Changes | Snapshot


def added_columns(load: Load) -> tuple[str, ...]:
    """Return the columns that the load adds to those of the query."""
    match load:
        case Scd2() | Snapshot(into="scd2"):
            return VALID_FROM, VALID_TO, IS_CURRENT
        case Changes(amounts=amounts) if amounts:
            return (ENTRY,)
        case Merge(soft_delete=str() as column):
            return (column,)
        case Append() | Replace() | ReplacePartitions() | Merge() | Changes() | Snapshot():
            return ()
        case _:
            assert_never(load)


def key_columns(load: Load) -> tuple[str, ...]:
    """Return the columns that identify a row: a row with NULL in one of them is rejected."""
    match load:
        case Merge() | Scd2() | Changes() | Snapshot():
            return load.key
        case Append():
            return load.dedup
        case Replace() | ReplacePartitions():
            return ()
        case _:
            assert_never(load)


def time_column(load: Load) -> str | None:
    """Return the column that orders rows for the load: a row with NULL in it is rejected."""
    match load:
        case Scd2() | Changes():
            return load.order_by[0]
        case Snapshot():
            return load.taken
        case Append() | Replace() | ReplacePartitions() | Merge():
            return None
        case _:
            assert_never(load)


_NAMING = ("dedup", "by", "key", "order_by", "update", "track", "ignore", "op", "amounts", "taken")
"""The fields of loads that name columns of the query."""


def with_query_case(load: Load, columns: Sequence[str]) -> Load:
    """Return the load with column names in the letter case of the query."""
    written = {name.lower(): name for name in columns}

    def one(name: str) -> str:
        return written.get(name.lower(), name)

    renamed: dict[str, object] = {}
    for setting in fields(load):
        value = getattr(load, setting.name)
        if setting.name == "previous_key":
            renamed["previous_key"] = {one(key): one(column) for key, column in value.items()}
        elif setting.name in _NAMING and value is not None:
            renamed[setting.name] = one(value) if isinstance(value, str) else tuple(map(one, value))
    return replace(load, **renamed)  # type: ignore[arg-type]
