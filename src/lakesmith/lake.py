"""The only wiring: a lake that was opened answers every verb. The CLI and the integrations call nothing else."""

from __future__ import annotations

import getpass
import hashlib
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith import plan as plan_room
from lakesmith import quarantine as quarantine_room
from lakesmith.contracts import (
    Published,
    Readers,
    Verdict,
    agreement,
    contract_errors,
    find_views,
    given_up,
    judge_all,
    new_records,
    told,
    with_contract,
)
from lakesmith.declare import LAYERS, Files, Jdbc, Kafka, LakeDeclaration, Source, SqlQuery, Table, TableName
from lakesmith.declare.contract import QuarantinePolicy
from lakesmith.errors import (
    DataError,
    DeclarationError,
    InfrastructureError,
    LakesmithError,
    UsageError,
    did_you_mean,
    raise_all,
)
from lakesmith.formats import Delta, FactsMemory
from lakesmith.kept import keep, read_kept
from lakesmith.ledger.batches import Batches, flow
from lakesmith.ledger.contracts import RecordedContracts
from lakesmith.ledger.held import HeldBatch, HeldBatches
from lakesmith.ledger.tables import SYSTEM_TABLES, Ledger
from lakesmith.load import load_lake, load_tests
from lakesmith.monitor import table_status
from lakesmith.plan.fingerprint import rebuild_because
from lakesmith.plan.graph import Graph
from lakesmith.plan.lineage import lineage
from lakesmith.plan.listing import next_look, settled
from lakesmith.plan.needs import unmet
from lakesmith.plan.planner import make_plan
from lakesmith.plan.readings import readings
from lakesmith.plan.select import named
from lakesmith.plan.select import select as choose
from lakesmith.plan.steps import (
    Approval,
    Backfill,
    Chosen,
    LakeFacts,
    Mend,
    Plan,
    Progress,
    Publish,
    Replay,
    Span,
    Step,
    TablePlan,
)
from lakesmith.plan.tests import check_tests, chosen_tests, untested
from lakesmith.ports import Answer, Storage, TableFacts
from lakesmith.quality import Past
from lakesmith.records import AuditRecord, CheckRecord, ContractRecord, Outcome, RunRecord, StepRecord
from lakesmith.reports import (
    Adopted,
    ContractCheck,
    ContractDiff,
    EmptyReport,
    Event,
    Facet,
    FacetCount,
    Finding,
    Lineage,
    Publication,
    QuarantineCount,
    QuarantinedRow,
    RunReport,
    TableProfile,
    TableStatus,
    TrialReport,
    TrialResult,
    Validation,
    Version,
)
from lakesmith.sources import connection, new_in, registry_of
from lakesmith.spark.java import cache_folder
from lakesmith.spark.needed import drivers_of, jars_of
from lakesmith.storage import Landing, LocalStorage, Sending, Warehouse, found_in_order, land, landing_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from pyspark.sql import SparkSession

    from lakesmith.exchange import Format, Imported

_ALL = Chosen()
_REMEMBERED = 400
"""So many batches of a table are looked back at."""
_BRIEF = 32 * 1024 * 1024
"""A run that reads fewer bytes is over before the optimisers of Spark and the JVM would pay."""


