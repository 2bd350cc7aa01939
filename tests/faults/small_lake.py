"""A lake of three tables with real runs, from plan to lease, except where they need Spark.

Fakes read and check rows in memory. The product's own code decides the order of all durable changes: `Lake.run`, the
planner, the executor, leases, batches, `TableState`, `BatchWriter`, `QuarantineReplay`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.faults.memory import Content, Day, Disk, MemoryFormat, MemoryStorage, RejectedRow, Row, Rows, latest
from tests.faults.processes import Clock, Hold, Process
from tests.plan.lakes import bronze, lake, made

import lakesmith.jvm.process
import lakesmith.lake.planning
import lakesmith.lake.running
import lakesmith.ledger.lease
import lakesmith.run.batch_reader
import lakesmith.run.execute
import lakesmith.run.replay
import lakesmith.run.table_state
import lakesmith.spark.replay
import lakesmith.spark.write
from lakesmith import failpoints
from lakesmith.declare import Check, LakeDeclaration, Merge, ReplacePartitions, Table, TableName
from lakesmith.declare.checks import RowSql
from lakesmith.errors import Place
from lakesmith.lake import Lake
from lakesmith.lake.open_lake import OpenLake
from lakesmith.lake.running import execute, plan_of_steps
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.held import HeldBatch, HeldBatches
from lakesmith.ledger.lease import LEASE_SECONDS, Lease, Leases
from lakesmith.ledger.tables import Ledger
from lakesmith.plan.graph import Graph
from lakesmith.plan.steps import LakeFacts, QuarantineFilter, Replay, ReplayQuarantine
from lakesmith.ports import ReplaceWhere, TableFacts, TableFormat, Upsert, names_in_folder
from lakesmith.quality import Rules, rules_of
from lakesmith.records import ReleaseRecord, RunRecord
from lakesmith.reports import RunReport
from lakesmith.spark.batch_counts import Counts
from lakesmith.spark.build import Built
from lakesmith.spark.gate import GateFailed
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.replay import QuarantineReplay
from lakesmith.spark.write import BatchWriter
from lakesmith.store import Warehouse

DAYS = 3
"""The number of days; each key belongs to one."""
LIMIT = 100
"""A row with a greater value makes the gate hold its batch."""
CONDITIONS: Mapping[str, Callable[[Row], bool]] = {
    "value >= 0": lambda row: row.value >= 0,
    "value >= -5": lambda row: row.value >= -5,
    f"value <= {LIMIT}": lambda row: row.value <= LIMIT,
}
STRICT, LENIENT = "value >= 0", "value >= -5"
QUERIES = ("SELECT uid, key, value FROM bronze.orders", "SELECT uid, key, value * 2 AS value FROM bronze.orders")
ORDERS, LATEST, DAILY = TableName("bronze", "orders"), TableName("silver", "latest"), TableName("gold", "daily")
TABLES = (ORDERS, LATEST, DAILY)
AT = Place("lake.yml")


@dataclass(frozen=True, slots=True)
class Definition:
    """How the tables are declared."""

    floor: str = STRICT
    query: int = 0

    @property
    def factor(self) -> int:
        return self.query + 1


def declared(definition: Definition) -> tuple[LakeDeclaration, Graph]:
    if definition not in _DECLARED:
        floor = Check(name="floor", rule=RowSql(condition=definition.floor), on_fail="quarantine", declared_at=AT)
        gate = Check(name="limit", rule=RowSql(condition=f"value <= {LIMIT}"), on_fail="fail", declared_at=AT)
        merge = Merge(key=("key",), order_by=("uid",))
        by_day = f"SELECT key % {DAYS} AS day, count(*) AS rows, sum(value) AS total FROM silver.latest GROUP BY 1"
        declaration = lake(
            bronze("orders", checks=(floor, gate)),
            made("silver.latest", QUERIES[definition.query], merge),
            made("gold.daily", by_day, ReplacePartitions(by="day")),
        )
        _DECLARED[definition] = declaration, Graph.of(declaration.tables)
    return _DECLARED[definition]


_DECLARED: dict[Definition, tuple[LakeDeclaration, Graph]] = {}


class MemoryWarehouse(Warehouse):
    """A warehouse on a store in memory."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.store = storage
        self._adopted = {}


