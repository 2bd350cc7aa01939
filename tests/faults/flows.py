"""The lakes under attack, one for each load: how a lake is declared, and what must be in its tables, by a model that
shares no code with the product."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.faults.events import readable
from tests.models.changes import changes
from tests.models.loads import dedup, merge, scd2, snapshot
from tests.models.rows import Row, values

EVENT = ("seq", "id", "name", "amount", "day", "at", "op")
EXTRACT = ("id", "name", "amount", "taken")
ORDER = ("at", "seq")
TABLE = "silver.events"


Decision = tuple[str, int]
"""`replay` or `discard`, and the number of the file up to which rows had come by then."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What people have decided of refused rows, one thing after the other."""

    decisions: tuple[Decision, ...] = ()

    def and_then(self, what: str, files: int) -> Decided:
        return Decided((*self.decisions, (what, files)))


def earlier(decided: Iterable[Decided]) -> tuple[Decided, ...]:
    """What was decided at any time, the latest first."""
    found = {Decided(each.decisions[:many]) for each in decided for many in range(len(each.decisions) + 1)}
    return tuple(sorted(found, key=lambda each: len(each.decisions), reverse=True))


@dataclass(frozen=True, slots=True)
class Flow:
    """A bronze table of events, and a silver table with one load."""

    name: str
    load: Any
    query: str
    columns: tuple[str, ...]
    model: Callable[[Sequence[Row]], list[Row]]
    condition: str | None = "amount >= 0"
    """The check of the silver table."""
    keyed: bool = False
    """Whether rows without a key are refused."""
    checked: bool = False
    """Whether bronze has a check too, which never fails: its rows are then staged before they are committed."""
    grouped: bool = False
    """Whether the check is on the rows that the query makes of all events, and not on events."""
    gold: bool = False
    """Whether a table of sums is made from the silver one."""
    one_row_a: tuple[str, ...] = ()
    """Columns that no two rows of the table share: then a batch writes a row for each of them that it changes."""
    large: bool = False
    """Whether tables count as large from their first byte on: rows that a merge replaces are marked in them."""

    def declarations(self) -> dict[str, str]:
        bronze = 'source: {files: "landing/events/*.json"}\n'
        bronze += "checks:\n  known: {where: seq IS NOT NULL, on_fail: quarantine}\n" if self.checked else ""
        header = f"load: {json.dumps(self.load)}\n"
        if self.condition:
            header += f"checks:\n  positive: {{where: {self.condition}, on_fail: quarantine}}\n"
        files = {
            "lakesmith.yml": f"name: {self.name}\n",
            "bronze/events.yml": bronze,
            "silver/events.sql": f"/* lakesmith\n{header}*/\n{self.query}\n",
        }
        if self.gold:
            files["gold/days.sql"] = (
                "/* lakesmith\nload: {replace_partitions: day}\n*/\n"
                "SELECT day, count(*) AS n, sum(amount) AS total FROM silver.events GROUP BY day\n"
            )
        return files

    def table(self, seed: int, files: int, decided: Decided) -> list[Row]:
        """What the silver table holds after the first files."""
        if self.grouped:
            return [row for row in self.model(_events(seed, files)) if not self._is_refused(row)]
        rows = self._decided(seed, files, decided)
        return self.model([row for row in rows if not row["given_up"] and not self._is_refused(row)])

    def quarantine(self, seed: int, files: int, decided: Decided) -> list[Row]:
        """The rows that the silver table has refused, and that nobody has decided of."""
        if self.grouped:
            return [row for row in self.model(_events(seed, files)) if self._is_refused(row)]
        rows = self._decided(seed, files, decided)
        return [row for row in rows if not row["given_up"] and self._is_refused(row)]

    def given_up(self, seed: int, files: int, decided: Decided) -> list[Row]:
        """The rows that somebody has given up."""
        return [row for row in self._decided(seed, files, decided) if row["given_up"]]

    def days(self, seed: int, files: int, decided: Decided) -> list[Row]:
        """What the gold table holds."""
        return per_day(self.table(seed, files, decided))

    def counted(self, seed: int, mode: str, before: int, files: int, decided: Decided) -> dict[str, int]:
        """What the books have to tell of a batch that came from some files to more; nothing of what no model knows."""
        new = [row for row in self._decided(seed, files, decided) if mode == "whole" or row["came"] > before]
        if self.grouped:
            days = {row["day"] for row in new}
            new = [{**row, "given_up": False} for row in self.model(_events(seed, files)) if row["day"] in days]
        discarded = sum(row["given_up"] for row in new)
        refused = sum(not row["given_up"] and self._is_refused(row) for row in new)
        held = [] if mode == "whole" else self.table(seed, before, decided)
        written = len(new) if self.grouped else self._written(held, self.table(seed, files, decided))
        return _books(len(new), refused, discarded, written)

    def replayed(self, seed: int, files: int, decided: Decided) -> dict[str, int]:
        """What the books have to tell of the newest decision."""
        before = Decided(decided.decisions[:-1])
        refused = self.quarantine(seed, files, before)
        if decided.decisions[-1][0] == "discard":
            return _books(len(refused), 0, len(refused), 0)
        chosen = [row for row in refused if row["amount"] < 0]
        still = [row for row in chosen if self._is_refused({**row, "amount": abs(row["amount"])})]
        written = self._written(self.table(seed, files, before), self.table(seed, files, decided))
        return _books(len(chosen), len(still), 0, written)

    def _written(self, held: Sequence[Row], has: Sequence[Row]) -> int | None:
        """How many rows of a table that held some were written when it has others."""
        if not held or self.model is _as_they_are:
            return len(has) - len(held)
        if not self.one_row_a:
            return None
        old, new = ({values(row, self.one_row_a): values(row, self.columns) for row in rows} for rows in (held, has))
        return sum(old.get(key) != new.get(key) for key in old.keys() | new.keys())

    def _decided(self, seed: int, files: int, decided: Decided) -> list[Row]:
        """The events, with what was decided of those that were refused. One that does not pass as it is mended stays
        as it came."""
        rows = [{**row, "given_up": False} for row in _events(seed, files)]
        for what, upto in decided.decisions:
            for row in rows:
                if row["given_up"] or row["came"] > upto or not self._is_refused(row):
                    continue
                if what == "discard":
                    row["given_up"] = True
                elif not self._is_refused({**row, "amount": abs(row["amount"])}):
                    row["amount"] = abs(row["amount"])
        return rows

    def _is_refused(self, row: Row) -> bool:
        if self.grouped:
            return self.condition is not None and row["total"] < 0
        return (self.condition is not None and row["amount"] < 0) or (self.keyed and row["id"] is None)


