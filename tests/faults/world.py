"""The world that the state machine moves: what may happen to a lake, and what has to hold whatever happened.

N  each row that landed is in exactly one of table, quarantine, discarded; none is in the table twice
A  what a run has reported as done does not vanish, and the ledger knows the run
V  each number is committed at most once, by the very attempt that is written down as done
R  every table is what its inputs say, at the versions that its bookmark names; at the end, what all files say
C  the versions of a release fit together
E  what leaves the product is an error with a code and a next step, and following it is enough
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache

from tests.faults.memory import (
    BatchResult,
    Content,
    Disk,
    Fault,
    MemoryFormat,
    MemoryStorage,
    Refused,
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
from lakesmith.ports import CommitFact, FileFact
from lakesmith.reports import RunReport

DEFINITIONS = tuple(Definition(floor, query) for floor in (STRICT, LENIENT) for query in range(len(QUERIES)))
FOREIGN = (
    ("OPTIMIZE", ""),
    ("SET TBLPROPERTIES", ""),
    ("VACUUM END", ""),
    ("WRITE", "run by cron run 7"),
    ("unknown", ""),
)
"""What commits of others say of themselves: their operation, and what they leave in the commit."""
MOST_ALIVE = 3
_BATCHES = "_lakesmith/batches/"
_ROUNDS = 40
"""So many times somebody follows the hints of errors at the most."""
_LONGEST = 2000
"""So many places a run comes to at the most."""
_NOBODY = Process(number=0, host="nowhere", kind="onlooker", work=lambda _: None)


class Stepped:
    """How many steps were taken, in all worlds."""

    steps = 0
    """While anything may go wrong."""
    quiet = 0
    """While nothing goes wrong any more, until the lake is at rest."""
    worlds = 0
    releases = 0


class Onlooking(MemoryStorage):
    """Whoever only looks on is spared."""

    def _look(self, operation: str, key: str) -> None:
        """Nothing fails."""


class KnownBatches(Batches):
    """How far a table has come, told by the product as it is: a bug that is planted does not blind the onlooker."""

    progress = Batches.progress
    committed = Batches.committed
    _sequence_at = Batches._sequence_at

    def done(self, sequence: int) -> CompletedBatch | None:
        data = self._storage.read(self._key(sequence, "done"))
        return None if data is None else _done_of(data, sequence)

    def _attempt(self, sequence: int, attempt: int) -> Batch:
        data = self._storage.read(self._key(sequence, f"{attempt:02}"))
        assert data is not None, f"{self._key(sequence, f'{attempt:02}')} is missing from the warehouse"
        return _batch_of(data, sequence)


# The onlooker reads the same files after every step.
_done_of, _batch_of = lru_cache(10_000)(decode_completed), lru_cache(10_000)(decode_batch)


@dataclass
class World:
    """A lake, the processes that work on it, and what is wrong with the ground under them."""

    bridge: Bridge
    clock: Clock = field(default_factory=Clock)
    definition: Definition = field(default_factory=Definition)
    processes: list[Process] = field(default_factory=list)
    started: int = 0
    landed: int = 0
    acknowledged: set[int] = field(default_factory=set)
    promised: dict[int, set[int]] = field(default_factory=dict)
    """By process, the rows that had landed when it began."""
    spoilt: dict[str, bytes] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    """What happened, for whoever has to find out why something went wrong."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """How often each error was met, by its code."""
    settling: bool = False

    def __post_init__(self) -> None:
        self.disk = Disk(self.clock)
        self.bridge.disk, self.bridge.clock = self.disk, self.clock
        self.bridge.alive = lambda number: any(each.number == number for each in self.alive)
        self.storage, self.format = Onlooking(self.disk, _NOBODY), MemoryFormat(self.disk, _NOBODY)
        self.warehouse = MemoryWarehouse(self.storage)
        self._looked = -1
        self._known: dict[TableName, tuple[int, Progress]] = {}
        self._judged: dict[str, int] = {}
        self._books: set[str] = set()
        self._released = 0
        Stepped.worlds += 1

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.processes if process.alive]

    @property
    def working(self) -> list[Process]:
        return [process for process in self.alive if not process.stopped]

    # What may happen.

    def land(self, rows: Sequence[tuple[int, int]]) -> None:
        """A file arrives."""
        path = f"landing/f{len(self.disk.landed):04}.json"
        made = []
        for key, value in rows:
            self.landed += 1
            made.append(Row(self.landed, key, value))
        self.disk.landed[path] = FileFact(path, len(made), int(self.clock.now * 1000)), tuple(made)
        self._happened(f"land {path} {rows}")

    def start(self, kind: str, host: str) -> Process:
        """A process begins; it has not done anything yet."""
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
        """It comes so many places further."""
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
        assert process.ended, f"{process.kind} does not come to an end: {process.place}"
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
        """It is suspended at a place for so long that another run takes the table over, and goes on when that has come
        so far."""
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
        """Time passes, and whoever works gives signs of life."""
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
        """The clock is set, and no time has passed."""
        self.clock.now += seconds
        for hold in self._holds():
            hold.sound = False
        self._happened(f"jump {seconds}")

    def fail(self, operation: str, effect: bool) -> None:
        """The next operation of this kind goes wrong."""
        self.disk.faults.append(Fault(operation, effect))
        self._happened(f"fail {operation} {'after' if effect else 'before'} its effect")

    def restore(self, name: TableName, back: int) -> None:
        """Somebody rolls a table back by hand, and asks for no lease. Not past a batch that took rows out of the
        quarantine: that is not rolled back with the table."""
        table = self._table(name)
        if table is None:
            return
        least = max((v.number for v in table.versions if self._settles(name, v)), default=0)
        version = max(table.newest.number - back, least, table.oldest)
        if name == ORDERS:
            self.acknowledged.clear()
            self.promised.clear()
        self._by_hand(table, table.versions[version].rows, "RESTORE", {"version": str(version)})
        self._happened(f"restore {name} to {version}")

    def optimize(self, name: TableName) -> None:
        """Somebody makes a version that changes no row."""
        if table := self._table(name):
            self._by_hand(table, table.newest.rows, "OPTIMIZE", {})
            self._happened(f"optimize {name}")

    def foreign(self, location: str, count: int, kind: int) -> None:
        """Another writer makes commits that leave the rows as they are, in a table or beside it."""
        if table := self.disk.tables.get(location):
            operation, note = FOREIGN[kind % len(FOREIGN)]
            for _ in range(count):
                self._by_hand(table, table.newest.rows, operation, {}, note)
            self._happened(f"foreign {count} {operation!r} in {location}")

    def clean_log(self, name: TableName) -> None:
        """Old commits leave the log, as they do after some time, also that of a batch which was cut short."""
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
        """Whether only the log tells which of several runs has committed a batch."""
        start = f"{_BATCHES}{name}/{progress.unfinished or 0:08}."
        pinned = (decode_batch(data, progress.unfinished or 0) for key, data in self.disk.files.items() if start in key)
        return len({batch.run_id for batch in pinned}) > 1

    def define(self, definition: Definition) -> None:
        """Somebody edits the declarations; what runs already has read them."""
        self.definition = definition
        self._happened(f"define {definition}")

    def spoil(self, which: int) -> None:
        """A file is overwritten with garbage."""
        keys = [key for key in self.disk.files if key.startswith((_BATCHES, "_lakesmith/held", "_lakesmith/ingested"))]
        if keys and not self.spoilt:
            key = sorted(keys)[which % len(keys)]
            self.spoilt[key] = self.disk.files[key]
            self.disk.files[key] = b'{"torn'
            self._happened(f"spoil {key}")

    def mend(self) -> None:
        """The file is put back as it was, unless it was written anew or removed."""
        for key, data in self.spoilt.items():
            if self.disk.files.get(key) == b'{"torn':
                self.disk.files[key] = data
        self.spoilt.clear()
        self.disk.changes += 1
        self._happened("mend")

    # What has to hold.

    def check(self) -> None:
        """What holds after each step."""
        sound = Counter(hold.table for process in self.alive for hold in process.holds if hold.sound)
        assert not sound or max(sound.values()) == 1, f"two processes hold {sound.most_common(1)[0][0]}"
        if self._looked == self.disk.changes:
            return
        self._looked = self.disk.changes
        for location, table in self.disk.tables.items():
            self._check_versions(location, table)
        self._check_books()
        self._check_releases()
        if not self.spoilt:
            self._check_orders()
            self._check_made(LATEST)
            self._check_made(DAILY)

    def _check_versions(self, location: str, table: Table) -> None:
        done = self._judged.get(location, 0)
        if done == len(table.versions):
            return
        self._judged[location] = len(table.versions)
        numbers = [(version.flow, version.sequence) for version in table.versions if version.flow]
        assert len(numbers) == len(set(numbers)), f"V: a number was committed twice to {location}: {numbers}"
        uids = Counter(row.uid for row in table.newest.rows if isinstance(row, Row))
        assert not uids or max(uids.values()) == 1, f"N: a row is twice in {location}: {uids.most_common(1)}"

    def _check_books(self) -> None:
        for key in self.disk.files:
            if key.endswith(".done.json") and key not in self._books and key not in self.spoilt:
                self._books.add(key)
                name, file = key.removeprefix(_BATCHES).split("/")
                done = decode_completed(self.disk.files[key], int(file[:8]))
                table = self.disk.tables[self.warehouse.table(_named(name))]
                note = f"{BATCH_NOTE}{done.sequence}.{done.attempt} run {done.run_id}"
                made = next((version.number for version in table.versions if version.note == note), None)
                # Of a commit that was cleaned up, the last version is known that it may be.
                known = made is not None and (made == done.version or made < done.version == table.oldest - 1)
                assert known, f"V: {key} is version {made}, and not {done.version}"
                kept = done.rows_written + done.rows_quarantined + done.rows_deduplicated + done.rows_discarded
                assert done.rows_in == kept, f"N: the books of {key} are open: {done}"

    def _check_releases(self) -> None:
        for release in self.disk.releases[self._released :]:
            # What was never built is in none.
            tables = [table for name in TABLES if str(name) in release and (table := self._table(name))]
            found = [table.versions[release[str(name)]].rows for name, table in zip(TABLES, tables, strict=False)]
            assert len(release) == len(found), f"C: {release} lacks what its tables are made from"
            if len(found) > 1:
                made = [scaled(tuple(latest(found[0])), factor) for factor in range(1, len(QUERIES) + 1)]
                assert found[1] in made, f"C: silver was not made from bronze in {release}"
            if len(found) > 2:
                assert tuple(sorted(found[2])) == by_day(found[1]), f"C: gold was not made from silver in {release}"
                Stepped.releases += 1
        self._released = len(self.disk.releases)

    def _check_orders(self) -> None:
        progress = self._progress(ORDERS)
        if progress is None:
            return
        there, refused, given_up = self._orders()
        taken = {row.uid for path in progress.ingested for row in self.disk.landed[path][1]}
        assert there <= taken, f"R: rows are in the table whose files are not in its bookmark: {there - taken}"
        open_rows: set[int] = set()
        if progress.unfinished is not None:
            batch = self._batches(ORDERS).committed(progress.unfinished, lambda: self._commits(ORDERS))
            open_rows = {row.uid for file in batch.files for row in self.disk.landed[file.path][1]}
            if isinstance(batch.content, ReplayedRows):
                open_rows = there & set(refused) | set(refused) & given_up
        missing = taken - there - set(refused) - given_up - open_rows
        assert not missing, f"N: the bookmark is ahead of the rows: {missing}"
        twice = {uid for uid, times in refused.items() if times > 1} | (set(refused) & (there | given_up)) - open_rows
        assert not twice, f"N: rows are in more than one place: {twice}"
        lost = self.acknowledged - there - set(refused) - given_up
        assert not lost, f"A: acknowledged rows are gone: {lost}"

    def _check_made(self, name: TableName) -> None:
        table, progress = self._table(name), self._progress(name)
        if table is None or progress is None or progress.definition is None:
            return
        ((source, position),) = progress.positions.items()
        inputs = self._table(_named(source))
        assert inputs is not None
        rows = inputs.versions[position.version].rows
        if name == LATEST:
            made = self._defined(name, progress.definition)
            assert table.newest.rows == scaled(tuple(latest(rows)), made.factor), (
                f"R: {name} is not what its inputs say"
            )
        else:
            assert tuple(sorted(table.newest.rows)) == by_day(rows), f"R: {name} is not what its inputs say"

    def settle_down(self) -> None:
        """Nothing fails any more: whoever is there comes to an end, and runs follow until there is nothing to do."""
        self.settling = True
        self.disk.faults.clear()
        self.mend()
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
        raise AssertionError(f"E: no replay comes to an end: {[str(error) for error in report.errors]}")

    def _until_quiet(self) -> None:
        """Follow the next step of each error."""
        for _ in range(_ROUNDS):
            process = self.finish(self.start("run", "home"))
            report = self._report(process)
            if report.run is None and not report.errors:
                return
            self.wait(LEASE_SECONDS + 1)
            # What was held back is approved as it was declared then.
            for error in sorted(report.errors, key=lambda error: error.code != "gate-failed"):
                match error.code:
                    case "gate-failed":
                        self.finish(self.start("approve", "home"))
                    case "source-gap" | "unknown-progress":
                        self.finish(self.start("refresh", "home"))
                    case "unfinished-under-other-definition":
                        self._finish_as_it_was(_named(str(error.table)))
        raise AssertionError(f"E: the lake does not come to rest: {[str(error) for error in report.errors]}")

    def _finish_as_it_was(self, name: TableName) -> None:
        progress, now = self._progress(name), self.definition
        assert progress is not None
        assert progress.unfinished_definition is not None
        self.define(self._defined(name, progress.unfinished_definition))
        self.finish(self.start("run", "home"))
        self.define(now)

    def _check_end(self) -> None:
        self.check()
        there, refused, given_up = self._orders()
        rows = [row for _, rows in self.disk.landed.values() for row in rows]
        assert there == {row.uid for row in rows if row.value >= -5} - given_up, "R: the table is not what landed"
        assert set(refused) == {row.uid for row in rows if row.value < -5} - given_up, "R: nor is its quarantine"
        if orders := self._table(ORDERS):
            silver, gold = self._table(LATEST), self._table(DAILY)
            assert silver is not None
            assert gold is not None
            made = scaled(tuple(latest(orders.newest.rows)), self.definition.factor)
            assert silver.newest.rows == made, "R: silver is not what landed"
            assert tuple(sorted(gold.newest.rows)) == by_day(made), "R: gold is not what landed"

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
            assert recorded, f"A: the ledger does not know {report.run}"
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
        self.told.append(what)
        if self.settling:
            Stepped.quiet += 1
        else:
            Stepped.steps += 1
        self.check()

    def _holds(self) -> list[Hold]:
        return [hold for process in self.alive for hold in process.holds]

    def _orders(self) -> tuple[set[int], Counter[int], set[int]]:
        """The rows in the bronze table, those in its quarantine, and those that were given up."""
        there = {row.uid for row in self._rows(self.warehouse.table(ORDERS)) if isinstance(row, Row)}
        kept = self._live(self._rows(self.warehouse.quarantine(ORDERS)))
        settled = self._rows(self.warehouse.quarantine_decisions(ORDERS))
        refused = Counter(row.row.uid for row in kept)
        given_up = {
            each.refused.row.uid for each in settled if isinstance(each, BatchResult) and each.how == "discarded"
        }
        return there, refused, given_up

    def _live(self, refused: Sequence[object]) -> list[Refused]:
        """Without the rows that were refused by batches which are rolled back now: they come again."""
        progress = None if self.spoilt else self._progress(ORDERS)
        head = progress.head if progress is not None else 0
        return [row for row in refused if isinstance(row, Refused) and row.batch <= head]

    def _rows(self, location: str) -> Sequence[object]:
        table = self.disk.tables.get(location)
        return table.newest.rows if table else ()

    def _table(self, name: TableName) -> Table | None:
        return self.disk.tables.get(self.warehouse.table(name))

    def _batches(self, name: TableName) -> Batches:
        return KnownBatches(self.storage, name)

    def _commits(self, name: TableName) -> Sequence[CommitFact]:
        return self.format.commits(self.warehouse.table(name))

    def _progress(self, name: TableName) -> Progress | None:
        """How far the table has come, as the product tells it."""
        if self._table(name) is None or self.spoilt:
            return None
        known = self._known.get(name)
        if known is None or known[0] != self.disk.changes:
            facts = self.format.facts(self.warehouse.table(name), flow(name))
            known = self.disk.changes, self._batches(name).progress(facts, lambda: self._commits(name))
            self._known[name] = known
        return known[1]

    def _defined(self, name: TableName, told: str) -> Definition:
        """The definition that a batch was made with."""
        alike = [each for each in DEFINITIONS if _fingerprint(each, name) == told]
        return next((each for each in alike if each == self.definition), alike[0])

    def _settles(self, name: TableName, version: Version) -> bool:
        """Whether a version was made by a batch that may have taken rows out of the quarantine."""
        if not version.flow or self.spoilt:
            return bool(self.spoilt)
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
