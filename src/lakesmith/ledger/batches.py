"""Batches: the inputs of a commit are pinned in a file, put-if-absent, before the commit is made.

The table's log holds the batch's sequence number, committed atomically with the rows. The inputs of that batch (files,
versions of input tables) are pinned here before. So a table is its own bookmark:

    _lakesmith/batches/silver.orders/00000007.01.json     batch 7, first attempt: its exact inputs
    _lakesmith/batches/silver.orders/00000007.02.json     a second attempt, after the first one was killed
    _lakesmith/batches/silver.orders/00000007.done.json   which attempt was committed, as which version, and its counts

Every attempt at batch 7 commits with the sequence number 7, so at most one of them can win. `parent` is the batch that
a batch builds on. After a rollback that is not the batch before it: this is how a restored table finds the bookmark of
its rows rather than the one of its transaction number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from typing import TypeVar

from lakesmith.declare import TableName
from lakesmith.errors import DataError
from lakesmith.failpoints import failpoint
from lakesmith.ledger.batch import (
    BATCH_NOTE,
    Batch,
    CompletedBatch,
    decode_batch,
    decode_completed,
    decode_ingested_files,
    encode,
    with_checksum,
)
from lakesmith.ledger.content import NewFiles, RestoredVersion
from lakesmith.plan.steps import Progress
from lakesmith.ports import (
    MAINTENANCE_NOTE,
    CommitFact,
    FileFact,
    Store,
    StoreCapability,
    TableFacts,
    in_commit_order,
    names_in_folder,
)

Decoded = TypeVar("Decoded", Batch, CompletedBatch, dict[str, FileFact])
EMPTY = -1
"""Instead of a version: the table was empty or did not exist."""
_SEQUENCE_IN_NOTE = re.compile(rf"(?:{BATCH_NOTE}|{MAINTENANCE_NOTE})(\d+)\.")
_RUN_IN_NOTE = re.compile(r"lakesmith \w+ (?:\d+\.\d+ )?run (\S+)$")
SUMMARY_INTERVAL = 16
"""The number of batches between two summaries, each of which lists all ingested files."""


class IngestedFiles(Mapping[str, FileFact]):
    """The ingested files of a table by path, for files that arrive in name order. They are read only when a path up to
    the greatest ingested name is looked up, so listing newer names costs the same however many files came before."""

    def __init__(self, read: Callable[[], dict[str, FileFact]], greatest: str) -> None:
        self._read = read
        self._greatest = greatest

    @cached_property
    def _files(self) -> dict[str, FileFact]:
        return self._read()

    def __getitem__(self, path: str) -> FileFact:
        if path > self._greatest:
            raise KeyError(path)
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def flow(name: TableName) -> str:
    """The application id under which Lakesmith commits to a table."""
    return f"lakesmith.{name}"


class Batches:
    """The batches of one table."""

    def __init__(self, store: Store, table: TableName) -> None:
        self._store = store
        self._folder = f"_lakesmith/batches/{table}"
        self._table = table
        self._done: dict[int, CompletedBatch] = {}
        """Completed batches that were read, because some are read several times."""

    def pin(self, batch: Batch) -> Batch:
        """Pin the batch as the first attempt whose number is free."""
        attempt = 1 + sum(name.startswith(f"{batch.sequence:08}.") for name in self._names())
        while True:
            pinned = replace(batch, attempt=attempt)
            if self._store.put_if_absent(self._key(batch.sequence, f"{attempt:02}"), encode(pinned)):
                failpoint("batch.pinned", self._table)
                return pinned
            attempt += 1

    def highest_sequence(self) -> int:
        """The greatest number of a completed batch, also of a dropped table of this name.

        A batch that is only pinned does not count: a concurrent run must arrive at the same number.
        """
        return max((int(name[:8]) for name in self._names() if name.endswith(".done.json")), default=0)

    def finish(self, done: CompletedBatch) -> None:
        """Record that every part of the batch is committed."""
        failpoint("batch.finishing", self._table)
        key = self._key(done.sequence, "done")
        if not self._store.put_if_absent(key, encode(done)):
            recorded = self.done(done.sequence)
            # The commit of another attempt was lost with the end of a log; the table's log has this one.
            if recorded is None or recorded.attempt != done.attempt:
                self._store.replace(key, encode(done))
        self._done.pop(done.sequence, None)
        failpoint("batch.done", self._table)

    def pinned(self, sequence: int, attempt: int) -> Batch:
        """Return a pinned attempt."""
        return self._attempt(sequence, attempt)

    def done(self, sequence: int) -> CompletedBatch | None:
        if sequence not in self._done:
            key = self._key(sequence, "done")
            data = self._store.read(key)
            if data is None:
                return None
            self._done[sequence] = self._decode(key, lambda: decode_completed(data, sequence))
        return self._done[sequence]

    def committed(self, sequence: int, commits: Callable[[], Iterable[CommitFact]]) -> Batch:
        """Return the attempt that the table's log holds under this number."""
        done = self.done(sequence)
        if done:
            return self._attempt(sequence, done.attempt)
        numbers = [name.split(".")[1] for name in self._names() if name.startswith(f"{sequence:08}.")]
        attempts = [int(number) for number in numbers if number.isdigit()]
        if len(attempts) == 1:
            return self._attempt(sequence, attempts[0])
        pinned = {batch.note: batch for batch in (self._attempt(sequence, attempt) for attempt in sorted(attempts))}
        for commit in commits() if pinned else ():
            if commit.note in pinned:
                return pinned[commit.note]
            if commit.sequences.get(flow(self._table)) == sequence:
                break  # an attempt that is not pinned here
        else:
            if pinned:
                return self._last_of_one_run(list(pinned.values()))
        raise DataError(
            "batch-unknown",
            f"batch {sequence} is in the table, but its pinned inputs are missing from {self._folder}",
            table=str(self._table),
            hint=self._recovery_hint(),
        )

    def _last_of_one_run(self, attempts: Sequence[Batch]) -> Batch:
        """Return the committed attempt when the table's log no longer has the commit. A run makes another attempt only
        when the one before was not committed; attempts of several runs are ambiguous."""
        last = attempts[-1]
        if all(attempt.run_id == last.run_id for attempt in attempts):
            return last
        files = ", ".join(f"{self._key(each.sequence, f'{each.attempt:02}')} (run {each.run_id})" for each in attempts)
        raise DataError(
            "batch-unknown",
            f"batch {last.sequence} is in the table, but its commit was cleaned up from the table's log, and "
            f"it may come from any of {len(attempts)} attempts of several runs",
            table=str(self._table),
            hint="keep the attempt of the run that wrote the rows and remove the others: "
            f"SELECT DISTINCT _run_id FROM {self._table} names it; the attempts are {files}"
            if self._table.layer == "bronze"
            else f"rebuild the table: lakesmith run {self._table} --full-refresh",
        )

    def progress(self, facts: TableFacts | None, commits: Callable[[], Iterable[CommitFact]]) -> Progress:
        """Return the bookmarks of the table's rows. `commits` is called only when the log must be read."""
        if facts is None or facts.sequence == 0:
            return Progress()
        self.refuse_lost_commits(facts, commits)
        done = self.done(facts.sequence)
        head = facts.sequence
        unfinished = None if done else self.committed(facts.sequence, commits)
        made = done.version if done else committed_version(unfinished, commits()) if unfinished else 0
        if facts.changed > made:
            head = self._sequence_at(facts.version, facts.sequence, made, tuple(commits()))
        if head == 0:
            return Progress()
        found = self._progress_of(head, commits)
        rewritten = self.done(found.rewrote) if found.rewrote and head == facts.sequence else None
        return replace(
            found.progress,
            unfinished=unfinished.sequence if unfinished else None,
            unfinished_definition=unfinished.definition if unfinished and not unfinished.is_maintenance else None,
            rewritten=rewritten.version if rewritten else None,
        )

    def has_rows_of(self, facts: TableFacts, version: int, commits: Callable[[], Iterable[CommitFact]]) -> bool:
        """Whether the table has the rows of a version: nothing was committed since, or it was restored to it last."""
        if facts.changed <= version <= facts.version:
            return True
        base_batch = self.base_batch(self.progress(facts, commits).head, commits)
        batch = self.committed(base_batch, commits) if base_batch else None
        restored = batch.content if batch is not None else None
        if batch is None or not isinstance(restored, RestoredVersion) or restored.rollback.version != version:
            return False
        return committed_version(batch, commits()) == facts.changed

    def progress_at(self, version: int, newest: int, commits: Sequence[CommitFact]) -> Progress:
        """Return the bookmarks of an earlier version, also from before a rebuild; `newest` is the newest batch."""
        done = self.done(newest)
        made = done.version if done else committed_version(self.committed(newest, lambda: commits), commits)
        head = self._sequence_at(version, newest, made, commits, rebuilt=True)
        return self._progress_of(head, lambda: commits).progress if head else Progress()

    def _progress_of(self, head: int, commits: Callable[[], Iterable[CommitFact]]) -> _HeadProgress:
        newest = batch = self.committed(head, commits)
        rewrote = 0
        while batch.reads_no_source and batch.parent:
            rewrote = rewrote or (batch.sequence if isinstance(batch.content, RestoredVersion) else 0)
            batch = self.committed(batch.parent, commits)
        rewrote = rewrote or (batch.sequence if batch.is_full else 0)
        progress = Progress(
            head=head,
            base_batch=newest.parent if newest.moves_no_rows and newest.follows_rollback else head,
            definition=newest.definition,
            positions=newest.inputs,
            ingested=self._ingested_files(batch, commits),
            seen=batch.content.seen if isinstance(batch.content, NewFiles) else None,
            source_position=batch.slice.until if batch.slice else {},
            backfill=batch.backfill,
            newest_extract=self._newest_extract(newest, commits),
        )
        return _HeadProgress(progress=progress, rewrote=rewrote)

    def _newest_extract(self, batch: Batch, commits: Callable[[], Iterable[CommitFact]]) -> str | None:
        """Return the newest extract in the rows of a batch; maintenance batches keep the one before them."""
        while batch.is_maintenance and batch.parent:
            batch = self.committed(batch.parent, commits)
        done = self.done(batch.sequence)
        return done.newest_extract if done else None

    def refuse_lost_commits(self, facts: TableFacts, commits: Callable[[], Iterable[CommitFact]]) -> None:
        """Raise when a completed batch is missing from the table's log: its newest commits are lost, with rows that
        other tables may have read."""
        done = self.done(facts.sequence + 1) if facts.sequence else None
        if done is None:
            return
        newest = next(iter(commits()), None)
        if newest is None or newest.version != facts.version:
            return  # it was committed since the facts were read
        raise DataError(
            "commits-missing",
            f"{facts.folder}/_delta_log/{done.version:020}.json is missing or was replaced: batch {done.sequence} "
            f"is complete, but the table's log ends with batch {facts.sequence}",
            table=str(self._table),
            hint=f"restore the log from a copy of the warehouse, or rebuild the table: remove {facts.folder} and run",
        )

    def ancestors(self, head: int, commits: Callable[[], Iterable[CommitFact]]) -> dict[int, Batch]:
        """Return a batch and its ancestors by number, the newest first."""
        found: dict[int, Batch] = {}
        while head:
            batch = found[head] = self.committed(head, commits)
            head = batch.parent
        return found

    def base_batch(self, head: int, commits: Callable[[], Iterable[CommitFact]]) -> int:
        """Return the newest batch up to this one that moves rows."""
        while head and (batch := self.committed(head, commits)).moves_no_rows:
            head = batch.parent
        return head

    def has_later_batch(self, sequence: int) -> bool:
        """Whether a later batch is pinned."""
        return any(int(name[:8]) > sequence for name in self._names() if not name.endswith(".done.json"))

    def _sequence_at(
        self, version: int, newest: int, made: int, commits: Sequence[CommitFact], *, rebuilt: bool = False
    ) -> int:
        """Return the last batch of a version, following rollbacks. The newest batch was committed as version `made`.

        With `rebuilt`, also a batch from before a rebuild. A rebuild replaces the quarantine, so a restore
        to a version before it must restore the quarantine too.
        """
        # Batches before the first one belong to a dropped table of the same name.
        first = self.committed(newest, lambda: commits)
        while first.parent:
            first = self.committed(first.parent, lambda: commits)
        by_version = {done.version: seq for seq in range(first.sequence, newest) if (done := self.done(seq))}
        by_version[made] = newest
        for commit in commits:
            if commit.version > version:
                continue
            if commit.version in by_version:
                return by_version[commit.version]
            if rebuilt and (number := _sequence_of(commit)):
                return number
            if commit.operation == "RESTORE":
                restored = _restored_version(commit, commits)
                return self._sequence_at(restored, newest, made, commits, rebuilt=rebuilt)
        return max((seq for made, seq in by_version.items() if made <= version), default=0)

    def summarize_ingested(self, done: CompletedBatch, files: Iterable[FileFact], progress: Progress) -> None:
        """Write a summary of ingested files now and then, so that a plan need not read every batch."""
        if done.sequence % SUMMARY_INTERVAL == 0:
            taken = {**progress.ingested, **{file.path: file for file in files}}
            self.write_summary(done.sequence, done.attempt, taken)

    def write_summary(self, sequence: int, attempt: int, taken: Mapping[str, FileFact]) -> None:
        """Write the list of all files that are ingested up to a batch."""
        rows = [[file.path, file.size, file.modified] for file in taken.values()]
        self._store.put_if_absent(self._summary_key(sequence, attempt), with_checksum(json.dumps({"files": rows})))

    def _ingested_files(self, head: Batch, commits: Callable[[], Iterable[CommitFact]]) -> Mapping[str, FileFact]:
        if not isinstance(head.content, NewFiles) or head.content.seen is None:
            return self._read_ingested_files(head, commits)
        greatest = head.content.seen.greatest

        def read() -> dict[str, FileFact]:
            taken = self._read_ingested_files(head, commits)
            if any(path > greatest for path in taken):
                raise self._unreadable(self._summary_key(head.sequence, head.attempt))
            return taken

        return IngestedFiles(read, greatest)

    def _read_ingested_files(self, head: Batch, commits: Callable[[], Iterable[CommitFact]]) -> dict[str, FileFact]:
        """Return the ingested files, from the batches back to the last summary."""
        taken: dict[str, FileFact] = {}
        batch = head
        while batch.files or batch.reads_no_source:
            summary = self._summary(self._summary_key(batch.sequence, batch.attempt))
            if summary is not None:
                return summary | taken if taken else summary
            taken = {**{file.path: file for file in batch.files}, **taken}
            if batch.parent == 0:
                break
            batch = self.committed(batch.parent, commits)
        return taken

    def _summary(self, key: str) -> dict[str, FileFact] | None:
        data = self._store.read(key)
        return None if data is None else self._decode(key, partial(decode_ingested_files, data))

    def _summary_key(self, sequence: int, attempt: int) -> str:
        return f"_lakesmith/ingested/{self._table}/{sequence:08}.{attempt:02}.json"

    def _attempt(self, sequence: int, attempt: int) -> Batch:
        if StoreCapability.SHARED in self._store.capabilities:
            return _remembered_attempt(self._store, self._table, sequence, attempt)
        return self.read_attempt(sequence, attempt)

    def read_attempt(self, sequence: int, attempt: int) -> Batch:
        """Read a pinned attempt from the store."""
        data = self._store.read(self._key(sequence, f"{attempt:02}"))
        if data is None:
            raise DataError(
                "batch-unknown",
                f"{self._key(sequence, f'{attempt:02}')} is missing from the warehouse",
                table=str(self._table),
                hint=self._recovery_hint(),
            )
        return self._decode(self._key(sequence, f"{attempt:02}"), lambda: decode_batch(data, sequence))

    def _decode(self, key: str, decode: Callable[[], Decoded]) -> Decoded:
        try:
            return decode()
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._unreadable(key) from error

    def _unreadable(self, key: str) -> DataError:
        return DataError(
            "batch-unreadable",
            f"{key} in the warehouse is corrupt",
            table=str(self._table),
            hint=self._recovery_hint(),
        )

    def _recovery_hint(self) -> str:
        if self._table.layer == "bronze":
            return f"restore {self._folder} from a copy: what a bronze table has ingested is recorded nowhere else"
        return f"restore {self._folder} from a copy, or rebuild the table: lakesmith run {self._table} --full-refresh"

    def _names(self) -> Sequence[str]:
        return names_in_folder(self._store, self._folder)

    def _key(self, sequence: int, suffix: str) -> str:
        return f"{self._folder}/{sequence:08}.{suffix}.json"


