"""What a batch commits, one case per mode: each holds what only a batch of its mode pins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, get_args

from lakesmith.plan.steps import BatchMode, ListingBookmark, Replay, Rollback, Span
from lakesmith.ports import FileFact, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiles:
    """The rows of files that are new in the landing folder."""

    mode: ClassVar[BatchMode] = "files"
    files: tuple[FileFact, ...]
    rejected: Mapping[str, str] = field(default_factory=dict)
    """By path, why a file cannot be read at all."""
    seen: ListingBookmark | None = None
    """For files that arrive in name order, how far they are ingested with this batch."""

    def reject(self, path: str, why: str) -> NewFiles:
        """Return the files, one of them rejected as a whole."""
        return replace(self, rejected={**self.rejected, path: why})

    def leave_out(self, paths: Collection[str]) -> NewFiles:
        """Return the other files. Where files arrive in name order, only a full listing finds these again."""
        return replace(self, files=tuple(file for file in self.files if file.path not in paths), seen=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSlice:
    """The rows of a slice of a source other than files."""

    mode: ClassVar[BatchMode] = "slice"
    slice: Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class FullBuild:
    """All rows of the query, which replace all rows of the table."""

    mode: ClassVar[BatchMode] = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """The rows of the query over changed input rows only."""

    mode: ClassVar[BatchMode] = "changes"
    since: Mapping[str, int] = field(default_factory=dict)
    """By input table, the version after which changes are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSums:
    """The totals of new input rows, which are added to the stored totals."""

    mode: ClassVar[BatchMode] = "sums"
    since: Mapping[str, int] = field(default_factory=dict)
    """By input table, the version after which changes are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedKeys:
    """All rows of the keys that changed input rows touch."""

    mode: ClassVar[BatchMode] = "keys"
    since: Mapping[str, int] = field(default_factory=dict)
    """By input table, the version after which changes are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPartitions:
    """All rows of the partitions that changed input rows touch."""

    mode: ClassVar[BatchMode] = "partitions"
    since: Mapping[str, int] = field(default_factory=dict)
    """By input table, the version after which changes are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfilledDays:
    """All rows of the days of one chunk of a backfill."""

    mode: ClassVar[BatchMode] = "days"
    days: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRows:
    """Rows of the quarantine that a replay decides."""

    mode: ClassVar[BatchMode] = "replay"
    replay: Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumFence:
    """No row: the commit before a vacuum, after which no suspended run can commit files that the vacuum deletes."""

    mode: ClassVar[BatchMode] = "vacuum"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedBookmarks:
    """No row: the bookmarks follow inputs that were restored."""

    mode: ClassVar[BatchMode] = "move_bookmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredVersion:
    """The rows of an earlier version of the table."""

    mode: ClassVar[BatchMode] = "restore"
    rollback: Rollback


BuildContent = FullBuild | ChangedRows | AddedSums | ChangedKeys | ChangedPartitions
BatchContent = (
    NewFiles
    | SourceSlice
    | BuildContent
    | BackfilledDays
    | ReplayedRows
    | VacuumFence
    | MovedBookmarks
    | RestoredVersion
)
CASES: Mapping[str, type[BatchContent]] = {case.mode: case for case in get_args(BatchContent)}
"""By mode, the case that has it."""
