"""A store and a table format in memory, which fail on demand.

They behave like the real ones: a file is written completely or not at all. Of two writers of one version, one wins. A
write with an old sequence number has no effect. A rollback does not roll sequence numbers back. A write that continues
a rolled-back version fails.
"""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple, cast

from tests.faults.processes import Clock, Process

from lakesmith.columns import DELETE_ROW
from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.commit_results import committed_by_another_run
from lakesmith.ports import (
    Capability,
    CommitFact,
    CommitResult,
    DataFile,
    EngineAccess,
    EngineName,
    FileFact,
    ObjectFact,
    ReplaceWhere,
    SkippedEntry,
    StoreCapability,
    TableFacts,
    TableFolder,
    Upsert,
    Write,
    find_commit,
)


class Row(NamedTuple):
    """A row of the lake; `uid` is unique, and later rows have greater ones."""

    uid: int
    key: int
    value: int


class Day(NamedTuple):
    """A row of the gold table."""

    day: int
    rows: int
    total: int


class RejectedRow(NamedTuple):
    """A row of a quarantine."""

    id: str
    row: Row
    batch: int


class QuarantineDecision(NamedTuple):
    """The decision about a quarantined row."""

    rejected: RejectedRow
    how: str


AnyRow = Row | Day | RejectedRow | QuarantineDecision
Content = tuple[AnyRow, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """The next operation of a kind fails: before its effect, or after it, when only the reply is lost."""

    operation: str
    effect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a table, and the commit that made it."""

    number: int
    rows: Content
    operation: str
    at: float
    flow: str = ""
    sequence: int = 0
    note: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def rewrites(self) -> bool:
        """Whether it replaces the rows of the table."""
        return self.operation == "RESTORE" or self.parameters.get("mode") == "Overwrite"


@dataclass(slots=True)
class Table:
    """A table and its log."""

    id: str
    versions: list[Version] = field(default_factory=list)
    oldest: int = 0
    sequences: dict[str, int] = field(default_factory=dict)

    @property
    def newest(self) -> Version:
        return self.versions[-1]


@dataclass
class Disk:
    """Everything that is durable."""

    clock: Clock
    files: dict[str, bytes] = field(default_factory=dict)
    landed: dict[str, tuple[FileFact, tuple[Row, ...]]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    """The runs that the ledger knows."""
    releases: list[dict[str, int]] = field(default_factory=list)
    """The table versions of each release."""
    faults: list[Fault] = field(default_factory=list)
    changes: int = 0
    """The number of durable changes."""

    def fails(self, operation: str, *, effect: bool) -> bool:
        """Return whether the operation fails now; each fault fails one operation."""
        for fault in self.faults:
            if fault.operation == operation and fault.effect == effect:
                self.faults.remove(fault)
                return True
        return False


def store_error(operation: str, key: str) -> InfrastructureError:
    """Return the error of a store that cannot carry out an operation."""
    return InfrastructureError(f"storage-{operation}", f"cannot {operation} {key}", hint="look at the store; run again")


class MemoryStorage:
    """The files of a disk, for one process."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process

    @property
    def url(self) -> str:
        return "/lake"

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        return frozenset((StoreCapability.WRITE, StoreCapability.TABLES))

    def location(self, key: str) -> str:
        return f"/lake/{key}"

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[ObjectFact]:
        self._look("read", prefix)
        keys = (key for key in self._disk.files if key.startswith(prefix) and key > (after or ""))
        return iter([ObjectFact(key, len(self._disk.files[key]), 0, "") for key in sorted(keys)])

    def find(
        self,
        pattern: str,
        known: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Callable[[SkippedEntry], None] | None = None,
    ) -> Iterator[FileFact]:
        self._look("list", pattern)
        facts = [fact for fact, _ in self._disk.landed.values() if fnmatch.fnmatch(fact.path, pattern)]
        return iter(sorted(fact for fact in facts if (known or {}).get(fact.path) != fact))

    def stat(self, key: str) -> ObjectFact | None:
        return next((found for found in self.list(key) if found.key == key), None)

    def read(self, key: str, span: tuple[int, int] | None = None) -> bytes | None:
        self._look("read", key)
        data = self._disk.files.get(key)
        return data if data is None or span is None else data[slice(*span)]

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._change("write", key):
            absent = key not in self._disk.files
            self._disk.files.setdefault(key, data)
        self._reply("write", key)
        return absent

    def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
        with self._change("write", key):
            self._disk.files[key] = data
        self._reply("write", key)
        return True

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._change("remove", key):
                self._disk.files.pop(key, None)

    def create(self, key: str) -> AbstractContextManager[BinaryIO]:
        raise NotImplementedError(key)

    def confirm(self, files: Mapping[str, int | None]) -> None:
        raise NotImplementedError(files)

    def engine(self, name: EngineName) -> EngineAccess:
        return EngineAccess(self.url)

    def arrow(self) -> Any:
        raise NotImplementedError

    def probe(self) -> str | None:
        return None

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        return io.BytesIO(self._disk.files[path])

    def put_file(self, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        return self.put_if_absent(key, file.read())

    def move(self, path: str, to: str) -> None:
        self._disk.files[to] = self._disk.files.pop(path)

    def _look(self, operation: str, key: str) -> None:
        self._process.raise_if_dead()
        if self._disk.faults and self._disk.fails(operation, effect=False):
            raise store_error(operation, key)

    def _change(self, operation: str, key: str) -> _Changing:
        self._process.pause(f"{operation} {key}")
        self._look(operation, key)
        return _Changing(self._disk)

    def _reply(self, operation: str, key: str) -> None:
        if self._disk.faults and self._disk.fails(operation, effect=True):
            raise store_error(operation, key)


class _Changing:
    """A durable change."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __enter__(self) -> None:
        self._disk.changes += 1

    def __exit__(self, *_: object) -> None:
        pass


class Schema:
    """An empty schema: types do not matter here."""

    fields: tuple[Any, ...] = ()

    def simpleString(self) -> str:
        return ""


class Rows:
    """A fake DataFrame with the few methods that the writer calls."""

    columns: tuple[str, ...] = ("uid", "key", "value")
    schema = Schema()
    sparkSession = None

    def __init__(self, rows: Content, *, gone: bool = False, how: str = "") -> None:
        self.rows = rows
        self.how = how
        if gone:
            self.columns = ("id", DELETE_ROW)

    def persist(self) -> Rows:
        return self

    def unpersist(self) -> None:
        """Do nothing."""

    def select(self, *_: object) -> Rows:
        return self

    def selectExpr(self, *columns: str) -> Rows:
        """Return the same rows: added columns do not matter here."""
        return Rows(self.rows, gone=any(DELETE_ROW in column for column in columns), how=self.how)

    def withColumnRenamed(self, _: str, __: str) -> Rows:
        return self

    def join(self, other: Rows, _: str) -> Rows:
        meant = {row.id for row in other.rows if isinstance(row, RejectedRow)}
        found = (row for row in self.rows if isinstance(row, RejectedRow) and row.id in meant)
        return Rows(tuple(QuarantineDecision(row, other.how) for row in found))

    def where(self, condition: str) -> Rows:
        meant = condition.removeprefix("(NOT (").removesuffix("))")
        rows = [row for row in self.rows if is_in(row, ReplaceWhere(meant)) == (meant == condition)]
        return Rows(tuple(rows))

    def unionByName(self, other: Rows) -> Rows:
        return Rows(self.rows + other.rows, gone=DELETE_ROW in self.columns)

    def count(self) -> int:
        return len(self.rows)


class MemoryFormat:
    """The tables of a disk, for one process."""

    name = "memory"
    capabilities = frozenset(Capability)

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process

    def facts(self, folder: TableFolder, flow: str) -> TableFacts | None:
        table = self._found(folder)
        if table is None:
            return None
        return TableFacts(
            folder=folder,
            version=table.newest.number,
            table_id=table.id,
            columns=(),
            partition_by=(),
            rows=len(table.newest.rows),
            bytes=len(table.newest.rows),
            files=1,
            committed_at=_moment(table.newest.at),
            oldest=table.oldest,
            sequence=table.sequences.get(flow, 0),
        )

    def commits(self, folder: TableFolder, after: int = -1) -> Sequence[CommitFact]:
        table = self._found(folder)
        known = table.versions[max(table.oldest, after + 1) :] if table else []
        return [
            CommitFact(
                version=version.number,
                committed_at=_moment(version.at),
                operation=version.operation,
                parameters=version.parameters,
                metrics={
                    "inserted": str(version.inserted),
                    "updated": str(version.updated),
                    "deleted": str(version.deleted),
                },
                note=version.note or None,
                sequences={version.flow: version.sequence} if version.flow else {},
                removes_rows=bool(version.updated or version.deleted or version.rewrites),
            )
            for version in reversed(known)
        ]

    def commit_result(self, commit: CommitFact) -> CommitResult:
        return CommitResult(version=commit.version, **{name: int(count) for name, count in commit.metrics.items()})

    def has_change_feed(self, folder: TableFolder, after: int) -> bool:
        table = self._found(folder)
        return table is not None and table.oldest <= after + 1

    def changed_types(self, folder: TableFolder, after: int) -> Sequence[str]:
        return ()

    def read(self, _: object, folder: TableFolder, version: int, *, positions: bool = False) -> Rows:
        table = self._found(folder)
        assert table is not None
        return Rows(table.versions[version].rows)

    def append(self, frame: Rows, folder: TableFolder, write: Write) -> CommitResult:
        return self._commit(folder, write, lambda rows: (rows + frame.rows, len(frame.rows), 0, 0), blind=True)

    def overwrite(
        self, frame: Rows, folder: TableFolder, write: Write, part: ReplaceWhere | None = None
    ) -> CommitResult:
        def change(rows: Content) -> tuple[Content, int, int, int]:
            remaining = () if part is None else tuple(row for row in rows if not is_in(row, part))
            return remaining + frame.rows, len(frame.rows), 0, 0

        return self._commit(folder, write, change, parameters={"mode": "Overwrite"})

    def merge(self, upsert: Upsert, folder: TableFolder, write: Write) -> CommitResult:
        frame = cast("Rows", upsert.rows)

        def change(rows: Content) -> tuple[Content, int, int, int]:
            if DELETE_ROW in frame.columns:
                gone = {row.id for row in frame.rows if isinstance(row, RejectedRow)}
                remaining = tuple(row for row in rows if not (isinstance(row, RejectedRow) and row.id in gone))
                return remaining, 0, 0, len(rows) - len(remaining)
            held = {row.key: row for row in rows if isinstance(row, Row)}
            newer = latest(frame.rows)
            come = [row for row in newer if row.key not in held]
            later = [row for row in newer if row.key in held and row.uid > held[row.key].uid]
            held |= {row.key: row for row in (*come, *later)}
            return tuple(sorted(held.values())), len(come), len(later), 0

        return self._commit(folder, write, change, operation="MERGE")

    def advance(self, folder: TableFolder, write: Write, spark: object = None) -> CommitResult:
        table = self._found(folder)
        assert table is not None
        if table.sequences.get(write.flow, 0) >= write.sequence:
            raise committed_by_another_run(write)
        return self._commit(folder, write, lambda rows: (rows, 0, 0, 0), blind=True)

    def sync_log(self, folder: TableFolder) -> None:
        """Do nothing: nothing is lost here."""

    def accepts_files(self, folder: TableFolder) -> bool:
        return False

    def accepts_rows(self, rows: object, folder: TableFolder) -> bool:
        return False

    def rows_added_by(self, folder: TableFolder, version: int, column: str) -> Mapping[str, int] | None:
        return {}

    def adopt(self, folder: TableFolder) -> None:
        raise NotImplementedError

    def version_at(self, folder: TableFolder, when: datetime) -> int:
        raise NotImplementedError

    def is_readable(self, folder: TableFolder, version: int) -> bool:
        raise NotImplementedError

    def arrow(self, folder: TableFolder, version: int) -> Any:
        raise NotImplementedError

    def changes(self, spark: object, folder: TableFolder, after: int, until: int) -> Any:
        raise NotImplementedError

    def widen(self, spark: object, folder: TableFolder, columns: Mapping[str, str]) -> None:
        raise NotImplementedError

    def add(
        self,
        files: Sequence[DataFile],
        columns: str,
        folder: TableFolder,
        write: Write,
        table_id: str | None,
        *,
        overwrite: bool = False,
    ) -> Any:
        raise NotImplementedError

    def fenced(self, table: Table, write: Write) -> bool:
        """Return whether this batch or a later one is in the table: then a write has no effect."""
        return table.sequences.get(write.flow, 0) >= write.sequence

    def _found(self, folder: TableFolder) -> Table | None:
        self._process.raise_if_dead()
        return self._disk.tables.get(folder.url)

    def _commit(
        self,
        folder: TableFolder,
        write: Write,
        change: Callable[[Content], tuple[Content, int, int, int]],
        *,
        blind: bool = False,
        operation: str = "WRITE",
        parameters: Mapping[str, str] | None = None,
    ) -> CommitResult:
        table = self._found(folder)
        if table is None or not self.fenced(table, write):
            self._write(folder, table, write, change, blind, operation, parameters or {})
            # Other writers can commit here, between the commit and the read of its result.
            self._process.pause(f"read back {folder}")
        commit = find_commit(self.commits(folder), write.flow, write.sequence, write.note)
        if commit is None:
            raise committed_by_another_run(write)
        return self.commit_result(commit)

    def _write(
        self,
        folder: TableFolder,
        table: Table | None,
        write: Write,
        change: Callable[[Content], tuple[Content, int, int, int]],
        blind: bool,
        operation: str,
        parameters: Mapping[str, str],
    ) -> None:
        seen = table.newest.number if table else -1
        self._process.pause(f"commit {folder}")
        if self._disk.faults and self._disk.fails("commit", effect=False):
            raise OSError(5, "Input/output error")
        now = self._disk.tables.get(folder.url)
        if now is not None and now.newest.number != seen:
            others = now.versions[seen + 1 :]
            if table is None or not blind or any(v.flow == write.flow for v in others if not self.unfenced(v)):
                raise InfrastructureError(
                    "commit-conflict", "another writer changed the table", hint="nothing is lost: run again"
                )
        if now is not None and self.rolled_back(now, write):
            raise InfrastructureError("commit-conflict", "the table was rolled back", hint="nothing is lost: run again")
        rows, inserted, updated, deleted = change(now.newest.rows if now else ())
        if now is None:
            now = self._disk.tables[folder.url] = Table(id=f"{folder}@{self._disk.changes}")
        now.versions.append(
            Version(
                number=len(now.versions),
                rows=rows,
                operation=operation,
                at=self._disk.clock.now,
                flow=write.flow,
                sequence=write.sequence,
                note=write.note,
                parameters=parameters,
                inserted=inserted,
                updated=updated,
                deleted=deleted,
            )
        )
        now.sequences[write.flow] = max(write.sequence, now.sequences.get(write.flow, 0))
        self._disk.changes += 1
        if self._disk.faults and self._disk.fails("commit", effect=True):
            raise OSError(104, "Connection reset by peer")

    def rolled_back(self, table: Table, write: Write) -> bool:
        """Return whether the table was rolled back after the version that the rows continue."""
        since = table.versions[write.based_on + 1 :] if write.based_on is not None else []
        return any(version.operation == "RESTORE" for version in since)

    def unfenced(self, version: Version) -> bool:
        """Return whether a commit does not name its writer."""
        return not version.flow


def latest(rows: Content) -> list[Row]:
    """Return the last landed row of each key."""
    found: dict[int, Row] = {}
    for row in rows:
        if isinstance(row, Row) and (row.key not in found or row.uid > found[row.key].uid):
            found[row.key] = row
    return sorted(found.values())


def is_in(row: AnyRow, part: ReplaceWhere) -> bool:
    """Return whether a row is in one of some partitions; for a quarantined row, whether a later batch rejected it."""
    match row:
        case Day(day=day):
            return str(day) in part.partitions
        case RejectedRow(batch=batch):
            return batch > int(part.where.removeprefix("batch > "))
        case _:
            raise AssertionError(row)


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