@lru_cache(maxsize=128)
def _remembered_attempt(store: Store, table: TableName, sequence: int, attempt: int) -> Batch:
    """A pinned attempt in a store that answers each read over a network. An attempt never changes."""
    return Batches(store, table).read_attempt(sequence, attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeadProgress:
    progress: Progress
    rewrote: int
    """The newest batch that replaced rows, when no batch that only added rows came after it."""


def version_left_by(batches: Container[int], commits: Sequence[CommitFact]) -> int | None:
    """Return the version in which a side table had what these batches left there; None when it is the current version,
    EMPTY when it did not exist. `commits` are all commits of the side table, the newest first."""
    others = [commit for commit in commits if (number := _sequence_of(commit)) and number not in batches]
    if not others:
        return None
    own = next((commit for commit in commits if (number := _sequence_of(commit)) and number in batches), None)
    if own is None:
        return others[-1].version - 1
    return own.version if others[0].version > own.version else None


def _sequence_of(commit: CommitFact) -> int | None:
    found = _SEQUENCE_IN_NOTE.match(commit.note or "")
    return int(found[1]) if found else None


def run_of_commit(commit: CommitFact) -> str | None:
    """Return the run that made a commit; None for other writers."""
    found = _RUN_IN_NOTE.match(commit.note or "")
    return found[1] if found else None


def committed_version(batch: Batch, commits: Iterable[CommitFact]) -> int:
    """Return the version of a committed batch. When the log was cleaned up since, return the last version before its
    oldest commit: every rollback that the log still has came later."""
    oldest = 1
    for commit in commits:
        if commit.note == batch.note:
            return commit.version
        oldest = commit.version
    return max(oldest - 1, 0)


def _restored_version(restore: CommitFact, commits: Sequence[CommitFact]) -> int:
    version = restore.parameters.get("version", "")
    if version.isascii() and version.isdecimal() and int(version) < restore.version:
        return int(version)
    when, milliseconds = restore.parameters.get("timestamp", ""), restore.parameters.get("datetime", "")
    try:
        # delta-rs writes milliseconds; Delta stores the text that the user wrote. Sessions of Lakesmith run in UTC.
        moment = datetime.fromtimestamp(int(milliseconds) / 1000, UTC) if milliseconds else datetime.fromisoformat(when)
    except (ValueError, OverflowError, OSError):
        raise DataError(
            "restore-unclear",
            f"version {restore.version} restored the table to {version or milliseconds or when!r}, which is not an "
            "earlier version",
            hint="restore it again by version: RESTORE … TO VERSION AS OF …",
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    before = [commit for commit in commits if commit.version < restore.version]
    return max((commit.version for commit in in_commit_order(before) if commit.committed_at <= moment), default=0)