def _events(seed: int, files: int) -> list[Row]:
    """The rows of the first files, with the file that each came with."""
    return [{**row, "came": file} for file in range(1, files + 1) for row in readable(seed, file)]


def per_day(rows: Sequence[Row]) -> list[Row]:
    """How many events a day has, and the sum of their amounts."""
    days = sorted({row["day"] for row in rows})
    amounts = {day: [row["amount"] for row in rows if row["day"] == day] for day in days}
    return [{"day": day, "n": len(found), "total": sum(found)} for day, found in amounts.items()]


def _books(came: int, refused: int, discarded: int, written: int | None) -> dict[str, int]:
    """What became of the rows of a batch; without what is not known."""
    told = {"in": came, "quarantined": refused, "discarded": discarded}
    if written is None:
        return told
    good = came - refused - discarded
    return {**told, "written": min(good, written), "deduplicated": good - min(good, written)}


def _as_they_are(rows: Sequence[Row]) -> list[Row]:
    return [dict(row) for row in rows]


def _is_delete(row: Row) -> bool | None:
    return bool(row["op"] == "D")


_EVENTS = "SELECT seq, id, name, amount, day, timestamp_seconds(at) AS at, op FROM bronze.events"
_SLOW = "levenshtein(repeat('a', 4000), repeat('b', 4000 + seq))"
_SIGNED = "if(seq % 2 = 0, amount, -amount)"


def _signed(rows: Sequence[Row]) -> list[Row]:
    return per_day([{**row, "amount": row["amount"] if row["seq"] % 2 == 0 else -row["amount"]} for row in rows])


_MERGE = Flow(
    "merge",
    {"merge": {"key": "id", "order_by": list(ORDER), "delete": "op = 'D'"}},
    _EVENTS,
    EVENT,
    partial(merge, columns=EVENT, key=("id",), order_by=ORDER, delete=_is_delete),
    keyed=True,
    gold=True,
    one_row_a=("id",),
)
FLOWS = {
    flow.name: flow
    for flow in (
        Flow("append", "append", _EVENTS, EVENT, _as_they_are),
        Flow("staged", "append", _EVENTS, EVENT, _as_they_are, checked=True),
        Flow(
            "dedup",
            {"append": {"dedup": ["id", "day"], "by": "at"}},
            _EVENTS,
            EVENT,
            partial(dedup, columns=EVENT, key=("id", "day"), by="at"),
            keyed=True,
            one_row_a=("id", "day"),
        ),
        # A row takes about a twentieth of a second, so that there is time to strike while files are written.
        Flow("slow", "append", f"{_EVENTS} WHERE {_SLOW} > 0", EVENT, _as_they_are),
        Flow(
            "replace",
            "replace",
            "SELECT day, count(*) AS n, sum(amount) AS total FROM bronze.events GROUP BY day",
            ("day", "n", "total"),
            per_day,
            condition=None,
            grouped=True,
        ),
        Flow(
            "partitions",
            {"replace_partitions": "day"},
            f"SELECT day, count(*) AS n, sum({_SIGNED}) AS total FROM bronze.events GROUP BY day",
            ("day", "n", "total"),
            _signed,
            condition="total >= 0",
            grouped=True,
        ),
        _MERGE,
        replace(_MERGE, name="placed", large=True, gold=False),
        Flow(
            "scd2",
            {"scd2": {"key": "id", "order_by": list(ORDER), "delete": "op = 'D'"}},
            _EVENTS,
            (*EVENT, "valid_from", "valid_to", "is_current"),
            partial(scd2, columns=EVENT, key=("id",), order_by=ORDER, delete=_is_delete),
            keyed=True,
        ),
        Flow(
            "changes",
            {"changes": {"key": "id", "order_by": list(ORDER), "op": "op"}},
            _EVENTS,
            EVENT,
            partial(changes, columns=EVENT, key=("id",), order_by=ORDER, op="op"),
            keyed=True,
        ),
        Flow(
            "snapshot",
            {"snapshot": {"key": "id", "taken": "taken", "into": "scd2"}},
            "SELECT id, name, amount, timestamp_seconds(taken) AS taken FROM bronze.events",
            (*EXTRACT, "valid_from", "valid_to", "is_current"),
            partial(snapshot, columns=EXTRACT, key=("id",), taken="taken", into="scd2"),
            keyed=True,
        ),
    )
}
