"""Maintenance of a table: compact and delete its files, or restore an earlier version.

Maintenance reads no source. A vacuum, a restore and a table whose bookmarks follow restored inputs take a sequence
number as every batch does. So a suspended run that was writing the batch of this number can no longer commit: its files
may be deleted by now, or its base version rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, assert_never

from lakesmith.declare import Files, Table, TableName
from lakesmith.errors import DataError, InfrastructureError, UsageError
from lakesmith.failpoints import failpoint
from lakesmith.ledger.batch import Batch, CompletedBatch
from lakesmith.ledger.batches import EMPTY, Batches, committed_version, flow, version_left_by
from lakesmith.ledger.content import BatchContent, MovedBookmarks, RestoredVersion, VacuumFence
from lakesmith.ledger.held import HeldBatches
from lakesmith.ledger.readers import slowest_reader
from lakesmith.ledger.staged import last_changed, remove_files
from lakesmith.plan.steps import Compact, Position, Progress, Restore, Rollback, Vacuum
from lakesmith.ports import CommitFact, Store, TableFacts, TableFolder, TableFormat, Write
from lakesmith.run.files import blocked_files, missing_files, return_from_archive
from lakesmith.run.step_result import StepResult
from lakesmith.run.table_state import TableState
from lakesmith.spark.hold_batch import discard_held_batch
from lakesmith.spark.incoming import BatchResult
from lakesmith.spark.loads.deleted_keys import DeletedKeys
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NewBatch(Protocol):
    """Makes the next batch of the table, not pinned yet."""

    def __call__(self, content: BatchContent, *, inputs: Mapping[str, Position]) -> Batch: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Maintenance of one table, under its lease."""

    table: Table
    facts: TableFacts
    progress: Progress
    run_id: str
    batches: Batches
    warehouse: Warehouse
    format: TableFormat
    session: Callable[[], SparkSession] = field(repr=False)
    landing: tuple[Store, str] | None = None

    def compact(self) -> BatchResult | None:
        """Compact small files; return None when there are none. A kill in between does no harm: no row changes."""
        note = f"lakesmith compact run {self.run_id}"
        bytes, made = 0, False
        for folder in self._folders():
            facts = self.format.facts(folder, self._flow)
            if facts is not None and facts.files > 1:
                written = self.format.compact(self.session(), folder, note)
                made = made or written is not None
                bytes += written.bytes if written else 0
                failpoint("files.compacted", folder)
        if not made:
            return None
        now = self.format.facts(self.facts.folder, self._flow)
        assert now is not None
        return replace(result_without_rows(self.run_id, now.version), bytes=bytes)

    def vacuum(self, step: Vacuum, new_batch: NewBatch) -> BatchResult | None:
        """Fence the table and its side tables, then delete old unneeded files; return None when there are none."""
        age = self._age(step)
        abandoned = self._abandoned_held_files(age)
        if abandoned is None and not any(self.format.count_unused_files(folder, age) for folder in self._folders()):
            return None
        made = new_batch(VacuumFence(), inputs=self._advanced_positions())
        batch = self.batches.pin(replace(made, definition=self._definition(self.progress)))
        fence = replace(self._write(batch), based_on=batch.base_version)
        version = self.format.advance(self.facts.folder, fence, self.session()).version
        failpoint("table.committed", self.table.name)
        for folder in (self._quarantine, self._decisions):
            facts = self.format.facts(folder, self._flow)
            if facts is not None and facts.sequence < batch.sequence:
                self.format.advance(folder, self._write(batch), self.session())
                failpoint("table.fenced", folder)
        self._deleted_keys.fence(batch)
        failpoint("table.fenced", self.table.name)
        for folder in self._folders():
            # Counted from when the batch was pinned: this process may have been suspended since.
            retention = age + max(0.0, time.time() - batch.pinned_at / 1000)
            if not self.format.count_unused_files(folder, retention):
                continue
            self.format.vacuum(self.session(), folder, retention, partial(self._refuse_overtaken, batch))
            failpoint("files.vacuumed", folder)
        if abandoned is not None:
            self._refuse_overtaken(batch)
            remove_files(abandoned)
        return self._complete(batch, version)

    def _refuse_overtaken(self, batch: Batch) -> None:
        """Raise before files are deleted that may belong to a run that began later."""
        if self.batches.has_later_batch(batch.sequence):
            raise InfrastructureError(
                "vacuum-overtaken",
                "another run began to write while this one was suspended; no more files were deleted",
                table=str(self.table.name),
                hint="nothing is lost: vacuum again when the other run has ended",
            )

    def restore(self, step: Restore, new_batch: NewBatch) -> BatchResult | None:
        """Restore the table in one commit, then its side tables; return None when it already has the rows of that
        version and its bookmarks match its inputs."""
        found = self.plan_restore(step.version)
        if found is None:
            return self._follow_inputs(step.input_versions, new_batch)
        before, rollback = found
        batch = self.batches.pin(
            replace(
                new_batch(
                    RestoredVersion(rollback=rollback),
                    inputs=self.positions_after_restore(before.positions, step.input_versions),
                ),
                parent=before.head,
                definition=self._definition(before),
                backfill=before.backfill,
            )
        )
        failpoint("table.committing", self.table.name)
        self.format.restore(self.facts.folder, step.version, self._write(batch))
        failpoint("table.committed", self.table.name)
        return self.finish(batch)

    def plan_restore(self, version: int) -> tuple[Progress, Rollback] | None:
        """Return the bookmarks of a version, and the side-table versions to restore; None when nothing is to be done.

        Raise when the restore cannot be complete, or when files could not be ingested again. Nothing is changed.
        """
        if self.batches.has_rows_of(self.facts, version, self._commits):
            return None
        commits = tuple(self._commits())
        before = self.batches.progress_at(version, self.facts.sequence, commits)
        if version > self.facts.version or before.head == 0:
            raise unknown_version(self.table.name, version)
        own = self.batches.ancestors(before.head, lambda: commits)
        rollback = Rollback(
            version=version,
            head=self.progress.head,
            quarantine=version_left_by(own, tuple(self.format.commits(self._quarantine))),
            decisions=version_left_by(own, tuple(self.format.commits(self._decisions))),
        )
        self._refuse_incomplete(rollback, before.head)
        return before, rollback

    def _follow_inputs(self, input_versions: Mapping[str, int], new_batch: NewBatch) -> BatchResult | None:
        """Move the bookmarks to the versions of restored inputs, in a commit without rows; None when they match."""
        inputs = self.positions_after_restore(self.progress.positions, input_versions)
        if inputs == self.progress.positions:
            return None
        made = new_batch(MovedBookmarks(), inputs=inputs)
        batch = self.batches.pin(replace(made, definition=self._definition(self.progress)))
        failpoint("table.committing", self.table.name)
        fence = replace(self._write(batch), based_on=batch.base_version)
        self.format.advance(self.facts.folder, fence, self.session() if self.facts.widened else None)
        failpoint("table.committed", self.table.name)
        return self.finish(batch)

    def positions_after_restore(
        self, positions: Mapping[str, Position], input_versions: Mapping[str, int]
    ) -> dict[str, Position]:
        """Return the positions of inputs, moved to the end of inputs that are restored to these versions."""
        moved = dict(positions)
        for text, version in input_versions.items():
            name = TableName.parse(text)
            if name is None or text not in moved:
                continue
            folder = self.warehouse.table(name)
            found = self.format.facts(folder, flow(name))
            if found is None or found.table_id != moved[text].table_id or found.changed <= moved[text].version:
                continue
            if Batches(self.warehouse.store, name).has_rows_of(found, version, partial(self.format.commits, folder)):
                moved[text] = replace(moved[text], version=found.version)
        return moved

    def finish(self, batch: Batch) -> BatchResult:
        """Complete a committed maintenance batch. Files that a vacuum left are deleted by the next one."""
        version = committed_version(batch, self._commits())
        restored = batch.content if isinstance(batch.content, RestoredVersion) else None
        self._deleted_keys.fence(batch, valid=restored is None)
        failpoint("table.fenced", self.table.name)
        if restored is not None:
            self._restore_side_tables(batch, restored.rollback)
        if not isinstance(batch.content, VacuumFence):
            # A held batch was computed from versions that the inputs no longer have.
            discard_held_batch(self.warehouse, self.table)
        return self._complete(batch, version)

    def _restore_side_tables(self, batch: Batch, rollback: Rollback) -> None:
        self._roll_back(self._decisions, batch, rollback.decisions)
        failpoint("decisions.committed", self.table.name)
        self._roll_back(self._quarantine, batch, rollback.quarantine)
        failpoint("quarantine.committed", self.table.name)
        if self.landing is not None and isinstance(self.table.origin, Files):
            failpoint("files.returning", self.table.name)
            return_from_archive(self.table.origin, *self.landing, self._removed_files(rollback, batch.parent))

    def _roll_back(self, folder: TableFolder, batch: Batch, version: int | None) -> None:
        facts = self.format.facts(folder, self._flow)
        if version is not None and facts is not None and facts.sequence < batch.sequence:
            self.format.restore(folder, None if version == EMPTY else version, self._write(batch))

    def _complete(self, batch: Batch, version: int) -> BatchResult:
        result = result_without_rows(self.run_id, version, sequence=batch.sequence, attempt=batch.attempt)
        self.batches.finish(result.done)
        return result

    def _definition(self, progress: Progress) -> str:
        """Return the definition that the table's rows were computed by."""
        if progress.definition is None:
            raise DataError(
                "unknown-progress",
                f"{self.table.name} exists, but no batch of this lake wrote it",
                at=self.table.declared_at,
                table=str(self.table.name),
                hint=f"to rebuild it from its declaration: lakesmith run {self.table.name} --full-refresh",
            )
        return progress.definition

    def _refuse_incomplete(self, rollback: Rollback, parent: int) -> None:
        """Raise, before anything is changed, when the restore cannot be complete or files cannot be ingested again."""
        for folder, version in (
            (self.facts.folder, rollback.version),
            (self._decisions, rollback.decisions),
            (self._quarantine, rollback.quarantine),
        ):
            if version is not None:
                self.format.check_restore(folder, None if version == EMPTY else version)
        if self.landing is None or not isinstance(self.table.origin, Files):
            return
        files = self._removed_files(rollback, parent)
        if gone := missing_files(self.table.origin, *self.landing, files):
            raise DataError(
                "restore-loses-files",
                f"{len(gone)} files that came after version {rollback.version} could not be ingested again: "
                f"{gone[0]} is no longer in the landing folder",
                table=str(self.table.name),
                hint="nothing was changed; put the files back, or restore a later version",
            )
        if others := blocked_files(self.table.origin, *self.landing, files):
            raise DataError(
                "restore-blocked",
                f"{len(others)} files that came after version {rollback.version} cannot leave the archive: "
                f"the landing folder has another {others[0]} now",
                table=str(self.table.name),
                hint="nothing was changed; rename the file in the landing folder, then restore again",
            )

    def _removed_files(self, rollback: Rollback, parent: int) -> list[str]:
        """Return the files that the restore removes from the table."""
        own = self.batches.ancestors(parent, self._commits)
        own_files = {file.path for batch in own.values() for file in batch.files}
        before = self.batches.ancestors(rollback.head, self._commits)
        later_files = (file.path for number, batch in before.items() if number not in own for file in batch.files)
        return [path for path in dict.fromkeys(later_files) if path not in own_files]

    def _advanced_positions(self) -> dict[str, Position]:
        """Return the positions of inputs, moved over versions without rows, whose log may be cleaned up any time."""
        carried = dict(self.progress.positions)
        for text, position in carried.items():
            name = TableName.parse(text)
            found = self.format.facts(self.warehouse.table(name), flow(name)) if name else None
            if found and found.table_id == position.table_id and found.changed <= position.version < found.version:
                carried[text] = replace(position, version=found.version)
        return carried

    def _age(self, step: Vacuum) -> float:
        """Return how old files must be to be deleted; files that other tables have yet to read are not."""
        readers = [(reader, self.warehouse.table(reader)) for reader in step.readers]
        found = slowest_reader(self.format, self.warehouse.store, self.facts, self.table.name, readers)
        return step.older_than if found is None else max(step.older_than, found.age(time.time()))

    def _abandoned_held_files(self, age: float) -> TableFolder | None:
        """Return the folder of a held batch whose run was killed before it was complete, if there is one."""
        folder = self.warehouse.held(self.table.name)
        is_held = HeldBatches(self.warehouse.store).get(str(self.table.name)) is not None
        return folder if not is_held and last_changed(folder) < time.time() - age else None

    def _folders(self) -> tuple[TableFolder, ...]:
        """Return the folders of the table and its side tables."""
        return (self.facts.folder, self._quarantine, self._decisions, self.warehouse.deleted_keys(self.table.name))

    @property
    def _quarantine(self) -> TableFolder:
        return self.warehouse.quarantine(self.table.name)

    @property
    def _decisions(self) -> TableFolder:
        return self.warehouse.quarantine_decisions(self.table.name)

    @property
    def _deleted_keys(self) -> DeletedKeys:
        return DeletedKeys(format=self.format, folder=self.warehouse.deleted_keys(self.table.name), flow=self._flow)

    @property
    def _flow(self) -> str:
        return flow(self.table.name)

    def _write(self, batch: Batch) -> Write:
        return Write(flow=self._flow, sequence=batch.sequence, note=batch.note)

    def _commits(self) -> Iterable[CommitFact]:
        return self.format.commits(self.facts.folder)


