"""One step of one table: look at the facts afresh, pin the batch, move the rows, note that it is done."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from lakesmith.declare import (
    Files,
    Jdbc,
    OtherTable,
    Source,
    Table,
    TableName,
)
from lakesmith.errors import DataError, LakesmithError
from lakesmith.failpoints import failpoint
from lakesmith.intake.rows import Abort
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches, committed_version, flow
from lakesmith.plan.fingerprint import definition, rebuild_reason
from lakesmith.plan.listing import bookmark_after
from lakesmith.plan.steps import (
    BackfillChunk,
    Build,
    CommitHeldBatch,
    Compact,
    Finish,
    Ingest,
    Position,
    Progress,
    ReplayQuarantine,
    Restore,
    Step,
    Vacuum,
    Widen,
)
from lakesmith.ports import CommitFact, FileFact, Slice, TableFacts, Write, find_commit
from lakesmith.quality import referenced_tables, rules_of
from lakesmith.records import CheckRecord, FileRecord
from lakesmith.run.batch_reader import BatchReader
from lakesmith.run.errors import (
    batch_unfinished,
    commit_lost,
    commit_unconfirmed,
    committed_on_rollback,
    file_postponed,
    refuse_nondeterministic,
    schema_warning,
)
from lakesmith.run.failures import is_external
from lakesmith.run.files import archive_ingested, file_records
from lakesmith.run.maintenance import Maintenance, result_without_rows
from lakesmith.run.mode import changes_after, current_mode, inputs_with_changes
from lakesmith.sources import look_again
from lakesmith.spark.gate import GateFailed
from lakesmith.spark.incoming import BatchResult
from lakesmith.spark.ingest import check_source, pin_slice
from lakesmith.spark.replay import QuarantineReplay
from lakesmith.spark.write import BatchWriter

_ANEW = ("full", "restore")
"""Batches that say what the table holds, whatever it held before."""
_CUTS = 5
"""How often a batch is cut anew at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step did."""

    mode: str
    reason: str
    before: TableFacts | None
    settled: BatchResult | None = None
    """None when there turned out to be nothing to do."""
    file_records: tuple[FileRecord, ...] = ()
    """The files that were read, with what became of their rows."""
    taken: tuple[FileFact, ...] = ()
    """The files that are in the table now, or in quarantine as a whole."""
    left_out: tuple[LakesmithError, ...] = ()
    """Files that could not be read for a reason that may pass."""

    warnings: tuple[CheckRecord, ...] = ()
    """What was found before anything was read."""

    @property
    def checks(self) -> tuple[CheckRecord, ...]:
        return (*self.warnings, *(self.settled.checks if self.settled else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRunner(BatchReader):
    """What a step works with."""

    run_id: str
    contracts: Mapping[TableName, str] = field(default_factory=dict)
    """The versions of the tables' contracts, where they have one."""

    def take(self, table: Table, step: Step) -> StepResult:
        """Carry the step out."""
        batches = Batches(self.warehouse.storage, table.name)
        highest_sequence = self._spent(table, batches)
        facts = self.format.facts(self.warehouse.table(table.name), flow(table.name))
        commits = partial(self.format.commits, self.warehouse.table(table.name))
        # A rebuild reads everything: where the table stood does not matter, and may not even be known any more.
        rebuild = isinstance(step, Build) and step.rebuild
        progress = replace(
            Progress() if rebuild else batches.progress(facts, commits), highest_sequence=highest_sequence
        )
        if progress.unfinished is not None and not isinstance(step, Finish):
            # Another run was cut short since this one was planned: its refused rows come first.
            reason = f"batch {progress.unfinished} was interrupted before its end"
            finish = Finish(table=table.name, sequence=progress.unfinished, reason=reason)
            self._finish(table, finish, facts, batches, taken_back=isinstance(step, Restore))
        match step:
            case Ingest():
                return self._ingest(table, step, facts, batches, progress)
            case Build():
                return self._build(table, step, facts, batches, progress)
            case BackfillChunk():
                return self._refill(table, step, facts, batches, progress)
            case Widen():
                return self._widen(table, step, facts)
            case Finish():
                return self._finish(table, step, facts, batches)
            case CommitHeldBatch():
                return self._publish(table, step, facts, batches, progress)
            case ReplayQuarantine():
                return self._mend(table, step, facts, batches, progress)
            case Compact() | Vacuum() | Restore():
                return self._keep_up(table, step, facts, batches, progress)
            case _:
                assert_never(step)

    def _ingest(
        self, table: Table, step: Ingest, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> StepResult:
        files = tuple(file for file in step.files if file.path not in progress.ingested)
        source_slice = step.slice
        if source_slice is None and not files:
            return StepResult(mode="files", reason="another run has taken the files in", before=facts)
        if source_slice is not None and source_slice.since != progress.source_position and progress.source_position:
            return StepResult(mode="slice", reason="another run has read on since", before=facts)
        mode = "files" if source_slice is None else "slice"
        batch = self._batch(table, facts, progress, mode=mode, files=files, slice=source_slice)
        if step.listing is not None:
            batch = replace(batch, seen=bookmark_after(step.listing, step.files, progress))
        batch = pin_slice(self.ingest_context(), table, batch) if source_slice is not None else batch
        if batch.slice is not None and batch.slice.since and batch.slice.since == batch.slice.until:
            return StepResult(mode=mode, reason="nothing new", before=facts)
        unfit = check_source(self.environment, table, batch, facts)
        batch = batches.pin(batch)
        warnings = (schema_warning(table, batch, unfit),) if unfit else ()
        moved = replace(self._settle(table, batch, step.reason, facts, batches), warnings=warnings)
        if moved.settled is None:
            return moved
        batches.summarize_ingested(replace(batch, attempt=moved.settled.done.attempt, files=moved.taken), progress)
        errors = self._archive(table, {file.path: file for file in moved.taken}, progress.ingested)
        return replace(moved, left_out=(*moved.left_out, *errors))

    def _widen(self, table: Table, step: Widen, facts: TableFacts | None) -> StepResult:
        types = {column.name.lower(): column.type for column in facts.columns} if facts else {}
        wider = [column for column in step.columns if types.get(column.name.lower(), column.type) != column.type]
        if facts is None or not wider:
            return StepResult(mode=step.mode, reason="another run has widened them", before=facts)
        self.format.widen(self.session(), facts.location, {column.name: column.type for column in wider})
        now = self.format.facts(facts.location, flow(table.name))
        assert now is not None
        told = tuple(f"{column.name}: {types[column.name.lower()]} → {column.type}" for column in wider)
        settled = replace(result_without_rows(self.run_id, now.version), columns_widened=told)
        return StepResult(mode=step.mode, reason=step.reason, before=facts, settled=settled)

    def _build(
        self, table: Table, step: Build, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> StepResult:
        inputs: dict[str, TableFacts] = {}
        for needed in step.inputs:
            found = self.format.facts(self.warehouse.table(needed.table), flow(needed.table))
            if found is None:
                return StepResult(mode=step.mode, reason=f"{needed.table} has no rows yet", before=facts)
            inputs[str(needed.table)] = found
        if facts is not None and not step.rebuild and not inputs_with_changes(inputs, progress):
            return StepResult(mode=step.mode, reason="nothing new", before=facts)
        mode, reason = current_mode(self.format, table, step, progress, inputs) if facts else ("full", step.reason)
        batch = self._batch(
            table,
            facts,
            progress,
            mode=mode,
            inputs={n: Position(table_id=f.table_id, version=f.version) for n, f in inputs.items()},
            since={n: changes_after(f, progress.positions[n]) for n, f in inputs.items()} if mode != "full" else {},
        )
        return self._settle(table, batches.pin(batch), reason, facts, batches)

    def _refill(
        self, table: Table, step: BackfillChunk, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> StepResult:
        """From what the table has read already and nothing newer: what comes next finds it where it was."""
        if progress.definition is None or rebuild_reason(progress.definition, table):
            return StepResult(mode=step.mode, reason="another run has made it of another definition", before=facts)
        begun = progress.backfill
        if begun is not None and begun.span == step.backfill.span and begun.done and begun.done >= step.chunk.end:
            return StepResult(mode=step.mode, reason="another run has computed these days", before=facts)
        batch = replace(
            self._batch(table, facts, progress, mode=step.mode, inputs=progress.positions),
            days=step.chunk,
            backfill=step.backfill.after(step.chunk),
        )
        return self._settle(table, batches.pin(batch), step.reason, facts, batches)

    def _finish(
        self, table: Table, step: Finish, facts: TableFacts | None, batches: Batches, *, taken_back: bool = False
    ) -> StepResult:
        """See a batch through to its end. Where it is about to be taken back, that rows below it are gone is known."""
        failpoint("finish.started", table.name)
        for beside in self.warehouse.tables_of(table.name):
            self.format.sync_log(beside)
        location = self.warehouse.table(table.name)
        batch = batches.committed(step.sequence, lambda: self.format.commits(location))
        if batch.is_maintenance and facts is not None:
            settled = self._maintenance(table, facts, batches, Progress()).finish(batch)
            return StepResult(mode=batch.mode, reason=step.reason, before=facts, settled=settled)
        if facts is not None and not taken_back:
            self._refuse_gap(table, batch, facts.version)
        given_up = batch.replay is not None and batch.replay.discard
        if not given_up and batch.definition != definition(table):
            raise DataError(
                "unfinished-under-other-definition",
                f"batch {step.sequence} was cut short under an earlier definition of the table",
                at=table.declared_at,
                table=str(table.name),
                hint="run once with the definition as it was, so that its refused rows are kept, then change it",
            )
        if batch.replay is not None:
            settled = self._replaying(table, batch, facts).finish()
            batches.finish(settled.done)
            return StepResult(mode=batch.mode, reason=step.reason, before=facts, settled=settled)
        refuse_nondeterministic(table, batch)
        try:
            arrival = self.arrival(table, batch, facts, survey=bool(batch.files))
            # Not the newest version: a rollback since then has to be seen.
            settled = (
                self._writer().finish(arrival)
                if arrival
                else _nothing(batch, committed_version(batch, self._commits(table)))
            )
        except Exception as error:
            abort = Abort.in_text(str(error))
            if abort is None:
                raise
            raise batch_unfinished(table, batch, abort) from error
        records = self._books(table, batch, settled)
        batches.finish(settled.done)
        self._forget(table, batch)
        errors = self._archive(table, {file.path: file for file in batch.files})
        return StepResult(
            mode=batch.mode,
            reason=step.reason,
            before=facts,
            settled=settled,
            file_records=records,
            left_out=tuple(errors),
        )

    def _publish(
        self, table: Table, step: CommitHeldBatch, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> StepResult:
        """The same inputs again, and the gate's word does not count; that as many rows come of them is made sure of."""
        held = batches.pinned(step.sequence, step.attempt)
        commits = partial(self.format.commits, self.warehouse.table(table.name))
        # A quiet batch takes a number, and moves no row.
        next_one = batches.base_batch(held.parent, commits) == batches.base_batch(progress.head, commits)
        if held.definition != definition(table) or not next_one:
            raise DataError(
                "held-outdated",
                f"the batch that run {step.approval.run_id} held back is not the next one of {table.name} any more",
                at=table.declared_at,
                table=str(table.name),
                hint="the table or its declaration has changed since; run again, and approve that run's batch",
            )
        made = self._batch(table, facts, progress, mode=held.mode)
        batch = batches.pin(
            replace(
                held,
                sequence=made.sequence,
                parent=made.parent,
                base_version=made.base_version,
                run_id=self.run_id,
                approval=step.approval,
            )
        )
        if isinstance(table.origin, Jdbc | OtherTable):
            from lakesmith.spark.ingest.staged_extract import hand_over_staged

            hand_over_staged(self.warehouse, table.name, held, batch)
        moved = self._settle(table, batch, step.reason, facts, batches)
        if moved.settled is not None and moved.taken:
            batches.summarize_ingested(replace(batch, attempt=moved.settled.done.attempt, files=moved.taken), progress)
            errors = self._archive(table, {file.path: file for file in moved.taken}, progress.ingested)
            return replace(moved, left_out=(*moved.left_out, *errors))
        return moved

    def _mend(
        self, table: Table, step: ReplayQuarantine, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> StepResult:
        kept = self.format.facts(self.warehouse.quarantine(table.name), flow(table.name))
        if kept is None or kept.rows == 0:
            return StepResult(mode=step.mode, reason="nothing is in quarantine", before=facts)
        other = progress.definition is not None and rebuild_reason(progress.definition, table)
        # A bronze table is never rebuilt, and what is given up enters none.
        if other and not isinstance(table.origin, Source) and not step.replay.discard:
            raise DataError(
                "replay-outdated",
                f"{table.name} is defined in another way than its rows were made",
                at=table.declared_at,
                table=str(table.name),
                hint=f"bring it up to date first: lakesmith run {table.name}",
            )
        made = self._batch(table, facts, progress, mode=step.mode, inputs=progress.positions)
        if step.replay.discard and progress.definition is not None:
            # What is given up enters no table: its rows are of the definition that they were made with.
            made = replace(made, definition=progress.definition)
        replay = replace(step.replay, version=kept.version, moment=made.pinned_at)
        batch = batches.pin(replace(made, replay=replay, backfill=None))
        settled = self._replaying(table, batch, facts).commit_batch()
        if settled is None:
            return StepResult(mode=step.mode, reason="no row of the quarantine is meant", before=facts)
        self._refuse_gap(table, batch, settled.done.version)
        batches.finish(settled.done)
        return StepResult(mode=step.mode, reason=step.reason, before=facts, settled=settled)

    def _replaying(self, table: Table, batch: Batch, facts: TableFacts | None) -> QuarantineReplay:
        return QuarantineReplay(
            spark=self.session(),
            table=table,
            batch=batch,
            facts=facts,
            format=self.format,
            warehouse=self.warehouse,
        )

    def _keep_up(
        self,
        table: Table,
        step: Compact | Vacuum | Restore,
        facts: TableFacts | None,
        batches: Batches,
        progress: Progress,
    ) -> StepResult:
        if facts is None:
            return StepResult(mode=step.mode, reason="it was never built", before=None)
        upkeep = self._maintenance(table, facts, batches, progress)
        match step:
            case Compact():
                settled, otherwise = upkeep.compact(), "no files are to be put together"
            case Vacuum():
                made = self._batch(table, facts, progress, mode=step.mode)
                settled, otherwise = upkeep.vacuum(step, made), "no file is old and not needed"
            case Restore():
                made = self._batch(table, facts, progress, mode=step.mode)
                settled, otherwise = upkeep.restore(step, made), f"it is as it was at version {step.version}"
            case _:
                assert_never(step)
        if settled is None:
            return StepResult(mode=step.mode, reason=otherwise, before=facts)
        # A table that was to go back may only have followed its inputs.
        own = batches.pinned(settled.done.sequence, settled.done.attempt) if settled.done.sequence else None
        return StepResult(mode=own.mode if own else step.mode, reason=step.reason, before=facts, settled=settled)

    def _maintenance(self, table: Table, facts: TableFacts, batches: Batches, progress: Progress) -> Maintenance:
        return Maintenance(
            table=table,
            facts=facts,
            progress=progress,
            run_id=self.run_id,
            batches=batches,
            warehouse=self.warehouse,
            format=self.format,
            session=self.session,
            landing=self.landings.get(table.name),
        )

    def _settle(
        self, table: Table, batch: Batch, reason: str, facts: TableFacts | None, batches: Batches
    ) -> StepResult:
        left_out: list[LakesmithError] = []
        cut = self._through(table, batch, facts, batches, left_out)
        if cut is None:
            return StepResult(mode=batch.mode, reason="no file can be read now", before=facts, left_out=tuple(left_out))
        settled, batch = cut
        self._refuse_gap(table, batch, settled.done.version)
        records = self._books(table, batch, settled)
        batches.finish(settled.done)
        self._forget(table, batch)
        return StepResult(
            mode=batch.mode,
            reason=reason,
            before=facts,
            settled=settled,
            file_records=records,
            taken=batch.files,
            left_out=tuple(left_out),
        )

    def _through(
        self,
        table: Table,
        batch: Batch,
        facts: TableFacts | None,
        batches: Batches,
        left_out: list[LakesmithError],
    ) -> tuple[BatchResult, Batch] | None:
        """Commit the batch. Where its files bring new columns or are broken it is cut anew, before anything is
        committed: a broken file is refused as a whole, one that cannot be read now is left for the next run."""
        survey = False
        for _ in range(len(batch.files) + _CUTS):
            try:
                arrival = self.arrival(table, batch, facts, survey=survey, into=self.into(table))
                if arrival is None:
                    location = self.warehouse.table(table.name)
                    name, since = flow(table.name), batch.base_version
                    write = Write(flow=name, sequence=batch.sequence, note=batch.note, since=since)
                    return _nothing(batch, self.format.advance(location, write, self.session()).version), batch
                return self._writer().write_batch(arrival), batch
            except Exception as error:
                abort = Abort.in_text(str(error))
                if abort is None or (abort.kind == "new-fields" and survey):
                    self._tell_outcome(table, batch, error)
                    raise
                made = self.format.facts(self.warehouse.table(table.name), flow(table.name))
                if made is not None and made.sequence >= batch.sequence:
                    raise batch_unfinished(table, batch, abort) from error
            survey = True
            if abort.kind == "broken":
                batch = batches.pin(replace(batch, rejected_files={**batch.rejected_files, abort.path: abort.detail}))
            elif abort.kind == "left-out":
                gone = abort.path.split(Abort.SEPARATOR)
                left_out += [file_postponed(table, path, abort.detail) for path in gone]
                kept = tuple(file for file in batch.files if file.path not in gone)
                if not kept:
                    return None
                # Where names come in order, only a full look finds them again.
                batch = batches.pin(replace(batch, files=kept, seen=None))
        raise DataError(
            "files-unstable",
            "the files were others each time that they were read",
            table=str(table.name),
            hint="landing is append-only: land files under a temporary name and rename them when they are whole",
        )

    def _tell_outcome(self, table: Table, batch: Batch, error: Exception) -> None:
        """Raise what became of the batch where that is known. Whatever the reply to its commit was, the table's log may
        hold it, or another's, who has removed what this attempt worked with; or its source may have lost it."""
        if not (is_external(error) or isinstance(error, GateFailed)):
            return
        location = self.warehouse.table(table.name)
        if find_commit(self._commits(table), flow(table.name), batch.sequence, batch.note):
            raise commit_unconfirmed(table, batch, error) from error
        made = self.format.facts(location, flow(table.name))
        if made is not None and made.sequence >= batch.sequence:
            raise commit_lost(table, batch) from error
        if batch.slice is not None and is_external(error):
            look_again(table, self.environment, batch.slice)

    def _refuse_gap(self, table: Table, batch: Batch, upto: int) -> None:
        """Raise where the table was rolled back between the version that a batch continues and the one that it made: a
        commit of ours is refused there, but one of Spark's is not, in the moment before it."""
        if batch.base_version is None or upto <= batch.base_version + 1:
            return  # nothing lies between
        commits = tuple(self.format.commits(self.warehouse.table(table.name), batch.base_version))
        made = next((commit.version for commit in commits if commit.note == batch.note), 0)
        between = (commit for commit in commits if commit.version < made)
        back = next((commit.version for commit in between if commit.operation == "RESTORE"), None)
        if back is not None:
            raise committed_on_rollback(table, batch, back)

    def _commits(self, table: Table) -> Iterable[CommitFact]:
        return self.format.commits(self.warehouse.table(table.name))

    def _books(self, table: Table, batch: Batch, settled: BatchResult) -> tuple[FileRecord, ...]:
        if not settled.ends:
            return ()
        landing, _ = self.landings[table.name]
        return file_records(self.run_id, table, batch, settled, self.format, self.warehouse, landing)

    def _archive(self, table: Table, *taken: Mapping[str, FileFact]) -> list[LakesmithError]:
        if not isinstance(table.origin, Files):
            return []
        failpoint("files.archiving", table.name)
        return archive_ingested(table.origin, *self.landings[table.name], taken)

    def _forget(self, table: Table, batch: Batch) -> None:
        """Remove what was staged for the batch only."""
        if isinstance(table.origin, Jdbc | OtherTable):
            from lakesmith.spark.ingest.staged_extract import remove_staged_extracts

            remove_staged_extracts(self.ingest_context(), table, batch)

    def _writer(self) -> BatchWriter:
        return BatchWriter(self.format, self.warehouse)

    def _batch(
        self,
        table: Table,
        facts: TableFacts | None,
        progress: Progress,
        *,
        mode: str,
        files: tuple[FileFact, ...] = (),
        slice: Slice | None = None,
        inputs: Mapping[str, Position] | None = None,
        since: Mapping[str, int] | None = None,
    ) -> Batch:
        return Batch(
            sequence=max(facts.sequence if facts else 0, progress.highest_sequence) + 1,
            attempt=0,
            parent=progress.base_batch,
            run_id=self.run_id,
            pinned_at=time.time_ns() // 1_000_000,
            definition=definition(table),
            mode=mode,
            files=files,
            slice=slice,
            inputs=inputs or {},
            since=since or {},
            lookups=self._lookups(table),
            contract=self.contracts.get(table.name),
            backfill=progress.backfill if mode != "full" else None,
            base_version=facts.version if facts is not None and mode not in _ANEW else None,
            newest_extract=progress.newest_extract if mode not in _ANEW else None,
        )

    def _spent(self, table: Table, batches: Batches) -> int:
        """The greatest number of a batch, told by all but the table itself, which is to be looked at after this.

        A batch is in the table before it is anywhere else. So the facts know of every batch that is found here, and a
        batch that another run commits after this look has the number which this run is going to use: they collide.
        """
        done = batches.highest_sequence()
        kept = self.format.facts(self.warehouse.quarantine(table.name), flow(table.name))
        return max(done, kept.sequence if kept else 0)

    def _lookups(self, table: Table) -> dict[str, Position]:
        """The tables that checks refer to, as they are now."""
        asked = {reference.table for reference in referenced_tables(rules_of(table))}
        found = {name: self.format.facts(self.warehouse.table(name), flow(name)) for name in asked}
        return {
            str(name): Position(table_id=facts.table_id, version=facts.version)
            for name, facts in found.items()
            if facts is not None
        }


def _nothing(batch: Batch, version: int) -> BatchResult:
    return result_without_rows(batch.run_id, version, sequence=batch.sequence, attempt=batch.attempt)
