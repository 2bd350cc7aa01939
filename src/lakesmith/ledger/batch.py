"""What a batch is, and how it is written down: JSON under a sum of its bytes, held to what every batch is when read."""

from __future__ import annotations

import gc
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from types import UnionType
from typing import Any

from lakesmith.plan.steps import Approval, Backfill, Position, Replay, Rollback, Seen, Span
from lakesmith.ports import QUIET, FileFact, Slice

NOTE = "lakesmith batch "
"""How the notes of commits begin."""
_SEAL = b'{"seal": "'


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
    mode: str
    inputs: Mapping[str, Position] = field(default_factory=dict)
    """Up to which version of each input table this batch reads."""
    since: Mapping[str, int] = field(default_factory=dict)
    """For inputs that are read by their changes, the version after which."""
    files: tuple[FileFact, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """By path, files of these that cannot be read as a whole, and why."""
    slice: Slice | None = None
    """For a source that is not files, the stretch of it."""
    seen: Seen | None = None
    """For files that come in order, how far they are taken in with this batch."""
    days: Span | None = None
    """For a part of a backfill, the days that are computed again."""
    backfill: Backfill | None = None
    """A backfill that is still open with this batch."""
    lookups: Mapping[str, Position] = field(default_factory=dict)
    """Tables that checks refer to, each at the version that is asked."""
    contract: str | None = None
    """The version of the table's contract."""
    approval: Approval | None = None
    """Who let it pass a gate that had refused it."""
    replay: Replay | None = None
    """For a batch of rows out of the quarantine, which they are."""
    restore: Rollback | None = None
    """For a batch that takes others back, to where."""
    continues: int | None = None
    """The version of the table that its rows are added to; None where they take the place of all."""
    newest_extract: str | None = None
    """For the load `snapshot`, the newest extract in the table before this batch; None where it is not known."""

    @property
    def note(self) -> str:
        """What the commit carries, to tell this attempt from any other."""
        begin = QUIET if self.is_quiet else NOTE
        return f"{begin}{self.sequence}.{self.attempt} run {self.run_id}"

    @property
    def is_quiet(self) -> bool:
        """Whether it moves no row, so that no reader has to follow it: it fences a vacuum, or follows inputs back."""
        return self.mode in ("vacuum", "follow")

    @property
    def is_maintenance(self) -> bool:
        """Whether it computes no row, so that its end is the same whatever the declaration says by then."""
        return self.is_quiet or self.restore is not None

    @property
    def follows_rollback(self) -> bool:
        """Whether batches between this one and the one that it builds upon were rolled back."""
        return 0 < self.parent < self.sequence - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A batch that was seen through to its end."""

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
    """For the load `snapshot`, the newest extract in the table with this batch; None where it is not known. An extract
    that changes nothing leaves no trace in the rows."""


def encoded(value: Batch | Done) -> bytes:
    """A note as it is written."""
    return sealed(json.dumps(asdict(value), sort_keys=True, default=date.isoformat))


def sealed(text: str) -> bytes:
    """JSON whose first key tells a sum of all that follows."""
    rest = text[1:].encode()
    return b'%s%08x", %s' % (_SEAL, zlib.crc32(rest), rest)


def _unsealed(data: bytes) -> bytes:
    """The JSON without its seal; raises where it does not fit. Older files have none."""
    if not data.startswith(_SEAL):
        return data
    start = len(_SEAL) + 8 + len('", ')
    rest = data[start:]
    if data[:start] != b'%s%08x", ' % (_SEAL, zlib.crc32(rest)):
        raise ValueError("the file is not as it was written")
    return b"{" + rest


def files_of(data: bytes) -> dict[str, FileFact]:
    """By path, the files of a summary."""
    # None of what is made here is garbage, and the collector would look at all of it again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        told = json.loads(_unsealed(data))
        files = told if isinstance(told, list) else told["files"]
        return {file[0]: FileFact._make(file) for file in files if _is_file(file)}
    finally:
        if collecting:
            gc.enable()


def _is_file(written: Sequence[object]) -> bool:
    """Raise ValueError for what is no file."""
    path, size, modified = written
    if not (isinstance(path, str) and isinstance(size, int) and isinstance(modified, int)):
        raise ValueError(f"{path!r} is no file")
    return True


def done_of(data: bytes, sequence: int) -> Done:
    """The end of a batch."""
    told = json.loads(_unsealed(data))
    done = Done(**told)
    numbers = [value for name, value in told.items() if name not in ("run_id", "newest_extract")]
    if done.sequence != sequence or not (_all(int, *numbers) and _all(str | None, done.newest_extract)):
        raise ValueError(f"this is not batch {sequence}")
    return done


def batch_of(data: bytes, sequence: int) -> Batch:
    """The batch, held to what every batch is: a parent that is not before it would never end."""
    batch = _decode(data)
    numbers = (batch.sequence, batch.attempt, batch.parent, batch.pinned_at)
    texts = (batch.run_id, batch.definition, batch.mode)
    if not (all(isinstance(each, int) for each in numbers) and all(isinstance(each, str) for each in texts)):
        raise ValueError("a number or a text is none")
    if not 0 <= batch.parent < batch.sequence == sequence:
        raise ValueError(f"this is not batch {sequence}, or its parent {batch.parent} does not come before it")
    positions = (*batch.inputs.values(), *batch.lookups.values())
    if not all(isinstance(position.version, int) and isinstance(position.table_id, str) for position in positions):
        raise ValueError("a position is none")
    if not (_all(int | None, batch.continues) and _all(int, *batch.since.values())):
        raise ValueError("what it continues, or reads on from, is no version")
    if not (_all(str | None, batch.contract, batch.newest_extract) and _all(str, *batch.refused.values())):
        raise ValueError("a contract, an extract, or why a file is refused, is no text")
    if batch.seen is not None and not all(isinstance(value, str) for value in asdict(batch.seen).values()):
        raise ValueError("what was seen is not told in texts")
    if batch.slice is not None and not _all(int | str, *batch.slice.since.values(), *batch.slice.until.values()):
        raise ValueError("a stretch has no end")
    if batch.backfill is not None and not (isinstance(batch.backfill.days, int) and batch.backfill.days > 0):
        raise ValueError("a backfill goes on by no days")
    if not (_is_approval(batch.approval) and _is_replay(batch.replay) and _is_rollback(batch.restore)):
        raise ValueError("what somebody decided is not told as it is decided")
    for file in batch.files:
        _is_file(file)
    return batch


def _all(kind: UnionType | type, *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


def _is_approval(given: Approval | None) -> bool:
    return given is None or (_all(str, given.by, given.why, given.run_id) and _all(int, given.rows, given.refused))


def _is_replay(asked: Replay | None) -> bool:
    if asked is None:
        return True
    chosen, edits = asked.chosen, asked.edits.values()
    texts = (asked.by, asked.why, *chosen.ids, *asked.set.values())
    numbers = (asked.version, asked.moment)
    values = (value for edited in edits for value in edited.values())
    return (
        _all(str, *texts)
        and _all(int, *numbers)
        and _all(bool, asked.discard)
        and _all(str | None, chosen.rule, chosen.reason, *values)
        and _all(int | None, chosen.batch)
        and _all(int | float | None, chosen.older_than)
    )


def _is_rollback(back: Rollback | None) -> bool:
    return back is None or (_all(int, back.version, back.head) and _all(int | None, back.quarantine, back.settled))


def _decode(data: bytes) -> Batch:
    values = json.loads(_unsealed(data))
    values["inputs"] = {table: Position(**position) for table, position in values["inputs"].items()}
    values["files"] = tuple(FileFact(*file) for file in _listed(values["files"]))
    values["lookups"] = {table: Position(**position) for table, position in values.get("lookups", {}).items()}
    for name, read in _PARTS.items():
        if values.get(name) is not None:
            values[name] = read(values[name])
    return Batch(**values)


def _listed(values: object) -> list[Any]:
    """Raise ValueError for what is no list: a text would be one of its characters, and a mapping one of its keys."""
    if not isinstance(values, list):
        raise ValueError("a list is none")
    return values


def _replay(kept: Mapping[str, Any]) -> Replay:
    _listed(kept["chosen"]["ids"])
    return Replay.read(kept)


def _span(kept: Mapping[str, str]) -> Span:
    return Span(**{name: date.fromisoformat(day) for name, day in kept.items()})


def _backfill(kept: Mapping[str, Any]) -> Backfill:
    done = None if kept["done"] is None else date.fromisoformat(kept["done"])
    return Backfill(span=_span(kept["span"]), days=kept["days"], done=done)


_PARTS: Mapping[str, Callable[[Any], object]] = {
    "slice": lambda kept: Slice(**kept),
    "seen": lambda kept: Seen(**kept),
    "approval": lambda kept: Approval(**kept),
    "replay": _replay,
    "restore": lambda kept: Rollback(**kept),
    "days": _span,
    "backfill": _backfill,
}
"""By its name, how a part of a batch is read that not every batch has."""
