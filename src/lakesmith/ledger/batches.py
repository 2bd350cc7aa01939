"""Batches: what a commit means is written down, put-if-absent, before the commit is made.

The table's own log holds a sequence number, committed atomically with the rows. What that number stands for (which
files, which versions of which inputs) is pinned here before. So a table is its own bookmark:

    _lakesmith/batches/silver.orders/00000007.01.json     batch 7, first attempt: its exact inputs
    _lakesmith/batches/silver.orders/00000007.02.json     a second attempt, after the first one was killed
    _lakesmith/batches/silver.orders/00000007.done.json   which attempt was committed, as which version, and its counts

Every attempt at batch 7 commits with the sequence number 7, so at most one of them can win. `parent` is the batch that
a batch builds upon: after a rollback that is not the one before it, which is how a restored table finds the position
that its rows have and not the one that its transaction number has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
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
from lakesmith.plan.steps import Progress
from lakesmith.ports import MAINTENANCE_NOTE, CommitFact, FileFact, Storage, TableFacts, in_commit_order

Kind = TypeVar("Kind", Batch, CompletedBatch, dict[str, FileFact])
EMPTY = -1
"""In the place of a version: there was nothing yet."""
_NOTED = re.compile(rf"(?:{BATCH_NOTE}|{MAINTENANCE_NOTE})(\d+)\.")
_NOTED_RUN = re.compile(r"lakesmith \w+ (?:\d+\.\d+ )?run (\S+)$")
_BESIDE = ("replay", "vacuum", "follow", "restore")
"""Batches that read nothing on: where the table stands is told by the one before."""
SUMMARY_INTERVAL = 16
"""With each batch of such a number, the files that were taken in so far are written down together."""


class IngestedFiles(Mapping[str, FileFact]):
    """By path, the files in a table whose files come in order: read only when one is asked for that may be among them.

    So a look from the greatest name on costs the same however many files have come before.
    """

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
    """Who writes a table, as its log knows it."""
    return f"lakesmith.{name}"


class Batches:
    """The batches of one table."""

    def __init__(self, storage: Storage, table: TableName) -> None:
        self._storage = storage
        self._folder = f"_lakesmith/batches/{table}"
        self._table = table

    def pin(self, batch: Batch) -> Batch:
        """Write the batch down as the first attempt whose number is free."""
        attempt = 1 + sum(name.startswith(f"{batch.sequence:08}.") for name in self._names())
        while True:
            pinned = replace(batch, attempt=attempt)
            if self._storage.put_if_absent(self._key(batch.sequence, f"{attempt:02}"), encode(pinned)):
                failpoint("batch.pinned", self._table)
                return pinned
            attempt += 1

    def highest_sequence(self) -> int:
        """The greatest number of a batch that was seen through, also of a table of this name that was dropped.

        A batch that is only pinned does not count: a twin of this run has to end up with the same number.
        """
        return max((int(name[:8]) for name in self._names() if name.endswith(".done.json")), default=0)

    def finish(self, done: CompletedBatch) -> None:
        """Note that every part of the batch is where it belongs."""
        failpoint("batch.finishing", self._table)
        key = self._key(done.sequence, "done")
        if not self._storage.put_if_absent(key, encode(done)):
            known = self.done(done.sequence)
            # Another attempt's commit was lost with the end of a log: the table's log has this one.
            if known is None or known.attempt != done.attempt:
                self._storage.replace(key, encode(done))
        failpoint("batch.done", self._table)

    def pinned(self, sequence: int, attempt: int) -> Batch:
        """An attempt as it was written down."""
        return self._attempt(sequence, attempt)

    def done(self, sequence: int) -> CompletedBatch | None:
        key = self._key(sequence, "done")
        data = self._storage.read(key)
        return None if data is None else self._understood(key, lambda: decode_completed(data, sequence))

    def committed(self, sequence: int, commits: Callable[[], Iterable[CommitFact]]) -> Batch:
        """The attempt that the table's log holds under this number."""
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
                return self._of_one_run(list(pinned.values()))
        raise DataError(
            "batch-unknown",
            f"batch {sequence} is in the table, but what it was made from is not in {self._folder}",
            table=str(self._table),
            hint=self._way_out(),
        )

    def _of_one_run(self, attempts: Sequence[Batch]) -> Batch:
        """The attempt that was committed, where the commit was cleaned up from the table's log. A run makes another
        attempt only when the one before was not committed; between attempts of several runs nothing decides."""
        last = attempts[-1]
        if all(attempt.run_id == last.run_id for attempt in attempts):
            return last
        files = ", ".join(f"{self._key(each.sequence, f'{each.attempt:02}')} (run {each.run_id})" for each in attempts)
        raise DataError(
            "batch-unknown",
            f"batch {last.sequence} is in the table, but its commit was cleaned up from the table's log, and "
            f"{len(attempts)} attempts of several runs may have made it",
            table=str(self._table),
            hint="keep the attempt of the run that wrote the rows and remove the others: "
            f"SELECT DISTINCT _run_id FROM {self._table} names it; the attempts are {files}"
            if self._table.layer == "bronze"
            else f"rebuild the table: lakesmith run {self._table} --full-refresh",
        )

    def progress(self, facts: TableFacts | None, commits: Callable[[], Iterable[CommitFact]]) -> Progress:
        """How far the table's rows have come. `commits` is called only when the log has to be asked."""
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
        told = self._described_by(head, commits)
        rewritten = self.done(told.rewrote) if told.rewrote and head == facts.sequence else None
        return replace(
            told.progress,
            unfinished=unfinished.sequence if unfinished else None,
            unfinished_definition=unfinished.definition if unfinished and not unfinished.is_maintenance else None,
            rewritten=rewritten.version if rewritten else None,
        )

    def has_rows_of(self, facts: TableFacts, version: int, commits: Callable[[], Iterable[CommitFact]]) -> bool:
        """Whether the table has the rows of a version: none came since, or it went back to it and none came after."""
        if facts.changed <= version <= facts.version:
            return True
        base_batch = self.base_batch(self.progress(facts, commits).head, commits)
        batch = self.committed(base_batch, commits) if base_batch else None
        if batch is None or batch.restore is None or batch.restore.version != version:
            return False
        return committed_version(batch, commits()) == facts.changed

    def at(self, version: int, newest: int, commits: Sequence[CommitFact]) -> Progress:
        """How far the rows of an earlier version had come, also before a rebuild; `newest` is the newest batch."""
        done = self.done(newest)
        made = done.version if done else committed_version(self.committed(newest, lambda: commits), commits)
        head = self._sequence_at(version, newest, made, commits, rebuilt=True)
        return self._described_by(head, lambda: commits).progress if head else Progress()

    def _described_by(self, head: int, commits: Callable[[], Iterable[CommitFact]]) -> _Told:
        newest = batch = self.committed(head, commits)
        rewrote = 0
        while batch.mode in _BESIDE and batch.parent:
            rewrote = rewrote or (batch.sequence if batch.mode == "restore" else 0)
            batch = self.committed(batch.parent, commits)
        rewrote = rewrote or (batch.sequence if batch.mode == "full" else 0)
        progress = Progress(
            head=head,
            base_batch=newest.parent if newest.moves_no_rows and newest.follows_rollback else head,
            definition=newest.definition,
            positions=newest.inputs,
            ingested=self._taken(batch, commits),
            seen=batch.seen,
            source_position=batch.slice.until if batch.slice else {},
            backfill=batch.backfill,
            newest_extract=self._newest_extract(newest, commits),
        )
        return _Told(progress=progress, rewrote=rewrote)

    def _newest_extract(self, batch: Batch, commits: Callable[[], Iterable[CommitFact]]) -> str | None:
        """The newest extract that the rows of a batch were made from; upkeep passes on what was before it."""
        while batch.is_maintenance and batch.parent:
            batch = self.committed(batch.parent, commits)
        done = self.done(batch.sequence)
        return done.newest_extract if done else None

    def refuse_lost_commits(self, facts: TableFacts, commits: Callable[[], Iterable[CommitFact]]) -> None:
        """Raise where a batch is done that the table's log does not know: its newest commits are gone, and with them
        rows that other tables may have read."""
        done = self.done(facts.sequence + 1) if facts.sequence else None
        if done is None:
            return
        newest = next(iter(commits()), None)
        if newest is None or newest.version != facts.version:
            return  # it was committed since the facts were read
        raise DataError(
            "commits-missing",
            f"{facts.location}/_delta_log/{done.version:020}.json is missing or not as it was: batch {done.sequence} "
            f"is done, and the table's log ends with batch {facts.sequence}",
            table=str(self._table),
            hint="put the log back as it was, from a copy of the warehouse; or make the table anew: "
            f"remove {facts.location} and run",
        )

    def ancestors(self, head: int, commits: Callable[[], Iterable[CommitFact]]) -> dict[int, Batch]:
        """By number, the batches that the rows of one are made of, the newest first."""
        found: dict[int, Batch] = {}
        while head:
            batch = found[head] = self.committed(head, commits)
            head = batch.parent
        return found

    def base_batch(self, head: int, commits: Callable[[], Iterable[CommitFact]]) -> int:
        """The newest batch up to this one that is not a quiet one."""
        while head and (batch := self.committed(head, commits)).moves_no_rows:
            head = batch.parent
        return head

    def has_later_batch(self, sequence: int) -> bool:
        """Whether somebody has begun a later batch."""
        return any(int(name[:8]) > sequence for name in self._names() if not name.endswith(".done.json"))

    def _sequence_at(
        self, version: int, newest: int, made: int, commits: Sequence[CommitFact], *, rebuilt: bool = False
    ) -> int:
        """The batch that the rows of a version end with, following rollbacks. The newest was committed as `made`.

        With `rebuilt` also one that the newest does not build upon. A rebuild replaces what is in quarantine: who goes
        on from before it has to take that back too.
        """
        # Batches before the first of this table belong to one of the same name that was dropped.
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
            if rebuilt and (number := _noted(commit)):
                return number
            if commit.operation == "RESTORE":
                restored = _restored_version(commit, commits)
                return self._sequence_at(restored, newest, made, commits, rebuilt=rebuilt)
        return max((seq for made, seq in by_version.items() if made <= version), default=0)

    def summarize_ingested(self, batch: Batch, progress: Progress) -> None:
        """Sum up, now and then, which files are in the table: a plan must not read every batch there ever was."""
        if not batch.files or batch.sequence % SUMMARY_INTERVAL:
            return
        self.write_summary(
            batch.sequence, batch.attempt, {**progress.ingested, **{file.path: file for file in batch.files}}
        )

    def write_summary(self, sequence: int, attempt: int, taken: Mapping[str, FileFact]) -> None:
        """Write down all files that are in the table with a batch."""
        rows = [[file.path, file.size, file.modified] for file in taken.values()]
        self._storage.put_if_absent(self._taken_key(sequence, attempt), with_checksum(json.dumps({"files": rows})))

    def _taken(self, head: Batch, commits: Callable[[], Iterable[CommitFact]]) -> Mapping[str, FileFact]:
        if head.seen is None:
            return self._read_taken(head, commits)
        greatest = head.seen.greatest

        def read() -> dict[str, FileFact]:
            taken = self._read_taken(head, commits)
            if any(path > greatest for path in taken):
                raise self._unreadable(self._taken_key(head.sequence, head.attempt))
            return taken

        return IngestedFiles(read, greatest)

    def _read_taken(self, head: Batch, commits: Callable[[], Iterable[CommitFact]]) -> dict[str, FileFact]:
        """The files in the table, from its batches back to the last one with which they were summed up."""
        ingested: dict[str, FileFact] = {}
        batch = head
        while batch.files or batch.mode in _BESIDE:
            summary = self._summary(self._taken_key(batch.sequence, batch.attempt))
            if summary is not None:
                return summary | taken if taken else summary
            taken = {**{file.path: file for file in batch.files}, **taken}
            if batch.parent == 0:
                break
            batch = self.committed(batch.parent, commits)
        return taken

    def _summary(self, key: str) -> dict[str, FileFact] | None:
        data = self._storage.read(key)
        return None if data is None else self._understood(key, partial(decode_ingested_files, data))

    def _taken_key(self, sequence: int, attempt: int) -> str:
        return f"_lakesmith/taken/{self._table}/{sequence:08}.{attempt:02}.json"

    def _attempt(self, sequence: int, attempt: int) -> Batch:
        data = self._storage.read(self._key(sequence, f"{attempt:02}"))
        if data is None:
            raise DataError(
                "batch-unknown",
                f"{self._key(sequence, f'{attempt:02}')} is missing from the warehouse",
                table=str(self._table),
                hint=self._way_out(),
            )
        return self._understood(self._key(sequence, f"{attempt:02}"), lambda: decode_batch(data, sequence))

    def _understood(self, key: str, decode: Callable[[], Kind]) -> Kind:
        try:
            return decode()
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._unreadable(key) from error

    def _unreadable(self, key: str) -> DataError:
        return DataError(
            "batch-unreadable",
            f"{key} in the warehouse is not what Lakesmith wrote there",
            table=str(self._table),
            hint=self._way_out(),
        )

    def _way_out(self) -> str:
        if self._table.layer == "bronze":
            return f"put {self._folder} back as it was: what a bronze table has taken in is written nowhere else"
        return f"put {self._folder} back as it was, or rebuild the table: lakesmith run {self._table} --full-refresh"

    def _names(self) -> Sequence[str]:
        return self._storage.keys(self._folder)

    def _key(self, sequence: int, suffix: str) -> str:
        return f"{self._folder}/{sequence:08}.{suffix}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    progress: Progress
    rewrote: int
    """The newest batch that replaced rows in place of adding to them, when none that only added came after it."""


