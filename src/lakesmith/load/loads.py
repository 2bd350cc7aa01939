"""Turn the load block of a table into a load, and check the keys that need or exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lakesmith.declare import (
    Append,
    Changes,
    Load,
    Merge,
    Replace,
    ReplacePartitions,
    Scd2,
    Snapshot,
    TableName,
)
from lakesmith.errors import DeclarationError, did_you_mean
from lakesmith.load.field_types import Block
from lakesmith.load.models import (
    AppendBlock,
    ChangesBlock,
    LoadBlock,
    MergeBlock,
    Scd2Block,
    SnapshotBlock,
)


def read_load(block: LoadBlock) -> Load:
    """Return the load of the block."""
    if block.append is not None:
        return _append(block.append)
    if block.merge is not None:
        return _merge(block.merge)
    if block.scd2 is not None:
        return _scd2(block.scd2)
    if block.changes is not None:
        return _changes(block.changes)
    if block.snapshot is not None:
        return _snapshot(block.snapshot)
    if block.replace_partitions is not None:
        return ReplacePartitions(by=block.replace_partitions.by, same_as=block.replace_partitions.same_as)
    return Replace()


def load_problems(name: TableName, block: LoadBlock) -> Iterator[DeclarationError]:
    """Yield the problems of keys that need or exclude each other."""
    if block.append is not None:
        if not {"dedup", "by"} & set(block.append.places):
            yield DeclarationError(
                "missing-key",
                "append without dedup and by has no keys",
                at=block.append.at,
                table=str(name),
                hint="write load: append, or add dedup: …, the columns that identify duplicates",
            )
        yield from _needs(name, block.append, "within", "dedup", "the columns that identify duplicates")
        yield from _needs(name, block.append, "within", "by", "the time that assigns a row to a window")
    if block.merge is not None:
        yield from _needs(name, block.merge, "delete", "order_by", "which shows whether the key came back later")
        yield from _needs(name, block.merge, "update", "order_by", "which orders the rows of one key")
        yield from _needs(name, block.merge, "soft_delete", "delete", "the condition that marks a deleted key")
        yield from _excludes(name, block.merge, "update", "soft_delete", "a soft-deleted row is stored as it arrived")
    for history in (block.scd2, block.snapshot):
        if history is not None:
            why = "columns are either tracked or ignored, so one of the two lists is enough"
            yield from _excludes(name, history, "ignore", "track", why)
    if block.snapshot is not None and block.snapshot.into != "scd2" and _is_usable(block.snapshot, "into"):
        yield from _not_of_merge(name, block.snapshot)
    if block.changes is not None:
        yield from _not_of_key(name, block.changes)


def _append(block: AppendBlock) -> Append:
    within = None if block.within is None else timedelta(seconds=block.within)
    return Append(dedup=block.dedup, by=block.by, within=within)


def _merge(block: MergeBlock) -> Merge:
    return Merge(
        key=block.key,
        order_by=block.order_by,
        delete=block.delete,
        soft_delete=block.soft_delete,
        update=block.update,
    )


def _scd2(block: Scd2Block) -> Scd2:
    return Scd2(key=block.key, order_by=block.order_by, delete=block.delete, track=block.track, ignore=block.ignore)


def _changes(block: ChangesBlock) -> Changes:
    written = {name.lower(): name for name in block.key}
    previous = {written.get(name.lower(), name): column for name, column in block.previous_key.items()}
    return Changes(key=block.key, order_by=block.order_by, op=block.op, amounts=block.amounts, previous_key=previous)


def _snapshot(block: SnapshotBlock) -> Snapshot:
    return Snapshot(
        key=block.key,
        taken=block.taken,
        into=block.into or "merge",
        track=block.track,
        ignore=block.ignore,
        max_shrink=block.max_shrink,
    )


def _needs(name: TableName, block: Block, key: str, other: str, why: str) -> Iterator[DeclarationError]:
    if key in block.places and other not in block.places:
        yield DeclarationError(
            "missing-key",
            f"{key} needs {other}, {why}",
            at=block.places[key],
            table=str(name),
            hint=f"add {other}: …, or remove {key}",
        )


def _excludes(name: TableName, block: Block, key: str, other: str, why: str) -> Iterator[DeclarationError]:
    if key in block.places and other in block.places:
        yield DeclarationError(
            "one-of",
            f"{key} and {other} exclude each other: {why}",
            at=block.places[key],
            table=str(name),
            hint=f"remove {key} or {other}",
        )


def _not_of_merge(name: TableName, block: SnapshotBlock) -> Iterator[DeclarationError]:
    for key in ("track", "ignore"):
        if key in block.places:
            yield DeclarationError(
                "missing-key",
                f"{key} needs into: scd2; a snapshot with into: merge stores no history",
                at=block.places[key],
                table=str(name),
                hint=f"add into: scd2, or remove {key}",
            )


def _not_of_key(name: TableName, block: ChangesBlock) -> Iterator[DeclarationError]:
    keys = {key.lower() for key in block.key}
    for column in block.previous_key:
        if column.lower() not in keys:
            yield DeclarationError(
                "not-a-key",
                f"previous_key maps '{column}', which is not a key column",
                at=block.places["previous_key"],
                table=str(name),
                hint=f"previous_key: {{key column: column with its previous value}}; "
                f"{did_you_mean(column, block.key, label='key')}",
            )


def _is_usable(block: Block, key: str) -> bool:
    """Whether the key is absent or was read; a value that could not be read is already reported."""
    return key not in block.places or getattr(block, key) is not None
