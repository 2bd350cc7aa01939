"""Loads: how rows are written to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, ClassVar, Literal, assert_never

from lakesmith.columns import ENTRY, IS_CURRENT, VALID_FROM, VALID_TO
from lakesmith.declare.forms import ColumnName, ColumnReference, Duration, Excludes, NamesFrom, Needs, Share, Text

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
_KEY = "The columns that identify a row."
_DELETE = "A condition that is true for rows that delete their key."
_TRACK = "The columns whose change starts a new version; by default all but the key, the order and `ignore`."
_IGNORE = "Columns whose change starts no new version."
_NOT_BOTH = Excludes("track", "columns are either tracked or ignored, so one of the two lists is enough")
_HISTORY = Needs("into", "because into: merge stores no history", value="scd2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Every new row is added once; of duplicates, one is kept."""

    dedup: Annotated[tuple[ColumnName, ...], "Of rows with the same values in these columns, one is kept."] = ()
    by: Annotated[
        ColumnName | None, "The time of a row: of duplicates, the earliest is kept; also used by `--from`."
    ] = None
    within: Annotated[
        Duration | None,
        "Duplicates are found only within one window of this length, such as `7d`, counted from 1970.",
        Needs("dedup", "the columns that identify duplicates"),
        Needs("by", "the time that assigns a row to a window"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """The whole table is rebuilt and replaced in one commit. Readers never see it empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePartitions:
    """Only the partitions that the input's changes affect are rebuilt, in one commit."""

    SHORT: ClassVar[str] = "by"
    by: Annotated[ColumnName, "The column that the table is partitioned by."]
    same_as: Annotated[
        ColumnReference | None,
        "layer.table.column whose value decides the partition of a row. Not needed for SQL tables.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One row per key, the latest by `order_by`. Never overwrites a newer row with an older one."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    order_by: Annotated[
        tuple[ColumnName, ...],
        "The columns that order the rows of a key. Not needed where the query returns one row per key.",
    ] = ()
    delete: Annotated[Text | None, _DELETE, Needs("order_by", "which shows whether the key came back later")] = None
    soft_delete: Annotated[
        ColumnName | None,
        "The boolean column that is added to mark rows of deleted keys, which then stay.",
        Needs("delete", "the condition that marks a deleted key"),
    ] = None
    update: Annotated[
        tuple[ColumnName, ...],
        "The only columns that a later row updates; the others keep their first values.",
        Needs("order_by", "which orders the rows of one key"),
        Excludes("soft_delete", "a soft-deleted row is stored as it arrived"),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2:
    """Every version of a key, with the time from which and until which it was valid."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    order_by: Annotated[tuple[ColumnName, ...], "The time of a row first; further columns order rows of the same time."]
    delete: Annotated[Text | None, _DELETE] = None
    track: Annotated[tuple[ColumnName, ...], _TRACK] = ()
    ignore: Annotated[tuple[ColumnName, ...], _IGNORE, _NOT_BOTH] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The current state after applying a stream of changes from another database."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    order_by: Annotated[tuple[ColumnName, ...], "The columns that give the order of the changes."]
    op: Annotated[ColumnName, "The column with the operation: insert, update, delete, truncate."]
    amounts: Annotated[
        tuple[ColumnName, ...],
        "The amount columns that corrections and reversals negate: the row stays, and so does its reversal.",
    ] = ()
    previous_key: Annotated[
        Mapping[ColumnName, ColumnName], "By key column, the column with the key before it changed.", NamesFrom("key")
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Full extracts, one after the other: what changed between them, and which keys were deleted."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    taken: Annotated[ColumnName, "The column that is the same in all rows of one extract, and that orders extracts."]
    """A stored row keeps the value of the extract that last changed it."""
    into: Annotated[
        Literal["merge", "scd2"], "`merge` stores the newest extract, `scd2` every version; `merge` by default."
    ] = "merge"
    track: Annotated[tuple[ColumnName, ...], _TRACK, _HISTORY] = ()
    ignore: Annotated[tuple[ColumnName, ...], _IGNORE, _HISTORY, _NOT_BOTH] = ()
    max_shrink: Annotated[
        Share | None, "Reject an extract that lost more of its rows than this since the previous one, such as `20%`."
    ] = None


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
