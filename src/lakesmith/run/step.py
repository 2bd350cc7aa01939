"""One step of one table: look at the facts afresh, pin the batch, move the rows, note that it is done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, assert_never

from lakesmith.declare import (
    Append,
    Environment,
    Files,
    Jdbc,
    OtherTable,
    Source,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.errors import DataError, InfrastructureError, LakesmithError, Place
from lakesmith.failpoints import reach
from lakesmith.intake.rows import Abort
from lakesmith.ledger.batches import Batch, Batches, flow
from lakesmith.plan.fingerprint import definition, rebuild_because
from lakesmith.plan.listing import seen_with
from lakesmith.plan.query import partition_source, random_call
from lakesmith.plan.steps import (
    Build,
    Compact,
    Finish,
    Ingest,
    Mend,
    Mode,
    Position,
    Progress,
    Publish,
    Refill,
    Restore,
    Step,
    Vacuum,
    Widen,
)
from lakesmith.plan.widening import retyped_told
from lakesmith.ports import FileFact, Slice, Storage, TableFacts, TableFormat, Write
from lakesmith.quality import Past, looked_up, only_readability, rules_of
from lakesmith.records import CheckRecord, FileRecord
from lakesmith.run.failures import failed_disk, first_lines, is_foreign
from lakesmith.run.files import archive_taken, file_records
from lakesmith.run.upkeep import Upkeep, no_rows
from lakesmith.sources import look_again
from lakesmith.spark.arrival import Arrival, Settled
from lakesmith.spark.build import build_batch
from lakesmith.spark.checked import field_paths
from lakesmith.spark.gate import GateFailed
from lakesmith.spark.ingest import Inlet, check_source, pin_slice, read_batch
from lakesmith.spark.ingest.known import new_fields, wider_fields
from lakesmith.spark.replay import Replaying
from lakesmith.spark.write import Writer
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SCHEMA_CHECK = "schema"
"""The name under which a schema that does not fit the table is told of."""
_CUTS = 5
"""How often a batch is cut anew at the most."""
_REWRITES = ("UPDATE", "DELETE", "RESTORE", "TRUNCATE", "CLONE", "REPLACE", "CREATE OR REPLACE")
"""Operations that change rows or take them away, so that the rows which came do not tell what the table holds now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a step did."""

    mode: str
    reason: str
    before: TableFacts | None
    settled: Settled | None = None
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
class Workplace:
    """What a step works with."""

    run_id: str
    warehouse: Warehouse
    environment: Environment
    landings: Mapping[TableName, tuple[Storage, str]]
    """By bronze table, the store that its files arrive in, and the glob that finds them there."""
    format: TableFormat
    session: Callable[[], SparkSession] = field(repr=False)
    """A session for one step alone; starts Spark when it is the first to ask."""
    past: Callable[[TableName, Sequence[str]], Mapping[str, Sequence[Past]]] = field(repr=False)
    """By name of a table's checks, what they found in the good batches before, newest first."""
    contracts: Mapping[TableName, str] = field(default_factory=dict)
    """The versions of the tables' contracts, where they have one."""

    def take(self, table: Table, step: Step) -> Moved:
        """Carry the step out."""
        batches = Batches(self.warehouse.storage, table.name)
        spent = self._spent(table, batches)
        facts = self.format.facts(self.warehouse.table(table.name), flow(table.name))
        commits = partial(self.format.commits, self.warehouse.table(table.name))
        # A rebuild reads everything: where the table stood does not matter, and may not even be known any more.
        rebuild = isinstance(step, Build) and step.rebuild
        progress = replace(Progress() if rebuild else batches.progress(facts, commits), spent=spent)
        if progress.unfinished is not None and not isinstance(step, Finish):
            # Another run was cut short since this one was planned: its refused rows come first.
            reason = f"batch {progress.unfinished} was interrupted before its end"
            self._finish(table, Finish(table=table.name, sequence=progress.unfinished, reason=reason), facts, batches)
        match step:
            case Ingest():
                return self._ingest(table, step, facts, batches, progress)
            case Build():
                return self._build(table, step, facts, batches, progress)
            case Refill():
                return self._refill(table, step, facts, batches, progress)
            case Widen():
                return self._widen(table, step, facts)
            case Finish():
                return self._finish(table, step, facts, batches)
            case Publish():
                return self._publish(table, step, facts, batches, progress)
            case Mend():
                return self._mend(table, step, facts, batches, progress)
            case Compact() | Vacuum() | Restore():
                return self._keep_up(table, step, facts, batches, progress)
            case _:
                assert_never(step)

    def _ingest(
        self, table: Table, step: Ingest, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> Moved:
        files = tuple(file for file in step.files if file.path not in progress.taken)
        source_slice = step.slice
        if source_slice is None and not files:
            return Moved(mode="files", reason="another run has taken the files in", before=facts)
        if source_slice is not None and source_slice.since != progress.reached and progress.reached:
            return Moved(mode="slice", reason="another run has read on since", before=facts)
        mode = "files" if source_slice is None else "slice"
        batch = self._batch(table, facts, progress, mode=mode, files=files, slice=source_slice)
        if step.look is not None:
            batch = replace(batch, seen=seen_with(step.look, step.files, progress))
        batch = pin_slice(self._inlet(), table, batch) if source_slice is not None else batch
        if batch.slice is not None and batch.slice.since and batch.slice.since == batch.slice.until:
            return Moved(mode=mode, reason="nothing new", before=facts)
        unfit = check_source(self.environment, table, batch, facts)
        batch = batches.pin(batch)
        warnings = (_schema_check(table, batch, unfit),) if unfit else ()
        moved = replace(self._settle(table, batch, step.reason, facts, batches), warnings=warnings)
        if moved.settled is None:
            return moved
        batches.keep_taken(replace(batch, attempt=moved.settled.done.attempt, files=moved.taken), progress)
        errors = self._archive(table, {file.path: file for file in moved.taken}, progress.taken)
        return replace(moved, left_out=(*moved.left_out, *errors))

    def _widen(self, table: Table, step: Widen, facts: TableFacts | None) -> Moved:
        types = {column.name.lower(): column.type for column in facts.columns} if facts else {}
        wider = [column for column in step.columns if types.get(column.name.lower(), column.type) != column.type]
        if facts is None or not wider:
            return Moved(mode=step.mode, reason="another run has widened them", before=facts)
        self.format.widen(self.session(), facts.location, {column.name: column.type for column in wider})
        now = self.format.facts(facts.location, flow(table.name))
        assert now is not None
        told = tuple(f"{column.name}: {types[column.name.lower()]} → {column.type}" for column in wider)
        settled = replace(no_rows(self.run_id, now.version), columns_widened=told)
        return Moved(mode=step.mode, reason=step.reason, before=facts, settled=settled)

    def _build(
        self, table: Table, step: Build, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> Moved:
        inputs: dict[str, TableFacts] = {}
        for needed in step.inputs:
            found = self.format.facts(self.warehouse.table(needed.table), flow(needed.table))
            if found is None:
                return Moved(mode=step.mode, reason=f"{needed.table} has no rows yet", before=facts)
            inputs[str(needed.table)] = found
        ahead = {name for name, found in inputs.items() if _is_ahead(found, progress.positions.get(name))}
        if not ahead and facts is not None and not step.rebuild:
            return Moved(mode=step.mode, reason="nothing new", before=facts)
        mode, reason = self._mode(table, step, facts, progress, inputs, ahead)
        batch = self._batch(
            table,
            facts,
            progress,
            mode=mode,
            inputs={n: Position(table_id=f.table_id, version=f.version) for n, f in inputs.items()},
            since={n: _read_upto(f, progress.positions[n]) for n, f in inputs.items()} if mode != "whole" else {},
        )
        return self._settle(table, batches.pin(batch), reason, facts, batches)

    def _refill(
        self, table: Table, step: Refill, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> Moved:
        """From what the table has read already and nothing newer: what comes next finds it where it was."""
        if progress.definition is None or rebuild_because(progress.definition, table):
            return Moved(mode=step.mode, reason="another run has made it of another definition", before=facts)
        begun = progress.backfill
        if begun is not None and begun.span == step.backfill.span and begun.done and begun.done >= step.chunk.end:
            return Moved(mode=step.mode, reason="another run has computed these days", before=facts)
        batch = replace(
            self._batch(table, facts, progress, mode=step.mode, inputs=progress.positions),
            days=step.chunk,
            backfill=step.backfill.after(step.chunk),
        )
        return self._settle(table, batches.pin(batch), step.reason, facts, batches)

    def _mode(
        self,
        table: Table,
        step: Build,
        facts: TableFacts | None,
        progress: Progress,
        inputs: Mapping[str, TableFacts],
        ahead: set[str],
    ) -> tuple[Mode, str]:
        """The planned mode, or the whole table when the inputs turned out to have changed in another way."""
        if step.mode == "whole" or facts is None or step.rebuild:
            return "whole", step.reason
        if step.mode == "partitions":
            source = partition_source(table)
            if isinstance(source, str) or ahead - {str(source.table)}:
                return "whole", "another input changed since the plan was made"
        for name, found in inputs.items():
            position = progress.positions.get(name)
            if position is None or position.table_id != found.table_id:
                return "whole", f"{name} was made anew"
            if found.version > position.version and not self._has_changes(name, position.version):
                return "whole", f"{name} has no change feed since version {position.version}"
            if found.changed > position.version and found.oldest > position.version + 1:
                raise DataError(
                    "source-gap",
                    f"{name} has lost the changes of versions {position.version + 1} to {found.oldest - 1}",
                    hint=f"its log was cleaned up; `lakesmith run {step.table} --full-refresh` reads it as a whole",
                )
            if found.version > position.version and (retyped := self.format.retyped(found.location, position.version)):
                return "whole", retyped_told(name, retyped)
            if step.mode in ("changes", "sums") and (operation := self._rewrite(name, position.version, found.version)):
                return "whole", f"rows of {name} changed ({operation})"
        return step.mode, step.reason

    def _has_changes(self, name: str, after: int) -> bool:
        parsed = TableName.parse(name)
        assert parsed
        return self.format.has_changes(self.warehouse.table(parsed), after)

    def _rewrite(self, name: str, since: int, until: int) -> str | None:
        """An operation after `since` that changed rows of a table or took them away, if there is one."""
        parsed = TableName.parse(name)
        assert parsed
        for commit in self.format.commits(self.warehouse.table(parsed), until - since):
            written = self.format.written(commit)
            overwrote = commit.parameters.get("mode") == "Overwrite"
            if commit.operation.startswith(_REWRITES) or overwrote or written.deleted or written.updated:
                return commit.operation
        return None

    def _finish(self, table: Table, step: Finish, facts: TableFacts | None, batches: Batches) -> Moved:
        reach("finish.begun", table.name)
        location = self.warehouse.table(table.name)
        batch = batches.committed(step.sequence, lambda: self.format.commits(location))
        if batch.mode in ("vacuum", "restore") and facts is not None:
            settled = self._upkeep(table, facts, batches, Progress()).finish(batch)
            return Moved(mode=batch.mode, reason=step.reason, before=facts, settled=settled)
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
            return Moved(mode=batch.mode, reason=step.reason, before=facts, settled=settled)
        _refuse_random(table, batch)
        try:
            arrival = self._arrival(table, batch, facts, survey=bool(batch.files))
            nothing = _nothing(batch, facts.version if facts else 0)
            settled = self._writer().finish(arrival) if arrival else nothing
        except Exception as error:
            abort = Abort.in_text(str(error))
            if abort is None:
                raise
            raise _unfinished(table, batch, abort) from error
        records = self._books(table, batch, settled)
        batches.finish(settled.done)
        self._forget(table, batch)
        errors = self._archive(table, {file.path: file for file in batch.files})
        return Moved(
            mode=batch.mode,
            reason=step.reason,
            before=facts,
            settled=settled,
            file_records=records,
            left_out=tuple(errors),
        )

    def _publish(
        self, table: Table, step: Publish, facts: TableFacts | None, batches: Batches, progress: Progress
    ) -> Moved:
        """The same inputs again, and the gate's word does not count; that as many rows come of them is made sure of."""
        held = batches.pinned(step.sequence, step.attempt)
        commits = partial(self.format.commits, self.warehouse.table(table.name))
        # A vacuum takes a number, and moves no row.
        next_one = batches.ground(held.parent, commits) == batches.ground(progress.head, commits)
        if held.definition != definition(table) or not next_one:
            raise DataError(
                "held-outdated",
                f"the batch that run {step.approval.run_id} held back is not the next one of {table.name} any more",
                at=table.declared_at,
                table=str(table.name),
                hint="the table or its declaration has changed since; run again, and approve that run's batch",
            )
        number = self._batch(table, facts, progress, mode=held.mode).sequence
        batch = batches.pin(
            replace(held, sequence=number, parent=progress.ground, run_id=self.run_id, approval=step.approval)
        )
        if isinstance(table.origin, Jdbc | OtherTable):
            from lakesmith.spark.ingest.staged import take_over

            take_over(self.warehouse, table.name, held, batch)
        moved = self._settle(table, batch, step.reason, facts, batches)
        if moved.settled is not None and moved.taken:
            batches.keep_taken(replace(batch, attempt=moved.settled.done.attempt, files=moved.taken), progress)
            errors = self._archive(table, {file.path: file for file in moved.taken}, progress.taken)
            return replace(moved, left_out=(*moved.left_out, *errors))
        return moved

    def _mend(self, table: Table, step: Mend, facts: TableFacts | None, batches: Batches, progress: Progress) -> Moved:
        kept = self.format.facts(self.warehouse.quarantine(table.name), flow(table.name))
        if kept is None or kept.rows == 0:
            return Moved(mode=step.mode, reason="nothing is in quarantine", before=facts)
        other = progress.definition is not None and rebuild_because(progress.definition, table)
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
        settled = self._replaying(table, batch, facts).settle()
        if settled is None:
            return Moved(mode=step.mode, reason="no row of the quarantine is meant", before=facts)
        batches.finish(settled.done)
        return Moved(mode=step.mode, reason=step.reason, before=facts, settled=settled)

    def _replaying(self, table: Table, batch: Batch, facts: TableFacts | None) -> Replaying:
        return Replaying(
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
    ) -> Moved:
        if facts is None:
            return Moved(mode=step.mode, reason="it was never built", before=None)
        upkeep = self._upkeep(table, facts, batches, progress)
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
        return Moved(mode=step.mode, reason=step.reason if settled else otherwise, before=facts, settled=settled)

    def _upkeep(self, table: Table, facts: TableFacts, batches: Batches, progress: Progress) -> Upkeep:
        return Upkeep(
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

    def _settle(self, table: Table, batch: Batch, reason: str, facts: TableFacts | None, batches: Batches) -> Moved:
        left_out: list[LakesmithError] = []
        cut = self._through(table, batch, facts, batches, left_out)
        if cut is None:
            return Moved(mode=batch.mode, reason="no file can be read now", before=facts, left_out=tuple(left_out))
        settled, batch = cut
        records = self._books(table, batch, settled)
        batches.finish(settled.done)
        self._forget(table, batch)
        return Moved(
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
    ) -> tuple[Settled, Batch] | None:
        """Commit the batch. Where its files bring new columns or are broken it is cut anew, before anything is
        committed: a broken file is refused as a whole, one that cannot be read now is left for the next run."""
        survey = False
        for _ in range(len(batch.files) + _CUTS):
            try:
                arrival = self._arrival(table, batch, facts, survey=survey, into=self._into(table))
                if arrival is None:
                    location = self.warehouse.table(table.name)
                    write = Write(flow=flow(table.name), sequence=batch.sequence, note=batch.note)
                    return _nothing(batch, self.format.advance(location, write, self.session()).version), batch
                return self._writer().settle(arrival), batch
            except Exception as error:
                abort = Abort.in_text(str(error))
                if abort is None or (abort.kind == "new-fields" and survey):
                    self._tell_outcome(table, batch, error)
                    raise
                made = self.format.facts(self.warehouse.table(table.name), flow(table.name))
                if made is not None and made.sequence >= batch.sequence:
                    raise _unfinished(table, batch, abort) from error
            survey = True
            if abort.kind == "broken":
                batch = batches.pin(replace(batch, refused={**batch.refused, abort.path: abort.detail}))
            elif abort.kind == "left-out":
                gone = abort.path.split("\n")
                left_out += [_left_out(table, path, abort.detail) for path in gone]
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
        if not (is_foreign(error) or isinstance(error, GateFailed)):
            return
        location = self.warehouse.table(table.name)
        if any(commit.note == batch.note for commit in self.format.commits(location)):
            raise _unheard(table, batch, error) from error
        made = self.format.facts(location, flow(table.name))
        if made is not None and made.sequence >= batch.sequence:
            raise _overtaken(table, batch) from error
        if batch.slice is not None and is_foreign(error):
            look_again(table, self.environment, batch.slice)

    def _books(self, table: Table, batch: Batch, settled: Settled) -> tuple[FileRecord, ...]:
        if not settled.ends:
            return ()
        landing, _ = self.landings[table.name]
        return file_records(self.run_id, table, batch, settled, self.format, self.warehouse, landing)

    def _archive(self, table: Table, *taken: Mapping[str, FileFact]) -> list[LakesmithError]:
        if not isinstance(table.origin, Files):
            return []
        reach("files.archiving", table.name)
        return archive_taken(table.origin, *self.landings[table.name], taken)

    def _forget(self, table: Table, batch: Batch) -> None:
        """Remove what was staged for the batch only."""
        if isinstance(table.origin, Jdbc | OtherTable):
            from lakesmith.spark.ingest.staged import forget

            forget(self._inlet(), table, batch)

    def _inlet(self, table: Table | None = None) -> Inlet:
        return Inlet(
            spark=self.session(),
            landing=self.landings[table.name][0] if table and table.name in self.landings else self.warehouse.storage,
            warehouse=self.warehouse,
            environment=self.environment,
        )

    def _into(self, table: Table) -> str | None:
        """The folder that readers may write rows to, where nothing but to read them is left to do."""
        if not (
            isinstance(table.origin, Files)
            and isinstance(table.load, Append)
            and only_readability(rules_of(table))
            and table.drift.missing_column == "evolve"
        ):
            return None
        location = self.warehouse.table(table.name)
        return location if self.format.takes_files(location) else None

    def _arrival(
        self,
        table: Table,
        batch: Batch,
        facts: TableFacts | None,
        *,
        survey: bool = False,
        into: str | None = None,
    ) -> Arrival | None:
        """The rows that a batch stands for; None when there are none by its nature."""
        if isinstance(table.origin, Source):
            rows = read_batch(self._inlet(table), table, batch, facts, survey=survey, into=into)
            known = partial(rules_of, table, fields=field_paths(rows))
            return Arrival(
                table=table,
                batch=batch,
                rows=rows,
                rules=known(),
                facts=facts,
                evolve=True,
                columns_added=new_fields(rows, facts),
                columns_widened=wider_fields(rows, facts),
                past=partial(self.past, table.name),
                again=None if table.drift.missing_column == "evolve" else lambda gone: known(missing=gone),
            )
        built = build_batch(self.session(), table, batch, self.format, self.warehouse)
        if built is None:
            return None
        return Arrival(
            table=table if built.load is None else replace(table, load=built.load),
            batch=batch,
            rows=built.rows,
            rules=rules_of(table, casts=built.casts, missing=built.missing, undeclared=built.undeclared),
            facts=facts,
            evolve=batch.mode == "whole" or table.contract != "strict",
            part=built.part,
            refused_part=built.refused_part,
            whole=built.whole,
            keys=built.keys,
            inputs=built.inputs,
            past=partial(self.past, table.name),
        )

    def _writer(self) -> Writer:
        return Writer(self.format, self.warehouse)

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
            sequence=max(facts.sequence if facts else 0, progress.spent) + 1,
            attempt=0,
            parent=progress.ground,
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
            backfill=progress.backfill if mode != "whole" else None,
        )

    def _spent(self, table: Table, batches: Batches) -> int:
        """The greatest number of a batch, told by all but the table itself, which is to be looked at after this.

        A batch is in the table before it is anywhere else. So the facts know of every batch that is found here, and a
        batch that another run commits after this look has the number which this run is going to use: they collide.
        """
        done = batches.spent()
        kept = self.format.facts(self.warehouse.quarantine(table.name), flow(table.name))
        return max(done, kept.sequence if kept else 0)

    def _lookups(self, table: Table) -> dict[str, Position]:
        """The tables that checks refer to, as they are now."""
        asked = {reference.table for reference in looked_up(rules_of(table))}
        found = {name: self.format.facts(self.warehouse.table(name), flow(name)) for name in asked}
        return {
            str(name): Position(table_id=facts.table_id, version=facts.version)
            for name, facts in found.items()
            if facts is not None
        }


def _is_ahead(found: TableFacts, position: Position | None) -> bool:
    return position is None or found.table_id != position.table_id or found.changed > position.version


def _read_upto(found: TableFacts, position: Position) -> int:
    """The version after which there is something to read."""
    return position.version if found.changed > position.version else found.version


def _refuse_random(table: Table, batch: Batch) -> None:
    """Raise where nobody can tell which rows a batch refused that was cut short: asked again, the query gives others,
    and as many of them may add up all the same."""
    called = random_call(table.origin) if isinstance(table.origin, SqlQuery) else None
    if called is None or not rules_of(table).sets_aside:
        return
    word, line = called
    raise InfrastructureError(
        "books-open",
        f"batch {batch.sequence} was cut short, and {word}() gives other rows each time: those that were refused are "
        "not known any more",
        at=Place(table.declared_at.file, line),
        table=str(table.name),
        hint=f"compute the table anew: lakesmith run {table.name} --full-refresh; and make the query deterministic",
    )


def _unfinished(table: Table, batch: Batch, abort: Abort) -> DataError:
    return DataError(
        "batch-unfinished",
        f"batch {batch.sequence} was cut short, and {abort.path} is not as it was ({abort.detail})",
        table=str(table.name),
        hint="put the file back as it was; its good rows are in the table, its refused ones may not be kept yet",
    )


def _unheard(table: Table, batch: Batch, error: Exception) -> InfrastructureError:
    said = first_lines(str(error))
    failure = failed_disk(error)
    return InfrastructureError(
        "commit-unknown",
        f"batch {batch.sequence} is in the table, but its end was not heard of: {failure.what if failure else said}",
        table=str(table.name),
        hint="run again: that sees the batch through to its end, and nothing is lost or doubled",
    )


def _overtaken(table: Table, batch: Batch) -> InfrastructureError:
    return InfrastructureError(
        "commit-lost",
        f"batch {batch.sequence} was committed by another run first, while this one was still at it",
        table=str(table.name),
        hint="nothing is lost: run again when the other run has ended",
    )


def _left_out(table: Table, path: str, why: str) -> LakesmithError:
    code, _, what = why.partition(": ")
    return DataError(
        code,
        f"{path} was left out: {what}",
        table=str(table.name),
        hint="the other files are taken in; the next run tries this one again",
    )


def _schema_check(table: Table, batch: Batch, unfit: Sequence[str]) -> CheckRecord:
    return CheckRecord(
        run_id=batch.run_id,
        table=str(table.name),
        sequence=batch.sequence,
        check=SCHEMA_CHECK,
        severity="warn",
        failed_rows=0,
        passed=False,
        observed="; ".join(unfit),
        checked_at=datetime.now(UTC),
    )


def _nothing(batch: Batch, version: int) -> Settled:
    return no_rows(batch.run_id, version, sequence=batch.sequence, attempt=batch.attempt)
