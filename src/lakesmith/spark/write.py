"""A batch enters its table: rules judged, good rows and refused rows parted, gates before the commit, books closed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakesmith.columns import AGAIN, AUDIT, CODE, CORRUPT, END, FAILED, HIDDEN, RESCUED, ROW_HASH, SOURCE_ROW, WRITTEN
from lakesmith.declare import Merge, ReplacePartitions, Snapshot, Source, SqlQuery, Table
from lakesmith.errors import DataError, InfrastructureError, Place
from lakesmith.ledger.batches import Batch, Done, flow
from lakesmith.plan.query import Sums, sums
from lakesmith.ports import DataFile, Part, TableFacts, TableFormat, Upsert, Write, Written
from lakesmith.quality import Rules
from lakesmith.records import CheckRecord
from lakesmith.spark.build import BEFORE
from lakesmith.spark.count import Counts, FileEnd, Watch, closes_file, count, count_written, good_rows
from lakesmith.spark.loads import Shaped, is_shaped, shaped
from lakesmith.spark.loads.ends import Ends
from lakesmith.spark.loads.enter import Entering
from lakesmith.spark.loads.extracts import refuse_shrunk, sizes
from lakesmith.sql import literal, quoted
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PROPERTIES = {"delta.enableChangeDataFeed": "true"}
_BRONZE = {
    **_PROPERTIES,
    # Bronze is read by what is new, not by what is in it: statistics of every column would cost a fifth of the write.
    "delta.dataSkippingStatsColumns": "_ingested_at",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Rows on their way into a table."""

    table: Table
    batch: Batch
    rows: DataFrame
    rules: Rules
    facts: TableFacts | None
    """The table as it is before this batch."""
    evolve: bool
    """The table's columns follow the rows'."""
    part: Part | None = None
    """The rows that are replaced, when it is not the whole table."""
    refused_part: Part | None = None
    """Which rows of the quarantine are replaced with it, when it is not all of them and not none."""
    columns_added: tuple[str, ...] = ()
    """Fields that are new with these rows, at every depth, where that is known already."""
    whole: DataFrame | None = None
    """All rows that the query gives, where those of the batch may not suffice."""
    keys: DataFrame | None = None
    """The keys that are computed from all their rows, where some are; every key when it is None."""
    columns_widened: tuple[str, ...] = ()
    """Likewise, fields for which these rows have a wider type than the table: `name: int → bigint`."""

    @property
    def payload(self) -> list[str]:
        """The columns that are stored."""
        return [name for name in self.rows.columns if not name.startswith(HIDDEN)]

    @property
    def replaces(self) -> bool:
        """The batch is the whole content of the table or of some part of it, not an addition to it."""
        return self.batch.mode == "whole" or self.part is not None

    @property
    def recomputes(self) -> bool:
        """Rows of some keys are computed anew, also of those of which nothing is left."""
        return self.batch.mode == "keys" or (self.batch.mode == "days" and not self.replaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of a batch."""

    done: Done
    bytes: int
    checks: tuple[CheckRecord, ...]
    columns_added: tuple[str, ...] = ()
    columns_widened: tuple[str, ...] = ()
    rescued: int = 0
    """Rows with fields that did not fit their columns."""
    ends: tuple[FileEnd, ...] = ()
    """For files, what was read from each."""


_VECTORS = 64 << 20
"""A merge into a table of more bytes marks the rows that it replaces, in place of writing their files anew: in a small
table that would cost readers more than it saves the writer."""


class Writer:
    """Brings arrivals into the tables of one warehouse."""

    def __init__(self, format: TableFormat, warehouse: Warehouse) -> None:
        self._format = format
        self._warehouse = warehouse

    def settle(self, arrival: Arrival) -> Settled:
        """Commit the good rows to the table, then the refused ones to its quarantine."""
        checked = _checked(arrival)
        if WRITTEN in arrival.rows.columns:
            return self._settle_written(arrival, checked)
        # A merge reads its rows more than once, and a gate has to be judged before the commit: both hold the batch.
        if arrival.rules.gate or (is_shaped(arrival.table.load) and arrival.batch.mode != "whole"):
            checked = checked.persist()
            try:
                counts = count(checked, arrival.rules)
                if counts.came or arrival.batch.mode not in ("keys", "days"):  # what only went away is not judged
                    _judge(arrival, counts)
                written = self._commit(arrival, good_rows(checked, arrival.rules), counts)
                refused = self._quarantine(arrival, checked, counts.refused)
            finally:
                checked.unpersist()
        else:
            watch = Watch(arrival.rules)
            written = self._commit(arrival, watch.good(checked), None)
            counts = watch.counts()
            refused = self._quarantine(arrival, checked, counts.refused)
        return self._close(arrival, counts, written, refused)

    def _settle_written(self, arrival: Arrival, checked: DataFrame) -> Settled:
        """Commit the files that the readers of a batch have filled with its good rows."""
        # Held, because to evaluate it again would be to write the rows again.
        checked = checked.persist()
        try:
            counts, made = count_written(checked)
            pinned = datetime.fromtimestamp(arrival.batch.pinned_at / 1000, UTC)
            files = tuple(DataFile(f.path, f.size, f.rows, {"_ingested_at": (pinned, pinned)}) for f in made)
            written = self._commit(arrival, files, counts)
            refused = self._quarantine(arrival, checked, counts.refused)
        finally:
            checked.unpersist()
        return self._close(arrival, counts, written, refused)

    def _location(self, arrival: Arrival) -> str:
        return self._warehouse.table(arrival.table.name)

    def finish(self, arrival: Arrival) -> Settled:
        """Complete a batch whose good rows are in the table already: only the refused rows may be missing."""
        checked = _checked(arrival).persist()
        try:
            counts = count(checked, arrival.rules)
            refused = self._quarantine(arrival, checked, counts.refused)
        finally:
            checked.unpersist()
        location = self._location(arrival)
        made = next((c for c in self._format.commits(location) if c.note == arrival.batch.note), None)
        if made is None:
            raise DataError(
                "batch-unknown",
                f"the commit of batch {arrival.batch.sequence} is no longer in the table's log",
                table=str(arrival.table.name),
                hint=f"its refused rows are kept; rebuild the table: lakesmith run {arrival.table.name} --full-refresh",
            )
        written = self._format.written(made)
        return self._close(arrival, counts, written, refused)

    def _commit(self, arrival: Arrival, good: DataFrame | tuple[DataFile, ...], counts: Counts | None) -> Written:
        """The one place where rows of a batch, or files that hold them, become part of the table."""
        location, write, load = self._location(arrival), _write(arrival), arrival.table.load
        stored = list(map(quoted, arrival.payload))
        if isinstance(good, tuple):
            made_for = arrival.facts.table_id if arrival.facts else None
            return self._format.add(good, arrival.rows.select(*stored).schema.json(), location, write, made_for)
        good = good.select(*stored)
        if arrival.facts is None or arrival.replaces:
            if is_shaped(load) and arrival.part is not None:
                assert arrival.facts is not None
                good = shaped(load, self._entering(arrival, load, good, arrival.facts).whole()).where(
                    arrival.part.where
                )
            elif is_shaped(load):
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
        if not is_shaped(load):
            return self._format.append(good, location, write)
        entering = self._entering(arrival, load, good, arrival.facts)
        try:
            return self._format.merge(self._upsert(arrival, entering), location, write)
        finally:
            for frame in entering.held:
                frame.unpersist()

    def _upsert(self, arrival: Arrival, entering: Entering) -> Upsert:
        if arrival.recomputes:
            return entering.recomputed(arrival.keys)
        if arrival.batch.mode == "sums":
            assert isinstance(arrival.table.origin, SqlQuery)
            assert isinstance(entering.load, Merge)
            combined = sums(arrival.table.origin, entering.load.key)
            assert isinstance(combined, Sums)
            return entering.added_up(combined.combine)
        return entering.followed()

    def _entering(self, arrival: Arrival, load: Shaped, good: DataFrame, facts: TableFacts) -> Entering:
        order = list(map(quoted, _column_order(arrival)))

        def whole() -> DataFrame:
            assert arrival.whole is not None
            return good_rows(_checked(replace(arrival, rows=arrival.whole)), arrival.rules).select(*order)

        return Entering(
            load=load,
            batch=arrival.batch,
            facts=facts,
            format=self._format,
            ends=self._ends(arrival),
            good=good.select(*order),
            whole=whole,
            large=facts.bytes > _VECTORS,
        )

    def _ends(self, arrival: Arrival) -> Ends:
        location = self._warehouse.ends(arrival.table.name)
        return Ends(format=self._format, location=location, flow=flow(arrival.table.name))

    def _quarantine(self, arrival: Arrival, checked: DataFrame, refused: int) -> int:
        """Keep the refused rows; what a recomputed part of the table had refused before is replaced."""
        location = self._warehouse.quarantine(arrival.table.name)
        name = flow(arrival.table.name)
        facts = self._format.facts(location, name)
        replaces = arrival.replaces or arrival.refused_part is not None
        stale = replaces and facts is not None and facts.rows > 0
        if refused == 0 and not stale:
            return 0
        if facts is not None and facts.sequence >= arrival.batch.sequence:
            return refused  # an earlier attempt to finish this batch got this far
        rows = _refused(checked, arrival)
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
            return self._format.append(rows, location, write).inserted
        return self._format.overwrite(rows, location, write, arrival.refused_part).inserted

    def _close(self, arrival: Arrival, counts: Counts, written: Written, refused: int) -> Settled:
        kept = written.inserted + written.updated
        deduplicated = counts.again
        if is_shaped(arrival.table.load):
            # Rows of a key are weighed against each other: those that change nothing in the table are duplicates.
            good = counts.came - counts.refused
            kept = min(good, kept if arrival.replaces else kept + written.deleted)
            deduplicated = good - kept
        _check_files(arrival, counts)
        if refused != counts.refused or counts.came != kept + refused + deduplicated or deduplicated < 0:
            raise InfrastructureError(
                "books-open",
                f"batch {arrival.batch.sequence} does not add up: {counts.came} rows came, {kept} were written, "
                f"{refused} quarantined (of {counts.refused}), {deduplicated} deduplicated",
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
        )
        return Settled(
            done=done,
            bytes=written.bytes,
            checks=_check_records(arrival, counts),
            columns_added=arrival.columns_added or _columns_added(arrival),
            columns_widened=arrival.columns_widened,
            rescued=counts.rescued,
            ends=counts.ends,
        )


def _write(arrival: Arrival) -> Write:
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
    )


def _checked(arrival: Arrival) -> DataFrame:
    """The rows with the names of the rules that each has broken."""
    failed, passed_over = arrival.rules.failed(), closes_file(arrival.rows.columns)
    if AGAIN in arrival.rows.columns:
        passed_over = f"({passed_over} OR {AGAIN})"
    return arrival.rows.selectExpr(
        "*", f"CASE WHEN {passed_over} THEN CAST(array() AS array<string>) ELSE {failed} END AS {FAILED}"
    )


def _check_files(arrival: Arrival, counts: Counts) -> None:
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


def _judge(arrival: Arrival, counts: Counts) -> None:
    """Refuse the batch when a gate is not met: nothing has been committed yet."""
    failures = [
        (f"{rule.name}: {counts.broken[rule.name]:,} rows are {rule.reason}", rule.declared_at)
        for rule in arrival.rules.rows
        if rule.severity == "fail" and counts.broken[rule.name]
    ]
    failures += [
        (f"{rule.name}: expected {rule.condition}, found {counts.observed[rule.name]}", rule.declared_at)
        for rule in arrival.rules.batch
        if rule.severity == "fail" and not counts.expected[rule.name]
    ]
    if failures:
        what = "; ".join(told for told, _ in failures)
        raise GateFailed(arrival, what, failures[0][1], _check_records(arrival, counts))


class GateFailed(DataError):
    """A batch that was refused before its commit, with what its checks found."""

    def __init__(self, arrival: Arrival, what: str, at: Place, checks: tuple[CheckRecord, ...]) -> None:
        version = "not been made" if arrival.facts is None else f"stayed at version {arrival.facts.version}"
        super().__init__(
            "gate-failed",
            what,
            at=at,
            table=str(arrival.table.name),
            hint=f"the table has {version}; mend the data or the check, then run again",
        )
        self.checks = checks


def _refused(checked: DataFrame, arrival: Arrival) -> DataFrame:
    """The rows of the quarantine: what came, what was wrong with it, and where it was found."""
    batch = arrival.batch
    names = [name for name in arrival.payload if name not in AUDIT]
    before = {name: BEFORE + name if BEFORE + name in checked.columns else name for name in names}
    if RESCUED in checked.columns:
        before[RESCUED] = RESCUED
    row = ", ".join(f"{quoted(held)} AS {quoted(name)}" for name, held in before.items())
    text = f"to_json(struct({row}))"
    raw = f"coalesce({CORRUPT}, {text})" if CORRUPT in checked.columns else text
    load = arrival.table.load
    return checked.where(arrival.rules.refused()).selectExpr(
        f"{raw} AS raw",
        f"{_coded(FAILED, 'element_at(told, 1)', checked)} AS rules",
        f"{_coded(arrival.rules.reasons(), 'element_at(told, 2)', checked)} AS reasons",
        f"{_position(checked.columns, batch)} AS position",
        f"CAST({quoted(load.by)} AS string) AS partition"
        if isinstance(load, ReplacePartitions)
        else "CAST(NULL AS string) AS partition",
        f"CAST({batch.sequence} AS bigint) AS batch",
        f"'{batch.run_id}' AS run_id",
        f"{ROW_HASH if ROW_HASH in checked.columns else 'CAST(NULL AS string)'} AS row_hash",
        f"'{batch.definition}' AS definition",
        f"timestamp_millis({batch.pinned_at}) AS quarantined_at",
    )


def _coded(names: str, part: str, checked: DataFrame) -> str:
    """SQL: for what could not be read at all, the reader's own code or words."""
    if CODE not in checked.columns:
        return names
    told = f"element_at(transform(array(split({CODE}, ': ', 2)), told -> {part}), 1)"
    return f"CASE WHEN {CODE} IS NOT NULL THEN array({told}) ELSE {names} END"


def _position(columns: Sequence[str], batch: Batch) -> str:
    """SQL: where the row was found."""
    if SOURCE_ROW in columns:
        return f"concat(_source_file, ':', {SOURCE_ROW})"
    if "_offset" in columns:
        return "concat(_topic, '/', _partition, ':', _offset)"
    found: dict[str, object] = {name: f"version {position.version}" for name, position in sorted(batch.inputs.items())}
    if batch.slice is not None:
        found = {"since": dict(batch.slice.since), "until": dict(batch.slice.until)}
    return literal(json.dumps(found))


def _columns_added(arrival: Arrival) -> tuple[str, ...]:
    if arrival.facts is None:
        return ()
    stored = {column.name for column in arrival.facts.columns}
    return tuple(name for name in arrival.payload if name not in stored)


def _column_order(arrival: Arrival) -> list[str]:
    """The stored columns in the order that the table gained them: the tie-break must not depend on today's query."""
    stored = [column.name for column in arrival.facts.columns] if arrival.facts else []
    return [
        *(name for name in stored if name in arrival.payload),
        *(n for n in arrival.payload if n not in stored),
    ]


def _check_records(arrival: Arrival, counts: Counts) -> tuple[CheckRecord, ...]:
    now = datetime.now(UTC)
    shared = {
        "run_id": arrival.batch.run_id,
        "table": str(arrival.table.name),
        "sequence": arrival.batch.sequence,
        "checked_at": now,
    }
    rows = [
        CheckRecord(
            check=rule.name,
            severity=rule.severity,
            failed_rows=counts.broken[rule.name],
            passed=counts.broken[rule.name] == 0,
            **shared,  # type: ignore[arg-type]
        )
        for rule in arrival.rules.rows
    ]
    batch = [
        CheckRecord(
            check=rule.name,
            severity=rule.severity,
            failed_rows=0,
            passed=counts.expected[rule.name],
            observed=counts.observed[rule.name],
            **shared,  # type: ignore[arg-type]
        )
        for rule in arrival.rules.batch
    ]
    return tuple(rows + batch)
