"""The steps of a plan: pure data with two readers, `explain` and `execute`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Literal

from lakesmith.declare import TableName
from lakesmith.errors import LakesmithError
from lakesmith.ports import ColumnFact, FileFact, SkippedEntry, Slice, TableFacts

Mode = Literal["changes", "sums", "keys", "partitions", "whole"]
Status = Literal["added", "changed", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at a landing zone whose files come in the order of their names."""

    pattern: str
    """The glob, as a whole path or URL: what is known of another one means nothing here."""
    day: str
    """The day, in UTC, of the full look that this is or builds upon."""
    after: str | None
    """Names that sort after this one were looked for; None in a full look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Up to which name a table holds all that was found in such a landing zone."""

    pattern: str
    day: str
    """The day, in UTC, of the last full look."""
    upto: str
    greatest: str
    """No file in the table has a name that sorts after this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Takes what is new in a source into a bronze table, exactly once. Never touches a row that is there."""

    table: TableName
    files: tuple[FileFact, ...] = ()
    slice: Slice | None = None
    """For sources that are not files, the stretch that is read."""
    look: Look | None = None
    """For files that come in order, how these were found: `after` is the last name that is not in this step."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Widen:
    """Gives columns of a bronze table the wider types that they are declared with. Never touches a row."""

    table: TableName
    columns: tuple[ColumnFact, ...]
    """With the types that they are to have."""
    reason: str
    mode: Literal["columns"] = "columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A table that a build reads."""

    table: TableName
    since: int | None
    """Changes after this version are read; None reads the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Brings a silver or gold table up to its inputs in one commit. Never shows a half-built table."""

    table: TableName
    mode: Mode
    """`changes` and `sums` read changed rows only, `keys` and `partitions` what these touch, `whole` all rows."""
    inputs: tuple[Input, ...]
    reason: str
    cost_reason: str | None = None
    """Why the mode is not a cheaper one."""
    rebuild: bool = False
    """Computed even when no input has changed: the table is new, or is defined in another way than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Some days, in UTC; the first and the last are among them."""

    start: date
    end: date

    def __str__(self) -> str:
        return f"{self.start} to {self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """Days of a table that are to be computed again, so many of them at a time."""

    span: Span
    days: int
    """In one commit."""
    done: date | None = None
    """The last day that is computed; None before the first commit."""

    def chunks(self) -> Iterator[Span]:
        """What is left to do, commit by commit."""
        start = self.span.start if self.done is None else self.done + timedelta(days=1)
        while start <= self.span.end:
            end = min(start + timedelta(days=self.days - 1), self.span.end)
            yield Span(start=start, end=end)
            start = end + timedelta(days=1)

    def after(self, chunk: Span) -> Backfill | None:
        """What is left once a chunk is committed; None when that was the last."""
        return None if chunk.end >= self.span.end else replace(self, done=chunk.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillChunk:
    """Computes some days of a table again, in one commit, from what it has read of its inputs already."""

    table: TableName
    chunk: Span
    column: str
    """The column of the table that tells a row's day."""
    backfill: Backfill
    """What this is a part of."""
    inputs: tuple[TableName, ...]
    reason: str
    mode: Literal["days"] = "days"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Completes a batch whose rows are in the table but whose refused rows may not be in quarantine yet."""

    table: TableName
    sequence: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Somebody's word that a batch which a gate has refused may pass."""

    by: str
    why: str
    run_id: str
    """The run whose batch it was."""
    rows: int = 0
    """How many rows the batch had that was looked at."""
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHeldBatch:
    """Commits a batch that a gate has refused, from the very inputs that were pinned for it. Never another one."""

    table: TableName
    sequence: int
    attempt: int
    approval: Approval
    reason: str
    mode: Literal["held"] = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which rows of a quarantine are meant: those for which all that is given holds."""

    ids: tuple[str, ...] = ()
    rule: str | None = None
    reason: str | None = None
    """A part of it."""
    batch: int | None = None
    older_than: float | None = None
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What is done with rows of a quarantine, and at whose word."""

    chosen: Chosen
    by: str
    why: str = ""
    discard: bool = False
    """The rows are given up, and counted, in place of being judged again."""
    set: Mapping[str, str] = field(default_factory=dict)
    """By column, SQL that mends it."""
    edits: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """By a row's id and column, the value that it is given."""
    version: int = 0
    """The version of the quarantine in which they are looked for."""
    moment: int = 0
    """Milliseconds since 1970 from which ages are counted."""

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Replay:
        """As it was written down with a batch."""
        chosen = {**kept["chosen"], "ids": tuple(kept["chosen"]["ids"])}
        return cls(**{**kept, "chosen": Chosen(**chosen)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayQuarantine:
    """Judges rows of a quarantine by today's rules; those that pass enter the table, through its own load, once."""

    table: TableName
    replay: Replay
    reason: str
    mode: Literal["replay"] = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Puts the rows of small files together, in the table and in what is kept beside it. Never changes a row."""

    table: TableName
    files: int
    bytes: int
    reason: str
    mode: Literal["files"] = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """Deletes files that no version of late needs. Never one that is still to be read, or to be committed."""

    table: TableName
    older_than: float
    """Seconds: what was part of a version since then stays."""
    readers: tuple[TableName, ...] = ()
    """The tables that are made from this one, or are checked against it: what they have not read stays too."""
    reason: str
    mode: Literal["vacuum"] = "vacuum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """To which versions a table and what is kept beside it go back."""

    version: int
    head: int
    """The batch that the table's rows ended with before."""
    quarantine: int | None = None
    """-1 for what there was nothing in, None for what stays as it is."""
    settled: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Gives a table the rows of an earlier version again, with the quarantine of that time. Never half of it."""

    table: TableName
    version: int
    reason: str
    together: Mapping[str, int] = field(default_factory=dict)
    """By input, the version that it goes back to beside this table, which was made from it."""
    stays: bool = False
    """It has these rows: what is left to note is that its inputs have those again which it was made from."""
    mode: Literal["restore"] = "restore"


Step = Ingest | Widen | Build | BackfillChunk | Finish | CommitHeldBatch | ReplayQuarantine | Compact | Vacuum | Restore


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """What will happen to one table, and why."""

    table: TableName
    status: Status
    reason: str
    steps: tuple[Step, ...] = ()
    after: tuple[TableName, ...] = ()
    """Tables of this plan that have to be ready before."""
    shuffles: tuple[str, ...] = ()
    """Checks for which Spark has to bring rows together."""
    skipped: tuple[SkippedEntry, ...] = ()
    """Entries of the landing folder that are not ingested and that no run has reported yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will happen, in an order that the graph allows."""

    lake: str
    environment: str
    tables: tuple[TablePlan, ...]
    problems: tuple[LakesmithError, ...] = ()
    """What keeps some of the tables from being brought up to date; the others go on."""

    @property
    def skipped(self) -> Iterator[tuple[TableName, SkippedEntry]]:
        return ((table.table, entry) for table in self.tables for entry in table.skipped)

    @property
    def steps(self) -> Iterator[Step]:
        return (step for table in self.tables for step in table.steps)

    def bytes(self, facts: LakeFacts) -> int:
        """How much will be read at the most: new files, the inputs of each build as they are now, and files that are
        put together."""
        sizes = {name: table.bytes for name, table in facts.tables.items()}
        new = sum(file.size for step in self.steps if isinstance(step, Ingest) for file in step.files)
        inputs = [each.table for step in self.steps if isinstance(step, Build) for each in step.inputs]
        inputs += [each for step in self.steps if isinstance(step, BackfillChunk) for each in step.inputs]
        new += sum(step.bytes for step in self.steps if isinstance(step, Compact))
        return new + sum(sizes.get(name, new) for name in inputs)

    @property
    def hash(self) -> str:
        """The same for the same steps on the same inputs."""
        told = [[type(step).__name__, asdict(step)] for step in self.steps]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far one input has been read."""

    table_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a table has come, told by its own log and the batches that were pinned for it."""

    head: int = 0
    """The batch that the table's rows end with; 0 before the first."""
    ground: int = 0
    """The batch that the next one builds upon: the head, or what was before it where that is a quiet one after a
    rollback. It moves no row, so that what was rolled back is left to the batch after it."""
    definition: str | None = None
    """The fingerprint of the declaration that the head was made with."""
    positions: Mapping[str, Position] = field(default_factory=dict)
    """By input table."""
    reached: Mapping[str, int | str] = field(default_factory=dict)
    """For a source that is not files, how far it has been read."""
    taken: Mapping[str, FileFact] = field(default_factory=dict)
    """By path, the files that are in the table."""
    seen: Seen | None = None
    """For files that come in order, how far they are taken in; None when everything has to be looked at."""
    backfill: Backfill | None = None
    """One that was begun and has not come to its end."""
    newest_extract: str | None = None
    """For the load `snapshot`, the newest extract in the table; None where it is not known."""
    unfinished: int | None = None
    """A batch whose rows are in the table but that was not seen through to its end."""
    unfinished_as: str | None = None
    """The fingerprint of the declaration that it was made with: after a rollback it is not the head."""
    rewritten: int | None = None
    """The newest version that replaced rows instead of adding to them, where that is known: whoever has read
    less cannot go on by adding the rows that are new."""
    spent: int = 0
    """The greatest number that a batch is known to have had before the table was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFacts:
    """All that a plan has to know of the world."""

    tables: Mapping[TableName, TableFacts] = field(default_factory=dict)
    """Tables that exist."""
    progress: Mapping[TableName, Progress] = field(default_factory=dict)
    landing: Mapping[TableName, tuple[FileFact, ...]] = field(default_factory=dict)
    """For bronze tables, the files in the landing zone that are new, or not as they were when they were taken in."""
    skipped: Mapping[TableName, tuple[SkippedEntry, ...]] = field(default_factory=dict)
    """For bronze tables from files, what lies in the landing folder and is not ingested."""
    looks: Mapping[TableName, Look] = field(default_factory=dict)
    """For bronze tables whose files come in order, how the landing zone was looked at."""
    slices: Mapping[TableName, Slice] = field(default_factory=dict)
    """For bronze tables from other sources, what is new in them."""
    problems: Mapping[TableName, LakesmithError] = field(default_factory=dict)
    """Tables whose progress cannot be told."""
    retyped: Mapping[tuple[TableName, int], Sequence[str]] = field(default_factory=dict)
    """By a table and a version that another has read it up to, its columns that have wider types since."""
    aged: Mapping[TableName, int] = field(default_factory=dict)
    """How many rows lie in quarantine for longer than the table's policy lets them."""
