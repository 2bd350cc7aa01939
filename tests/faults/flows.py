"""One lake for each load: its declarations, and a model of its tables that shares no code with the product."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

from tests.faults.events import START, Events
from tests.models.changes import changes
from tests.models.loads import dedup, merge, scd2, snapshot
from tests.models.rows import Row, place, values

EVENT = ("seq", "id", "name", "amount", "day", "at", "op")
EXTRACT = ("id", "name", "amount", "taken")
ORDER = ("at", "seq")
TABLE = "silver.events"

Shape = Literal["plain", "nulls", "never", "required"]
"""What is NULL: only some keys (`plain`); optional columns too (`nulls`); nothing after the query, by its expressions
(`never`); required columns, so that the table rejects these rows (`required`)."""
SHAPES: tuple[Shape, ...] = ("plain", "nulls", "never", "required")
_DEFAULTS: Row = {"id": -1, "name": "?", "amount": 0, "day": "none", "at": START, "op": "U", "taken": START}
"""The values that a query of the shape `never` returns instead of NULL."""
_REQUIRED = {"name": "string", "amount": "bigint", "day": "string"}
"""Columns that a table of the shape `required` requires."""

Decision = tuple[str, int]
"""`replay` or `discard`, and the number of the last file at that time."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The decisions about rejected rows, in order."""

    decisions: tuple[Decision, ...] = ()

    def and_then(self, what: str, files: int) -> Decided:
        return Decided((*self.decisions, (what, files)))