def version_left_by(batches: Container[int], commits: Sequence[CommitFact]) -> int | None:
    """The version in which something kept beside a table was what these batches had left there; None when it is so
    now, EMPTY when there was nothing yet. `commits` are all that it has, the newest first."""
    others = [commit for commit in commits if (number := _noted(commit)) and number not in batches]
    if not others:
        return None
    own = next((commit for commit in commits if (number := _noted(commit)) and number in batches), None)
    if own is None:
        return others[-1].version - 1
    return own.version if others[0].version > own.version else None


def _noted(commit: CommitFact) -> int | None:
    found = _NOTED.match(commit.note or "")
    return int(found[1]) if found else None


def run_of_commit(commit: CommitFact) -> str | None:
    """The run that made a commit; None where another writer did."""
    found = _NOTED_RUN.match(commit.note or "")
    return found[1] if found else None


def committed_version(batch: Batch, commits: Iterable[CommitFact]) -> int:
    """The version that a committed batch was committed as. Where the log was cleaned up since, the last version before
    its oldest commit: every rollback that is still known came later."""
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
        # delta-rs writes milliseconds; Delta keeps the text that the user wrote, and Lakesmith's sessions are in UTC.
        moment = datetime.fromtimestamp(int(milliseconds) / 1000, UTC) if milliseconds else datetime.fromisoformat(when)
    except (ValueError, OverflowError, OSError):
        raise DataError(
            "restore-unclear",
            f"version {restore.version} rolled the table back to {version or milliseconds or when!r}, which names no "
            "earlier version",
            hint="roll it back again by version: RESTORE … TO VERSION AS OF …",
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    before = [commit for commit in commits if commit.version < restore.version]
    return max((commit.version for commit in in_commit_order(before) if commit.committed_at <= moment), default=0)
