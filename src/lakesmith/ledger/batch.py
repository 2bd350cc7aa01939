"""Pinned and completed batches, and their JSON: written with a checksum, verified and type-checked when read."""

from __future__ import annotations

import gc
import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import assert_never

from lakesmith.ledger.content import (
    CASES,
    AddedSums,
    BackfilledDays,
    BatchContent,
    ChangedKeys,
    ChangedPartitions,
    ChangedRows,
    FullBuild,
    MovedBookmarks,
    NewFiles,
    ReplayedRows,
    RestoredVersion,
    SourceSlice,
    VacuumFence,
)
from lakesmith.ledger.typed_json import decode, decode_fields, decode_file
from lakesmith.plan.steps import Approval, Backfill, BatchMode, Position
from lakesmith.ports import MAINTENANCE_NOTE, FileFact, Slice

BATCH_NOTE = "lakesmith batch "
"""Prefix of the commit notes of batches."""
_INCREMENTAL = (NewFiles, SourceSlice, ChangedRows, AddedSums)
_CHECKSUM = b'{"checksum": "'


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The exact inputs of one attempt at a commit."""

    sequence: int
    attempt: int
    parent: int
    run_id: str
    pinned_at: int
    """Milliseconds since 1970; also the rows' `_ingested_at`."""
    definition: str
    content: BatchContent
    inputs: Mapping[str, Position] = field(default_factory=dict)
    """By input table, the version that this batch reads up to."""
    backfill: Backfill | None = None
    """A backfill that this batch does not complete yet."""
    lookups: Mapping[str, Position] = field(default_factory=dict)
    """By table that checks look up, the version that they read."""
    contract: str | None = None
    """The version of the table's contract."""
    approval: Approval | None = None
    """Who approved the batch after a gate held it."""
    base_version: int | None = None
    """The version of the table that the rows are added to; None when they replace all rows."""
    newest_extract: str | None = None
    """For the load `snapshot`, the newest extract in the table before this batch; None when unknown."""

    @property
    def note(self) -> str:
        """The note of the commit, which identifies this attempt."""
        begin = MAINTENANCE_NOTE if self.moves_no_rows else BATCH_NOTE
        return f"{begin}{self.sequence}.{self.attempt} run {self.run_id}"

    @property
    def mode(self) -> BatchMode:
        """How the ledger calls the content."""
        return self.content.mode

    @property
    def files(self) -> tuple[FileFact, ...]:
        """The files that the batch ingests."""
        return self.content.files if isinstance(self.content, NewFiles) else ()

    @property
    def slice(self) -> Slice | None:
        """The slice that the batch ingests of a source other than files."""
        return self.content.slice if isinstance(self.content, SourceSlice) else None

    @property
    def since(self) -> Mapping[str, int]:
        """By input table that is read by its changes, the version after which changes are read."""
        match self.content:
            case ChangedRows(since=since) | AddedSums(since=since) | ChangedKeys(since=since):
                return since
            case ChangedPartitions(since=since):
                return since
            case _:
                return {}

    @property
    def is_full(self) -> bool:
        """Whether the batch holds all rows of the table."""
        return isinstance(self.content, FullBuild)

    @property
    def brings_new_rows(self) -> bool:
        """Whether the rows are new to the lake; rows of other batches were computed before."""
        match self.content:
            case NewFiles() | SourceSlice() | ChangedRows() | AddedSums() | ReplayedRows():
                return True
            case ChangedKeys() | ChangedPartitions() | BackfilledDays() | FullBuild():
                return False
            case VacuumFence() | MovedBookmarks() | RestoredVersion():
                return False
            case _:
                assert_never(self.content)

    @property
    def comparable_modes(self) -> Collection[BatchMode]:
        """The modes of batches with comparable measurements: all incremental ones, or only its own."""
        return {case.mode for case in _INCREMENTAL} if isinstance(self.content, _INCREMENTAL) else {self.mode}

    @property
    def reads_no_source(self) -> bool:
        """Whether the batch leaves the bookmark of its sources where the batch before it left it."""
        return isinstance(self.content, ReplayedRows) or self.is_maintenance

    @property
    def moves_no_rows(self) -> bool:
        """Whether readers can ignore the batch."""
        return isinstance(self.content, VacuumFence | MovedBookmarks)

    @property
    def is_maintenance(self) -> bool:
        """Whether the batch computes no rows, so that it completes whatever the declaration says."""
        return isinstance(self.content, VacuumFence | MovedBookmarks | RestoredVersion)

    @property
    def follows_rollback(self) -> bool:
        """Whether batches between this one and its parent were rolled back."""
        return 0 < self.parent < self.sequence - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedBatch:
    """A batch whose parts are all committed, with its row counts."""

    sequence: int
    attempt: int
    version: int
    run_id: str
    rows_in: int
    rows_written: int
    rows_quarantined: int
    rows_deduplicated: int
    rows_discarded: int = 0
    newest_extract: str | None = None
    """For the load `snapshot`, the newest extract in the table with this batch; None when unknown. The rows alone
    do not show it: an extract may change nothing."""


def encode(value: Batch | CompletedBatch) -> bytes:
    """Return the file content of a batch."""
    fields = asdict(value) | ({"mode": value.mode} if isinstance(value, Batch) else {})
    return with_checksum(json.dumps(fields, sort_keys=True, default=date.isoformat))


def with_checksum(text: str) -> bytes:
    """Return the JSON with a checksum of its bytes as the first key."""
    rest = text[1:].encode()
    return b'%s%08x", %s' % (_CHECKSUM, zlib.crc32(rest), rest)


def _verified(data: bytes) -> bytes:
    """Return the JSON without its checksum; raise ValueError on a mismatch. Files without a checksum are accepted."""
    if not data.startswith(_CHECKSUM):
        return data
    start = len(_CHECKSUM) + 8 + len('", ')
    rest = data[start:]
    if data[:start] != b'%s%08x", ' % (_CHECKSUM, zlib.crc32(rest)):
        raise ValueError("checksum mismatch")
    return b"{" + rest


def decode_ingested_files(data: bytes) -> dict[str, FileFact]:
    """Return the files of a summary by path."""
    # No object made here is garbage: the collector would only scan them again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        content = json.loads(_verified(data))
        files = content if isinstance(content, list) else content["files"]
        return {file.path: file for file in map(decode_file, files)}
    finally:
        if collecting:
            gc.enable()


def decode_completed(data: bytes, sequence: int) -> CompletedBatch:
    """Return the completed batch; raise an error when the file is not valid."""
    done: CompletedBatch = decode(CompletedBatch, json.loads(_verified(data)))
    if done.sequence != sequence:
        raise ValueError(f"this is not batch {sequence}")
    return done


def decode_batch(data: bytes, sequence: int) -> Batch:
    """Return the pinned batch; raise an error when it is not valid. Its parent must come before it: a cycle would
    never end."""
    values = json.loads(_verified(data))
    content = decode(CASES[values.pop("mode")], values.pop("content"))
    batch = Batch(content=content, **decode_fields(Batch, values))
    if not 0 <= batch.parent < batch.sequence == sequence:
        raise ValueError(f"this is not batch {sequence}, or its parent {batch.parent} does not come before it")
    if batch.backfill is not None and batch.backfill.days <= 0:
        raise ValueError("the backfill has no positive number of days")
    return batch
