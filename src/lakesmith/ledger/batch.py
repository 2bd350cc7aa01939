"""Pinned and completed batches, and their JSON: written with a checksum, verified and type-checked when read."""

from __future__ import annotations

import gc
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from types import UnionType
from typing import Any, assert_never, get_args

from lakesmith.plan.steps import Approval, Backfill, BatchMode, ListingBookmark, Position, Replay, Rollback, Span
from lakesmith.ports import MAINTENANCE_NOTE, FileFact, Slice

BATCH_NOTE = "lakesmith batch "
"""Prefix of the commit notes of batches."""
_CHECKSUM = b'{"checksum": "'
_MODES = get_args(BatchMode)


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
    mode: BatchMode
    inputs: Mapping[str, Position] = field(default_factory=dict)
    """By input table, the version that this batch reads up to."""
    since: Mapping[str, int] = field(default_factory=dict)
    """By input table that is read by its changes, the version after which changes are read."""
    files: tuple[FileFact, ...] = ()
    rejected_files: Mapping[str, str] = field(default_factory=dict)
    """By path, why a file cannot be read at all."""
    slice: Slice | None = None
    """For a source other than files, the slice of it that is read."""
    seen: ListingBookmark | None = None
    """For files that arrive in name order, how far they are ingested with this batch."""
    days: Span | None = None
    """For a chunk of a backfill, the days that are recomputed."""
    backfill: Backfill | None = None
    """A backfill that this batch does not complete yet."""
    lookups: Mapping[str, Position] = field(default_factory=dict)
    """By table that checks look up, the version that they read."""
    contract: str | None = None
    """The version of the table's contract."""
    approval: Approval | None = None
    """Who approved the batch after a gate held it."""
    replay: Replay | None = None
    """For a replay, which quarantined rows it decides."""
    restore: Rollback | None = None
    """For a restore, the version that the table goes back to."""
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
    def is_full(self) -> bool:
        """Whether the batch holds all rows of the table."""
        return self.mode == "full"

    @property
    def brings_new_rows(self) -> bool:
        """Whether the rows are new to the lake; rows of other batches were computed before."""
        match self.mode:
            case "files" | "slice" | "changes" | "sums" | "replay":
                return True
            case "keys" | "partitions" | "days" | "full" | "vacuum" | "move_bookmarks" | "restore":
                return False
            case _:
                assert_never(self.mode)

    @property
    def reads_no_source(self) -> bool:
        """Whether the batch leaves the bookmark of its sources where the batch before it left it."""
        return self.mode == "replay" or self.is_maintenance

    @property
    def moves_no_rows(self) -> bool:
        """Whether readers can ignore the batch: a vacuum fences the table, `move_bookmarks` moves bookmarks back."""
        return self.mode in ("vacuum", "move_bookmarks")

    @property
    def is_maintenance(self) -> bool:
        """Whether the batch computes no rows, so that it completes whatever the declaration says."""
        return self.moves_no_rows or self.mode == "restore"

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
    return with_checksum(json.dumps(asdict(value), sort_keys=True, default=date.isoformat))


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
        return {file[0]: FileFact._make(file) for file in files if _is_file(file)}
    finally:
        if collecting:
            gc.enable()


def _is_file(written: Sequence[object]) -> bool:
    """Return True, or raise ValueError when the entry is not a file."""
    path, size, modified = written
    if not (isinstance(path, str) and isinstance(size, int) and isinstance(modified, int)):
        raise ValueError(f"{path!r} is not a file entry")
    return True


def decode_completed(data: bytes, sequence: int) -> CompletedBatch:
    """Return the completed batch; raise ValueError when the file is not valid."""
    fields = json.loads(_verified(data))
    done = CompletedBatch(**fields)
    numbers = [value for name, value in fields.items() if name not in ("run_id", "newest_extract")]
    if done.sequence != sequence or not (_all(int, *numbers) and _all(str | None, done.newest_extract)):
        raise ValueError(f"this is not batch {sequence}")
    return done


