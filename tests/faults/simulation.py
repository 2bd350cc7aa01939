"""The simulated lake of the state machine: its events, and the promises that hold after each of them.

N  each landed row is in exactly one place: the table, the quarantine, or discarded; no row is in the table twice
A  acknowledged work never vanishes, and the ledger has the run
V  each sequence number is committed at most once, by the attempt that is recorded as done
R  every table matches its inputs at the versions of its bookmark; at the end, it matches all landed files
C  the versions of a release fit together
E  every error has a code and a next step, and following it repairs the lake
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache

from tests.faults.memory import (
    Content,
    Disk,
    Fault,
    MemoryFormat,
    MemoryStorage,
    QuarantineDecision,
    RejectedRow,
    Row,
    Table,
    Version,
    latest,
)
from tests.faults.processes import Clock, Hold, Killed, Process
from tests.faults.small_lake import (
    DAILY,
    LATEST,
    LENIENT,
    ORDERS,
    QUERIES,
    STRICT,
    TABLES,
    Bridge,
    Definition,
    MemoryWarehouse,
    SimulatedLake,
    by_day,
    declared,
    scaled,
)

from lakesmith.declare import TableName
from lakesmith.errors import LakesmithError, Problems
from lakesmith.ledger.batch import BATCH_NOTE, Batch, CompletedBatch, decode_batch, decode_completed
from lakesmith.ledger.batches import Batches, flow
from lakesmith.ledger.content import ReplayedRows
from lakesmith.ledger.lease import LEASE_SECONDS
from lakesmith.plan.fingerprint import definition as fingerprint
from lakesmith.plan.steps import Progress
from lakesmith.ports import CommitFact, FileFact, TableFolder
from lakesmith.reports import RunReport

DEFINITIONS = tuple(Definition(floor, query) for floor in (STRICT, LENIENT) for query in range(len(QUERIES)))
FOREIGN = (
    ("OPTIMIZE", ""),
    ("SET TBLPROPERTIES", ""),
    ("VACUUM END", ""),
    ("WRITE", "run by cron run 7"),
    ("unknown", ""),
)
"""Commits of other writers: their operation and their note."""
MOST_ALIVE = 3
_BATCHES = "_lakesmith/batches/"
_ROUNDS = 40
"""The maximum number of times that the test follows the hints of errors."""
_LONGEST = 2000
"""The maximum number of pauses of one run."""
_OBSERVER = Process(number=0, host="none", kind="observer", work=lambda _: None)


class Stepped:
    """The number of steps in all simulations."""

    steps = 0
    """Steps while faults happen."""
    quiet = 0
    """Steps without faults, until the lake has nothing to do."""
    simulations = 0
    releases = 0


class ObserverStorage(MemoryStorage):
    """The store of the observer, which never fails."""

    def _look(self, operation: str, key: str) -> None:
        """Do nothing: no operation fails."""


class KnownBatches(Batches):
    """The progress of a table by the unchanged product, so that planted bugs do not change what the observer reads."""

    progress = Batches.progress
    committed = Batches.committed
    _sequence_at = Batches._sequence_at

    def done(self, sequence: int) -> CompletedBatch | None:
        data = self._store.read(self._key(sequence, "done"))
        return None if data is None else _done_of(data, sequence)

    def _attempt(self, sequence: int, attempt: int) -> Batch:
        data = self._store.read(self._key(sequence, f"{attempt:02}"))
        assert data is not None, f"{self._key(sequence, f'{attempt:02}')} is missing from the warehouse"
        return _batch_of(data, sequence)


# The observer reads the same files after every step.
_done_of, _batch_of = lru_cache(10_000)(decode_completed), lru_cache(10_000)(decode_batch)


@dataclass
class Simulation:
    """A lake, the processes that work on it, and the injected faults."""

    bridge: Bridge
    clock: Clock = field(default_factory=Clock)
    definition: Definition = field(default_factory=Definition)
    processes: list[Process] = field(default_factory=list)
    started: int = 0
    landed: int = 0
    acknowledged: set[int] = field(default_factory=set)
    promised: dict[int, set[int]] = field(default_factory=dict)
    """By process, the landed rows at its start."""
    corrupted: dict[str, bytes] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    """All events, for the report of a failure."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """How often each error occurred, by its code."""
    recovering: bool = False

    def __post_init__(self) -> None:
        self.disk = Disk(self.clock)
        self.bridge.disk, self.bridge.clock = self.disk, self.clock
        self.bridge.alive = lambda number: any(each.number == number for each in self.alive)
        self.storage, self.format = ObserverStorage(self.disk, _OBSERVER), MemoryFormat(self.disk, _OBSERVER)
        self.warehouse = MemoryWarehouse(self.storage)
        self._looked = -1
        self._known: dict[TableName, tuple[int, Progress]] = {}
        self._checked: dict[str, int] = {}
        self._counted: set[str] = set()
        self._released = 0
        Stepped.simulations += 1

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.processes if process.alive]

    @property
    def working(self) -> list[Process]:
        return [process for process in self.alive if not process.stopped]

    # Events.

    def land(self, rows: Sequence[tuple[int, int]]) -> None:
        """Land a file."""
        path = f"landing/f{len(self.disk.landed):04}.json"
        made = []
        for key, value in rows:
            self.landed += 1
            made.append(Row(self.landed, key, value))
        self.disk.landed[path] = FileFact(path, len(made), int(self.clock.now * 1000)), tuple(made)
        self._happened(f"land {path} {rows}")

    def start(self, kind: str, host: str) -> Process:
        """Create a process, which has done nothing yet."""
        self.started += 1
        definition = self.definition

        def work(process: Process) -> object:
            lake = SimulatedLake(definition, self.disk, process)
            match kind:
                case "approve":
                    held = lake.held()
                    return lake.approve(held[0].run_id, reason="looked at", by="somebody") if held else None
                case "replay" | "discard":
                    return lake.decide(discard=kind == "discard")
                case "refresh":
                    return lake.run(full_refresh=True)
                case _:
                    return lake.run()

        process = Process(number=self.started, host=host, kind=kind, work=work)
        self.processes.append(process)
        self.promised[process.number] = {row.uid for _, rows in self.disk.landed.values() for row in rows}
        self._happened(f"start {process.number} {kind} on {host}")
        return process

    def advance(self, process: Process, steps: int) -> None:
        """Advance a process by this number of pauses."""
        for _ in range(steps):
            if not process.alive:
                return
            self.bridge.current = process
            process.advance()
            self.bridge.current = None
            self._happened(f"{process.number} at {process.place if not process.ended else 'its end'}")
            if process.ended:
                self._ended(process)

    def finish(self, process: Process) -> Process:
        self.advance(process, _LONGEST)
        assert process.ended, f"{process.kind} does not end: {process.place}"
        return process

    def kill(self, process: Process) -> None:
        self.bridge.current = process
        process.kill()
        self.bridge.current = None
        self.processes.remove(process)
        assert isinstance(process.error, Killed | None), process.error
        self._happened(f"kill {process.number} at {process.place}")

    def stop(self, process: Process) -> None:
        process.stopped = not process.stopped
        self._happened(f"{'stop' if process.stopped else 'go on'} {process.number}")

    def overtake(self, process: Process, place: str, steps: int) -> Process:
        """Suspend a process at a place until another run takes the table over, and resume it after some steps of that
        run."""
        for _ in range(_LONGEST):
            if not process.alive or process.place == place:
                break
            self.advance(process, 1)
        self.stop(process)
        self.wait(LEASE_SECONDS + 1)
        other = self.start("run", process.host)
        self.advance(other, steps)
        self.stop(process)
        return other

    def wait(self, seconds: float) -> None:
        """Let time pass; working processes renew their leases."""
        while seconds > 0:
            tick = min(seconds, LEASE_SECONDS / 4)
            seconds -= tick
            self.clock.now += tick
            for process in self.working:
                for hold in process.holds:
                    with suppress(LakesmithError):
                        hold.renew()
                        hold.seen = self.clock.now
            for hold in self._holds():
                hold.sound = hold.sound and self.clock.now - hold.seen < LEASE_SECONDS
        self._happened("wait")

    def jump(self, seconds: float) -> None:
        """Set the clock, without time passing."""
        self.clock.now += seconds
        for hold in self._holds():
            hold.sound = False
        self._happened(f"jump {seconds}")

    def fail(self, operation: str, effect: bool) -> None:
        """Make the next operation of this kind fail."""
        self.disk.faults.append(Fault(operation, effect))
        self._happened(f"fail {operation} {'after' if effect else 'before'} its effect")

    def restore(self, name: TableName, back: int) -> None:
        """Roll a table back manually, without a lease. Never past a batch that took rows out of the quarantine, because
        that is not rolled back with the table."""
        table = self._table(name)
        if table is None:
            return
        least = max((v.number for v in table.versions if self._takes_from_quarantine(name, v)), default=0)
        version = max(table.newest.number - back, least, table.oldest)
        if name == ORDERS:
            self.acknowledged.clear()
            self.promised.clear()
        self._by_hand(table, table.versions[version].rows, "RESTORE", {"version": str(version)})
        self._happened(f"restore {name} to {version}")

    def optimize(self, name: TableName) -> None:
        """Commit a version that changes no row."""
        if table := self._table(name):
            self._by_hand(table, table.newest.rows, "OPTIMIZE", {})
            self._happened(f"optimize {name}")

    def foreign(self, location: str, count: int, kind: int) -> None:
        """Let another writer commit without a change of rows, to a table or a side table."""
        if table := self.disk.tables.get(location):
            operation, note = FOREIGN[kind % len(FOREIGN)]
            for _ in range(count):
                self._by_hand(table, table.newest.rows, operation, {}, note)
            self._happened(f"foreign {count} {operation!r} in {location}")

    def clean_log(self, name: TableName) -> None:
        """Delete old commits from the log, also the commit of an interrupted batch."""
        table, progress = self._table(name), self._progress(name)
        if table is None or progress is None:
            return
        last = max(version.number for version in table.versions if version.flow)
        rolled_back = any(version.operation == "RESTORE" for version in table.versions[last:])
        if not rolled_back and not self._holds() and not self._is_contested(name, progress):
            table.oldest = max(table.oldest, table.newest.number - 2)
            self.disk.changes += 1
            self._happened(f"clean log of {name}")

    def _is_contested(self, name: TableName, progress: Progress) -> bool:
        """Return whether only the log shows which of several runs committed a batch."""
        start = f"{_BATCHES}{name}/{progress.unfinished or 0:08}."
        pinned = (decode_batch(data, progress.unfinished or 0) for key, data in self.disk.files.items() if start in key)
        return len({batch.run_id for batch in pinned}) > 1

    def define(self, definition: Definition) -> None:
        """Change the declarations; running processes have read the old ones."""
        self.definition = definition
        self._happened(f"define {definition}")

    def corrupt(self, which: int) -> None:
        """Overwrite a file with garbage."""
        keys = [key for key in self.disk.files if key.startswith((_BATCHES, "_lakesmith/held", "_lakesmith/ingested"))]
        if keys and not self.corrupted:
            key = sorted(keys)[which % len(keys)]
            self.corrupted[key] = self.disk.files[key]
            self.disk.files[key] = b'{"torn'
            self._happened(f"corrupt {key}")

    def repair(self) -> None:
        """Restore the corrupted file, unless it was rewritten or removed."""
        for key, data in self.corrupted.items():
            if self.disk.files.get(key) == b'{"torn':
                self.disk.files[key] = data
        self.corrupted.clear()
        self.disk.changes += 1
        self._happened("repair")

    # Promises.

    def check(self) -> None:
        """Check the promises that hold after each step."""
        sound = Counter(hold.table for process in self.alive for hold in process.holds if hold.sound)
        assert not sound or max(sound.values()) == 1, f"two processes hold {sound.most_common(1)[0][0]}"
        if self._looked == self.disk.changes:
            return
        self._looked = self.disk.changes
        for location, table in self.disk.tables.items():
            self._check_versions(location, table)
        self._check_row_counts()
        self._check_releases()
        if not self.corrupted:
            self._check_orders()
            self._check_derived(LATEST)
            self._check_derived(DAILY)

    def _check_versions(self, location: str, table: Table) -> None:
        done = self._checked.get(location, 0)
        if done == len(table.versions):
            return
        self._checked[location] = len(table.versions)
        numbers = [(version.flow, version.sequence) for version in table.versions if version.flow]
        assert len(numbers) == len(set(numbers)), f"V: a number was committed twice to {location}: {numbers}"
        uids = Counter(row.uid for row in table.newest.rows if isinstance(row, Row))
        assert not uids or max(uids.values()) == 1, f"N: a row is twice in {location}: {uids.most_common(1)}"

    def _check_row_counts(self) -> None:
        for key in self.disk.files:
            if key.endswith(".done.json") and key not in self._counted and key not in self.corrupted:
                self._counted.add(key)
                name, file = key.removeprefix(_BATCHES).split("/")
                done = decode_completed(self.disk.files[key], int(file[:8]))
                table = self.disk.tables[self.warehouse.table(_named(name)).url]
                note = f"{BATCH_NOTE}{done.sequence}.{done.attempt} run {done.run_id}"
                made = next((version.number for version in table.versions if version.note == note), None)
                # For a deleted commit, only the highest possible version is known.
                known = made is not None and (made == done.version or made < done.version == table.oldest - 1)
                assert known, f"V: {key} is version {made}, and not {done.version}"
                accounted = done.rows_written + done.rows_quarantined + done.rows_deduplicated + done.rows_discarded
                assert done.rows_in == accounted, f"N: the row counts of {key} do not add up: {done}"

    def _check_releases(self) -> None:
        for release in self.disk.releases[self._released :]:
            # Tables that were never built are in no release.
            tables = [table for name in TABLES if str(name) in release and (table := self._table(name))]
            found = [table.versions[release[str(name)]].rows for name, table in zip(TABLES, tables, strict=False)]
            assert len(release) == len(found), f"C: {release} lacks the inputs of its tables"
            if len(found) > 1:
                made = [scaled(tuple(latest(found[0])), factor) for factor in range(1, len(QUERIES) + 1)]
                assert found[1] in made, f"C: silver was not built from bronze in {release}"
            if len(found) > 2:
                assert tuple(sorted(found[2])) == by_day(found[1]), f"C: gold was not built from silver in {release}"
                Stepped.releases += 1
        self._released = len(self.disk.releases)

    def _check_orders(self) -> None:
        progress = self._progress(ORDERS)
        if progress is None:
            return
        there, rejected, discarded = self._orders()
        taken = {row.uid for path in progress.ingested for row in self.disk.landed[path][1]}
        assert there <= taken, f"R: the table has rows of files that are not in its bookmark: {there - taken}"
        open_rows: set[int] = set()
        if progress.unfinished is not None:
            batch = self._batches(ORDERS).committed(progress.unfinished, lambda: self._commits(ORDERS))
            open_rows = {row.uid for file in batch.files for row in self.disk.landed[file.path][1]}
            if isinstance(batch.content, ReplayedRows):
                open_rows = there & set(rejected) | set(rejected) & discarded
        missing = taken - there - set(rejected) - discarded - open_rows
        assert not missing, f"N: the bookmark is ahead of the rows: {missing}"
        twice = {uid for uid, times in rejected.items() if times > 1} | (
            set(rejected) & (there | discarded)
        ) - open_rows
        assert not twice, f"N: rows are in more than one place: {twice}"
        lost = self.acknowledged - there - set(rejected) - discarded
        assert not lost, f"A: acknowledged rows are gone: {lost}"

    def _check_derived(self, name: TableName) -> None:
        table, progress = self._table(name), self._progress(name)
        if table is None or progress is None or progress.definition is None:
            return
        ((source, position),) = progress.positions.items()
        inputs = self._table(_named(source))
        assert inputs is not None
        rows = inputs.versions[position.version].rows
        if name == LATEST:
            made = self._defined(name, progress.definition)
            assert table.newest.rows == scaled(tuple(latest(rows)), made.factor), f"R: {name} does not match its inputs"
        else:
            assert tuple(sorted(table.newest.rows)) == by_day(rows), f"R: {name} does not match its inputs"

    def recover_and_check(self) -> None:
        """End all faults, finish every process, run until there is nothing to do, and check the content."""
        self.recovering = True
        self.disk.faults.clear()
        self.repair()
        for process in self.alive:
            process.stopped = False
            self.finish(process)
        self._until_quiet()
        self.define(Definition(LENIENT, self.definition.query))
        self._until_quiet()
        self._until_replayed()
        self._until_quiet()
        self._check_end()

    def _until_replayed(self) -> None:
        for _ in range(_ROUNDS):
            report = self._report(self.finish(self.start("replay", "home")))
            if not report.errors:
                return
            self.wait(LEASE_SECONDS + 1)
        raise AssertionError(f"E: no replay succeeds: {[str(error) for error in report.errors]}")

    def _until_quiet(self) -> None:
        """Run until there is nothing to do, and follow the next step of each error."""
        for _ in range(_ROUNDS):
            process = self.finish(self.start("run", "home"))
            report = self._report(process)
            if report.run is None and not report.errors:
                return
            self.wait(LEASE_SECONDS + 1)
            # Approve held batches under the definition that held them.
            for error in sorted(report.errors, key=lambda error: error.code != "gate-failed"):
                match error.code:
                    case "gate-failed":
                        self.finish(self.start("approve", "home"))
                    case "source-gap" | "unknown-progress":
                        self.finish(self.start("refresh", "home"))
                    case "unfinished-under-other-definition":
                        self._finish_with_old_definition(_named(str(error.table)))
        raise AssertionError(f"E: the lake never runs without errors: {[str(error) for error in report.errors]}")

    def _finish_with_old_definition(self, name: TableName) -> None:
        progress, now = self._progress(name), self.definition
        assert progress is not None
        assert progress.unfinished_definition is not None
        self.define(self._defined(name, progress.unfinished_definition))
        self.finish(self.start("run", "home"))
        self.define(now)

    def _check_end(self) -> None:
        self.check()
        there, rejected, discarded = self._orders()
        rows = [row for _, rows in self.disk.landed.values() for row in rows]
        assert there == {row.uid for row in rows if row.value >= -5} - discarded, (
            "R: the table does not match the landed rows"
        )
        assert set(rejected) == {row.uid for row in rows if row.value < -5} - discarded, (
            "R: the quarantine does not match the landed rows"
        )
        if orders := self._table(ORDERS):
            silver, gold = self._table(LATEST), self._table(DAILY)
            assert silver is not None
            assert gold is not None
            made = scaled(tuple(latest(orders.newest.rows)), self.definition.factor)
            assert silver.newest.rows == made, "R: silver does not match the landed rows"
            assert tuple(sorted(gold.newest.rows)) == by_day(made), "R: gold does not match the landed rows"

    def _report(self, process: Process) -> RunReport:
        assert isinstance(process.result, RunReport), f"E: {process.kind} ended with {process.error!r}"
        return process.result

    def _ended(self, process: Process) -> None:
        self.processes.remove(process)
        self.bridge.current = None
        if process.error is not None:
            assert isinstance(process.error, LakesmithError), f"E: {process.error!r}" + _traceback(process.error)
            self._check_error(process.error)
            return
        report = process.result
        if isinstance(report, RunReport):
            recorded = report.run is None or report.run.run_id in self.disk.runs
            assert recorded, f"A: the ledger does not have {report.run}"
            for error in report.errors:
                self._check_error(error)
            if process.kind == "run" and not report.errors:
                self.acknowledged |= self.promised.get(process.number, set())

    def _check_error(self, error: LakesmithError) -> None:
        for each in error.errors if isinstance(error, Problems) else (error,):
            self.outcomes[each.code] += 1
            assert each.code, f"E: {each!r}"
            assert each.hint, f"E: {each!r} has no next step"

    def _happened(self, what: str) -> None:
        self.events.append(what)
        if self.recovering:
            Stepped.quiet += 1
        else:
            Stepped.steps += 1
        self.check()

    def _holds(self) -> list[Hold]:
        return [hold for process in self.alive for hold in process.holds]

    def _orders(self) -> tuple[set[int], Counter[int], set[int]]:
        """Return the rows of the bronze table, of its quarantine, and the discarded ones."""
        there = {row.uid for row in self._rows(self.warehouse.table(ORDERS)) if isinstance(row, Row)}
        quarantined = self._live(self._rows(self.warehouse.quarantine(ORDERS)))
        decisions = self._rows(self.warehouse.quarantine_decisions(ORDERS))
        rejected = Counter(row.row.uid for row in quarantined)
        discarded = {
            each.rejected.row.uid
            for each in decisions
            if isinstance(each, QuarantineDecision) and each.how == "discarded"
        }
        return there, rejected, discarded

    def _live(self, rejected: Sequence[object]) -> list[RejectedRow]:
        """Return the rejected rows without those of rolled-back batches, which are read again."""
        progress = None if self.corrupted else self._progress(ORDERS)
        head = progress.head if progress is not None else 0
        return [row for row in rejected if isinstance(row, RejectedRow) and row.batch <= head]

    def _rows(self, folder: TableFolder) -> Sequence[object]:
        table = self.disk.tables.get(folder.url)
        return table.newest.rows if table else ()

    def _table(self, name: TableName) -> Table | None:
        return self.disk.tables.get(self.warehouse.table(name).url)

    def _batches(self, name: TableName) -> Batches:
        return KnownBatches(self.storage, name)

    def _commits(self, name: TableName) -> Sequence[CommitFact]:
        return self.format.commits(self.warehouse.table(name))

    def _progress(self, name: TableName) -> Progress | None:
        """Return the progress of a table, by the product."""
        if self._table(name) is None or self.corrupted:
            return None
        known = self._known.get(name)
        if known is None or known[0] != self.disk.changes:
            facts = self.format.facts(self.warehouse.table(name), flow(name))
            known = self.disk.changes, self._batches(name).progress(facts, lambda: self._commits(name))
            self._known[name] = known
        return known[1]

    def _defined(self, name: TableName, fingerprint: str) -> Definition:
        """Return the definition of a batch."""
        alike = [each for each in DEFINITIONS if _fingerprint(each, name) == fingerprint]
        return next((each for each in alike if each == self.definition), alike[0])

    def _takes_from_quarantine(self, name: TableName, version: Version) -> bool:
        """Return whether the batch of a version may have taken rows out of the quarantine."""
        if not version.flow or self.corrupted:
            return bool(self.corrupted)
        sequence, attempt = map(int, version.note.split()[2].split("."))
        batch = self._batches(name).pinned(sequence, attempt)
        return isinstance(batch.content, ReplayedRows) or batch.follows_rollback

    def _by_hand(self, table: Table, rows: Content, operation: str, parameters: dict[str, str], note: str = "") -> None:
        number, now = len(table.versions), self.clock.now
        table.versions.append(
            Version(number=number, rows=rows, operation=operation, at=now, parameters=parameters, note=note)
        )
        self.disk.changes += 1


@cache
def _fingerprint(definition: Definition, name: TableName) -> str:
    return fingerprint(declared(definition)[0].tables[name])


def _named(text: str) -> TableName:
    name = TableName.parse(text)
    assert name is not None
    return name


def _traceback(error: BaseException) -> str:
    import traceback

    return "\n" + "".join(traceback.format_exception(error))
