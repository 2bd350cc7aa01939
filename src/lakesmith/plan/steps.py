"""The steps of a plan: pure data with two readers, `explain` and `execute`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from typing import ClassVar, Literal

from lakesmith.declare import TableName
from lakesmith.errors import LakesmithError
from lakesmith.ports import ColumnFact, FileFact, SkippedEntry, Slice, TableFacts

BuildMode = Literal["changes", "sums", "keys", "partitions", "full"]
BatchMode = Literal[BuildMode, "files", "slice", "days", "replay", "vacuum", "move_bookmarks", "restore"]
"""How a batch gets its rows; `vacuum` and `move_bookmarks` move none."""
Status = Literal["added", "changed", "unchanged"]
StepName = Literal["ingest", "widen", "build", "backfill", "finish", "commit", "replay", "compact", "vacuum", "restore"]
"""How outputs and `system.steps` call a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One listing of a landing folder whose new files sort last."""

    pattern: str
    """The glob, as an absolute path or URL. A bookmark counts for one glob only."""
    day: str
    """The day, in UTC, of the full listing that this is or continues."""
    after: str | None
    """Only names that sort after this one were listed; None in a full listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingBookmark:
    """The name up to which a table holds all files that such a listing found."""

    pattern: str
    day: str
    """The day, in UTC, of the last full listing."""
    upto: str
    greatest: str
    """No file in the table has a name that sorts after this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Ingests what is new in a source into a bronze table, exactly once. Never changes a stored row."""

    name: ClassVar[StepName] = "ingest"
    table: TableName
    files: tuple[FileFact, ...] = ()
    slice: Slice | None = None
    """For sources that are not files, the range that is read."""
    listing: Listing | None = None
    """For ordered files, how these were listed: `after` is the last name before this step's files."""
    reason: str

    @property
    def mode(self) -> Literal["files", "slice"]:
        return "files" if self.slice is None else "slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widen:
    """Widens columns of a bronze table to their declared types. Never changes a row."""

    name: ClassVar[StepName] = "widen"
    table: TableName
    columns: tuple[ColumnFact, ...]
    """With their new types."""
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
    """Updates a silver or gold table from its inputs in one commit. Never shows a half-built table."""

    name: ClassVar[StepName] = "build"
    table: TableName
    mode: BuildMode
    """`changes` and `sums` read changed rows only, `keys` and `partitions` what these touch, `full` all rows."""
    inputs: tuple[Input, ...]
    reason: str
    cost_reason: str | None = None
    """Why no cheaper mode is possible."""
    rebuild: bool = False
    """Build even when no input has changed: the table is new, or its definition changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of days in UTC, both ends included."""

    start: date
    end: date

    def __str__(self) -> str:
        return f"{self.start} to {self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """Days of a table to rebuild, `days` of them per commit."""

    span: Span
    days: int
    done: date | None = None
    """The last rebuilt day; None before the first commit."""

    def chunks(self) -> Iterator[Span]:
        """Yield the remaining chunks, one per commit."""
        start = self.span.start if self.done is None else self.done + timedelta(days=1)
        while start <= self.span.end:
            end = min(start + timedelta(days=self.days - 1), self.span.end)
            yield Span(start=start, end=end)
            start = end + timedelta(days=1)

    def after(self, chunk: Span) -> Backfill | None:
        """Return the backfill once a chunk is committed; None after the last."""
        return None if chunk.end >= self.span.end else replace(self, done=chunk.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillChunk:
    """Rebuilds some days of a table in one commit, from the input versions that it has already read."""

    name: ClassVar[StepName] = "backfill"
    table: TableName
    chunk: Span
    column: str
    """The table's column that holds a row's day."""
    backfill: Backfill
    """The backfill that this chunk is part of."""
    inputs: tuple[TableName, ...]
    reason: str
    mode: Literal["days"] = "days"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Completes a batch whose rows are committed but whose rejected rows may not be in quarantine yet."""

    name: ClassVar[StepName] = "finish"
    mode: ClassVar[Literal["files"]] = "files"
    table: TableName
    sequence: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's approval of a batch that a gate holds."""

    by: str
    why: str
    run_id: str
    """The run that the batch belongs to."""
    rows: int = 0
    """How many rows the approved batch had."""
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHeldBatch:
    """Commits a held batch from exactly the inputs that were pinned for it. Never another batch."""

    name: ClassVar[StepName] = "commit"
    table: TableName
    sequence: int
    attempt: int
    approval: Approval
    reason: str
    mode: Literal["held"] = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFilter:
    """Selects rows of a quarantine: those that match all given conditions."""

    ids: tuple[str, ...] = ()
    rule: str | None = None
    reason: str | None = None
    """A substring of the reason."""
    batch: int | None = None
    older_than: float | None = None
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What happens to rows of a quarantine, and who decided it."""

    chosen: QuarantineFilter
    by: str
    why: str = ""
    discard: bool = False
    """Discard and count the rows instead of replaying them."""
    set: Mapping[str, str] = field(default_factory=dict)
    """By column, the SQL that fixes it."""
    edits: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """By row id and column, the corrected value."""
    version: int = 0
    """The version of the quarantine that is read."""
    moment: int = 0
    """Milliseconds since 1970 from which ages are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayQuarantine:
    """Replays quarantined rows against the current checks. Rows that pass enter the table through its load, once."""

    name: ClassVar[StepName] = "replay"
    table: TableName
    replay: Replay
    reason: str
    mode: Literal["replay"] = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Compacts small files, in the table and in its quarantine. Never changes a row."""

    name: ClassVar[StepName] = "compact"
    table: TableName
    files: int
    bytes: int
    reason: str
    mode: Literal["files"] = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """Deletes data files that no recent version references. Never a file that is still to be read or committed."""

    name: ClassVar[StepName] = "vacuum"
    table: TableName
    older_than: float
    """Seconds. Files that a version of this period references stay."""
    readers: tuple[TableName, ...] = ()
    """The tables that read this one, or are checked against it: files that they have not read stay too."""
    reason: str
    mode: Literal["vacuum"] = "vacuum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The versions to which a table, its quarantine and its decisions are restored."""

    version: int
    head: int
    """The table's last batch before the restore."""
    quarantine: int | None = None
    """-1 when it had no rows, None when it stays unchanged."""
    decisions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Restores a table and its quarantine to an earlier version. Never one without the other."""

    name: ClassVar[StepName] = "restore"
    table: TableName
    version: int
    reason: str
    input_versions: Mapping[str, int] = field(default_factory=dict)
    """By input, the version that is restored together with this table."""
    keeps_rows: bool = False
    """The table has these rows already; the step only records the restored versions of its inputs."""
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
    """Tables of this plan that a run updates first."""
    shuffles: tuple[str, ...] = ()
    """Checks for which Spark shuffles rows."""
    skipped: tuple[SkippedEntry, ...] = ()
    """Entries of the landing folder that are not ingested and that no run has reported yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will happen, in run order."""

    lake: str
    environment: str
    tables: tuple[TablePlan, ...]
    problems: tuple[LakesmithError, ...] = ()
    """The problems that block some of the tables; the others continue."""

    @property
    def skipped(self) -> Iterator[tuple[TableName, SkippedEntry]]:
        return ((table.table, entry) for table in self.tables for entry in table.skipped)

    @property
    def steps(self) -> Iterator[Step]:
        return (step for table in self.tables for step in table.steps)

    def bytes(self, facts: LakeFacts) -> int:
        """Return an upper bound of what will be read: new files, inputs of each build, and files to compact."""
        sizes = {name: table.bytes for name, table in facts.tables.items()}
        new = sum(file.size for step in self.steps if isinstance(step, Ingest) for file in step.files)
        inputs = [each.table for step in self.steps if isinstance(step, Build) for each in step.inputs]
        inputs += [each for step in self.steps if isinstance(step, BackfillChunk) for each in step.inputs]
        new += sum(step.bytes for step in self.steps if isinstance(step, Compact))
        return new + sum(sizes.get(name, new) for name in inputs)

    @property
    def hash(self) -> str:
        """The same for the same steps on the same inputs."""
        steps = [[type(step).__name__, asdict(step)] for step in self.steps]
        return hashlib.sha256(json.dumps(steps, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far one input has been read."""

    table_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a table has come, by its own log and its pinned batches."""

    head: int = 0
    """The table's last batch; 0 before the first."""
    base_batch: int = 0
    """The parent of the next batch: the head, or the batch before it where the head is maintenance after a rollback.
    Such a head moves no row, so the next batch has to write what was rolled back."""
    definition: str | None = None
    """The fingerprint of the declaration that made the head."""
    positions: Mapping[str, Position] = field(default_factory=dict)
    """By input table."""
    source_position: Mapping[str, int | str] = field(default_factory=dict)
    """For a source that is not files, the position up to which it was read."""
    ingested: Mapping[str, FileFact] = field(default_factory=dict)
    """By path, the ingested files."""
    seen: ListingBookmark | None = None
    """For ordered files, the name up to which they are ingested; None when a full listing is needed."""
    backfill: Backfill | None = None
    """An unfinished backfill."""
    newest_extract: str | None = None
    """For the load `snapshot`, the newest extract in the table; None where it is unknown."""
    unfinished: int | None = None
    """A batch whose rows are committed but that was not completed."""
    unfinished_definition: str | None = None
    """The fingerprint of the declaration that made it: after a rollback it is not the head."""
    rewritten: int | None = None
    """The newest version that replaced rows, where that is known. A reader of an earlier version cannot continue with
    the new rows only."""
    highest_sequence: int = 0
    """The greatest known batch number before the table was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFacts:
    """All facts that a plan needs."""

    tables: Mapping[TableName, TableFacts] = field(default_factory=dict)
    """Tables that exist."""
    progress: Mapping[TableName, Progress] = field(default_factory=dict)
    landing: Mapping[TableName, tuple[FileFact, ...]] = field(default_factory=dict)
    """For bronze tables, the files in the landing folder that are new, or changed after they were ingested."""
    skipped: Mapping[TableName, tuple[SkippedEntry, ...]] = field(default_factory=dict)
    """For bronze tables from files, entries of the landing folder that are not ingested."""
    listings: Mapping[TableName, Listing] = field(default_factory=dict)
    """For bronze tables from ordered files, how the landing folder was listed."""
    slices: Mapping[TableName, Slice] = field(default_factory=dict)
    """For bronze tables from other sources, what is new in them."""
    problems: Mapping[TableName, LakesmithError] = field(default_factory=dict)
    """Tables whose progress cannot be read."""
    widened_columns: Mapping[tuple[TableName, int], Sequence[str]] = field(default_factory=dict)
    """By table and the version up to which another table has read it, the columns that were widened since."""
    quarantine_expired: Mapping[TableName, int] = field(default_factory=dict)
    """How many rows are in quarantine for longer than the table's policy allows."""