class MemoryLedger(Ledger):
    """Stores only releases and run ids. Other tests interrupt runs before and after them."""

    def _append(self, name: str, records: Sequence[object]) -> None:
        disk = cast(MemoryStorage, self._warehouse.store)._disk
        disk.runs |= {record.run_id for record in records if isinstance(record, RunRecord)}
        released = [record for record in records if isinstance(record, ReleaseRecord)]
        if released:
            disk.releases.append({record.table: record.version for record in released})
            disk.changes += 1


class SimulatedLake(Lake):
    """The lake as one process opens it."""

    def __init__(self, definition: Definition, disk: Disk, process: Process) -> None:
        declaration, graph = declared(definition)
        storage = MemoryStorage(disk, process)
        warehouse = MemoryWarehouse(storage)
        ledger = MemoryLedger(warehouse)
        self._lake = MemoryLake(
            declaration=declaration,
            warehouse=warehouse,
            format=cast("Any", MemoryFormat(disk, process)),
            facts_cache=cast("Any", SimpleNamespace(save=lambda: None)),
            ledger=ledger,
            reported_entries=cast("Any", None),
            contract_versions=cast("Any", None),
            queries_file=Path("/nowhere"),
        )
        self._lake.__dict__["graph"] = graph
        self._lake.__dict__["landings"] = {ORDERS: (storage, "landing/*")}

    def decide(self, *, discard: bool) -> RunReport:
        """Replay or discard all quarantined rows of bronze."""
        replay = Replay(chosen=QuarantineFilter(), by="somebody", why="requested", discard=discard)
        step = ReplayQuarantine(table=ORDERS, replay=replay, reason="requested")
        return execute(self._lake, plan_of_steps(self._lake, {ORDERS: step}), LakeFacts())


class MemoryLake(OpenLake):
    """An open lake without contracts and caches, which other tests cover."""

    def compatibility_verdicts(self) -> dict[TableName, Any]:
        return {}

    def save_queries(self) -> None:
        """Write no file to a real disk."""


class VirtualLeases(Leases):
    """Leases that are renewed when simulated time passes."""

    def __init__(self, storage: Any, holder: str, *, clock: Callable[[], float]) -> None:
        super().__init__(storage, holder, clock=clock)
        self._process: Process = storage._process

    @contextmanager
    def _renewed(self, key: str, lease: Lease) -> Iterator[None]:
        hold = Hold(key.split("/")[-2], lambda: self._renew(key, lease), lease.expires_at - LEASE_SECONDS)
        hold.sound = self._clock() < lease.expires_at
        self._process.holds.append(hold)
        try:
            yield
        finally:
            self._process.holds.remove(hold)


class Inline:
    """A pool that runs work at once, in the caller."""

    def __init__(self, **_: object) -> None:
        pass

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., bool], *arguments: object) -> Future[bool]:
        done: Future[bool] = Future()
        done.set_result(work(*arguments))
        return done

    def shutdown(self, **_: object) -> None:
        pass


def broken(row: Row, rules: Rules) -> list[str]:
    """Return the names of the rules that a row breaks."""
    found = ((rule, CONDITIONS.get(rule.condition)) for rule in rules.rows)
    return [rule.name for rule, condition in found if condition and not condition(row)]


def is_rejected(row: Row, rules: Rules) -> bool:
    severities = {rule.name: rule.severity for rule in rules.rows}
    return any(severities[name] == "quarantine" for name in broken(row, rules))


def count(rows: Rows, rules: Rules, _: object = ()) -> Counts:
    own = [row for row in rows.rows if isinstance(row, Row)]
    names = Counter(name for row in own for name in broken(row, rules))
    rejected = sum(is_rejected(row, rules) for row in own)
    return Counts(rows_in=len(rows.rows), rejected=rejected, broken=names)


def good_rows(rows: Rows, rules: Rules) -> Rows:
    return Rows(tuple(row for row in rows.rows if not isinstance(row, Row) or not is_rejected(row, rules)))


def rejected_rows(rows: Rows, incoming: IncomingBatch) -> Rows:
    batch = incoming.batch.sequence
    rejected = [row for row in rows.rows if isinstance(row, Row) and is_rejected(row, incoming.rules)]
    return Rows(tuple(RejectedRow(f"{batch}.{row.uid}", row, batch) for row in rejected))