class Lake:
    """A lake in one environment."""

    def __init__(self, declaration: LakeDeclaration) -> None:
        self.declaration = declaration
        self.name = declaration.name
        self.environment = declaration.environment.name
        adopted = {name: table.adopted for name, table in declaration.tables.items() if table.adopted is not None}
        self._warehouse = Warehouse(declaration.environment.warehouse, adopted)
        kept = cache_folder() / "lakes" / hashlib.sha256(self._warehouse.root.encode()).hexdigest()[:16]
        self._readings_file = kept.with_suffix(f".{_plan_age()}.json")
        self._memory = FactsMemory(kept.with_suffix(".facts.json"))
        self._format = Delta(self._memory)
        self._ledger = Ledger(self._warehouse)
        self._recorded = RecordedContracts(self._ledger, kept.with_suffix(".contracts.json"))

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        environment: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Lake:
        """Read the declarations below `path`. Starts nothing and writes nothing."""
        return cls(load_lake(path, environment=environment, variables=variables or {}))

    @property
    def tables(self) -> Mapping[TableName, Table]:
        return self.declaration.tables

    @cached_property
    def _landings(self) -> Mapping[TableName, tuple[Storage, str]]:
        """For tables from files, the store that they arrive in and the glob that finds them there."""
        here = self.declaration.environment
        return {
            name: landing_of(table.origin.files, here.landing, here.storage)
            for name, table in self.tables.items()
            if isinstance(table.origin, Files)
        }

    @cached_property
    def graph(self) -> Graph:
        """Which table is made from which; raises when the declarations do not fit together."""
        readings.fill(read_kept(self._readings_file))
        return Graph.of(self.tables)

    def validate(self) -> Validation:
        """Check all that can be checked without moving a row."""
        self._check(self._facts(afar=False))
        self._keep_readings()
        layers = [name.layer for name in sorted(self.tables, key=_layer_order)]
        return Validation(
            lake=self.name,
            environment=self.environment,
            tables=len(self.tables),
            by_layer={layer: layers.count(layer) for layer in dict.fromkeys(layers)},
            checks=sum(
                len(t.checks) + sum(bool(c.check) + c.required + c.unique for c in t.columns)
                for t in self.tables.values()
            ),
            warnings=given_up(self._verdicts().values(), _today()),
        )

    def plan(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        full_refresh: bool = False,
        days: tuple[date, date] | None = None,
        chunk: int = 7,
    ) -> Plan:
        """What a run would do now, and why."""
        return self._plan(select, exclude, full_refresh=full_refresh, backfill=_backfill(days, chunk))[0]

    def _plan(
        self, select: Sequence[str], exclude: Sequence[str], *, full_refresh: bool, backfill: Backfill | None
    ) -> tuple[Plan, LakeFacts]:
        selected = choose(self.graph, self.tables, select, exclude)
        filled = self._filled(select, backfill, full_refresh=full_refresh) & selected
        facts = self._facts()
        self._check(facts)
        plan = make_plan(
            self.declaration,
            self.graph,
            facts,
            selected=selected,
            full_refresh=full_refresh,
            backfill=backfill,
            filled=filled,
        )
        self._keep_readings()
        unable = [unmet(self.tables[s.table], s, self._format.name, self._format.capabilities) for s in plan.steps]
        raise_all([error for error in unable if error])
        return plan, facts

    def _filled(self, select: Sequence[str], backfill: Backfill | None, *, full_refresh: bool) -> frozenset[TableName]:
        if backfill is None:
            return frozenset()
        if full_refresh:
            raise UsageError(
                "one-of", "a full refresh and a backfill do not go together", hint="a full refresh computes all days"
            )
        if not select:
            raise UsageError(
                "no-selector",
                "a backfill is of the tables that are named, and none is",
                hint=f"lakesmith run TABLE --from {backfill.span.start} --to {backfill.span.end}",
            )
        return named(self.graph, self.tables, select)

    def _keep_readings(self) -> None:
        if readings.grown:
            keep(self._readings_file, readings.kept())
            readings.grown = False

    def run(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        full_refresh: bool = False,
        days: tuple[date, date] | None = None,
        chunk: int = 7,
        jobs: int | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Plan, then do it. With nothing to do, nothing is started and nothing is written.

        `session` is a Spark session to work in; without one, a session is started when the first row has to move,
        and stopped at the end. With `days`, the first and the last of them, rows of these days are computed again
        in the tables that are named, `chunk` days in one commit.
        """
        plan, facts = self._plan(select, exclude, full_refresh=full_refresh, backfill=_backfill(days, chunk))
        if not any(plan.steps):
            unmade = [f"{t.table}: {t.reason}" for t in plan.tables if t.table not in facts.tables]
            return RunReport(run=None, steps=(), checks=(), errors=plan.problems, unmade=tuple(unmade))
        return self._execute(plan, facts, jobs=jobs, on_event=on_event, session=session)

    def _execute(
        self,
        plan: Plan,
        facts: LakeFacts,
        *,
        jobs: int | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
        decision: Callable[[str, Sequence[StepRecord]], Sequence[AuditRecord]] | None = None,
    ) -> RunReport:
        """Take the steps of a plan, and write down what they did."""
        # The rooms below import PySpark's neighbours; a run with nothing to do must not pay for that.
        from lakesmith.run import Executor

        self._check_commit_point()
        started, clock = datetime.now(UTC), monotonic()
        executor = Executor(
            self.declaration,
            self._warehouse,
            self._landings,
            self._format,
            run_id=_new_run_id(started),
            on_event=on_event or _silent,
            past=self._past,
            session=session,
            brief=plan.bytes(facts) < _BRIEF,
        )
        outcome: Outcome = "interrupted"
        try:
            executor.execute(plan, jobs or self.declaration.environment.jobs)
            outcome = "failed" if executor.errors or plan.problems else "ok"
        finally:
            executor.close()
            self._memory.save()
            record = self._run_record(plan, executor.run_id, executor.steps, outcome, started, monotonic() - clock)
            executor.checks.extend(self._aging(executor.run_id, [table.table for table in plan.tables]))
            audit = decision(executor.run_id, executor.steps) if decision else ()
            contracts = self._new_contracts(executor.run_id, executor.steps)
            self._ledger.record(record, executor.steps, executor.checks, executor.files, contracts, audit)
        return RunReport(
            run=record,
            steps=tuple(executor.steps),
            checks=tuple(executor.checks),
            files=tuple(executor.files),
            errors=(*plan.problems, *executor.errors),
        )

    def approve(
        self,
        run_id: str,
        *,
        reason: str,
        by: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Publish the batches that the gates of a run have held back."""
        held = [batch for batch in self.held() if batch.run_id == run_id]
        if not held:
            known = [batch.run_id for batch in self.held()]
            raise UsageError(
                "unknown-run",
                f"no batch of run {run_id!r} is held back",
                hint=did_you_mean(run_id, known, label="runs whose batches are held")
                if known
                else "none is: a batch is kept until its table goes on",
            )
        approval = Approval(by=by or _user(), why=reason, run_id=run_id)
        steps: dict[TableName, Step] = {
            self._name(batch.table): Publish(
                table=self._name(batch.table),
                sequence=batch.sequence,
                attempt=batch.attempt,
                approval=approval,
                reason=f"approved by {approval.by}: {reason}",
            )
            for batch in held
        }
        told = {batch.table: f"batch {batch.sequence} of run {run_id}" for batch in held}
        decision = partial(_audited, "approve", approval.by, reason, told)
        return self._execute(self._only(steps), LakeFacts(), on_event=on_event, session=session, decision=decision)

    def held(self) -> tuple[HeldBatch, ...]:
        """The batches that gates have refused and that are kept."""
        kept = HeldBatches(self._warehouse.storage)
        found = (kept.of(str(name)) for name in sorted(self.tables))
        return tuple(batch for batch in found if batch is not None)

    def replay(
        self,
        table: str,
        chosen: Chosen,
        *,
        set: Mapping[str, str] | None = None,
        edits: Mapping[str, Mapping[str, str | None]] | None = None,
        why: str = "",
        by: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Judge rows of a table's quarantine by today's rules; those that pass enter the table, once.

        `set` gives SQL by column that mends rows which do not pass as they are, `edits` values by a row's id.
        """
        replay = Replay(chosen=chosen, by=by or _user(), why=why, set=set or {}, edits=edits or {})
        return self._mend(table, replay, on_event=on_event, session=session)

    def discard(
        self,
        table: str,
        chosen: Chosen,
        *,
        why: str,
        by: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Give rows of a table's quarantine up; they are counted, and kept apart with the reason."""
        replay = Replay(chosen=chosen, by=by or _user(), why=why, discard=True)
        return self._mend(table, replay, on_event=on_event, session=session)

    def _mend(
        self,
        table: str,
        replay: Replay,
        *,
        on_event: Callable[[Event], None] | None,
        session: SparkSession | None,
    ) -> RunReport:
        name = self._name(table)
        if not self._quarantined(name):
            return RunReport(run=None, steps=(), checks=())
        if not quarantine_room.count(self.query, name, replay.chosen):
            return RunReport(run=None, steps=(), checks=())
        unknown = [each for each in replay.set if each.lower() not in self._mendable(name)]
        if unknown:
            raise UsageError(
                "unknown-column",
                f"{unknown[0]!r} is not a column of {name}",
                table=table,
                hint=did_you_mean(unknown[0], self._mendable(name), label="columns"),
            )
        action = "discard" if replay.discard else "replay"
        step = Mend(table=name, replay=replay, reason=f"{action} asked for by {replay.by}")
        decision = partial(_audited, action, replay.by, replay.why, {table: str(replay.chosen)})
        return self._execute(
            self._only({name: step}), LakeFacts(), on_event=on_event, session=session, decision=decision
        )

    def _mendable(self, name: TableName) -> list[str]:
        facts = self._table_facts(name)
        stored = [column.name for column in facts.columns] if facts else []
        declared = [column.name for column in self.tables[name].columns]
        return list(dict.fromkeys(each.lower() for each in (*stored, *declared, "raw")))

    def _only(self, steps: Mapping[TableName, Step]) -> Plan:
        tables = [
            TablePlan(table=name, status="changed", reason=step.reason, steps=(step,)) for name, step in steps.items()
        ]
        return Plan(lake=self.name, environment=self.environment, tables=tuple(tables))

    def _quarantined(self, name: TableName) -> int:
        facts = self._format.facts(self._warehouse.quarantine(name), flow(name))
        return facts.rows if facts else 0

    def _aging(self, run_id: str, names: Sequence[TableName]) -> list[CheckRecord]:
        """What the policies of quarantines say at the end of a run."""
        found = [
            quarantine_room.aging(self.query, self.tables[name], run_id)
            for name in names
            if self.tables[name].quarantine != QuarantinePolicy() and self._quarantined(name)
        ]
        return [record for record in found if record is not None]

    def quarantine_rows(
        self, tables: Sequence[str] = (), chosen: Chosen = _ALL, *, limit: int = 50
    ) -> tuple[QuarantinedRow, ...]:
        """Rows that were refused, the oldest first."""
        return quarantine_room.rows(self.query, self._with_quarantine(tables), chosen, limit=limit)

    def quarantine_row(self, table: str, row_id: str | None = None) -> QuarantinedRow:
        """One row, by its id or the beginning of it; the oldest where none is given."""
        chosen = Chosen(ids=self.quarantine_ids(table, (row_id,))) if row_id else _ALL
        rows = self.quarantine_rows((table,), chosen, limit=1)
        if not rows:
            raise UsageError(
                "unknown-row", f"nothing is in the quarantine of {table}", hint="lakesmith quarantine stats"
            )
        return rows[0]

    def quarantine_ids(self, table: str, beginnings: Sequence[str]) -> tuple[str, ...]:
        """The whole ids of rows, of which the beginnings are given."""
        name = self._name(table)
        return tuple(quarantine_room.whole_id(self.query, name, each, self._quarantined(name)) for each in beginnings)

    def quarantine_stats(
        self, tables: Sequence[str] = (), *, by: Facet = "rule", chosen: Chosen = _ALL
    ) -> tuple[FacetCount, ...]:
        """How many rows were refused, by table, rule, reason, batch or age."""
        return quarantine_room.facets(self.query, self._with_quarantine(tables), by, chosen)

    def _with_quarantine(self, tables: Sequence[str]) -> list[TableName]:
        names = [self._name(table) for table in tables] or sorted(self.tables)
        return [name for name in names if self._quarantined(name)]

    def run_continuously(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        every: float = 10.0,
        stop: threading.Event,
        jobs: int | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_report: Callable[[RunReport], None],
        session: SparkSession | None = None,
    ) -> None:
        """Run again and again, each time on what is new since, until `stop` is set; the run that goes on is finished.

        Each round is a run like any other, with the same guarantees; only the session is kept between them. Databases
        are left out: they cannot tell that nothing is new.
        """
        owned = session is None
        asked = [str(name) for name, table in self.tables.items() if isinstance(table.origin, Jdbc)]
        exclude = (*exclude, *asked)
        try:
            while not stop.is_set():
                began = monotonic()
                if session is None and any(self.plan(select, exclude).steps):
                    session = self._start_session()
                on_report(self.run(select, exclude, jobs=jobs, on_event=on_event, session=session))
                stop.wait(max(0.0, every - (monotonic() - began)))
        finally:
            if owned and session is not None:
                from lakesmith.spark.session import close_session

                close_session(session)

    def _start_session(self) -> SparkSession:
        from lakesmith.spark.session import open_session

        return open_session(
            self.name, self.declaration.environment.spark, jars_of(self.declaration), drivers_of(self.declaration)
        )

    def test(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        name: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_result: Callable[[TrialResult], None] | None = None,
        session: SparkSession | None = None,
    ) -> TrialReport:
        """Carry out the tests of the selected tables, on a local Spark and in temporary warehouses.

        `name` is a part of the names of the tests that are meant. Tests that do not make sense are raised before any
        is carried out.
        """
        clock = monotonic()
        selected = choose(self.graph, self.tables, select, exclude)
        every = load_tests(self.declaration.path, self.tables)
        facts = self._facts(afar=False)
        raise_all(check_tests(every, self.tables, self.graph, self._schemas(facts)))
        self._check(facts)
        tests = chosen_tests(every, selected, name)
        from lakesmith.run.trial import try_tests

        tell, told = on_event or _silent, on_result or _silent
        results = try_tests(
            self.declaration, self.graph, facts.tables, tests, on_event=tell, on_result=told, session=session
        )
        without = untested(every, selected, self.tables)
        return TrialReport(results=results, untested=without, seconds=monotonic() - clock)

    def test_empty(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> EmptyReport:
        """Let Spark analyse every query and every condition on tables without rows. Writes nothing."""
        selected = choose(self.graph, self.tables, select, exclude)
        facts = self._facts(afar=False)
        self._check(facts)
        from lakesmith.run.trial import try_empty

        tell = on_event or _silent
        return try_empty(self.declaration, self.graph, facts.tables, selected, on_event=tell, session=session)

    def status(self, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[TableStatus, ...]:
        """Each table as it is now, by layer."""
        names = choose(self.graph, self.tables, select, exclude) if select or exclude else frozenset(self.tables)
        ordered = sorted(names, key=_layer_order)
        try:
            return tuple(
                table_status(
                    self.tables[name],
                    self._table_facts(name),
                    self._format.facts(self._warehouse.quarantine(name), flow(name)),
                )
                for name in ordered
            )
        finally:
            self._memory.save()

    def quarantine(self) -> tuple[QuarantineCount, ...]:
        """How many rows each rule has refused, most first."""
        counts: list[QuarantineCount] = []
        for name in sorted(self.tables):
            if self._format.facts(self._warehouse.quarantine(name), flow(name)) is None:
                continue
            found = self.query(
                "SELECT reason, count(*) AS refused, any_value(raw) AS example FROM "
                f"(SELECT unnest(reasons) AS reason, raw FROM quarantine.{name.layer}_{name.name}) "
                "GROUP BY reason ORDER BY refused DESC, reason"
            )
            for reason, rows, example in found.rows:
                counts.append(
                    QuarantineCount(
                        table=str(name), reason=str(reason), rows=int(str(rows)), example=str(example)[:200]
                    )
                )
        return tuple(counts)

    def history(self, table: str | None = None, *, limit: int = 20) -> tuple[RunRecord, ...] | tuple[Version, ...]:
        """The newest runs; with a table, its newest versions."""
        if table is None:
            return self._ledger.runs(limit)
        name = self._name(table)
        return tuple(
            Version(
                version=commit.version,
                committed_at=commit.committed_at,
                operation=commit.operation,
                rows_written=written.inserted + written.updated,
                run_id=commit.note.rpartition(" run ")[2] if commit.note else None,
            )
            for commit in self._format.commits(self._warehouse.table(name), limit)
            for written in [self._format.written(commit)]
        )

    def run_steps(self, run_id: str) -> tuple[StepRecord, ...]:
        """The steps of one run."""
        steps = self._ledger.steps(run_id=run_id)
        if not steps:
            known = [run.run_id for run in self._ledger.runs(200)]
            raise UsageError(
                "unknown-run",
                f"there is no run {run_id!r}",
                hint=did_you_mean(run_id, known, label="runs"),
            )
        return steps

    def query(self, sql: str, *, at: Sequence[str] = ()) -> Answer:
        """Answer SQL over the lake's tables, the system tables and the quarantine, without a JVM."""
        from lakesmith.query import DuckDB, match_tables, parse_at

        engine, moments = DuckDB(), parse_at(at)
        locations = self._queryable()
        written = engine.referenced(sql)
        views = find_views(written, self.tables, self._published, _today())
        asked = {*(written - views.keys()), *(view.table for view in views.values())}
        names = tuple(dict.fromkeys(match_tables(asked, locations).values()))
        moments.check(names)
        tables = {name: self._rows_at(name, locations[name], moments.of(name)) for name in names}
        return engine.query(sql, tables, {name.lower(): view for name, view in views.items()})

    def _rows_at(
        self, name: str, location: str, moment: int | datetime | None
    ) -> pa.dataset.Dataset | pa.RecordBatchReader:
        if name.startswith("held."):
            return self._held_rows(name, location)
        facts = self._format.facts(location, "")
        if facts is None:
            raise _not_built(name)
        if isinstance(moment, datetime):
            moment = self._format.version_at(location, moment)
        return self._format.arrow(location, facts.version if moment is None else moment)

    def _held_rows(self, name: str, location: str) -> pa.dataset.Dataset:
        import pyarrow.dataset as ds

        files = sorted(map(str, Path(location, "rows").glob("*.parquet")))
        if not files:
            raise UsageError(
                "not-held", f"no batch is held back as {name}", hint="lakesmith approve lists those that are"
            )
        return ds.dataset(files)

    def profile(self, table: str, *, rows: int = 1_000_000) -> TableProfile:
        """What the rows of a table are like, and what could be promised of them. Of more rows than `rows`, a sample."""
        from lakesmith.query import Input, profile

        name = self._name(table)
        beyond = self.graph.descendants(name)
        inputs: dict[TableName, Input] = {}
        for each, declared in self.tables.items():
            if each not in beyond and (facts := self._table_facts(each)):
                opened = partial(self._format.arrow, facts.location, facts.version)
                inputs[each] = Input(table=declared, version=facts.version, rows=facts.rows, open=opened)
        if name not in inputs:
            raise _not_built(str(name))
        return profile(inputs.pop(name), inputs, limit=rows, now=datetime.now(UTC))

    def lineage(self, table: str | None = None) -> Lineage:
        """Where a table's rows come from and where they go."""
        name = self._name(table) if table else None
        return lineage(self.graph, self.tables, name, self._schemas(self._facts(afar=False)))

    def contract_diff(self, tables: Sequence[str] = ()) -> tuple[ContractDiff, ...]:
        """What has changed in contracts since they were recorded, and whom it hits."""
        verdicts = self._verdicts()
        chosen = with_contract(self.tables, verdicts, [self._name(name) for name in tables])
        readers = Readers(self.graph, self.tables, self._schemas(self._facts(afar=False)))
        return tuple(told(verdicts[name], readers) for name in chosen)

    def contract_check(self, tables: Sequence[str] = ()) -> tuple[ContractCheck, ...]:
        """Whether stored tables have the columns that their contracts promise."""
        declared = [name for name, table in self.tables.items() if table.columns]
        chosen = with_contract(self.tables, declared, [self._name(name) for name in tables])
        self._check_registries([self.tables[name] for name in chosen])
        return tuple(agreement(self.tables[name], self._table_facts(name)) for name in chosen)

    def _check_registries(self, tables: Sequence[Table]) -> None:
        """Raise where a registry is the truth and a declaration is unlike it."""
        ruled = [(table, at) for table in tables if (at := table.terms.registry) and at.truth == "registry"]
        if not ruled:
            return
        from lakesmith.exchange import registry_problems

        here = self.declaration.environment
        raise_all([e for table, at in ruled for e in registry_problems(table, at, registry_of(table, here))])

    def _verdicts(self) -> dict[TableName, Verdict]:
        return judge_all(self.tables, self._published())

    def _published(self) -> Mapping[str, Sequence[Published]]:
        """The recorded versions of contracts, by table."""
        facts = self._format.facts(self._warehouse.system("contracts"), "")
        self._memory.save()
        return self._recorded.read(facts)

    def _new_contracts(self, run_id: str, steps: Sequence[StepRecord]) -> list[ContractRecord]:
        bad = {step.table for step in steps if step.outcome != "ok"}
        well = [step.table for step in steps if step.table not in bad]
        return new_records(self._verdicts().values(), well, run_id, datetime.now(UTC))

    def land(
        self,
        files: Sequence[str | Path],
        *,
        to: str,
        name: str | None = None,
        on_progress: Callable[[Sending], None] | None = None,
    ) -> Landing:
        """Put files where a bronze table takes them in, each whole or not at all."""
        table = self.tables[self._name(to)]
        if not isinstance(table.origin, Files):
            raise UsageError(
                "no-landing-zone",
                f"{to} takes no files in",
                table=to,
                hint="name a bronze table whose source is files",
            )
        storage, glob = self._landings[table.name]
        return land(storage, glob, files, table=to, name=name, on_progress=on_progress)

    def adopt(self, table: str) -> Adopted:
        """Make a folder of Parquet files the Delta table that a bronze table adopts: a log is written, no row moves."""
        name = self._name(table)
        location = self.tables[name].adopted
        if location is None:
            raise UsageError(
                "not-adopting",
                f"{name} does not adopt a table",
                hint=f"only a table whose source is adopt: PATH; see {self.tables[name].declared_at.file}",
            )
        if facts := self._table_facts(name):
            return Adopted(table=str(name), location=location, files=facts.files, rows=facts.rows, made=False)
        self._format.adopt(location)
        made = self._table_facts(name)
        assert made is not None
        return Adopted(table=str(name), location=location, files=made.files, rows=made.rows, made=True)

    def export_contract(self, table: str, format: Format = "odcs") -> str:
        """The table's contract as a document: `odcs`, `avro` or `json-schema`."""
        from lakesmith.exchange import export_contract

        return export_contract(self.tables[self._name(table)], format, lake=self.name)

    @staticmethod
    def import_contract(
        file: str | Path, *, layer: str | None = None, name: str | None = None, part: str | None = None
    ) -> Imported:
        """The declaration that a contract of others stands for, or a suite of Great Expectations. Writes nothing, and
        needs no lake."""
        from lakesmith.exchange import Wanted, import_contract, import_suite, read_document
        from lakesmith.quality.expectations import is_suite, read_suite

        text, wanted = read_document(file), Wanted(file=str(file), layer=layer, name=name, part=part)
        return import_suite(text, wanted, is_suite, read_suite) or import_contract(text, wanted)

    def publish_contract(self, tables: Sequence[str] = ()) -> Publication:
        """Bring schema registries up to the contracts of the tables, or compare where a registry is the truth.

        Without tables, all that name a registry.
        """
        from lakesmith.exchange import publish_all

        chosen = [self.tables[self._name(table)] for table in tables] or list(self.tables.values())
        return publish_all(chosen, partial(registry_of, environment=self.declaration.environment), named=bool(tables))

    def doctor(self, *, fix: bool = False, deep: bool = False) -> tuple[Finding, ...]:
        """Look at Java, jars, Spark, storage and versions, and say how to mend each."""
        from lakesmith import doctor

        return doctor.diagnose(self._warehouse.storage, self.declaration.environment.connections, fix=fix, deep=deep)

    def _facts(self, *, afar: bool = True) -> LakeFacts:
        """All that a plan has to know; without `afar`, only what this machine can tell."""
        tables, progress, landing, looks, slices = {}, {}, {}, {}, {}
        problems: dict[TableName, LakesmithError] = {}
        for name, table in self.tables.items():
            commits = partial(self._format.commits, self._warehouse.table(name))
            try:
                if facts := self._table_facts(name):
                    tables[name] = facts
                # The batches in an adopted table's log are those of the lake that writes it.
                batches = Batches(self._warehouse.storage, name)
                progress[name] = Progress() if table.adopted else batches.progress(facts, commits)
            except (DataError, InfrastructureError) as error:
                error.table = str(name)
                progress[name], problems[name] = Progress(), error
            try:
                if isinstance(table.origin, Files):
                    storage, glob = self._landings[name]
                    if not afar and not isinstance(storage, LocalStorage):
                        continue
                    taken, seen = progress[name].taken, progress[name].seen
                    if table.origin.listing == "ordered":
                        look = looks[name] = next_look(seen, storage.location(glob), _today().isoformat())
                        landing[name] = found_in_order(storage, glob, taken, look.after, settled(seen, look.pattern))
                    else:
                        landing[name] = tuple(storage.list(glob, taken))
                elif afar and (found := new_in(table, self.declaration.environment, progress[name].reached)):
                    slices[name] = found
            except LakesmithError as error:
                error.table = str(name)
                problems.setdefault(name, error)
        self._memory.save()
        return LakeFacts(
            tables=tables,
            progress=progress,
            landing=landing,
            looks=looks,
            slices=slices,
            problems=problems,
            retyped=self._retyped(tables, progress),
            aged=self._aged(),
        )

    def _aged(self) -> dict[TableName, int]:
        limits = {name: table.quarantine.discard_after for name, table in self.tables.items()}
        kept = {name: limit for name, limit in limits.items() if limit is not None and self._quarantined(name)}
        return {name: quarantine_room.count(self.query, name, Chosen(older_than=limit)) for name, limit in kept.items()}

    def _retyped(
        self, tables: Mapping[TableName, TableFacts], progress: Mapping[TableName, Progress]
    ) -> dict[tuple[TableName, int], Sequence[str]]:
        """By a table and a version that another has read it up to, its columns that are wider now."""
        read = {(name, at.version) for made in progress.values() for name, at in made.positions.items()}
        retyped: dict[tuple[TableName, int], Sequence[str]] = {}
        for name, since in read:
            source = TableName.parse(name)
            facts = tables.get(source) if source else None
            if source and facts and facts.widened and facts.version > since:
                retyped[source, since] = self._format.retyped(facts.location, since)
        return retyped

    def _table_facts(self, name: TableName) -> TableFacts | None:
        return self._format.facts(self._warehouse.table(name), flow(name))

    def _check(self, facts: LakeFacts) -> None:
        """Hold the queries and checks to the columns that are known."""
        from lakesmith.plan.query import check_columns, check_conditions, given_columns

        schemas = self._schemas(facts)
        errors: list[LakesmithError] = []
        for table in self.tables.values():
            if isinstance(table.origin, Kafka | Jdbc):
                try:
                    connection(table, self.declaration.environment)
                except DeclarationError as error:
                    errors.append(error)
            if isinstance(table.origin, SqlQuery):
                errors += check_columns(table.origin, schemas)
            errors += check_conditions(table, given_columns(table, schemas))
        raise_all([*errors, *contract_errors(self.tables, self._published(), self.graph, schemas, _today())])

    def _schemas(self, facts: LakeFacts) -> dict[TableName, tuple[str, ...]]:
        """The columns of each table, where they are known: from its query, else from its log."""
        from lakesmith.plan.query import table_columns

        schemas: dict[TableName, tuple[str, ...]] = {}
        for name in self.graph.order:
            table, stored = self.tables[name], facts.tables.get(name)
            columns = table_columns(table, schemas)
            if columns is None and stored and not self._may_gain_columns(name, facts):
                declared = [column.name for column in table.columns]
                columns = tuple(dict.fromkeys([*(column.name for column in stored.columns), *declared]))
            if columns is not None:
                schemas[name] = columns
        return schemas

    def _may_gain_columns(self, name: TableName, facts: LakeFacts) -> bool:
        """The stored columns may not be those that the table will have: it is defined in another way by now, or files
        wait, here or upstream, that may bring columns which nobody has seen yet."""
        for each in (name, *self.graph.ancestors(name)):
            table, progress = self.tables[each], facts.progress[each]
            if isinstance(table.origin, Source):
                open_ended = table.contract != "strict"
                if open_ended and (each not in facts.landing or facts.landing[each]):
                    return True
            elif progress.definition is None or rebuild_because(progress.definition, table):
                return True
        return False

    def _name(self, text: str) -> TableName:
        name = TableName.parse(text)
        if name not in self.tables:
            raise UsageError(
                "unknown-table",
                f"there is no table {text!r}",
                hint=did_you_mean(text, map(str, self.tables), label="tables"),
            )
        assert name
        return name

    def _queryable(self) -> dict[str, str]:
        """Every name that a query may use, and where the table lies."""
        tables = {str(name): self._warehouse.table(name) for name in self.tables}
        kept = {f"quarantine.{n.layer}_{n.name}": self._warehouse.quarantine(n) for n in self.tables}
        kept |= {f"settled.{n.layer}_{n.name}": self._warehouse.settled(n) for n in self.tables}
        kept |= {f"held.{n.layer}_{n.name}": self._warehouse.held(n) for n in self.tables}
        system = {f"system.{name}": self._warehouse.system(name) for name in SYSTEM_TABLES}
        return {**tables, **kept, **system}

    def _check_commit_point(self) -> None:
        """A store that lets two writers of one file both win would lose commits: refuse it before the first."""
        wrong = self._warehouse.storage.probe()
        if wrong:
            raise InfrastructureError(
                "no-put-if-absent",
                wrong,
                hint="use a warehouse on a local disk that this user may write to and that has hard links",
            )

    def _past(self, table: TableName, checks: Sequence[str]) -> dict[str, list[Past]]:
        found = self._ledger.past(str(table), checks, _REMEMBERED)
        return {
            check: [Past(at=each.checked_at, value=each.value, sketch=each.sketch) for each in records]
            for check, records in found.items()
        }

    def _run_record(
        self,
        plan: Plan,
        run_id: str,
        steps: Sequence[StepRecord],
        outcome: Outcome,
        started: datetime,
        seconds: float,
    ) -> RunRecord:
        from lakesmith import __version__

        return RunRecord(
            run_id=run_id,
            lake=self.name,
            environment=self.environment,
            plan_hash=plan.hash,
            outcome=outcome,
            tables=len({step.table for step in steps if step.outcome == "ok"}),
            rows_in=sum(step.rows_in for step in steps),
            rows_written=sum(step.rows_written for step in steps),
            rows_quarantined=sum(step.rows_quarantined for step in steps),
            rows_deduplicated=sum(step.rows_deduplicated for step in steps),
            rows_discarded=sum(step.rows_discarded for step in steps),
            started_at=started,
            seconds=seconds,
            lakesmith_version=__version__,
        )


def _not_built(name: str) -> UsageError:
    return UsageError(
        "not-built", f"{name} is declared, but holds nothing yet", hint=f"`lakesmith run +{name}` builds it"
    )


def _layer_order(name: TableName) -> tuple[int, str]:
    return [*LAYERS].index(name.layer), name.name  # type: ignore[arg-type]


def _today() -> date:
    """The day in UTC."""
    return datetime.now(UTC).date()


def _new_run_id(started: datetime) -> str:
    """Sorts by time, and is unlike any other run's."""
    return f"{started:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def _plan_age() -> str:
    """Changes with the code that reads queries: what another version read does not count."""
    files = sorted(Path(str(plan_room.__file__)).parent.glob("*.py"))
    return hashlib.sha256(repr([(file.name, file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()[:8]


def _backfill(days: tuple[date, date] | None, chunk: int) -> Backfill | None:
    if days is None:
        return None
    start, end = days
    if start > end:
        raise UsageError(
            "bad-days", f"the backfill begins on {start} and ends before it, on {end}", hint="turn them round"
        )
    return Backfill(span=Span(start=start, end=end), days=chunk)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _audited(
    action: str, by: str, why: str, subjects: Mapping[str, str], run_id: str, steps: Sequence[StepRecord]
) -> list[AuditRecord]:
    """A decision that was carried out, or was to be."""
    now = datetime.now(UTC)
    return [
        AuditRecord(
            run_id=run_id,
            table=step.table,
            action=action,
            by=by,
            why=why,
            subject=subjects.get(step.table, ""),
            rows=step.rows_in,
            outcome=step.outcome,
            decided_at=now,
        )
        for step in steps
    ]


def _silent(event: Event | TrialResult) -> None:
    """Nobody is listening."""