def maintenance_of(state: TableState, facts: TableFacts) -> Maintenance:
    """Return the maintenance of a table that exists."""
    return Maintenance(
        table=state.table,
        facts=facts,
        progress=state.progress,
        run_id=state.run.run_id,
        batches=state.batches,
        warehouse=state.warehouse,
        format=state.format,
        session=state.run.session,
        landing=state.run.landings.get(state.table.name),
    )


def maintain(state: TableState, step: Compact | Vacuum | Restore) -> StepResult:
    """Compact, vacuum or restore a table."""
    if state.facts is None:
        return StepResult(mode=step.mode, reason="it was never built", before=None)
    maintenance = maintenance_of(state, state.facts)
    match step:
        case Compact():
            result, otherwise = maintenance.compact(), "no small files to compact"
        case Vacuum():
            result, otherwise = maintenance.vacuum(step, state.new_batch), "no file is old and unreferenced"
        case Restore():
            result = maintenance.restore(step, state.new_batch)
            otherwise = f"it already has the rows of version {step.version}"
        case _:
            assert_never(step)
    if result is None:
        return StepResult(mode=step.mode, reason=otherwise, before=state.facts)
    # A restore may only have moved the bookmarks of inputs back.
    number = result.done.sequence
    mode = state.batches.pinned(number, result.done.attempt).mode if number else step.mode
    return StepResult(mode=mode, reason=step.reason, before=state.facts, batch=result)


def unknown_version(table: TableName, version: int) -> UsageError:
    """Return the error for a version that a table cannot be restored to."""
    return UsageError(
        "unknown-version",
        f"{table} has no version {version} that a batch of this lake made",
        table=str(table),
        hint=f"`lakesmith history {table}` lists the versions",
    )


def result_without_rows(run_id: str, version: int, *, sequence: int = 0, attempt: int = 0) -> BatchResult:
    """Return the result of a commit without rows."""
    done = CompletedBatch(
        sequence=sequence,
        attempt=attempt,
        version=version,
        run_id=run_id,
        rows_in=0,
        rows_written=0,
        rows_quarantined=0,
        rows_deduplicated=0,
    )
    return BatchResult(done=done, bytes=0, checks=())
