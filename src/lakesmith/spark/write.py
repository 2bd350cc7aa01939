"""A batch enters its table: rules judged, good rows and refused rows parted, gates before the commit, books closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakesmith.columns import END, WRITTEN
from lakesmith.declare import Append, Merge, ReplacePartitions, Snapshot, Source, SqlQuery
from lakesmith.errors import DataError, InfrastructureError
from lakesmith.failpoints import reach
from lakesmith.ledger.batch import Done
from lakesmith.ledger.batches import flow, version_of
from lakesmith.ports import DataFile, Part, TableFacts, TableFormat, Upsert, Write, Written, find_commit
from lakesmith.records import CheckRecord
from lakesmith.spark.checked import checked, counted_by_readers, good_rows, refused_rows, rolled_back
from lakesmith.spark.count import Counts, Watch, count, count_written
from lakesmith.spark.decisions import recalled
from lakesmith.spark.flags import flagged, is_comparable, without_own_rows
from lakesmith.spark.gate import GateFailed, judged
from lakesmith.spark.held import hold, let_go
from lakesmith.spark.incoming import ARRIVING, BatchResult, IncomingBatch
from lakesmith.spark.loads import Shaped, is_keyed, shaped
from lakesmith.spark.loads.deleted_keys import DeletedKeys
from lakesmith.spark.loads.extracts import newest_extract, refuse_shrunk, sizes
from lakesmith.spark.loads.merge_input import MergeInput
from lakesmith.spark.stage import Stage
from lakesmith.sql import quoted
from lakesmith.sqlproof.query import Sums, sums
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PROPERTIES = {"delta.enableChangeDataFeed": "true"}
_BRONZE = {
    **_PROPERTIES,
    # Bronze is read by what is new, not by what is in it: statistics of every column would cost a fifth of the write.
    "delta.dataSkippingStatsColumns": "_ingested_at",
}
_VECTORS = 64 << 20
"""A merge into a table of more bytes marks the rows that it replaces, in place of writing their files anew: in a small
table that would cost readers more than it saves the writer."""


class Writer:
    """Brings arrivals into the tables of one warehouse."""

    def __init__(self, format: TableFormat, warehouse: Warehouse) -> None:
        self._format = format
        self._warehouse = warehouse

    def settle(self, arrival: IncomingBatch) -> BatchResult:
        """Commit the good rows to the table, then the refused ones to its quarantine."""
        if WRITTEN in arrival.rows.columns:
            settled = self._settle_written(arrival, checked(arrival))
        else:
            try:
                settled = self._through_gate(*self._judgeable(arrival))
            except _Missing as missing:
                assert arrival.again is not None
                return self.settle(replace(arrival, rules=arrival.again(missing.columns), again=None))
        let_go(self._warehouse, arrival.table)
        return settled

    def _judgeable(self, arrival: IncomingBatch) -> tuple[IncomingBatch, DataFrame]:
        """The arrival with flags, and its rows with what the rules think of them."""
        arrival = flagged(arrival, self._format, self._warehouse)
        rows = checked(arrival)
        if arrival.batch.mode in ARRIVING:
            return arrival, rows  # nothing was decided of rows that nobody has seen yet
        return arrival, recalled(rows, arrival, self._format, self._warehouse)

    def _through_gate(self, arrival: IncomingBatch, rows: DataFrame) -> BatchResult:
        # A merge reads its rows more than once.
        if is_keyed(arrival.table.load) and arrival.batch.mode != "whole":
            return self._settle_held(arrival, rows)
        if self._is_staged(arrival):
            return self._settle_staged(arrival, rows)
        if arrival.rules.gate or arrival.rules.batch or _filled(arrival):
            return self._settle_held(arrival, rows)
        watch = Watch(arrival.rules)
        written = self._commit(arrival, good_rows(watch.over(rows), arrival.rules), None)
        counts = watch.counts()
        refused = self._quarantine(arrival, refused_rows(rows, arrival), counts.refused)
        newest = self._newest_extract(arrival, rows)
        return self._close(arrival, counts, written, refused, self._judged(arrival, counts, rows), newest)

    def _settle_held(self, arrival: IncomingBatch, rows: DataFrame) -> BatchResult:
        """Keep the rows until they are judged, and read them again to commit them."""
        rows = rows.persist()
        try:
            counts = count(rows, arrival.rules, _filled(arrival))
            _refuse_missing(arrival, counts)
            # What only went away is not judged.
            judge = counts.came or arrival.batch.mode not in ("keys", "days")
            checks = self._judged(arrival, counts, rows) if judge else ()
            written = self._commit(arrival, good_rows(rows, arrival.rules), counts)
            refused = self._quarantine(arrival, refused_rows(rows, arrival), counts.refused)
            newest = self._newest_extract(arrival, rows)
        finally:
            rows.unpersist()
        return self._close(arrival, counts, written, refused, checks, newest)

    def _is_staged(self, arrival: IncomingBatch) -> bool:
        """Whether the batch is worth being written before it is judged: then the files that hold it are committed."""
        rules = arrival.rules
        if not (rules.gate or rules.batch or rules.sets_aside) or counted_by_readers(rules, arrival.rows.columns):
            return False
        plain = arrival.part is None and not is_keyed(arrival.table.load)
        if not plain or _write(arrival).partition_by or arrival.columns_widened:
            return False
        stored = arrival.rows.select(*map(quoted, arrival.payload))
        if "void" in stored.schema.simpleString():
            return False  # a column of which nobody has seen a value yet has no place in a file
        return self._format.takes_rows(stored, self._location(arrival))

    def _settle_staged(self, arrival: IncomingBatch, rows: DataFrame) -> BatchResult:
        """Write good rows and refused ones in one pass that counts them; what passes the gate is only committed."""
        stage = Stage(beside=self._warehouse.staged(arrival.table.name), arrival=arrival)
        try:
            stage.write(rows)
            reach("batch.staged", arrival.table.name)
            counts = stage.counts()
            _refuse_missing(arrival, counts)
            checks = self._judged(arrival, counts, stage.all())
            written = self._commit(arrival, stage if stage.has_good else stage.good(), counts)
            refused = self._quarantine(arrival, stage.refused(), counts.refused)
            stage.remove_outdated()
        finally:
            stage.remove()
        return self._close(arrival, counts, written, refused, checks)

    def _judged(self, arrival: IncomingBatch, counts: Counts, rows: DataFrame) -> tuple[CheckRecord, ...]:
        """What the checks found; a batch that may not pass is kept to be looked at, and nothing is committed."""
        checks, failures = judged(arrival, counts)
        approval = arrival.batch.approval
        if approval is not None and (approval.rows, approval.refused) != (counts.came, counts.refused):
            raise DataError(
                "held-outdated",
                f"the batch has {counts.came:,} rows now, {counts.refused:,} of them refused; "
                f"{approval.rows:,} and {approval.refused:,} were held back",
                at=arrival.table.declared_at,
                table=str(arrival.table.name),
                hint="its source has changed since; run again, and approve that run's batch",
            )
        if failures and approval is None:
            raise hold(self._warehouse, arrival, rows, GateFailed(arrival, failures, checks, counts))
        return tuple(replace(check, committed=True) for check in checks)

    def _settle_written(self, arrival: IncomingBatch, rows: DataFrame) -> BatchResult:
        """Commit the files that the readers of a batch have filled with its good rows."""
        # Held, because to evaluate it again would be to write the rows again.
        rows = rows.persist()
        try:
            counts, made = count_written(rows)
            pinned = datetime.fromtimestamp(arrival.batch.pinned_at / 1000, UTC)
            files = tuple(DataFile(f.path, f.size, f.rows, {"_ingested_at": (pinned, pinned)}) for f in made)
            written = self._commit(arrival, files, counts)
            refused = self._quarantine(arrival, refused_rows(rows, arrival), counts.refused)
        finally:
            rows.unpersist()
        return self._close(arrival, counts, written, refused, judged(arrival, counts)[0])

    def _location(self, arrival: IncomingBatch) -> str:
        return self._warehouse.table(arrival.table.name)

    def finish(self, arrival: IncomingBatch) -> BatchResult:
        """Complete a batch whose good rows are in the table already: only the refused rows may be missing."""
        location, batch = self._location(arrival), arrival.batch
        made = find_commit(self._format.commits(location), flow(arrival.table.name), batch.sequence, batch.note)
        # As it was judged: against the table before the batch was in it.
        if made is None or not is_comparable(arrival.rules, self._format, location, made.version - 1):
            before = without_own_rows(arrival)
        else:
            facts = replace(arrival.facts, version=made.version - 1) if arrival.facts and made.version else None
            before = replace(arrival, facts=facts)
        judgeable, rows = self._judgeable(before)
        rows = rows.persist()
        try:
            counts = count(rows, arrival.rules, _filled(arrival))
            if missing := _missing(arrival, counts):
                assert arrival.again is not None
                return self.finish(replace(arrival, rules=arrival.again(missing), again=None))
            refused = self._quarantine(arrival, refused_rows(rows, arrival), counts.refused)
            newest = self._newest_extract(arrival, rows)
        finally:
            rows.unpersist()
        if made is None:
            # The table has its number, so it has its rows: with no commit left that counts them, all good ones.
            good = counts.came - counts.refused - counts.discarded - counts.again
            written = Written(version=version_of(batch, self._format.commits(location)), inserted=good)
        else:
            written = self._format.written(made)
        return self._close(judgeable, counts, written, refused, judged(judgeable, counts)[0], newest)

    def commit(self, arrival: IncomingBatch, good: DataFrame) -> Written:
        """Commit rows that are known to be good."""
        return self._commit(arrival, good, None)

    def _commit(
        self, arrival: IncomingBatch, good: DataFrame | Stage | tuple[DataFile, ...], counts: Counts | None
    ) -> Written:
        """The one place where rows of a batch, or files that hold them, become part of the table."""
        reach("table.committing", arrival.table.name)
        written = self._committed(arrival, good, counts)
        reach("table.committed", arrival.table.name)
        return written

    def _committed(
        self, arrival: IncomingBatch, good: DataFrame | Stage | tuple[DataFile, ...], counts: Counts | None
    ) -> Written:
        location, write, load = self._location(arrival), _write(arrival), arrival.table.load
        stored = list(map(quoted, arrival.payload))
        if isinstance(good, tuple):
            made_for = arrival.facts.table_id if arrival.facts else None
            return self._format.add(good, arrival.rows.select(*stored).schema.json(), location, write, made_for)
        if isinstance(good, Stage):
            whole, like = arrival.facts is not None and arrival.replaces, arrival.rows.select(*stored)
            return self._format.take_folder(good.good_folder, like, location, write, whole=whole)
        good = good.select(*stored)
        if arrival.facts is None or arrival.replaces:
            if is_keyed(load) and arrival.part is not None:
                assert arrival.facts is not None
                good = shaped(load, self._entering(arrival, load, good, arrival.facts).whole()).where(
                    arrival.part.where
                )
            elif is_keyed(load):
                good = good.select(*map(quoted, _column_order(arrival)))
                if isinstance(load, Snapshot) and load.max_shrink is not None:
                    extracts = sizes(load, good)
                    refuse_shrunk(load, extracts, [at for at, _ in extracts[-1:]])
                self._ends(arrival).keep(load, good, arrival.batch, all_there_are=True)
                good = shaped(load, good)
            if arrival.facts is None:
                return self._format.append(good, location, replace(write, evolve=False))
            return self._format.overwrite(good, location, write, arrival.part)
        nothing_came = counts is not None and counts.came == 0
        if nothing_came and not arrival.recomputes:
            return self._format.advance(location, write, arrival.rows.sparkSession)
        if not is_keyed(load):
            return self._format.append(good, location, write)
        entering = self._entering(arrival, load, good, arrival.facts)
        try:
            return self._format.merge(self._upsert(arrival, entering), location, write)
        finally:
            for frame in entering.held:
                frame.unpersist()

    def _upsert(self, arrival: IncomingBatch, entering: MergeInput) -> Upsert:
        if arrival.recomputes and not isinstance(entering.load, Append):
            compute = entering.recomputed if arrival.batch.replay is None else entering.replayed
            return compute(arrival.keys)
        if arrival.batch.mode == "sums":
            assert isinstance(arrival.table.origin, SqlQuery)
            assert isinstance(entering.load, Merge)
            combined = sums(arrival.table.origin, entering.load.key)
            assert isinstance(combined, Sums)
            return entering.added_up(combined.combine)
        return entering.followed()

    def _entering(self, arrival: IncomingBatch, load: Shaped, good: DataFrame, facts: TableFacts) -> MergeInput:
        order = list(map(quoted, _column_order(arrival)))

        def whole() -> DataFrame:
            assert arrival.whole is not None
            whole = replace(arrival, rows=arrival.whole, rules=arrival.whole_rules or arrival.rules)
            every = flagged(whole, self._format, self._warehouse, alone=True)
            rows = recalled(checked(every), every, self._format, self._warehouse)
            every_good = good_rows(rows, every.rules).select(*order)
            return every_good if arrival.beside is None else every_good.unionByName(arrival.beside.select(*order))

        return MergeInput(
            load=load,
            batch=arrival.batch,
            facts=facts,
            format=self._format,
            ends=self._ends(arrival),
            good=good.select(*order),
            whole=whole,
            large=facts.bytes > _VECTORS,
        )

    def _ends(self, arrival: IncomingBatch) -> DeletedKeys:
        location = self._warehouse.ends(arrival.table.name)
        return DeletedKeys(format=self._format, location=location, flow=flow(arrival.table.name))

    def _newest_extract(self, arrival: IncomingBatch, rows: DataFrame) -> str | None:
        """For the load `snapshot`, the newest extract in the table with this batch; None where the batch may have taken
        extracts away, so that the next one compares them all."""
        load, batch = arrival.table.load, arrival.batch
        if not isinstance(load, Snapshot) or batch.mode not in ("whole", "changes"):
            return None
        good = good_rows(rows, arrival.rules)
        if batch.mode == "changes" and batch.newest_extract is None:
            assert arrival.facts is not None
            good = self._entering(arrival, load, good, arrival.facts).whole()
        return newest_extract(load, good, batch.newest_extract)

    def _quarantine(self, arrival: IncomingBatch, rows: DataFrame, refused: int) -> int:
        """Keep the refused rows; what a recomputed part of the table had refused before is replaced, and so is what
        batches had refused that were rolled back: their rows come again."""
        location = self._warehouse.quarantine(arrival.table.name)
        name = flow(arrival.table.name)
        facts = self._format.facts(location, name)
        part = arrival.refused_part
        if not arrival.replaces and part is None and arrival.batch.follows_rollback:
            part = Part(rolled_back(arrival.batch))
        replaces = arrival.replaces or part is not None
        stale = replaces and facts is not None and facts.rows > 0
        if refused == 0 and not stale:
            return 0
        if facts is not None and facts.sequence >= arrival.batch.sequence:
            return refused  # an earlier attempt to finish this batch got this far
        write = Write(
            flow=name,
            sequence=arrival.batch.sequence,
            note=arrival.batch.note,
            # Whatever the load is today: it may be another tomorrow, and the layout of a table cannot follow.
            partition_by=("partition",),
            properties=_PROPERTIES,
            evolve=True,
        )
        if not replaces or facts is None:
            kept = self._format.append(rows, location, write)
        else:
            kept = self._format.overwrite(rows, location, write, part)
        reach("quarantine.committed", arrival.table.name)
        return kept.inserted

    def _close(
        self,
        arrival: IncomingBatch,
        counts: Counts,
        written: Written,
        refused: int,
        checks: tuple[CheckRecord, ...],
        newest: str | None = None,
    ) -> BatchResult:
        kept = written.inserted + written.updated
        deduplicated = counts.again
        if is_keyed(arrival.table.load):
            # Rows of a key are weighed against each other: those that change nothing in the table are duplicates.
            good = counts.came - counts.refused - counts.discarded
            kept = min(good, kept if arrival.replaces else kept + written.deleted)
            deduplicated = good - kept
        _check_files(arrival, counts)
        accounted = kept + refused + deduplicated + counts.discarded
        if refused != counts.refused or counts.came != accounted or deduplicated < 0:
            raise InfrastructureError(
                "books-open",
                f"batch {arrival.batch.sequence} does not add up: {counts.came} rows came, {kept} were written, "
                f"{refused} quarantined (of {counts.refused}), {deduplicated} deduplicated, "
                f"{counts.discarded} discarded",
                table=str(arrival.table.name),
                hint="the query gives other rows each time it is evaluated; make it deterministic and run again "
                "with --full-refresh",
            )
        done = Done(
            sequence=arrival.batch.sequence,
            attempt=arrival.batch.attempt,
            version=written.version,
            run_id=arrival.batch.run_id,
            rows_in=counts.came,
            rows_written=kept,
            rows_quarantined=refused,
            rows_deduplicated=deduplicated,
            rows_discarded=counts.discarded,
            newest_extract=newest,
        )
        return BatchResult(
            done=done,
            bytes=written.bytes,
            checks=checks,
            columns_added=arrival.columns_added or _columns_added(arrival),
            columns_widened=arrival.columns_widened,
            rescued=counts.rescued,
            ends=counts.ends,
        )


def _write(arrival: IncomingBatch) -> Write:
    load = arrival.table.load
    return Write(
        flow=flow(arrival.table.name),
        sequence=arrival.batch.sequence,
        note=arrival.batch.note,
        partition_by=(load.by,) if isinstance(load, ReplacePartitions) else (),
        properties=_BRONZE if isinstance(arrival.table.origin, Source) else _PROPERTIES,
        evolve=arrival.evolve,
        vectors=arrival.facts is not None and arrival.facts.bytes > _VECTORS,
        widen=bool(arrival.columns_widened),
        since=arrival.batch.continues,
    )


def _check_files(arrival: IncomingBatch, counts: Counts) -> None:
    """Every file was read to its end, and its reader counted the rows that came out of it."""
    files = arrival.batch.files
    if not files or END not in arrival.rows.columns:
        return
    told, sizes = sum(end.rows for end in counts.ends), sum(file.size for file in files)
    read = sum(end.bytes for end in counts.ends)
    if len(counts.ends) != len(files) or told != counts.came or read != sizes:
        raise InfrastructureError(
            "books-open",
            f"batch {arrival.batch.sequence} does not add up: {len(counts.ends)} of {len(files)} files were read to "
            f"their end, {read:,} of {sizes:,} bytes, {counts.came:,} of {told:,} rows",
            table=str(arrival.table.name),
            hint="files were changed while they were read; landing is append-only",
        )


def _columns_added(arrival: IncomingBatch) -> tuple[str, ...]:
    if arrival.facts is None:
        return ()
    stored = {column.name for column in arrival.facts.columns}
    return tuple(name for name in arrival.payload if name not in stored)


def _column_order(arrival: IncomingBatch) -> list[str]:
    """The stored columns in the order that the table gained them: the tie-break must not depend on today's query."""
    stored = [column.name for column in arrival.facts.columns] if arrival.facts else []
    return [
        *(name for name in stored if name in arrival.payload),
        *(n for n in arrival.payload if n not in stored),
    ]


def _filled(arrival: IncomingBatch) -> tuple[str, ...]:
    """The declared columns of which a batch has to bring at least one value."""
    if arrival.again is None:
        return ()
    there = {name.lower(): name for name in arrival.payload}
    return tuple(there[c.name.lower()] for c in arrival.table.columns if c.name.lower() in there)


class _Missing(Exception):
    """Declared columns that the batch does not bring: it has to be judged again, by what is said of that."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__(*columns)
        self.columns = columns


def _refuse_missing(arrival: IncomingBatch, counts: Counts) -> None:
    if missing := _missing(arrival, counts):
        raise _Missing(missing)


def _missing(arrival: IncomingBatch, counts: Counts) -> list[str]:
    """The declared columns that the batch does not bring."""
    if not counts.came or arrival.again is None:
        return []
    filled = {name.lower() for name, rows in counts.filled.items() if rows}
    return [column.name for column in arrival.table.columns if column.name.lower() not in filled]
