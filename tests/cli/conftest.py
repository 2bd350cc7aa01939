from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Protocol

import pytest
from click.testing import CliRunner, Result

from lakesmith.cli import app
from lakesmith.cli.call import Call
from lakesmith.declare import QueryLimits, TableName
from lakesmith.errors import LakesmithError
from lakesmith.plan.steps import Build, Compact, Ingest, Input, Plan, Restore, Step, TablePlan, Vacuum
from lakesmith.ports import Answer, FileFact
from lakesmith.records import CheckRecord, Outcome, RunRecord, StepRecord
from lakesmith.reports import (
    ColumnDifference,
    ColumnProfile,
    ContractChange,
    ContractCheck,
    ContractDiff,
    Edge,
    EmptyReport,
    Event,
    Finding,
    Frequent,
    Lineage,
    Proposal,
    QuarantineCount,
    Release,
    RunReport,
    SparkStarting,
    StepStarted,
    TableProfile,
    TableStatus,
    UnitTestReport,
    UnitTestResult,
    Validation,
    Version,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
BRONZE, SILVER = TableName("bronze", "orders"), TableName("silver", "orders")


class FakeLake:
    """A fake lake that returns fixed answers and records the last call. Every method raises `raises`, if set."""

    name = "shop"
    environment = "dev"

    def __init__(self) -> None:
        self.called: dict[str, Any] = {}
        self.call: Call | None = None
        self.raises: BaseException | None = None
        self.report = _report("ok")
        self.findings: tuple[Finding, ...] = (Finding(subject="java", ok=True, found="Java 17"),)
        self.trials = UnitTestReport(results=(), untested=(), seconds=1.0)
        self.empty = EmptyReport(checked=("silver.orders",), skipped={}, assumed={}, errors=(), seconds=1.0)
        self.answer = Answer(
            columns=("order_id", "amount", "note"),
            types=("BIGINT", "DECIMAL(12,2)", "VARCHAR"),
            rows=((1, Decimal("19.90"), "a|b"), (1234567, Decimal("-5.00"), None)),
        )

        self.profiled = _profile()
        at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
        self.released: tuple[Release, ...] = (Release(release="r1", released_at=at, tables={"silver.orders": 3}),)

    def will_end(self, outcome: Outcome, *errors: LakesmithError) -> None:
        self.report = _report(outcome, *errors)

    def plan_compact(self, tables: Sequence[str] = ()) -> Plan:
        self._call("plan_compact", tables=tables)
        return _maintenance(Compact(table=SILVER, files=3, bytes=2048, reason="3 files"))

    def compact(self, tables: Sequence[str] = (), *, on_event: Callable[[Event], None]) -> RunReport:
        self._call("compact", tables=tables)
        return self.report

    def plan_vacuum(self, tables: Sequence[str] = (), *, older_than: float, force: bool) -> Plan:
        self._call("plan_vacuum", tables=tables, older_than=older_than, force=force)
        return _maintenance(Vacuum(table=SILVER, older_than=older_than, reason="requested"))

    def vacuum(
        self, tables: Sequence[str] = (), *, older_than: float, force: bool, on_event: Callable[[Event], None]
    ) -> RunReport:
        self._call("vacuum", tables=tables, older_than=older_than, force=force)
        return self.report

    def plan_restore(self, table: str, version: int) -> Plan:
        self._call("plan_restore", table=table, version=version)
        return _maintenance(Restore(table=SILVER, version=version, reason="from version 7"))

    def restore(self, table: str, version: int, *, on_event: Callable[[Event], None]) -> RunReport:
        self._call("restore", table=table, version=version)
        return self.report

    def plan_rollback(self, release: str) -> Plan:
        self._call("plan_rollback", release=release)
        return _maintenance(Restore(table=SILVER, version=3, reason="from version 7"))

    def rollback(self, release: str, *, on_event: Callable[[Event], None]) -> RunReport:
        self._call("rollback", release=release)
        return self.report

    def releases(self, *, limit: int) -> tuple[Release, ...]:
        self._call("releases", limit=limit)
        return self.released

    def _call(self, method: str, **arguments: object) -> None:
        self.called = {"method": method, **arguments}
        if self.raises:
            raise self.raises

    def validate(self) -> Validation:
        self._call("validate")
        return Validation(
            lake="shop",
            environment="dev",
            tables=2,
            by_layer={"bronze": 1, "silver": 1},
            checks=1,
            warnings=("silver.orders has no owner",),
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
        self._call("plan", select=select, exclude=exclude, full_refresh=full_refresh, days=days, chunk=chunk)
        ingest = Ingest(table=BRONZE, files=(FileFact("/l/a.json", 2048, 1),), reason="1 new file")
        build = Build(
            table=SILVER,
            mode="full",
            inputs=(Input(table=BRONZE, since=None),),
            reason="the table is new",
            cost_reason="nothing was read before",
        )
        return Plan(
            lake="shop",
            environment="dev",
            tables=(
                TablePlan(table=BRONZE, status="changed", reason="files have come", steps=(ingest,)),
                TablePlan(table=SILVER, status="added", reason="it does not exist", steps=(build,), after=(BRONZE,)),
                TablePlan(table=TableName("gold", "sales"), status="unchanged", reason="inputs are the same"),
            ),
        )

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
    ) -> RunReport:
        assert on_event is not None
        if self.report.run:
            on_event(SparkStarting())
        for step in self.report.steps:
            on_event(StepStarted(table=step.table, step=step.step, reason=step.reason))
            on_event(step)
        self._call("run", select=select, exclude=exclude, full_refresh=full_refresh, days=days, chunk=chunk, jobs=jobs)
        return self.report

    def test(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        name: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_result: Callable[[UnitTestResult], None] | None = None,
    ) -> UnitTestReport:
        self._call("test", select=select, exclude=exclude, name=name)
        assert on_event is not None
        assert on_result is not None
        on_event(SparkStarting())
        for result in self.trials.results:
            on_result(result)
        return self.trials

    def test_empty(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        on_event: Callable[[Event], None] | None = None,
    ) -> EmptyReport:
        self._call("test_empty", select=select, exclude=exclude)
        return self.empty

    def status(self, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[TableStatus, ...]:
        self._call("status", select=select, exclude=exclude)
        return (
            table_status("bronze.orders", "ok", rows=1234567, age=200.0),
            table_status("silver.orders", "late", rows=10, age=90000.0),
            table_status("gold.sales", "missing"),
        )

    def quarantine(self) -> tuple[QuarantineCount, ...]:
        return (
            QuarantineCount(table="silver.orders", reason="amount >= 0", rows=1, example='{"amount": -5}'),
            QuarantineCount(table="silver.hidden", reason="secret", rows=1, example="{}"),
        )

    @property
    def tables(self) -> dict[TableName, None]:
        return {BRONZE: None, SILVER: None}

    def history(self, table: str | None = None, *, limit: int = 20) -> tuple[RunRecord, ...] | tuple[Version, ...]:
        self._call("history", table=table, limit=limit)
        if table:
            return (
                Version(version=3, committed_at=NOON, operation="MERGE", rows_written=1000, run_id="r1"),
                Version(version=2, committed_at=NOON, operation="OPTIMIZE", rows_written=None, run_id=None),
            )
        return (run_record(),)

    def run_steps(self, run_id: str) -> tuple[StepRecord, ...]:
        self._call("run_steps", run_id=run_id)
        return (step_record("silver.orders"),) if run_id == "r1" else ()

    def query(
        self,
        sql: str,
        *,
        at: Sequence[str] = (),
        release: str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        memory: int | None = None,
    ) -> Answer:
        self._call("query", sql=sql, at=at, **({"release": release} if release is not None else {}))
        self.limits = QueryLimits(timeout=timeout, memory=memory)
        rows = self.answer.rows[:limit]
        return replace(self.answer, rows=rows, truncated=len(rows) < len(self.answer.rows))

    def query_limits(self, *, timeout: float | None = None, memory: int | None = None) -> QueryLimits:
        return QueryLimits(timeout=timeout or 300.0, memory=memory)

    def profile(self, table: str, *, rows: int) -> TableProfile:
        self._call("profile", table=table, rows=rows)
        return self.profiled

    def lineage(self, table: str | None = None) -> Lineage:
        self._call("lineage", table=table)
        return Lineage(
            table=table,
            nodes=("bronze.orders", "silver.orders", "gold.sales"),
            edges=(
                Edge(source="bronze.orders", target="silver.orders"),
                Edge(source="silver.orders", target="gold.sales"),
            ),
            columns=(Edge(source="bronze.orders.amount", target="silver.orders.amount"),),
            sources={"bronze.orders": "landing/orders/*.json"},
        )

    def contract_diff(self, tables: Sequence[str] = ()) -> tuple[ContractDiff, ...]:
        self._call("contract_diff", tables=tables)
        return (
            contract_diff("bronze.orders", recorded=None),
            contract_diff("silver.orders", contract_change(breaking=True), contract_change(breaking=False)),
            contract_diff("gold.sales", version="1.0.0"),
        )

    def contract_check(self, tables: Sequence[str] = ()) -> tuple[ContractCheck, ...]:
        self._call("contract_check", tables=tables)
        agrees = ContractCheck(table="bronze.orders", state="agrees", columns=2, differences=())
        wrong = ColumnDifference(column="amount", declared="int", stored="bigint", what="has another type")
        differs = ContractCheck(table="silver.orders", state="differs", columns=1, differences=(wrong,))
        return (agrees,) if "bronze.orders" in tables else (agrees, differs)

    def doctor(self, *, fix: bool = False, deep: bool = False) -> tuple[Finding, ...]:
        self._call("doctor", fix=fix, deep=deep)
        return self.findings


def contract_change(*, breaking: bool) -> ContractChange:
    return ContractChange(
        kind="removed" if breaking else "added",
        path="amount",
        what="amount was removed" if breaking else "note is new",
        backward=True,
        forward=not breaking,
        breaking=breaking,
        version="2.0.0" if breaking else "1.1.0",
        consumers=("gold.sales.total", "gold.model") if breaking else (),
    )


def contract_diff(
    table: str, *changes: ContractChange, recorded: str | None = "1.0.0", version: str = "2.0.0"
) -> ContractDiff:
    return ContractDiff(
        table=table,
        recorded=recorded,
        version=version,
        compatibility="forward",
        acknowledged=False,
        changes=changes,
    )


def table_status(table: str, state: Any, rows: int | None = None, age: float | None = None) -> TableStatus:
    return TableStatus(
        table=table,
        layer=table.partition(".")[0],
        load="append",
        state=state,
        rows=rows,
        quarantined=1 if table == "silver.orders" else 0,
        bytes=None if rows is None else rows * 2,
        version=None if rows is None else 4,
        updated_at=None if age is None else NOON,
        age_seconds=age,
        freshness_seconds=None,
        owner="sales",
    )


def step_record(table: str, *, outcome: Outcome = "ok", quarantined: int = 1, error: str | None = None) -> StepRecord:
    return StepRecord(
        run_id="r1",
        table=table,
        step="build",
        mode="changes",
        reason="1 new version",
        outcome=outcome,
        sequence=1,
        rows_in=1002 + quarantined,
        rows_written=1000,
        rows_quarantined=quarantined,
        rows_deduplicated=2,
        version=3,
        started_at=NOON,
        seconds=2.5,
        error=error,
    )


def run_record(outcome: Outcome = "ok") -> RunRecord:
    return RunRecord(
        run_id="r1",
        lake="shop",
        environment="dev",
        plan_hash="abc",
        outcome=outcome,
        tables=1,
        rows_in=1003,
        rows_written=1000,
        rows_quarantined=1,
        rows_deduplicated=2,
        started_at=NOON,
        seconds=12.0,
        lakesmith_version="0.1.0",
    )


def _report(outcome: Outcome, *errors: LakesmithError) -> RunReport:
    step = step_record("silver.orders", outcome=outcome, error=errors[0].what if errors else None)
    check = CheckRecord(
        run_id="r1",
        table="silver.orders",
        sequence=1,
        check="known_currency",
        severity="warn",
        failed_rows=3,
        passed=False,
        checked_at=NOON,
    )
    return RunReport(run=run_record(outcome), steps=(step,), checks=(check,), errors=errors)


def _profile() -> TableProfile:
    amount = ColumnProfile(
        column="amount",
        type="decimal(12,2)",
        nulls=1,
        null_rate=0.1,
        distinct=1234,
        counted=False,
        unique=False,
        min=Decimal("0.99"),
        max=Decimal("250.00"),
        mean=12.5,
        quantiles={"0.05": 1.0, "0.25": 5.0, "0.5": 10.0, "0.75": 20.0, "0.95": 100.0},
        frequent=(Frequent(value=Decimal("5.00"), rows=1200), Frequent(value=Decimal("7.00"), rows=None)),
    )
    email = ColumnProfile(
        column="email",
        type="string",
        nulls=0,
        null_rate=0.0,
        distinct=10,
        counted=True,
        unique=True,
        shortest=9,
        longest=12,
        pattern="email",
        masked=True,
    )
    rule: dict[str, object] = {"range": {"column": "amount", "min": 0}, "on_fail": "warn"}
    return TableProfile(
        table="silver.orders",
        version=4,
        rows=5000,
        profiled_rows=10,
        columns=(amount, email),
        proposals=(Proposal(name="amount_range", kind="check", rule=rule, reason="it was so"),),
        yaml="checks:\n  # it was so\n  amount_range: {range: {column: amount, min: 0}, on_fail: warn}\n",
    )


class Invoke(Protocol):
    def __call__(self, *arguments: str, text: str | None = None) -> Result: ...


@pytest.fixture(autouse=True)
def no_colour_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def invoke() -> Invoke:
    def call(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=text)

    return call


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> FakeLake:
    fake = FakeLake()

    def opened(self: Call) -> FakeLake:
        fake.call = self
        return fake

    monkeypatch.setattr(Call, "open", opened)
    monkeypatch.setattr(Call, "lake_folder", lambda self: ".")
    monkeypatch.setattr(Call, "table_names", lambda self: [str(name) for name in fake.tables])
    return fake


class Parsed(Protocol):
    def __call__(self, result: Result) -> Any: ...


@pytest.fixture
def parsed() -> Parsed:
    """Parse standard output, which must be only JSON."""

    def load(result: Result) -> Any:
        return json.loads(result.stdout)

    return load


def _maintenance(step: Step) -> Plan:
    table = TablePlan(table=SILVER, status="changed", reason=step.reason, steps=(step,))
    return Plan(lake="shop", environment="dev", tables=(table,))