class RowCounter:
    """Counts rows while they are written."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def over(self, rows: Rows) -> Rows:
        self._rows = rows
        return rows

    def counts(self) -> Counts:
        return count(self._rows, self._rules)


def hold_batch(warehouse: Warehouse, incoming: IncomingBatch, _: Rows, failed: GateFailed) -> GateFailed:
    batch = incoming.batch
    HeldBatches(warehouse.store).save(
        HeldBatch(
            table=str(incoming.table.name),
            run_id=batch.run_id,
            sequence=batch.sequence,
            attempt=batch.attempt,
            held_at=batch.pinned_at,
            rows=failed.counts.rows_in,
            rejected=failed.counts.rejected,
            broken=dict(failed.counts.broken),
            failures=tuple(failure.what for failure in failed.failures),
        )
    )
    failpoints.failpoint("batch.held", incoming.table.name)
    return failed


def discard_held_batch(warehouse: Warehouse, table: Table) -> None:
    if names_in_folder(warehouse.store, f"_lakesmith/held/{table.name}"):
        HeldBatches(warehouse.store).remove(str(table.name))


class MemoryWriter(BatchWriter):
    """A writer that merges rows in memory."""

    def _merge_input(self, incoming: IncomingBatch, load: Any, good: Any, facts: TableFacts) -> Any:
        return SimpleNamespace(cached=(), load=load, good=good)

    def _upsert(self, incoming: IncomingBatch, entering: Any) -> Upsert:
        return Upsert(rows=entering.good, key=("key",), newer="source.uid > target.uid")

    def _deleted_keys(self, incoming: IncomingBatch) -> Any:
        return SimpleNamespace(store=lambda *_, **__: None)


class MemoryReplay(QuarantineReplay):
    """A replay that checks rows in memory."""

    def _checked_rows(self) -> Any:
        chosen = cast("Rows", self._chosen())
        return Rows(tuple(row.row for row in chosen.rows if isinstance(row, RejectedRow)))

    @cached_property
    def _rules(self) -> Rules:
        rules = rules_of(self.table)
        return replace(rules, rows=tuple(replace(rule, severity="quarantine") for rule in rules.rows))

    def _take_out(self, good: Any) -> None:
        passed, chosen = {row.uid for row in good.rows}, cast("Rows", self._chosen())
        rows = (row for row in chosen.rows if isinstance(row, RejectedRow) and row.row.uid in passed)
        self._store_decisions(Rows(tuple(rows)), "replayed")

    def _store_decisions(self, decisions: Any, how: str) -> None:
        super()._store_decisions(cast("Any", Rows(decisions.rows, how=how)), how)


def read_batch(disk: Disk, _: object, table: Table, batch: Batch, *__: object, **___: object) -> Rows:
    """Return the rows of the pinned files."""
    return Rows(tuple(row for file in batch.files for row in disk.landed[file.path][1]))


def build_batch(_: object, table: Table, batch: Batch, format: TableFormat, warehouse: Warehouse) -> Built | None:
    """Return the result of this lake's queries over the pinned inputs."""
    ((source, position),) = batch.inputs.items()
    name = TableName.parse(source)
    assert name is not None
    location = warehouse.table(name)
    now: Content = cast("Rows", format.read(cast("Any", None), location, position.version)).rows
    before: Content = ()
    if not batch.is_full:
        before = cast("Rows", format.read(cast("Any", None), location, batch.since[source])).rows
    if table.name == LATEST:
        factor = QUERIES.index(cast("Any", table.origin).text) + 1
        come = Counter(now) - Counter(before)
        return Built(rows=cast("Any", Rows(scaled(tuple(come.elements()), factor))), casts={})
    if batch.is_full:
        return Built(rows=cast("Any", Rows(by_day(now))), casts={})
    touched = {row.key % DAYS for row in set(now) ^ set(before) if isinstance(row, Row)}
    if not touched:
        return None
    part = ReplaceWhere("day", tuple(str(day) for day in sorted(touched)))
    rows = tuple(day for day in by_day(now) if day.day in touched)
    return Built(rows=cast("Any", Rows(rows)), casts={}, replace_where=part, replace_quarantine=part)


