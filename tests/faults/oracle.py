"""Checks the promises of a lake from its files. A separate program that imports nothing of Lakesmith.

It reads claims, one JSON object a line, and answers each with one line: the list of broken promises.

    N   each landed row is in exactly one place: the table, the quarantine, or discarded
    A   acknowledged work is in the lake
    V   every version is complete: all of a batch or nothing of it, and every file that it references
    R   after a successful run, the tables have the content that they would have without faults
    C   the versions of a release fit together, and a rollback restores the content of the release
    B   the row counts of every batch add up, and match the landed rows
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.delta_files import CorruptTable, Files, read_table
from tests.faults.events import ROWS
from tests.faults.flows import Decided, earlier
from tests.faults.foreign_log import Foreign, lost
from tests.faults.layouts import Bag, Layout, State, Stream, bag, layout
from tests.faults.row_reconciliation import reconciliation_errors
from tests.models.rows import Row


@dataclass(frozen=True, slots=True)
class Claims:
    """What the test knows about the lake for certain."""

    lake: str
    flow: str
    """The lake's layout."""
    seed: int
    landed: int
    """The number of landed files."""
    acknowledged: int = 0
    """The number of landed files when the last successful run started."""
    decided: tuple[Decided, ...] = (Decided(),)
    """The possible decisions about rejected rows: several where a decision was interrupted."""
    ever: tuple[Decided, ...] = ()
    """All decisions that may have been committed at some time."""
    completed: bool = False
    """Whether a later run has ingested all of it successfully, without a later interruption."""
    runs: tuple[dict[str, Any], ...] = ()
    """The acknowledged runs: `run`, and `steps` of table, sequence and version."""
    restored: bool = field(default=False)
    """Whether a table was restored: re-ingested rows are counted again."""
    vacuumed: bool = False
    """Whether files of earlier versions were deleted."""
    rolled_back: str | None = None
    """The release of the last rollback, if nothing was started since."""
    foreign: tuple[Foreign, ...] = ()
    """The commits of other writers. None of them changes the bag of rows of a table."""

    @property
    def layout(self) -> Layout:
        return layout(self.flow, self.seed)

    @staticmethod
    def read(line: str) -> Claims:
        fields = json.loads(line)
        for states in ("decided", "ever"):
            fields[states] = tuple(
                Decided(tuple((what, files) for what, files in each["decisions"])) for each in fields[states]
            )
        fields["runs"] = tuple(fields["runs"])
        fields["foreign"] = tuple(Foreign(**each) for each in fields["foreign"])
        return Claims(**fields)

    def line(self) -> str:
        return json.dumps(asdict(self))


def verdict(claims: Claims) -> list[str]:
    """Return the broken promises, each with its evidence."""
    warehouse = Path(claims.lake) / ".lakesmith" / "warehouse"
    try:
        tables = {name: read_table(folder) for name, folder in _tables(warehouse)}
        for table in tables.values():
            if table is not None:
                table.rows()
    except CorruptTable as error:
        return [f"V {error}"]
    known = {name: table for name, table in tables.items() if table is not None}
    return [
        *_twice(known),
        *_vanished(claims, known),
        *lost(warehouse, claims.foreign),
        *_content(claims, known),
        *_releases(claims, warehouse, known),
        *_counted(claims, warehouse, known),
        *(broken for stream in claims.layout.streams for broken in reconciliation_errors(stream, warehouse, known)),
    ]


def _tables(warehouse: Path) -> Iterator[tuple[str, Path]]:
    for log in sorted(warehouse.rglob("_delta_log")):
        yield ".".join(log.parent.relative_to(warehouse).parts), log.parent


def _twice(tables: dict[str, Files]) -> Iterator[str]:
    for name, table in tables.items():
        seen: Counter[tuple[str, int]] = Counter()
        for commit in table.commits:
            seen.update(commit.sequences.items())
        for (writer, sequence), times in seen.items():
            if times > 1:
                yield f"N {name}: {writer} has committed its batch {sequence} {times} times"


