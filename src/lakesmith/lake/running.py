"""Plans, and runs that carry them out."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith import quarantine as quarantine_room
from lakesmith.contracts import (
    given_up,
)
from lakesmith.declare import LAYERS, Jdbc, TableName
from lakesmith.declare.contract import QuarantinePolicy
from lakesmith.errors import (
    DataError,
    InfrastructureError,
    LakesmithError,
    UsageError,
    raise_all,
)
from lakesmith.lake.contracts import Contracted
from lakesmith.lake.words import layer_order, silent, today
from lakesmith.load import load_lake, load_tests
from lakesmith.plan.needs import unmet
from lakesmith.plan.planner import make_plan
from lakesmith.plan.release import together
from lakesmith.plan.select import named
from lakesmith.plan.select import select as choose
from lakesmith.plan.steps import (
    Backfill,
    LakeFacts,
    Plan,
    Span,
)
from lakesmith.plan.tests import check_tests
from lakesmith.ports import SkippedEntry
from lakesmith.quality import Past
from lakesmith.records import AuditRecord, CheckRecord, Outcome, ReleaseRecord, RunRecord, SkippedRecord, StepRecord
from lakesmith.reports import (
    Event,
    RunReport,
    Validation,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_REMEMBERED = 400
"""So many batches of a table are looked back at."""
_BRIEF = 32 * 1024 * 1024
"""A run that reads fewer bytes is over before the optimisers of Spark and the JVM would pay."""


class Running(Contracted):
    """Rows that move."""

    def validate(self) -> Validation:
        """Check all that can be checked without moving a row: the tables, their contracts and their tests."""
        facts = self._facts(afar=False)
        self._check(facts)
        self._check_tests(facts)
        self._keep_readings()
        return replace(
            self._validation(),
            warnings=(*given_up(self._compatibility_verdicts().values(), today()), *self._left_behind()),
        )

    @classmethod
    def review(
        cls, path: str | Path = ".", *, environment: str | None = None, variables: Mapping[str, str] | None = None
    ) -> Validation:
        """Validate a lake that is not trusted: nothing of it is run, and nothing but its folder is read.

        Python files are read for what is written out in them.
        """
        lake = cls(load_lake(path, environment=environment, variables=variables, run_python=False))
        lake._check_against(LakeFacts(), {})
        lake._check_tests(LakeFacts())
        unrun = lake.declaration.unrun
        computed = [f"{name}, whose declaration is computed ({at})" for name, at in unrun.tables.items()]
        layers = [f"whether {layer} has more tables" for layer in LAYERS if layer in unrun.layers]
        return replace(
            lake._validation(),
            not_run=unrun.files,
            not_checked=(
                *(("whether the Python files load",) if unrun.files else ()),
                *computed,
                *layers,
                "stored tables and recorded contracts",
            ),
        )

    def _check_tests(self, facts: LakeFacts) -> None:
        if every := load_tests(self.declaration.path, self.tables, self.declaration.unrun):
            raise_all(check_tests(every, self.tables, self.graph, self._schemas(facts)))

    def _validation(self) -> Validation:
        layers = [name.layer for name in sorted(self.tables, key=layer_order)]
        return Validation(
            lake=self.name,
            environment=self.environment,
            tables=len(self.tables),
            by_layer={layer: layers.count(layer) for layer in dict.fromkeys(layers)},
            checks=sum(
                len(t.checks) + sum(bool(c.check) + c.required + c.unique for c in t.columns)
                for t in self.tables.values()
            ),
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
            replace(facts, skipped=self._unreported(facts)),
            selected=selected,
            full_refresh=full_refresh,
            backfill=backfill,
            filled=filled,
        )
        self._keep_readings()
        unable = [unmet(self.tables[s.table], s, self._format.name, self._format.capabilities) for s in plan.steps]
        raise_all([error for error in unable if error])
        return plan, facts

    def _unreported(self, facts: LakeFacts) -> Mapping[TableName, tuple[SkippedEntry, ...]]:
        """The skipped entries of landing folders that no run has reported yet."""
        if not facts.skipped:
            return {}
        try:
            return self._reported.without(facts.skipped, self._format.facts(self._warehouse.system("skipped"), ""))
        except (DataError, InfrastructureError):
            return facts.skipped  # the tables do not need the ledger; a run that cannot write it says so

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
            report = RunReport(run=None, steps=(), checks=(), errors=plan.problems, unmade=tuple(unmade))
            return self._with_skipped(report, plan) if any(plan.skipped) else report
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
        judge: Callable[[], Sequence[LakesmithError]] | None = None,
    ) -> RunReport:
        """Take the steps of a plan, and write down what they did. With somebody's decision nothing was planned, and no
        contract is recorded: whether it may change was not asked. `judge` looks at what all the steps came to."""
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
            on_event=on_event or silent,
            past=self._past,
            contracts={name: str(verdict.version) for name, verdict in self._compatibility_verdicts().items()},
            session=session,
            brief=plan.bytes(facts) < _BRIEF,
        )
        skipped = _skipped_records(plan, executor.run_id)
        outcome: Outcome = "interrupted"
        try:
            executor.execute(plan, jobs or self.declaration.environment.jobs)
            if judge is not None and not executor.errors:
                executor.errors.extend(judge())
            outcome = "failed" if executor.errors or plan.problems else "ok"
        finally:
            executor.close()
            record = self._run_record(plan, executor.run_id, executor.steps, outcome, started, monotonic() - clock)
            try:
                executor.checks.extend(self._aging(executor.run_id, [table.table for table in plan.tables]))
                audit = decision(executor.run_id, executor.steps) if decision else ()
                contracts = [] if decision else self._new_contracts(executor.run_id, executor.steps)
                release = self._release(executor.run_id) if outcome == "ok" else ()
                self._ledger.record(
                    record, executor.steps, executor.checks, executor.files, contracts, audit, release, skipped
                )
            except (DataError, InfrastructureError) as error:
                # What the steps did, and why they failed, is told all the same.
                executor.errors.append(error)
            self._memory.save()
        return RunReport(
            run=record,
            steps=tuple(executor.steps),
            checks=tuple(executor.checks),
            files=tuple(executor.files),
            skipped=skipped,
            errors=(*plan.problems, *executor.errors),
        )

    def _with_skipped(self, report: RunReport, plan: Plan) -> RunReport:
        """The report of a run that moves no row and records what it skips, so that the next one does not report it."""
        started, clock = datetime.now(UTC), monotonic()
        run_id = _new_run_id(started)
        skipped = _skipped_records(plan, run_id)
        record = self._run_record(plan, run_id, (), "failed" if plan.problems else "ok", started, monotonic() - clock)
        try:
            self._ledger.record(record, (), (), skipped=skipped)
        except (DataError, InfrastructureError) as error:
            report = replace(report, errors=(*report.errors, error))
        return replace(report, run=record, skipped=skipped)

    def _release(self, run_id: str) -> list[ReleaseRecord]:
        """The tables as they are, when each is made from the others as they are: another run may be among them."""
        now = datetime.now(UTC)
        used = {name for name, table in self.tables.items() if table.enabled}
        read = {source for name in used for source in self.graph.upstream(name)}
        own = {name for name in used if self.tables[name].adopted is None}
        try:
            facts = {name: found for name in sorted(used | read) if (found := self._table_facts(name))}
            versions = together(facts, {name: self._progress(name, facts[name]) for name in sorted(own & facts.keys())})
        except (DataError, InfrastructureError):
            return []  # a table that cannot be read is told by whoever wants it
        if isinstance(versions, str):
            return []
        return [
            ReleaseRecord(
                release=run_id, table=str(name), version=version, table_id=facts[name].table_id, released_at=now
            )
            for name, version in versions.items()
        ]

    def _aging(self, run_id: str, names: Sequence[TableName]) -> list[CheckRecord]:
        """What the policies of quarantines say at the end of a run."""
        found = [
            quarantine_room.aging(self._internal_query, self.tables[name], run_id)
            for name in names
            if self.tables[name].quarantine != QuarantinePolicy() and self._quarantined(name)
        ]
        return [record for record in found if record is not None]

    def _past(self, table: TableName, checks: Sequence[str]) -> dict[str, list[Past]]:
        found = self._ledger.past(str(table), checks, _REMEMBERED)
        return {
            check: [Past(at=each.checked_at, value=each.value, sketch=each.sketch, mode=each.mode) for each in records]
            for check, records in found.items()
        }

    def _check_commit_point(self) -> None:
        """A store that lets two writers of one file both win would lose commits: refuse it before the first."""
        wrong = self._warehouse.storage.probe()
        if wrong:
            raise InfrastructureError(
                "no-put-if-absent",
                wrong,
                hint="use a warehouse on a local disk that this user may write to and that has hard links",
            )

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
        are left out: they cannot tell that nothing is new. Rounds end too when Spark's JVM does.
        """
        from lakesmith.jvm.process import JvmDied

        owned = session is None
        asked = [str(name) for name, table in self.tables.items() if isinstance(table.origin, Jdbc)]
        exclude = (*exclude, *asked)
        try:
            while not stop.is_set():
                began = monotonic()
                if session is None and any(self.plan(select, exclude).steps):
                    session = self._start_session()
                report = self.run(select, exclude, jobs=jobs, on_event=on_event, session=session)
                on_report(report)
                if any(isinstance(error, JvmDied) for error in report.errors):
                    # Python functions of tables hold objects of the JVM that has ended: only a new process is clean.
                    return
                stop.wait(max(0.0, every - (monotonic() - began)))
        finally:
            if owned and session is not None:
                from lakesmith.jvm.session import close_session

                close_session(session)


def _skipped_records(plan: Plan, run_id: str) -> tuple[SkippedRecord, ...]:
    now = datetime.now(UTC)
    return tuple(
        SkippedRecord(
            run_id=run_id, table=str(table), file=entry.path, code=entry.code, reason=entry.why, reported_at=now
        )
        for table, entry in plan.skipped
    )


def _new_run_id(started: datetime) -> str:
    """Sorts by time, and is unlike any other run's."""
    return f"{started:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def _backfill(days: tuple[date, date] | None, chunk: int) -> Backfill | None:
    if days is None:
        return None
    start, end = days
    if start > end:
        raise UsageError(
            "bad-days", f"the backfill begins on {start} and ends before it, on {end}", hint="turn them round"
        )
    return Backfill(span=Span(start=start, end=end), days=chunk)
