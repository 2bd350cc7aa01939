"""How rows enter a table."""

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
"""What is written, in any letter case, in the column that tells what happened, and what it means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Every new row of the input is added, once."""

    dedup: tuple[str, ...] = ()
    """Of rows that have the same values here, one is kept."""
    by: str | None = None
    """The time of a row: the earliest is kept."""
    within: timedelta | None = None
    """Rows are the same only within one window of this length; windows are counted from 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """The whole table is computed anew and swapped in one commit. Readers never see it empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePartitions:
    """Only the partitions that the input's changes touch are computed anew, in one commit."""

    by: str
    """The column that the table is partitioned by."""
    same_as: str | None = None
    """`layer.table.column` whose value decides the partition of a row. SQL tables need not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One row a key, the latest by `order_by`. Never overwrites a newer row with an older one."""

    key: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    """Empty where the query gives one row a key by itself, as an aggregate does."""
    delete: str | None = None
    """SQL: the row says that its key is gone."""
    soft_delete: str | None = None
    """The column that tells of a key that is gone, whose row then stays."""
    update: tuple[str, ...] = ()
    """The only columns that a later row changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2:
    """Every state of a key with the time from when and until when it held."""

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    """The time first; what follows decides between rows of the same time."""
    delete: str | None = None
    """SQL: the row says that its key is gone."""
    track: tuple[str, ...] = ()
    """The columns whose change opens a new interval; all others when empty."""
    ignore: tuple[str, ...] = ()
    """Columns whose change does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The state that a stream of changes of another database leads to."""

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    op: str
    """The column that tells what happened."""
    amounts: tuple[str, ...] = ()
    """What corrections and reversals take back: both the row and its reversal stay."""
    previous_key: Mapping[str, str] = field(default_factory=dict)
    """By key column, the one that holds the key before it changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Full extracts, one after the other: what changed between them, and which keys are gone."""

    key: tuple[str, ...]
    taken: str
    """The column that all rows of one extract have in common, and that gives the order of extracts. A stored row keeps
    the value of the extract that brought it as it is."""
    into: Literal["merge", "scd2"] = "merge"
    track: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_shrink: float | None = None
    """An extract that lost a greater part of its rows against the one before is refused."""


Load = Append | Replace | ReplacePartitions | Merge | Scd2 | Changes | Snapshot


def added_columns(load: Load) -> tuple[str, ...]:
    """The columns that a table has because of its load, besides those that its query gives."""
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
    """The columns whose values tell which rows are the same thing: a row without them cannot enter."""
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
    """The column without whose value a row has no place in the order that the load follows."""
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
"""The settings of loads that name columns of the query."""


def respelt(load: Load, columns: Sequence[str]) -> Load:
    """The load with its columns spelt as the query spells them: letter case makes no other column."""
    spelt = {name.lower(): name for name in columns}

    def one(name: str) -> str:
        return spelt.get(name.lower(), name)

    told: dict[str, object] = {}
    for setting in fields(load):
        value = getattr(load, setting.name)
        if setting.name == "previous_key":
            told["previous_key"] = {one(key): one(column) for key, column in value.items()}
        elif setting.name in _NAMING and value is not None:
            told[setting.name] = one(value) if isinstance(value, str) else tuple(map(one, value))
    return replace(load, **told)  # type: ignore[arg-type]