def earlier(decided: Iterable[Decided]) -> tuple[Decided, ...]:
    """Return the decisions at every time, newest first."""
    found = {Decided(each.decisions[:many]) for each in decided for many in range(len(each.decisions) + 1)}
    return tuple(sorted(found, key=lambda each: len(each.decisions), reverse=True))


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A bronze table of events, and a silver table with one load."""

    name: str
    load: Any
    query: str
    columns: tuple[str, ...]
    model: Callable[[Sequence[Row]], list[Row]]
    condition: str | None = "amount >= 0"
    """The check of the silver table."""
    needs: tuple[str, ...] = ()
    """The load rejects a row where one of these columns is NULL."""
    shape: Shape = "plain"
    checked: bool = False
    """Whether bronze has a check that never fails: its rows are then staged before the commit."""
    grouped: bool = False
    """Whether the check applies to aggregated rows, not to events."""
    gold: bool = False
    """Whether a gold table aggregates the silver table."""
    one_row_a: tuple[str, ...] = ()
    """The key columns of the table: a batch writes one row for each key that it changes."""
    large: bool = False
    """Whether every table counts as large: a merge then marks replaced rows in deletion vectors."""
    few: bool = False
    """Whether the driver commits the rows of small batches. Otherwise, Spark writes them all."""

    def declarations(self, stream: str) -> dict[str, str]:
        """Return the declarations of the bronze and the silver table of a stream."""
        bronze = f'source: {{files: "landing/{stream}/*.json"}}\n'
        bronze += "columns:\n  seq: {type: bigint, required: true}\n" if self.shape == "required" else ""
        bronze += "checks:\n  known: {where: seq IS NOT NULL, on_fail: quarantine}\n" if self.checked else ""
        header = f"load: {json.dumps(self.load)}\n"
        required = [name for name in _REQUIRED if name in self.columns] if self.shape == "required" else []
        if required:
            header += "columns:\n"
            header += "".join(f"  {name}: {{type: {_REQUIRED[name]}, required: true}}\n" for name in required)
        if self.condition:
            header += f"checks:\n  positive: {{where: {self.condition}, on_fail: quarantine}}\n"
        columns = {name: _never_null(name) if self.shape == "never" else name for name in _DEFAULTS}
        query = self.query.format(bronze=f"bronze.{stream}", **columns)
        return {
            f"bronze/{stream}.yml": bronze,
            f"silver/{stream}.sql": f"/* lakesmith\n{header}*/\n{query}\n",
        }

    def table(self, events: Events, files: int, decided: Decided) -> Sequence[Row]:
        """Return the rows of the silver table after the first files."""
        return _table(self, events, files, decided)

    def quarantine(self, events: Events, files: int, decided: Decided) -> list[Row]:
        """Return the rejected rows of the silver table without a decision."""
        if self.grouped:
            return [row for row in self.model(self._events(events, files)) if self._is_rejected(row)]
        rows = self._decided(events, files, decided)
        return [row for row in rows if not row["discarded"] and self._is_rejected(row)]

    def discarded_rows(self, events: Events, files: int, decided: Decided) -> list[Row]:
        """Return the discarded rows."""
        return [row for row in self._decided(events, files, decided) if row["discarded"]]

    def counted(self, events: Events, mode: str, before: int, files: int, decided: Decided) -> dict[str, int]:
        """Return the expected row counts of a batch, without the counts that no model knows."""
        new = [row for row in self._decided(events, files, decided) if mode == "full" or row["came"] > before]
        if self.grouped:
            days = {row["day"] for row in new}
            new = [{**row, "discarded": False} for row in self.model(self._events(events, files)) if row["day"] in days]
        discarded = sum(row["discarded"] for row in new)
        rejected = sum(not row["discarded"] and self._is_rejected(row) for row in new)
        held = [] if mode == "full" else self.table(events, before, decided)
        written = len(new) if self.grouped else self._written(held, self.table(events, files, decided))
        return _row_counts(len(new), rejected, discarded, written)

    def replayed(self, events: Events, files: int, decided: Decided) -> dict[str, int]:
        """Return the expected row counts of the newest decision."""
        before = Decided(decided.decisions[:-1])
        rejected = self.quarantine(events, files, before)
        if decided.decisions[-1][0] == "discard":
            return _row_counts(len(rejected), 0, len(rejected), 0)
        chosen = [row for row in rejected if _is_negative(row["amount"])]
        still = [row for row in chosen if self._is_rejected({**row, "amount": abs(row["amount"])})]
        written = self._written(self.table(events, files, before), self.table(events, files, decided))
        return _row_counts(len(chosen), len(still), 0, written)

    def _written(self, held: Sequence[Row], has: Sequence[Row]) -> int | None:
        """Return how many rows a batch wrote that changed a table from `held` to `has`."""
        if not held or self.model is _unchanged:
            return len(has) - len(held)
        if not self.one_row_a:
            return None
        old, new = ({values(row, self.one_row_a): values(row, self.columns) for row in rows} for rows in (held, has))
        return sum(old.get(key) != new.get(key) for key in old.keys() | new.keys())

    def _decided(self, events: Events, files: int, decided: Decided) -> list[Row]:
        """Return the events after the decisions about rejected ones. An event that its fix does not repair stays as it
        was."""
        rows = [{**row, "discarded": False} for row in self._events(events, files)]
        for what, upto in decided.decisions:
            for row in rows:
                if row["discarded"] or row["came"] > upto or not self._is_rejected(row):
                    continue
                if what == "discard":
                    row["discarded"] = True
                elif _is_negative(row["amount"]) and not self._is_rejected({**row, "amount": abs(row["amount"])}):
                    row["amount"] = abs(row["amount"])
        return rows

    def _is_rejected(self, row: Row) -> bool:
        checked = "total" if self.grouped else "amount"
        if self.condition is not None and _is_negative(row[checked]):
            return True
        required = _REQUIRED if self.shape == "required" else ()
        return any(name in self.columns and row[name] is None for name in (*self.needs, *required))

    def _events(self, events: Events, files: int) -> list[Row]:
        """Return the rows of the first files as the query reads them, with the file of each."""
        rows = ({**row, "came": file} for file in range(1, files + 1) for row in events.readable(file))
        return [self._read(row) for row in rows]

    def _read(self, row: Row) -> Row:
        if self.shape != "never":
            return row
        read = ("amount",) if self.grouped else tuple(_DEFAULTS)
        return {name: _DEFAULTS[name] if value is None and name in read else value for name, value in row.items()}


@lru_cache(maxsize=4096)
def _table(flow: Flow, events: Events, files: int, decided: Decided) -> tuple[Row, ...]:
    if flow.grouped:
        return tuple(row for row in flow.model(flow._events(events, files)) if not flow._is_rejected(row))
    rows = flow._decided(events, files, decided)
    return tuple(flow.model([row for row in rows if not row["discarded"] and not flow._is_rejected(row)]))


def _never_null(column: str) -> str:
    """Return an expression that Spark knows is never NULL."""
    return f"coalesce({column}, {_DEFAULTS[column]!r})"


def _is_negative(amount: int | None) -> bool:
    """Return whether an amount breaks the check of its table: NULL does not."""
    return amount is not None and amount < 0


def per_day(rows: Sequence[Row]) -> list[Row]:
    """Return the number of events and the sum of their amounts by day."""
    return [{"day": day, "n": len(found), "total": total(found)} for day, found in amounts_by(rows, "day").items()]


def amounts_by(rows: Sequence[Row], label: str) -> dict[Any, list[int | None]]:
    """Return the amounts of the rows by label."""
    labels = sorted({row[label] for row in rows}, key=place)
    return {each: [row["amount"] for row in rows if row[label] == each] for each in labels}


def total(amounts: Iterable[int | None]) -> int | None:
    """Return the sum as SQL computes it."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _row_counts(rows_in: int, rejected: int, discarded: int, written: int | None) -> dict[str, int]:
    """Return the row counts of a batch, without unknown ones."""
    counts = {"in": rows_in, "quarantined": rejected, "discarded": discarded}
    if written is None:
        return counts
    good = rows_in - rejected - discarded
    return {**counts, "written": min(good, written), "deduplicated": good - min(good, written)}