def scaled(rows: Content, factor: int) -> tuple[Row, ...]:
    return tuple(row._replace(value=row.value * factor) for row in rows if isinstance(row, Row))


def by_day(rows: Content) -> tuple[Day, ...]:
    """Return the expected rows of the gold table."""
    found: dict[int, list[int]] = {}
    for row in rows:
        if isinstance(row, Row):
            found.setdefault(row.key % DAYS, []).append(row.value)
    return tuple(Day(day, len(values), sum(values)) for day, values in sorted(found.items()))


class Bridge:
    """The state of the current simulation, which the fakes of all processes share."""

    disk: Disk
    clock: Clock
    current: Process | None = None
    alive: Callable[[int], bool]
    runs = 0

    def host(self) -> str:
        assert self.current is not None
        return self.current.host

    def process(self) -> int:
        assert self.current is not None
        return self.current.number

    def reach(self, place: str, _: str) -> None:
        if self.current is not None:
            self.current.pause(place)

    def run_id(self, _: object) -> str:
        self.runs += 1
        return f"r{self.runs}"


@contextmanager
def without_spark(bridge: Bridge) -> Iterator[pytest.MonkeyPatch]:
    """Replace the parts that need Spark, and the real clock, with fakes."""
    with pytest.MonkeyPatch.context() as patch:
        reader, state, write = lakesmith.run.batch_reader, lakesmith.run.table_state, lakesmith.spark.write
        patch.setattr(reader, "read_batch", lambda *a, **k: read_batch(bridge.disk, *a, **k))
        patch.setattr(reader, "build_batch", build_batch)
        patch.setattr(reader, "field_paths", lambda _: ())
        patch.setattr(reader, "new_fields", lambda *_: ())
        patch.setattr(reader, "wider_fields", lambda *_: ())
        patch.setattr(state, "BatchWriter", MemoryWriter)
        patch.setattr(lakesmith.run.replay, "QuarantineReplay", MemoryReplay)
        patch.setattr(state, "time", SimpleNamespace(time_ns=lambda: bridge.clock.time_ns()))
        patch.setattr(write, "add_rule_flags", lambda incoming, *_: incoming)
        patch.setattr(write, "check_rows", lambda incoming: incoming.rows)
        patch.setattr(write, "apply_decisions", lambda rows, *_: rows)
        patch.setattr(write, "count_rows", count)
        patch.setattr(write, "collect_few", lambda *_: None)
        patch.setattr(write, "good_rows", good_rows)
        patch.setattr(write, "rejected_rows", rejected_rows)
        patch.setattr(write, "RowCounter", RowCounter)
        patch.setattr(write, "hold_batch", hold_batch)
        patch.setattr(write, "discard_held_batch", discard_held_batch)
        patch.setattr(write, "apply_load", lambda _, rows: Rows(tuple(latest(rows.rows))))
        replay = lakesmith.spark.replay
        patch.setattr(replay, "BatchWriter", MemoryWriter)
        patch.setattr(replay, "good_rows", good_rows)
        patch.setattr(replay, "_delete_rows", lambda _, gone: gone)
        # After a lost connection, the product waits for the end of a JVM, and other tests may have started one.
        patch.setattr(lakesmith.jvm.process, "_gateway", lambda: None)
        execute = lakesmith.run.execute
        patch.setattr(execute, "ThreadPoolExecutor", Inline)
        patch.setattr(execute, "Leases", lambda *a: VirtualLeases(*a, clock=lambda: bridge.clock.now))
        patch.setattr(execute.Executor, "_own_session", lambda _: None)
        patch.setattr(lakesmith.ledger.lease, "_host", bridge.host)
        patch.setattr(lakesmith.ledger.lease, "_process", bridge.process)
        patch.setattr(lakesmith.ledger.lease, "_is_alive", lambda number: bridge.alive(number))
        patch.setattr(lakesmith.lake.running, "_new_run_id", bridge.run_id)
        patch.setattr(lakesmith.lake.running, "new_contract_records", lambda *_: [])
        # Other tests check columns.
        patch.setattr(lakesmith.lake.planning, "check_declarations", lambda *_: None)
        failpoints.watch(bridge.reach)
        try:
            yield patch
        finally:
            failpoints.watch(None)