def decode_batch(data: bytes, sequence: int) -> Batch:
    """Return the pinned batch; raise ValueError when it is not valid. Its parent must come before it: a cycle would
    never end."""
    batch = _decode(data)
    numbers = (batch.sequence, batch.attempt, batch.parent, batch.pinned_at)
    texts = (batch.run_id, batch.definition, batch.mode)
    if not (all(isinstance(each, int) for each in numbers) and all(isinstance(each, str) for each in texts)):
        raise ValueError("a field has the wrong type")
    if batch.mode not in _MODES:
        raise ValueError(f"unknown mode {batch.mode!r}")
    if not 0 <= batch.parent < batch.sequence == sequence:
        raise ValueError(f"this is not batch {sequence}, or its parent {batch.parent} does not come before it")
    positions = (*batch.inputs.values(), *batch.lookups.values())
    if not all(isinstance(position.version, int) and isinstance(position.table_id, str) for position in positions):
        raise ValueError("a position has the wrong type")
    if not (_all(int | None, batch.base_version) and _all(int, *batch.since.values())):
        raise ValueError("a version has the wrong type")
    if not (_all(str | None, batch.contract, batch.newest_extract) and _all(str, *batch.rejected_files.values())):
        raise ValueError("the contract, the extract or the reason of a rejected file is not a text")
    if batch.seen is not None and not all(isinstance(value, str) for value in asdict(batch.seen).values()):
        raise ValueError("the listing bookmark has the wrong type")
    if batch.slice is not None and not _all(int | str, *batch.slice.since.values(), *batch.slice.until.values()):
        raise ValueError("the slice has the wrong type")
    if batch.backfill is not None and not (isinstance(batch.backfill.days, int) and batch.backfill.days > 0):
        raise ValueError("the backfill has no positive number of days")
    if not (_is_approval(batch.approval) and _is_replay(batch.replay) and _is_rollback(batch.restore)):
        raise ValueError("the approval, replay or restore has the wrong type")
    for file in batch.files:
        _is_file(file)
    return batch


def _all(kind: UnionType | type, *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


def _is_approval(approval: Approval | None) -> bool:
    return approval is None or (
        _all(str, approval.by, approval.why, approval.run_id) and _all(int, approval.rows, approval.rejected)
    )


def _is_replay(replay: Replay | None) -> bool:
    if replay is None:
        return True
    chosen, edits = replay.chosen, replay.edits.values()
    texts = (replay.by, replay.why, *chosen.ids, *replay.set.values())
    numbers = (replay.version, replay.moment)
    values = (value for edited in edits for value in edited.values())
    return (
        _all(str, *texts)
        and _all(int, *numbers)
        and _all(bool, replay.discard)
        and _all(str | None, chosen.rule, chosen.reason, *values)
        and _all(int | None, chosen.batch)
        and _all(int | float | None, chosen.older_than)
    )


def _is_rollback(back: Rollback | None) -> bool:
    return back is None or (_all(int, back.version, back.head) and _all(int | None, back.quarantine, back.decisions))


def _decode(data: bytes) -> Batch:
    values = json.loads(_verified(data))
    values["inputs"] = {table: Position(**position) for table, position in values["inputs"].items()}
    values["files"] = tuple(FileFact(*file) for file in _as_list(values["files"]))
    values["lookups"] = {table: Position(**position) for table, position in values.get("lookups", {}).items()}
    for name, read in _OPTIONAL_FIELDS.items():
        if values.get(name) is not None:
            values[name] = read(values[name])
    return Batch(**values)


def _as_list(values: object) -> list[Any]:
    """Return the list, or raise ValueError: a text would be read as its characters, a mapping as its keys."""
    if not isinstance(values, list):
        raise ValueError("not a list")
    return values


def _replay(stored: Mapping[str, Any]) -> Replay:
    _as_list(stored["chosen"]["ids"])
    return Replay.from_json(stored)


def _span(stored: Mapping[str, str]) -> Span:
    return Span(**{name: date.fromisoformat(day) for name, day in stored.items()})


def _backfill(stored: Mapping[str, Any]) -> Backfill:
    done = None if stored["done"] is None else date.fromisoformat(stored["done"])
    return Backfill(span=_span(stored["span"]), days=stored["days"], done=done)


_OPTIONAL_FIELDS: Mapping[str, Callable[[Any], object]] = {
    "slice": lambda stored: Slice(**stored),
    "seen": lambda stored: ListingBookmark(**stored),
    "approval": lambda stored: Approval(**stored),
    "replay": _replay,
    "restore": lambda stored: Rollback(**stored),
    "days": _span,
    "backfill": _backfill,
}
"""By name of an optional field, the function that decodes it."""
