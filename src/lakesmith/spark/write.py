"""Writes a batch to its table: judges rules, commits good rows, quarantines rejected rows, reconciles row counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakesmith.columns import FILE_END, WRITTEN_FILE
from lakesmith.declare import Append, Merge, ReplacePartitions, Snapshot, Source, SqlQuery
from lakesmith.errors import DataError, InfrastructureError
from lakesmith.failpoints import failpoint
from lakesmith.ledger.batch import CompletedBatch
from lakesmith.ledger.batches import committed_version, flow
from lakesmith.ledger.content import AddedSums, BackfilledDays, ChangedKeys, ChangedRows, FullBuild, ReplayedRows
from lakesmith.ports import (
    CommitResult,
    DataFile,
    ReplaceWhere,
    TableFacts,
    TableFolder,
    TableFormat,
    Upsert,
    Write,
    find_commit,
    new_batch_folder,
)
from lakesmith.records import CheckRecord
from lakesmith.spark.batch_counts import Counts, RowCounter, collect_few, count_rows, count_written_files
from lakesmith.spark.gate import GateFailed, judge_batch
from lakesmith.spark.hold_batch import discard_held_batch, hold_batch
from lakesmith.spark.incoming import BatchResult, IncomingBatch
from lakesmith.spark.loads import KeyedLoad, apply_load, is_keyed
from lakesmith.spark.loads.deleted_keys import DeletedKeys
from lakesmith.spark.loads.extracts import extract_sizes, fail_if_shrunk, newest_extract
from lakesmith.spark.loads.merge_input import MergeInput
from lakesmith.spark.quarantine_decisions import apply_decisions
from lakesmith.spark.row_checks import check_rows, counted_by_readers, good_rows, rejected_rows, rolled_back
from lakesmith.spark.rule_flags import add_rule_flags, is_comparable, without_own_rows
from lakesmith.spark.staged_files import StagedFiles
from lakesmith.sql import quoted
from lakesmith.sqlproof.query import Sums, sums
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DV_MERGE_BYTES = 64 << 20
"""Above this table size, a merge of many rows marks replaced rows in deletion vectors. In smaller tables, vectors would
cost readers more than they save the writer."""


class BatchWriter:
    """Writes batches to the tables of one warehouse."""

    def __init__(self, format: TableFormat, warehouse: Warehouse) -> None:
        self._format = format
        self._warehouse = warehouse

    def write_batch(self, incoming: IncomingBatch) -> BatchResult:
        """Commit the good rows to the table, then the rejected rows to its quarantine."""
        if WRITTEN_FILE in incoming.rows.columns:
            result = self._write_reader_files(incoming, check_rows(incoming))
        else:
            try:
                result = self._judge_and_write(*self._apply_rules(incoming))
            except _MissingColumns as missing:
                assert incoming.rules_if_missing is not None
                return self.write_batch(
                    replace(incoming, rules=incoming.rules_if_missing(missing.columns), rules_if_missing=None)
                )
        discard_held_batch(self._warehouse, incoming.table)
        return result

    def _apply_rules(self, incoming: IncomingBatch) -> tuple[IncomingBatch, DataFrame]:
        """Return the batch with rule flags, and its rows with the rules that each failed."""
        incoming = add_rule_flags(incoming, self._format, self._warehouse)
        rows = check_rows(incoming)
        if incoming.batch.brings_new_rows:
            return incoming, rows  # new rows have no earlier quarantine decisions
        return incoming, apply_decisions(rows, incoming, self._format, self._warehouse)

    def _judge_and_write(self, incoming: IncomingBatch, rows: DataFrame) -> BatchResult:
        columns = _columns_to_count(incoming)
        few = collect_few(rows, incoming.rules, columns) if incoming.expects_few else None
        if few is not None:
            return self._write_counted(replace(incoming, few=True), *few)
        # A merge reads its rows more than once.
        if is_keyed(incoming.table.load) and not incoming.batch.is_full:
            return self._write_cached(incoming, rows)
        if self._is_staged(incoming):
            return self._write_staged(incoming, rows)
        if incoming.rules.gate or incoming.rules.batch or columns:
            return self._write_cached(incoming, rows)
        counter = RowCounter(incoming.rules)
        written = self._commit(incoming, good_rows(counter.over(rows), incoming.rules), None)
        counts = counter.counts()
        quarantined = self._quarantine(incoming, rejected_rows(rows, incoming), counts.rejected)
        newest = self._newest_extract(incoming, rows)
        return self._reconcile(
            incoming, counts, written, quarantined, self._check_records(incoming, counts, rows), newest
        )

    def _write_cached(self, incoming: IncomingBatch, rows: DataFrame) -> BatchResult:
        """Cache the rows, judge them, and commit them from the cache."""
        rows = rows.persist()
        try:
            counts = count_rows(rows, incoming.rules, _columns_to_count(incoming))
            return self._write_counted(incoming, rows, counts)
        finally:
            rows.unpersist()

    def _write_counted(self, incoming: IncomingBatch, rows: DataFrame, counts: Counts) -> BatchResult:
        """Judge counted rows, and commit them."""
        _raise_if_missing(incoming, counts)
        # A recomputation that only deletes rows is not judged.
        judge = counts.rows_in or not isinstance(incoming.batch.content, ChangedKeys | BackfilledDays)
        checks = self._check_records(incoming, counts, rows) if judge else ()
        written = self._commit(incoming, good_rows(rows, incoming.rules), counts)
        quarantined = self._quarantine(incoming, rejected_rows(rows, incoming), counts.rejected)
        newest = self._newest_extract(incoming, rows)
        return self._reconcile(incoming, counts, written, quarantined, checks, newest)

    def _is_staged(self, incoming: IncomingBatch) -> bool:
        """Whether the batch is written to files before it is judged, and the files are then committed."""
        rules = incoming.rules
        if not (rules.gate or rules.batch or rules.removes_rows) or counted_by_readers(rules, incoming.rows.columns):
            return False
        plain = incoming.replace_where is None and not is_keyed(incoming.table.load)
        if not plain or _write(incoming).partition_by or incoming.columns_widened:
            return False
        stored = incoming.rows.select(*map(quoted, incoming.payload))
        if "void" in stored.schema.simpleString():
            return False  # Parquet has no type for a column that has only been NULL so far
        return self._format.accepts_rows(stored, self._folder(incoming))

    def _write_staged(self, incoming: IncomingBatch, rows: DataFrame) -> BatchResult:
        """Write good and rejected rows to files in one pass that also counts them. Commit the files after the gate."""
        name = new_batch_folder(incoming.batch.sequence)
        stage = StagedFiles(table=self._folder(incoming), incoming=incoming, name=name)
        try:
            stage.write(rows)
            failpoint("batch.staged", incoming.table.name)
            counts = stage.counts()
            _raise_if_missing(incoming, counts)
            checks = self._check_records(incoming, counts, stage.all())
        except BaseException:
            stage.remove()
            raise
        try:
            written = self._commit(incoming, stage, counts)
            quarantined = self._quarantine(incoming, stage.rejected(), counts.rejected)
        finally:
            stage.remove_others()
        return self._reconcile(incoming, counts, written, quarantined, checks)

    def _check_records(self, incoming: IncomingBatch, counts: Counts, rows: DataFrame) -> tuple[CheckRecord, ...]:
        """Return the check results. A batch that fails the gate is stored as a held batch, and nothing is committed."""
        checks, failures = judge_batch(incoming, counts)
        approval = incoming.batch.approval
        if approval is not None and (approval.rows, approval.rejected) != (counts.rows_in, counts.rejected):
            raise DataError(
                "held-outdated",
                f"the batch has {counts.rows_in:,} rows now, {counts.rejected:,} of them rejected; "
                f"the held batch had {approval.rows:,} rows, {approval.rejected:,} of them rejected",
                at=incoming.table.declared_at,
                table=str(incoming.table.name),
                hint="the source changed after the batch was held; run again and approve the new held batch",
            )
        if failures and approval is None:
            raise hold_batch(self._warehouse, incoming, rows, GateFailed(incoming, failures, checks, counts))
        return tuple(replace(check, committed=True) for check in checks)

    def _write_reader_files(self, incoming: IncomingBatch, rows: DataFrame) -> BatchResult:
        """Commit the files that the readers wrote with the good rows."""
        # Cached, because a second evaluation would write the rows again.
        rows = rows.persist()
        try:
            counts, made = count_written_files(rows)
            pinned = datetime.fromtimestamp(incoming.batch.pinned_at / 1000, UTC)
            files = tuple(DataFile(f.path, f.size, f.rows, {"_ingested_at": (pinned, pinned)}) for f in made)
            written = self._commit(incoming, files, counts)
            quarantined = self._quarantine(incoming, rejected_rows(rows, incoming), counts.rejected)
        finally:
            rows.unpersist()
        return self._reconcile(incoming, counts, written, quarantined, judge_batch(incoming, counts)[0])

    def _folder(self, incoming: IncomingBatch) -> TableFolder:
        return self._warehouse.table(incoming.table.name)

    def finish(self, incoming: IncomingBatch) -> BatchResult:
        """Complete a batch whose good rows are committed already: only the rejected rows may be missing."""
        folder, batch = self._folder(incoming), incoming.batch
        made = find_commit(self._format.commits(folder), flow(incoming.table.name), batch.sequence, batch.note)
        # Judge the batch as it was judged: against the table before its commit.
        if made is None or not is_comparable(incoming.rules, self._format, folder, made.version - 1):
            before = without_own_rows(incoming)
        else:
            facts = replace(incoming.facts, version=made.version - 1) if incoming.facts and made.version else None
            before = replace(incoming, facts=facts)
        flagged, rows = self._apply_rules(before)
        rows = rows.persist()
        try:
            counts = count_rows(rows, incoming.rules, _columns_to_count(incoming))
            if missing := _missing_columns(incoming, counts):
                assert incoming.rules_if_missing is not None
                return self.finish(replace(incoming, rules=incoming.rules_if_missing(missing), rules_if_missing=None))
            quarantined = self._quarantine(incoming, rejected_rows(rows, incoming), counts.rejected)
            newest = self._newest_extract(incoming, rows)
        finally:
            rows.unpersist()
        if made is None:
            # The table has the batch number, so it has all good rows, although the commit with the counts is gone.
            good = counts.rows_in - counts.rejected - counts.discarded - counts.already_ingested
            written = CommitResult(version=committed_version(batch, self._format.commits(folder)), inserted=good)
        else:
            written = self._format.commit_result(made)
        return self._reconcile(flagged, counts, written, quarantined, judge_batch(flagged, counts)[0], newest)

    def commit(self, incoming: IncomingBatch, good: DataFrame) -> CommitResult:
        """Commit rows that have been judged good."""
        return self._commit(incoming, good, None)

    def _commit(
        self, incoming: IncomingBatch, good: DataFrame | StagedFiles | tuple[DataFile, ...], counts: Counts | None
    ) -> CommitResult:
        """Commit the rows of a batch, or files with them, to the table. Every commit of rows goes through here."""
        failpoint("table.committing", incoming.table.name)
        written = self._commit_to_table(incoming, good, counts)
        failpoint("table.committed", incoming.table.name)
        return written

    def _commit_to_table(
        self, incoming: IncomingBatch, good: DataFrame | StagedFiles | tuple[DataFile, ...], counts: Counts | None
    ) -> CommitResult:
        folder, write, load = self._folder(incoming), _write(incoming), incoming.table.load
        stored = list(map(quoted, incoming.payload))
        if isinstance(good, StagedFiles | tuple):
            files = good.good_files() if isinstance(good, StagedFiles) else good
            table_id = incoming.facts.table_id if incoming.facts else None
            columns = incoming.rows.select(*stored).schema.json()
            return self._format.add(files, columns, folder, write, table_id, overwrite=incoming.replaces)
        good = good.select(*stored)
        if incoming.facts is None or incoming.replaces:
            if is_keyed(load) and incoming.replace_where is not None:
                assert incoming.facts is not None
                good = apply_load(load, self._merge_input(incoming, load, good, incoming.facts).all_rows()).where(
                    incoming.replace_where.where
                )
            elif is_keyed(load):
                good = good.select(*map(quoted, _column_order(incoming)))
                if isinstance(load, Snapshot) and load.max_shrink is not None:
                    extracts = extract_sizes(load, good)
                    fail_if_shrunk(load, extracts, [at for at, _ in extracts[-1:]])
                self._deleted_keys(incoming).store(load, good, incoming.batch, replace_all=True, few=incoming.few)
                good = apply_load(load, good)
            if incoming.facts is None:
                return self._format.append(good, folder, replace(write, evolve=False))
            return self._format.overwrite(good, folder, write, incoming.replace_where)
        is_empty = counts is not None and counts.rows_in == 0
        if is_empty and not incoming.recomputes:
            return self._format.advance(folder, write, incoming.rows.sparkSession)
        if not is_keyed(load):
            return self._format.append(good, folder, write)
        merge_input = self._merge_input(incoming, load, good, incoming.facts)
        try:
            upsert = self._upsert(incoming, merge_input)
            # All rows of a key may be many, and one task reads the table.
            few = write.few and not merge_input.reads_all_rows and not merge_input.large
            return self._format.merge(upsert, folder, replace(write, few=few))
        finally:
            for frame in merge_input.cached:
                frame.unpersist()

    def _upsert(self, incoming: IncomingBatch, merge_input: MergeInput) -> Upsert:
        content = incoming.batch.content
        if incoming.recomputes and not isinstance(merge_input.load, Append):
            compute = merge_input.replay if isinstance(content, ReplayedRows) else merge_input.recompute
            return compute(incoming.keys)
        if isinstance(content, AddedSums):
            assert isinstance(incoming.table.origin, SqlQuery)
            assert isinstance(merge_input.load, Merge)
            combined = sums(incoming.table.origin, merge_input.load.key)
            assert isinstance(combined, Sums)
            return merge_input.add_to_totals(combined.combine)
        return merge_input.incremental()

    def _merge_input(self, incoming: IncomingBatch, load: KeyedLoad, good: DataFrame, facts: TableFacts) -> MergeInput:
        order = list(map(quoted, _column_order(incoming)))

        def all_rows() -> DataFrame:
            assert incoming.all_rows is not None
            everything = replace(incoming, rows=incoming.all_rows(), rules=incoming.all_rows_rules or incoming.rules)
            everything = add_rule_flags(everything, self._format, self._warehouse, many_batches=True)
            rows = apply_decisions(check_rows(everything), everything, self._format, self._warehouse)
            all_good = good_rows(rows, everything.rules).select(*order)
            fixed = incoming.fixed_rows
            return all_good if fixed is None else all_good.unionByName(fixed.select(*order))

        return MergeInput(
            load=load,
            batch=incoming.batch,
            facts=facts,
            format=self._format,
            deleted_keys=self._deleted_keys(incoming),
            good=good.select(*order),
            few=incoming.few,
            query_rows=all_rows,
            large=facts.bytes > _DV_MERGE_BYTES,
        )

    def _deleted_keys(self, incoming: IncomingBatch) -> DeletedKeys:
        folder = self._warehouse.deleted_keys(incoming.table.name)
        return DeletedKeys(format=self._format, folder=folder, flow=flow(incoming.table.name))

    def _newest_extract(self, incoming: IncomingBatch, rows: DataFrame) -> str | None:
        """Return the newest extract in the table after this batch, for the load `snapshot`.

        None when the batch may have removed extracts: the next batch then compares all of them.
        """
        load, batch = incoming.table.load, incoming.batch
        if not isinstance(load, Snapshot) or not isinstance(batch.content, FullBuild | ChangedRows):
            return None
        good = good_rows(rows, incoming.rules)
        if batch.newest_extract is None and not batch.is_full:
            assert incoming.facts is not None
            good = self._merge_input(incoming, load, good, incoming.facts).all_rows()
        return newest_extract(load, good, batch.newest_extract)

    def _quarantine(self, incoming: IncomingBatch, rows: DataFrame, quarantined: int) -> int:
        """Write the rejected rows to the quarantine. Replace the rows of a recomputed part of the table, and the rows
        of batches that were rolled back: these rows are ingested again."""
        folder = self._warehouse.quarantine(incoming.table.name)
        name = flow(incoming.table.name)
        facts = self._format.facts(folder, name)
        part = incoming.replace_quarantine
        if not incoming.replaces and part is None and incoming.batch.follows_rollback:
            part = ReplaceWhere(rolled_back(incoming.batch))
        replaces = incoming.replaces or part is not None
        stale = replaces and facts is not None and facts.rows > 0
        if quarantined == 0 and not stale:
            return 0
        if facts is not None and facts.sequence >= incoming.batch.sequence:
            return quarantined  # an earlier attempt to finish this batch got this far
        write = Write(
            flow=name,
            sequence=incoming.batch.sequence,
            note=incoming.batch.note,
            # For every load: the load may change later, and the layout of a table cannot.
            partition_by=("partition",),
            change_feed=True,
            evolve=True,
            few=incoming.few,
        )
        if not replaces or facts is None:
            committed = self._format.append(rows, folder, write)
        else:
            committed = self._format.overwrite(rows, folder, write, part)
        failpoint("quarantine.committed", incoming.table.name)
        return committed.inserted

    def _reconcile(
        self,
        incoming: IncomingBatch,
        counts: Counts,
        written: CommitResult,
        quarantined: int,
        checks: tuple[CheckRecord, ...],
        newest: str | None = None,
    ) -> BatchResult:
        """Return the result of the batch. Raise when its row counts do not add up."""
        stored = written.inserted + written.updated
        deduplicated = counts.already_ingested
        if is_keyed(incoming.table.load):
            # A keyed load compares the rows of one key: rows that change nothing in the table are duplicates.
            good = counts.rows_in - counts.rejected - counts.discarded
            stored = min(good, stored if incoming.replaces else stored + written.deleted)
            deduplicated = good - stored
        _check_files(incoming, counts)
        accounted = stored + quarantined + deduplicated + counts.discarded
        if quarantined != counts.rejected or counts.rows_in != accounted or deduplicated < 0:
            raise InfrastructureError(
                "row-count-mismatch",
                f"batch {incoming.batch.sequence} does not add up: {counts.rows_in} rows read, {stored} written, "
                f"{quarantined} quarantined (of {counts.rejected}), {deduplicated} deduplicated, "
                f"{counts.discarded} discarded",
                table=str(incoming.table.name),
                hint="the query returns different rows each time it runs; make it deterministic and run again "
                "with --full-refresh",
            )
        done = CompletedBatch(
            sequence=incoming.batch.sequence,
            attempt=incoming.batch.attempt,
            version=written.version,
            run_id=incoming.batch.run_id,
            rows_in=counts.rows_in,
            rows_written=stored,
            rows_quarantined=quarantined,
            rows_deduplicated=deduplicated,
            rows_discarded=counts.discarded,
            newest_extract=newest,
        )
        return BatchResult(
            done=done,
            bytes=written.bytes,
            checks=checks,
            columns_added=incoming.columns_added or _columns_added(incoming),
            columns_widened=incoming.columns_widened,
            rescued=counts.rescued,
            file_reads=counts.file_reads,
        )


def _write(incoming: IncomingBatch) -> Write:
    load, few = incoming.table.load, incoming.few
    return Write(
        flow=flow(incoming.table.name),
        sequence=incoming.batch.sequence,
        note=incoming.batch.note,
        partition_by=(load.by,) if isinstance(load, ReplacePartitions) else (),
        change_feed=True,
        # Readers of bronze filter by ingestion time only. Statistics of every column would add a fifth to the write.
        stats_columns=("_ingested_at",) if isinstance(incoming.table.origin, Source) else (),
        evolve=incoming.evolve,
        # Small tables get few rows at a time: then only new files are written, also for a merge.
        deletion_vectors=is_keyed(load) and (incoming.facts is None or incoming.facts.bytes > _DV_MERGE_BYTES or few),
        few=few,
        widen=bool(incoming.columns_widened),
        based_on=incoming.batch.base_version,
    )


def _check_files(incoming: IncomingBatch, counts: Counts) -> None:
    """Raise unless every file was read completely and its reader counted exactly the rows of the batch."""
    files = incoming.batch.files
    if not files or FILE_END not in incoming.rows.columns:
        return
    rows, size = sum(read.rows for read in counts.file_reads), sum(file.size for file in files)
    bytes_read = sum(read.bytes for read in counts.file_reads)
    if len(counts.file_reads) != len(files) or rows != counts.rows_in or bytes_read != size:
        raise InfrastructureError(
            "row-count-mismatch",
            f"batch {incoming.batch.sequence} does not add up: {len(counts.file_reads)} of {len(files)} files "
            f"were read completely, {bytes_read:,} of {size:,} bytes, {counts.rows_in:,} of {rows:,} rows",
            table=str(incoming.table.name),
            hint="files changed while they were read; the landing zone is append-only: add files, do not change them",
        )


def _columns_added(incoming: IncomingBatch) -> tuple[str, ...]:
    if incoming.facts is None:
        return ()
    stored = {column.name for column in incoming.facts.columns}
    return tuple(name for name in incoming.payload if name not in stored)


def _column_order(incoming: IncomingBatch) -> list[str]:
    """Return the columns in the order of the table, so that tie-breaks do not depend on the current query."""
    stored = [column.name for column in incoming.facts.columns] if incoming.facts else []
    return [
        *(name for name in stored if name in incoming.payload),
        *(n for n in incoming.payload if n not in stored),
    ]


def _columns_to_count(incoming: IncomingBatch) -> tuple[str, ...]:
    """Return the declared columns that need at least one value in the batch."""
    if incoming.rules_if_missing is None:
        return ()
    there = {name.lower(): name for name in incoming.payload}
    return tuple(there[c.name.lower()] for c in incoming.table.columns if c.name.lower() in there)


class _MissingColumns(Exception):
    """The batch lacks declared columns and must be judged again by the rules for that case."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__(*columns)
        self.columns = columns


def _raise_if_missing(incoming: IncomingBatch, counts: Counts) -> None:
    if missing := _missing_columns(incoming, counts):
        raise _MissingColumns(missing)


def _missing_columns(incoming: IncomingBatch, counts: Counts) -> list[str]:
    """Return the declared columns that have no value in the batch."""
    if not counts.rows_in or incoming.rules_if_missing is None:
        return []
    filled = {name.lower() for name, rows in counts.filled.items() if rows}
    return [column.name for column in incoming.table.columns if column.name.lower() not in filled]
