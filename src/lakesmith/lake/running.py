"""Runs: execute a plan, record what it did, and release what it made."""

from __future__ import annotations

import getpass
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith import quarantine as quarantine_queries
from lakesmith.declare import Jdbc, TableName
from lakesmith.declare.contract import QuarantinePolicy
from lakesmith.errors import DataError, InfrastructureError, LakesmithError
from lakesmith.lake.contracts import new_contract_records
from lakesmith.lake.facts import read_progress
from lakesmith.lake.open_lake import OnEvent, OpenLake, ignore
from lakesmith.lake.planning import plan, plan_with_facts, refuse_unsupported_steps
from lakesmith.lake.reads import internal_query
from lakesmith.plan.release import consistent_versions
from lakesmith.plan.steps import LakeFacts, Plan, Step, TablePlan
from lakesmith.ports import Store, StoreCapability
from lakesmith.quality import PastResult
from lakesmith.records import AuditRecord, CheckRecord, Outcome, ReleaseRecord, RunRecord, SkippedRecord, StepRecord
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAST_BATCHES = 400
"""How many earlier batches of a table its checks look at."""
_BRIEF = 32 * 1024 * 1024
"""A run that reads fewer bytes ends before the optimisers of Spark and the JVM pay off."""


def _skipped_records(plan: Plan, run_id: str) -> tuple[SkippedRecord, ...]:
    now = datetime.now(UTC)
    return tuple(
        SkippedRecord(
            run_id=run_id, table=str(table), file=entry.path, code=entry.code, reason=entry.why, reported_at=now
        )
        for table, entry in plan.skipped
    )


def _new_run_id(started: datetime) -> str:
    """A unique id that sorts by time."""
    return f"{started:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What somebody decided by hand, for the audit table."""

    action: str
    by: str
    why: str = ""
    subjects: Mapping[str, str]
    """What each table's step does, in words."""

    def records(self, run_id: str, steps: Sequence[StepRecord]) -> list[AuditRecord]:
        now = datetime.now(UTC)
        return [
            AuditRecord(
                run_id=run_id,
                table=step.table,
                action=self.action,
                decided_by=self.by,
                reason=self.why,
                subject=self.subjects.get(step.table, ""),
                rows=step.rows_in,
                outcome=step.outcome,
                decided_at=now,
            )
            for step in steps
        ]


def user() -> str:
    """The operating system's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def run(
    lake: OpenLake,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    full_refresh: bool = False,
    days: tuple[date, date] | None = None,
    chunk: int = 7,
    jobs: int | None = None,
    on_event: OnEvent | None = None,
    session: SparkSession | None = None,
) -> RunReport:
    """Plan, then execute the plan. With nothing to do, nothing starts and nothing is written.

    `session` is a Spark session to use. Without one, Spark starts before the first row moves and stops at the end.
    `days`, the first and the last day of a backfill, recomputes these days in the named tables, `chunk` days a commit.
    """
    plan, facts = plan_with_facts(lake, select, exclude, full_refresh=full_refresh, days=days, chunk=chunk)
    if not any(plan.steps):
        not_built = [f"{t.table}: {t.reason}" for t in plan.tables if t.table not in facts.tables]
        report = RunReport(run=None, steps=(), checks=(), errors=plan.problems, not_built=tuple(not_built))
        return _record_skipped(lake, report, plan) if any(plan.skipped) else report
    return execute(lake, plan, facts, jobs=jobs, on_event=on_event, session=session)


def execute(
    lake: OpenLake,
    plan: Plan,
    facts: LakeFacts,
    *,
    jobs: int | None = None,
    on_event: OnEvent | None = None,
    session: SparkSession | None = None,
    decision: Decision | None = None,
    judge: Callable[[], Sequence[LakesmithError]] | None = None,
) -> RunReport:
    """Execute the steps of a plan and record what they did.

    With a `decision` no contract is recorded, because its compatibility was not checked. `judge` returns errors after
    all steps have succeeded.
    """
    # This import loads much of PySpark's neighbourhood; a run with nothing to do must not pay for it.
    from lakesmith.run import Executor

    refuse_unconditional_store(lake)
    started, clock = datetime.now(UTC), monotonic()
    executor = Executor(
        lake.declaration,
        lake.warehouse,
        lake.landings,
        lake.format,
        run_id=_new_run_id(started),
        on_event=on_event or ignore,
        check_history=partial(_past_checks, lake),
        contracts={name: str(verdict.version) for name, verdict in lake.compatibility_verdicts().items()},
        session=session,
        brief=plan.bytes(facts) < _BRIEF,
    )
    skipped = _skipped_records(plan, executor.run_id)
    outcome: Outcome = "interrupted"
    try:
        executor.execute(plan, jobs or lake.declaration.environment.jobs)
        if judge is not None and not executor.errors:
            executor.errors.extend(judge())
        outcome = "failed" if executor.errors or plan.problems else "ok"
    finally:
        executor.close()
        record = _run_record(lake, plan, executor.run_id, executor.steps, outcome, started, monotonic() - clock)
        try:
            executor.checks.extend(_quarantine_checks(lake, executor.run_id, [table.table for table in plan.tables]))
            audit = decision.records(executor.run_id, executor.steps) if decision else ()
            contracts = [] if decision else new_contract_records(lake, executor.run_id, executor.steps)
            release = _release_records(lake, executor.run_id) if outcome == "ok" else ()
            lake.ledger.record(
                record, executor.steps, executor.checks, executor.files, contracts, audit, release, skipped
            )
        except (DataError, InfrastructureError) as error:
            # The report still says what the steps did and why they failed.
            executor.errors.append(error)
        lake.facts_cache.save()
    return RunReport(
        run=record,
        steps=tuple(executor.steps),
        checks=tuple(executor.checks),
        files=tuple(executor.files),
        skipped=skipped,
        errors=(*plan.problems, *executor.errors),
    )


def plan_of_steps(lake: OpenLake, steps: Mapping[TableName, Step | str]) -> Plan:
    """A plan with one step for each table, or the reason why the table needs none."""
    tables = [
        TablePlan(table=name, status="unchanged", reason=step)
        if isinstance(step, str)
        else TablePlan(table=name, status="changed", reason=step.reason, steps=(step,))
        for name, step in steps.items()
    ]
    plan = Plan(lake=lake.name, environment=lake.environment, tables=tuple(tables))
    refuse_unsupported_steps(lake, plan)
    return plan


def execute_decision(
    lake: OpenLake,
    plan: Plan,
    decision: Decision,
    on_event: OnEvent | None,
    session: SparkSession | None,
    judge: Callable[[], Sequence[LakesmithError]] | None = None,
) -> RunReport:
    """Execute the steps that somebody decided on. Nothing runs for a plan without steps."""
    if not any(plan.steps):
        return RunReport(run=None, steps=(), checks=(), not_built=())
    return execute(lake, plan, LakeFacts(), on_event=on_event, session=session, decision=decision, judge=judge)


def _record_skipped(lake: OpenLake, report: RunReport, plan: Plan) -> RunReport:
    """Record the skipped files of a run without steps, so that the next run does not report them again."""
    started, clock = datetime.now(UTC), monotonic()
    run_id = _new_run_id(started)
    skipped = _skipped_records(plan, run_id)
    record = _run_record(lake, plan, run_id, (), "failed" if plan.problems else "ok", started, monotonic() - clock)
    try:
        lake.ledger.record(record, (), (), skipped=skipped)
    except (DataError, InfrastructureError) as error:
        report = replace(report, errors=(*report.errors, error))
    return replace(report, run=record, skipped=skipped)


def _release_records(lake: OpenLake, run_id: str) -> list[ReleaseRecord]:
    """The tables' current versions, if they were made from each other. Another run may have written in between."""
    now = datetime.now(UTC)
    used = {name for name, table in lake.tables.items() if table.enabled}
    read = {source for name in used for source in lake.graph.upstream(name)}
    own = {name for name in used if lake.tables[name].adopted is None}
    try:
        facts = {name: found for name in sorted(used | read) if (found := lake.table_facts(name))}
        versions = consistent_versions(
            facts, {name: read_progress(lake, name, facts[name]) for name in sorted(own & facts.keys())}
        )
    except (DataError, InfrastructureError):
        return []  # the next reader of the unreadable table reports it
    if isinstance(versions, str):
        return []
    return [
        ReleaseRecord(release=run_id, table=str(name), version=version, table_id=facts[name].table_id, released_at=now)
        for name, version in versions.items()
    ]