def _unchanged(rows: Sequence[Row]) -> list[Row]:
    return [dict(row) for row in rows]


def _is_delete(row: Row) -> bool | None:
    return bool(row["op"] == "D")


_EVENTS = (
    "SELECT seq, {id} AS id, {name} AS name, {amount} AS amount, {day} AS day, timestamp_seconds({at}) AS at, "
    "{op} AS op FROM {bronze}"
)
_SLOW = "levenshtein(repeat('a', 4000), repeat('b', 4000 + seq))"
_SIGNED = "if(seq % 2 = 0, {amount}, -{amount})"


def _signed(rows: Sequence[Row]) -> list[Row]:
    return per_day([{**row, "amount": _negate_odd(row["seq"], row["amount"])} for row in rows])


def _negate_odd(seq: int, amount: int | None) -> int | None:
    return amount if amount is None or seq % 2 == 0 else -amount


_MERGE = Flow(
    "merge",
    {"merge": {"key": "id", "order_by": list(ORDER), "delete": "op = 'D'"}},
    _EVENTS,
    EVENT,
    partial(merge, columns=EVENT, key=("id",), order_by=ORDER, delete=_is_delete),
    needs=("id",),
    gold=True,
    one_row_a=("id",),
)
_FLOWS = {
    flow.name: flow
    for flow in (
        Flow("append", "append", _EVENTS, EVENT, _unchanged),
        Flow("staged", "append", _EVENTS, EVENT, _unchanged, checked=True),
        Flow(
            "dedup",
            {"append": {"dedup": ["id", "day"], "by": "at"}},
            _EVENTS,
            EVENT,
            partial(dedup, columns=EVENT, key=("id", "day"), by="at"),
            needs=("id", "day"),
            one_row_a=("id", "day"),
        ),
        # A row takes about 0.05 s, so that there is time to kill the process while it writes files.
        Flow("slow", "append", f"{_EVENTS} WHERE {_SLOW} > 0", EVENT, _unchanged),
        Flow(
            "replace",
            "replace",
            "SELECT day, count(*) AS n, sum({amount}) AS total FROM {bronze} GROUP BY day",
            ("day", "n", "total"),
            per_day,
            condition=None,
            grouped=True,
        ),
        Flow(
            "partitions",
            {"replace_partitions": "day"},
            f"SELECT day, count(*) AS n, sum({_SIGNED}) AS total FROM {{bronze}} GROUP BY day",
            ("day", "n", "total"),
            _signed,
            condition="total >= 0",
            grouped=True,
        ),
        _MERGE,
        replace(_MERGE, name="dv_merge", large=True, gold=False),
        Flow(
            "scd2",
            {"scd2": {"key": "id", "order_by": list(ORDER), "delete": "op = 'D'"}},
            _EVENTS,
            (*EVENT, "valid_from", "valid_to", "is_current"),
            partial(scd2, columns=EVENT, key=("id",), order_by=ORDER, delete=_is_delete),
            needs=("id", "at"),
        ),
        Flow(
            "changes",
            {"changes": {"key": "id", "order_by": list(ORDER), "op": "op"}},
            _EVENTS,
            EVENT,
            partial(changes, columns=EVENT, key=("id",), order_by=ORDER, op="op"),
            needs=("id", "at", "op"),
        ),
        Flow(
            "snapshot",
            {"snapshot": {"key": "id", "taken": "taken", "into": "scd2"}},
            "SELECT {id} AS id, {name} AS name, {amount} AS amount, timestamp_seconds({taken}) AS taken FROM {bronze}",
            (*EXTRACT, "valid_from", "valid_to", "is_current"),
            partial(snapshot, columns=EXTRACT, key=("id",), taken="taken", into="scd2"),
            needs=("id", "taken"),
        ),
    )
}
_FEW = ("append", "partitions", "merge", "scd2", "changes")
FLOWS = _FLOWS | {f"few_{name}": replace(_FLOWS[name], name=f"few_{name}", few=True) for name in _FEW}


@lru_cache(maxsize=64)
def with_nulls(name: str, shape: Shape) -> Flow:
    """Return a flow with NULLs of this shape."""
    return replace(FLOWS[name], shape=shape)