def _vanished(claims: Claims, tables: dict[str, Files]) -> Iterator[str]:
    runs = {row["run_id"] for row in tables["system.runs"].rows()} if "system.runs" in tables else set()
    for run in claims.runs:
        if run["run"] not in runs:
            yield f"A run {run['run']} was acknowledged, and system.runs does not know it"
        for name, sequence, version in run["steps"]:
            commits = tables[name].commits if name in tables else []
            made = next((commit for commit in commits if commit.version == version), None)
            if made is None or sequence not in (0, *made.sequences.values()):
                yield f"A batch {sequence} of {name} was acknowledged as version {version}, and is not there"


def _content(claims: Claims, tables: dict[str, Files]) -> Iterator[str]:
    prefixes = [claims.landed] if claims.completed else range(claims.acknowledged, claims.landed + 1)
    states = [(files, decided) for files in prefixes for decided in claims.decided]
    for compared in _compared(claims.layout, tables):
        found = compared.have()
        if found not in compared.possible(states):
            near = min(compared.possible(states), key=lambda each: _apart(each, found))
            kind = "R" if claims.completed else "N"
            yield f"{kind} {compared.table}: {_differences(near, found)}"


def _releases(claims: Claims, warehouse: Path, tables: dict[str, Files]) -> Iterator[str]:
    recorded: dict[str, dict[str, int]] = {}
    at: dict[str, float] = {}
    rows = tables["system.releases"].rows() if "system.releases" in tables else []
    for row in sorted(rows, key=lambda row: row["released_at"], reverse=True):
        recorded.setdefault(row["release"], {})[row["table"]] = row["version"]
        at[row["release"]] = row["released_at"].timestamp() * 1000
    looked_at = [*list(recorded)[:_NEWEST_RELEASES], *filter(None, [claims.rolled_back])]
    for release in dict.fromkeys(looked_at):
        lacking = tables.keys() & set(claims.layout.tables) - recorded.get(release, {}).keys()
        # Tables that were built later are in no release.
        if gone := [name for name in lacking if tables[name].commits[0].at < at.get(release, 0)]:
            yield f"C release {release} lacks {gone}"
        yield from _release(claims, warehouse, tables, release, recorded.get(release, {}))


_NEWEST_RELEASES = 2
"""The number of newest releases to check: older ones were checked when they were new."""


def _release(
    claims: Claims, warehouse: Path, tables: dict[str, Files], release: str, versions: dict[str, int]
) -> Iterator[str]:
    if not versions.keys() & set(claims.layout.in_layer("bronze")):
        yield f"C release {release} has the tables {sorted(versions)}"
        return
    try:
        then = {name: read_table(warehouse / name.replace(".", "/"), version) for name, version in versions.items()}
        short = {name: table for name, table in then.items() if table is None or table.version != versions[name]}
        if short:
            yield f"C release {release} names missing versions of {sorted(short)}"
            return
        held = {name: table for name, table in then.items() if table is not None}
        compared = [each for each in _compared(claims.layout, held) if each.table in versions]
        found = {each.table: each.have() for each in compared}
    except CorruptTable as error:
        if not claims.vacuumed:
            yield f"V release {release}: {error}"
        return
    states = [
        (files, decided) for files in range(claims.landed + 1) for decided in earlier(claims.decided + claims.ever)
    ]
    if not any(all(found[each.table] in each.possible([state]) for each in compared) for state in states):
        yield f"C release {release}: its tables never had this content at one time: {versions}"
    if release == claims.rolled_back:
        for each in _compared(claims.layout, tables):
            if each.table in found and each.have() != found[each.table]:
                differences = _differences(found[each.table], each.have())
                yield f"C {each.table} was rolled back to release {release}: {differences}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A table, its content, and its possible contents while the lake is in one of some states."""

    table: str
    have: Callable[[], Bag]
    possible: Callable[[Sequence[State]], Iterator[Bag]]


def _compared(lake: Layout, tables: dict[str, Files]) -> Iterator[Compared]:
    for stream in lake.streams:
        yield from _stream(stream, tables)
    for gold in lake.gold:
        yield Compared(gold.table, partial(_held, tables, gold.table, gold.columns), gold.possible)