def _quarantine_checks(lake: OpenLake, run_id: str, names: Sequence[TableName]) -> list[CheckRecord]:
    """Check the quarantines' policies at the end of a run."""
    records = [
        quarantine_queries.aging(partial(internal_query, lake), lake.tables[name], run_id)
        for name in names
        if lake.tables[name].quarantine != QuarantinePolicy() and lake.quarantined_rows(name)
    ]
    return [record for record in records if record is not None]


def _past_checks(lake: OpenLake, table: TableName, checks: Sequence[str]) -> dict[str, list[PastResult]]:
    history = lake.ledger.check_history(str(table), checks, _PAST_BATCHES)
    return {
        check: [PastResult(at=each.checked_at, value=each.value, sketch=each.sketch, mode=each.mode) for each in past]
        for check, past in history.items()
    }


_probed: set[Store] = set()
"""The stores of this process's warehouses that create files exclusively. Each probe of an object store costs requests;
a folder is probed each time, because another disk may be mounted there."""


def refuse_unconditional_store(lake: OpenLake) -> None:
    """Refuse a store that cannot create a file exclusively: two writers could overwrite each other's commits."""
    store = lake.warehouse.store
    if store in _probed:
        return
    if failure := store.probe():
        raise InfrastructureError(
            "no-put-if-absent",
            failure,
            hint="use a local disk with hard links, or an object store that honours conditional writes (If-None-Match)",
        )
    if StoreCapability.SHARED in store.capabilities:
        _probed.add(store)


def _run_record(
    lake: OpenLake,
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
        lake=lake.name,
        environment=lake.environment,
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
    lake: OpenLake,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    every: float = 10.0,
    stop: threading.Event,
    jobs: int | None = None,
    on_event: OnEvent | None = None,
    on_report: Callable[[RunReport], None],
    session: SparkSession | None = None,
) -> None:
    """Run repeatedly until `stop` is set, each time on new input. The current run is completed.

    Each round is an ordinary run with the same guarantees; the rounds share one Spark session. Tables from databases
    are excluded, because a database cannot report that nothing is new. The rounds also end when Spark's JVM ends.
    """
    from lakesmith.jvm.process import JvmDied

    owned = session is None
    from_databases = [str(name) for name, table in lake.tables.items() if isinstance(table.origin, Jdbc)]
    exclude = (*exclude, *from_databases)
    try:
        while not stop.is_set():
            began = monotonic()
            if session is None and any(plan(lake, select, exclude).steps):
                session = lake.start_session()
            report = run(lake, select, exclude, jobs=jobs, on_event=on_event, session=session)
            on_report(report)
            if any(isinstance(error, JvmDied) for error in report.errors):
                # Python functions of tables hold objects of the JVM that has ended: only a new process is clean.
                return
            stop.wait(max(0.0, every - (monotonic() - began)))
    finally:
        if owned and session is not None:
            from lakesmith.jvm.session import close_session

            close_session(session)
