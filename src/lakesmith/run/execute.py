"""Runs a plan: several tables at a time where the graph allows, and records what happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from lakesmith.declare import LakeDeclaration, TableName
from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.jvm.cluster import refuse_unsafe
from lakesmith.jvm.lake_jars import drivers_of, jars_of, settings_of
from lakesmith.jvm.process import JvmDied
from lakesmith.jvm.session import close_session, isolated, open_session
from lakesmith.ledger.lease import BACKFILL, BACKFILL_PAUSE_SECONDS, Leases
from lakesmith.plan.steps import BackfillChunk, Compact, Plan, Restore, Step, TablePlan, Vacuum
from lakesmith.ports import Store, TableFormat
from lakesmith.quality import PastResult
from lakesmith.records import CheckRecord, FileRecord, StepRecord
from lakesmith.reports import Event, SparkStarting, StepStarted
from lakesmith.run.context import RunContext
from lakesmith.run.failures import translate
from lakesmith.run.step import run_step
from lakesmith.run.step_result import StepResult
from lakesmith.spark.gate import GateFailed
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Executor:
    """One run of a plan. `steps`, `checks`, `files` and `errors` hold what it did, also after an interruption."""

    def __init__(
        self,
        lake: LakeDeclaration,
        warehouse: Warehouse,
        landings: Mapping[TableName, tuple[Store, str]],
        format: TableFormat,
        *,
        run_id: str,
        on_event: Callable[[Event], None],
        check_history: Callable[[TableName, Sequence[str]], Mapping[str, Sequence[PastResult]]],
        contracts: Mapping[TableName, str] | None = None,
        session: SparkSession | None = None,
        brief: bool = False,
    ) -> None:
        self._lake = lake
        self.run_id = run_id
        self._report = on_event
        self._leases = Leases(warehouse.store, f"run {run_id}")
        if session is not None:
            # One whose JVM has ended fails the first step that needs it: then the run is recorded.
            with suppress(JvmDied):
                refuse_unsafe(session, warehouse.store)
        self._session = session
        self._owned = session is None
        self._brief = brief
        self._stopped = False
        self._jvm_died = False
        self._starting = threading.Lock()
        self._threads = threading.local()
        self._context = RunContext(
            run_id=run_id,
            environment=lake.environment,
            warehouse=warehouse,
            landings=landings,
            format=format,
            session=self._own_session,
            check_history=check_history,
            contracts=contracts or {},
        )
        self.steps: list[StepRecord] = []
        self.checks: list[CheckRecord] = []
        self.files: list[FileRecord] = []
        self.errors: list[LakesmithError] = []

    def execute(self, plan: Plan, jobs: int) -> None:
        """Run every step. A table that fails stops only the tables that read it."""
        waiting = {table.table: table for table in plan.tables if table.steps}
        ended: dict[TableName, bool] = {}
        running: dict[Future[bool], TableName] = {}
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="table") as pool:
            try:
                while waiting or running:
                    self._start_ready(waiting, ended, running, pool)
                    if running:
                        finished, _ = wait(running, return_when=FIRST_COMPLETED)
                        for future in finished:
                            ended[running.pop(future)] = future.result()
            except BaseException:
                # No further table may begin; the jobs of running tables fail at once.
                self._stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise

    def close(self) -> None:
        """Stop the session if this run started it."""
        if self._session is not None and self._owned:
            close_session(self._session)
            self._session = None

    def _start_ready(
        self,
        waiting: dict[TableName, TablePlan],
        ended: dict[TableName, bool],
        running: dict[Future[bool], TableName],
        pool: ThreadPoolExecutor,
    ) -> None:
        for name, table in list(waiting.items()):
            if not all(before in ended for before in table.after):
                continue
            del waiting[name]
            failed = [str(before) for before in table.after if not ended[before]]
            if failed:
                ended[name] = False
                self._skip(table, f"waits for {', '.join(failed)}")
            else:
                running[pool.submit(self._table, table)] = name

    def _table(self, plan: TablePlan) -> bool:
        """Run the steps of one table in order; return whether tables that read it may run."""
        table = self._lake.tables[plan.table]
        if self._jvm_died:
            self._skip(plan, "Spark's JVM has ended")
            return False
        purpose = "run"
        for step in plan.steps:
            if isinstance(step, BackfillChunk):
                if purpose == BACKFILL:
                    time.sleep(BACKFILL_PAUSE_SECONDS)
                purpose = BACKFILL
            elif isinstance(step, Compact | Vacuum | Restore):
                purpose = step.name
            self._report(StepStarted(table=str(plan.table), step=step.name, reason=step.reason))
            started, clock = datetime.now(UTC), time.monotonic()
            try:
                with self._leases.hold(plan.table, purpose):
                    result = run_step(self._context, table, step)
            except Exception as error:  # noqa: BLE001 (`translate` raises what is a bug of ours)
                failure = translate(error, table)
                self._lake.environment.mask(failure)
                failure.table = failure.table or str(plan.table)
                if isinstance(error, GateFailed):
                    self.checks.extend(error.checks)
                self.errors.append(failure)
                self._jvm_died = self._jvm_died or isinstance(failure, JvmDied)
                seconds = time.monotonic() - clock
                self._record(self._ended(plan.table, step, started, seconds, "failed", step.reason, str(failure)))
                return False
            self.checks.extend(result.checks)
            self.files.extend(result.file_records)
            for postponed in result.postponed:
                self._lake.environment.mask(postponed)
            self.errors.extend(result.postponed)
            self._record(self._done(plan.table, step, result, started, time.monotonic() - clock))
        return True

    def _own_session(self) -> SparkSession:
        with self._starting:
            if self._stopped:
                raise InfrastructureError("stopped", "the run was stopped", hint="run again to continue")
            if self._session is None:
                self._report(SparkStarting())
                self._session = open_session(
                    self._lake.name,
                    settings_of(self._lake, self._context.warehouse.store),
                    jars_of(self._lake),
                    drivers_of(self._lake),
                    brief=self._brief,
                    private=self._lake.environment.secret_variables,
                    umask=self._lake.environment.umask,
                )
                refuse_unsafe(self._session, self._context.warehouse.store)
        # One session per thread: settings and views of a step must not affect a concurrent step.
        if not hasattr(self._threads, "session"):
            self._threads.session = isolated(self._session)
        own: SparkSession = self._threads.session
        return own

    def _skip(self, plan: TablePlan, reason: str) -> None:
        for step in plan.steps:
            self._record(self._ended(plan.table, step, datetime.now(UTC), 0.0, "skipped", reason))

    def _record(self, record: StepRecord) -> None:
        self.steps.append(record)
        self._report(record)

    def _ended(
        self,
        table: TableName,
        step: Step,
        started: datetime,
        seconds: float,
        outcome: Literal["failed", "skipped"],
        reason: str,
        error: str | None = None,
    ) -> StepRecord:
        return StepRecord(
            run_id=self.run_id,
            table=str(table),
            step=step.name,
            mode=step.mode,
            reason=reason,
            outcome=outcome,
            sequence=0,
            started_at=started,
            seconds=seconds,
            error=error,
        )

    def _done(self, table: TableName, step: Step, result: StepResult, started: datetime, seconds: float) -> StepRecord:
        if result.batch is None:
            return self._ended(table, step, started, seconds, "skipped", result.reason)
        done = result.batch.done
        return StepRecord(
            run_id=self.run_id,
            table=str(table),
            step=step.name,
            mode=result.mode,
            reason=result.reason,
            outcome="ok",
            sequence=done.sequence,
            rows_in=done.rows_in,
            rows_written=done.rows_written,
            rows_quarantined=done.rows_quarantined,
            rows_deduplicated=done.rows_deduplicated,
            rows_discarded=done.rows_discarded,
            rows_rescued=result.batch.rescued,
            columns_added=", ".join(result.batch.columns_added) or None,
            columns_widened="; ".join(result.batch.columns_widened) or None,
            bytes=result.batch.bytes,
            version_before=result.before.version if result.before else None,
            version=done.version,
            started_at=started,
            seconds=seconds,
        )