_LANDED = ("seq", "id", "name", "amount", "day", "at", "op", "taken")


def _stream(stream: Stream, tables: dict[str, Files]) -> Iterator[Compared]:
    flow, events = stream.flow, stream.events

    def of(want: Callable[[int, Decided], Bag]) -> Callable[[Sequence[State]], Iterator[Bag]]:
        return lambda states: (want(files, stream.of(decided)) for files, decided in states)

    def landed(files: int, _: Decided) -> Bag:
        return bag((row for file in range(1, files + 1) for row in events.readable(file)), _LANDED)

    def unreadable(files: int, _: Decided) -> Bag:
        return Counter((line,) for file in range(1, files + 1) for line in events.unreadable(file))

    def discarded() -> Bag:
        rows = tables[decisions].rows() if (decisions := f"quarantine_decisions.{stream.silver}") in tables else []
        return _bag((json.loads(row["raw"]) for row in rows if row["decision"] == "discarded"), shown)

    def rejected() -> Bag:
        rows = tables[quarantine].rows() if (quarantine := f"quarantine.{stream.silver}") in tables else []
        return _bag((json.loads(row["raw"]) for row in rows), shown)

    shown = [column for column in flow.columns if column in ("seq", "id", "amount", "day", "n", "total")]
    bad = f"quarantine.{stream.bronze}"
    yield Compared(stream.bronze, partial(_held, tables, stream.bronze, _LANDED), of(landed))
    yield Compared(bad, partial(_held, tables, bad, ("raw",)), of(unreadable))
    yield Compared(
        stream.silver,
        partial(_held, tables, stream.silver, flow.columns),
        of(lambda files, decided: bag(flow.table(events, files, decided), flow.columns)),
    )
    yield Compared(
        f"quarantine.{stream.silver}",
        rejected,
        of(lambda files, decided: bag(flow.quarantine(events, files, decided), shown)),
    )
    yield Compared(
        f"quarantine_decisions.{stream.silver}",
        discarded,
        of(lambda files, decided: bag(() if flow.grouped else flow.discarded_rows(events, files, decided), shown)),
    )


def _held(tables: dict[str, Files], name: str, columns: Sequence[str]) -> Bag:
    return _bag(tables[name].rows() if name in tables else [], columns)


def _bag(rows: Iterable[Row], columns: Sequence[str]) -> Bag:
    return Counter(tuple(_plain(row.get(column)) for column in columns) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    return value


def _apart(one: Bag, other: Bag) -> int:
    return (one - other).total() + (other - one).total()


def _differences(want: Bag, have: Bag) -> str:
    lost, more = want - have, have - want
    shown = [f"lost {list(lost.elements())[:3]}"] if lost else []
    shown += [f"too many {list(more.elements())[:3]}"] if more else []
    return f"{lost.total()} rows are missing and {more.total()} too many; {'; '.join(shown)}"


def _counted(claims: Claims, warehouse: Path, tables: dict[str, Files]) -> Iterator[str]:
    for folder in sorted((warehouse / "_lakesmith" / "batches").glob("*")):
        counted = 0
        done = set()
        for file in sorted(folder.glob("*.done.json")):
            fields = json.loads(file.read_text())
            accounted = sum(fields[f"rows_{what}"] for what in ("written", "quarantined", "deduplicated", "discarded"))
            done.add(fields["sequence"])
            counted += fields["rows_in"]
            if fields["rows_in"] != accounted:
                yield f"B {file}: {fields['rows_in']} rows in, and {accounted} accounted for"
        if not claims.completed or folder.name not in tables:
            continue
        committed = tables[folder.name].sequence(f"lakesmith.{folder.name}")
        if committed and committed not in done:
            yield f"B {folder.name}: batch {committed} is in the table and was never completed"
        for stream in claims.layout.streams:
            landed = ROWS * sum(map(stream.events.counts, range(1, claims.landed + 1)))
            if folder.name == stream.bronze and not claims.restored and counted != landed:
                yield f"B {stream.bronze}: {landed} lines landed, and its batches count {counted}"


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(verdict(Claims.read(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
