"""Lakes for fault injection: one to three streams of events, each with a bronze and a silver table, and gold tables.

A text describes a lake, so that it can be printed and passed to another process: `merge:nulls+append>totals,pairs`
has two streams, NULLs in the first one, and two gold tables. The suffix `@odd` means odd file names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from tests.faults.events import Events
from tests.faults.flows import FLOWS, SHAPES, Decided, Flow, amounts_by, per_day, total, with_nulls
from tests.models.rows import Row

STREAMS = ("events", "clicks", "visits")
"""The names of a lake's streams. Decisions about rejected rows apply to the first one."""
Bag = Counter[tuple[Any, ...]]
State = tuple[int, Decided]
"""The number of ingested files, and the decisions at that time."""


def bag(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Bag:
    return Counter(tuple(row.get(column) for column in columns) for row in rows)


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Files that land, a bronze table of them, and a silver table with one load."""

    name: str
    flow: Flow
    events: Events
    decides: bool

    @property
    def bronze(self) -> str:
        return f"bronze.{self.name}"

    @property
    def silver(self) -> str:
        return f"silver.{self.name}"

    def of(self, decided: Decided) -> Decided:
        """Return the decisions that apply to this stream."""
        return decided if self.decides else Decided()

    def table(self, state: State) -> Sequence[Row]:
        files, decided = state
        return self.flow.table(self.events, files, self.of(decided))

    def labelled(self, state: State) -> dict[Any, list[int | None]]:
        """Return the amounts by name, or by day where the silver table aggregates days."""
        if self.flow.grouped:
            return amounts_by([{**row, "amount": row["total"]} for row in self.table(state)], "day")
        return amounts_by(self.table(state), "name")

    @property
    def label(self) -> str:
        return "day" if self.flow.grouped else "name"

    @property
    def amount(self) -> str:
        return "total" if self.flow.grouped else "amount"


Model = Callable[[Sequence[Stream], Sequence[State]], list[Row]]


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold table over silver tables."""

    name: str
    load: str
    columns: tuple[str, ...]
    streams: tuple[Stream, ...]
    query: str
    model: Model

    @property
    def table(self) -> str:
        return f"gold.{self.name}"

    def declaration(self) -> str:
        return f"/* lakesmith\nload: {self.load}\n*/\n{self.query}\n"

    def rows(self, states: Sequence[State]) -> list[Row]:
        """Return its rows, with one state for each of its inputs."""
        return self.model(self.streams, states)

    def possible(self, states: Sequence[State]) -> Iterator[Bag]:
        """Yield its possible contents while each input is in one of the states."""
        seen = []
        for stream in self.streams:
            # Most states of an input are equal: decisions about another stream, or no new file.
            distinct = {_content(stream, state): state for state in states}
            seen.append(tuple(distinct.values()))
        for chosen in product(*seen):
            yield bag(self.rows(chosen), self.columns)


def _content(stream: Stream, state: State) -> tuple[int, Decided]:
    files, decided = state
    return sum(map(stream.events.counts, range(1, files + 1))), stream.of(decided)


@dataclass(frozen=True, slots=True)
class Layout:
    """A lake."""

    text: str
    streams: tuple[Stream, ...]
    gold: tuple[Gold, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return (*(name for each in self.streams for name in (each.bronze, each.silver)), *(g.table for g in self.gold))

    @property
    def large(self) -> bool:
        return any(stream.flow.large for stream in self.streams)

    @property
    def few(self) -> bool:
        return any(stream.flow.few for stream in self.streams)

    def in_layer(self, layer: str) -> list[str]:
        return [name for name in self.tables if name.partition(".")[0] == layer]

    def streams_of(self, table: str) -> tuple[Stream, ...]:
        """Return the streams that a table is built from."""
        for each in self.gold:
            if each.table == table:
                return each.streams
        return tuple(each for each in self.streams if table in (each.bronze, each.silver))

    def declarations(self) -> dict[str, str]:
        files = {"lakesmith.yml": f"name: {self.streams[0].flow.name}\n"}
        for stream in self.streams:
            files |= stream.flow.declarations(stream.name)
        return files | {f"gold/{each.name}.sql": each.declaration() for each in self.gold}


@lru_cache(maxsize=256)
def layout(text: str, seed: int) -> Layout:
    """Return the lake that a text describes."""
    described, _, odd = text.partition("@")
    flows, _, gold = described.partition(">")
    streams = []
    for index, part in enumerate(flows.split("+")):
        name, _, shape = part.partition(":")
        assert not shape or shape in SHAPES, text
        flow = with_nulls(name, shape or "plain")
        events = Events(seed + index, nulls=flow.shape != "plain", sparse=index > 0, odd_names=odd == "odd")
        streams.append(Stream(STREAMS[index], flow, events, decides=index == 0))
    names = gold.split(",") if gold else ["days"] if FLOWS[streams[0].flow.name].gold else []
    return Layout(text, tuple(streams), tuple(_gold(name, tuple(streams)) for name in names))


def gold_of(flows: Sequence[str]) -> list[str]:
    """Return the gold tables that are possible over silver tables with these loads."""
    found = ["totals"]
    found += ["days"] if _has_days(FLOWS[flows[0]]) else []
    found += ["keys"] if _has_keys(FLOWS[flows[-1]]) else []
    found += ["pairs"] if len(flows) > 1 else []
    return found


def _has_days(flow: Flow) -> bool:
    return "day" in flow.columns and not flow.grouped


def _has_keys(flow: Flow) -> bool:
    return "id" in flow.columns


def _gold(name: str, streams: tuple[Stream, ...]) -> Gold:
    first, last = streams[0], streams[-1]
    match name:
        case "days":
            query = f"SELECT day, count(*) AS n, sum(amount) AS total FROM {first.silver} GROUP BY day"
            return Gold(name, "{replace_partitions: day}", ("day", "n", "total"), (first,), query, _days)
        case "keys":
            query = (
                f"SELECT id, count(*) AS n, sum(amount) AS total FROM {last.silver} WHERE id IS NOT NULL GROUP BY id"
            )
            return Gold(name, "{merge: {key: id}}", ("id", "n", "total"), (last,), query, _keys)
        case "totals":
            query = " UNION ALL ".join(
                f"SELECT '{each.name}' AS stream, {each.label} AS label, count(*) AS n, sum({each.amount}) AS total "
                f"FROM {each.silver} GROUP BY {each.label}"
                for each in streams
            )
            return Gold(name, "replace", ("stream", "label", "n", "total"), streams, query, _totals)
        case "pairs":
            one, other = (
                f"(SELECT coalesce({each.label}, '?') AS label, count(*) AS n FROM {each.silver} GROUP BY 1)"
                for each in (first, last)
            )
            query = (
                "SELECT coalesce(a.label, b.label) AS label, coalesce(a.n, 0) AS left_n, coalesce(b.n, 0) AS right_n "
                f"FROM {one} a FULL OUTER JOIN {other} b ON a.label = b.label"
            )
            columns = ("label", "left_n", "right_n")
            return Gold(name, "{merge: {key: label}}", columns, (first, last), query, _pairs)
        case _:
            raise AssertionError(name)


def _days(streams: Sequence[Stream], states: Sequence[State]) -> list[Row]:
    return per_day(streams[0].table(states[0]))


def _keys(streams: Sequence[Stream], states: Sequence[State]) -> list[Row]:
    rows = [row for row in streams[0].table(states[0]) if row["id"] is not None]
    return [{"id": id, "n": len(found), "total": total(found)} for id, found in amounts_by(rows, "id").items()]


def _totals(streams: Sequence[Stream], states: Sequence[State]) -> list[Row]:
    return [
        {"stream": stream.name, "label": label, "n": len(found), "total": total(found)}
        for stream, state in zip(streams, states, strict=True)
        for label, found in stream.labelled(state).items()
    ]


def _pairs(streams: Sequence[Stream], states: Sequence[State]) -> list[Row]:
    counts = []
    for stream, state in zip(streams, states, strict=True):
        counted: Counter[str] = Counter()
        for label, found in stream.labelled(state).items():
            counted["?" if label is None else label] += len(found)
        counts.append(counted)
    one, other = counts
    return [{"label": each, "left_n": one[each], "right_n": other[each]} for each in one.keys() | other.keys()]
