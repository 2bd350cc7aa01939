"""The loads under test, each with its declaration, model and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

from tests.models import draws
from tests.models.changes import KINDS, changes
from tests.models.draws import Choose
from tests.models.loads import append, dedup, keyed, merge, scd2, snapshot
from tests.models.rows import Row


@dataclass(frozen=True)
class Load:
    """A load under test: its declaration, its model and the form of its rows."""

    name: str
    declaration: dict[str, Any] | str
    """The value of `load:`."""
    columns: dict[str, str]
    """The columns of the query with their SQL types, in order."""
    model: Callable[[Sequence[Row]], list[Row]]
    draw: Callable[[Choose], list[Row]]
    """The rows of one history, without the column `history`."""
    adds: dict[str, str] = field(default_factory=dict)
    """The columns that the load adds to the query's."""
    repeats: bool = True
    """Whether rows can be repeated."""
    truncates: bool = False
    keeps_null: Sequence[str] = ()
    """Columns in which NULL cannot be replaced: keys would not stay unique, or rows would move to another partition."""

    @property
    def table_columns(self) -> list[str]:
        return [*self.columns, *self.adds]


KEY = ["history", "id"]
ORDER = ["at", "seq"]
# A column precedes those of the order, so that a load that compares only content fails.
HELD = {"history": "bigint", "id": "bigint"}
CHANGED = {"name": "string", "at": "timestamp", "seq": "int", "op": "string", "amount": "decimal(12,2)"}
EVENT = {**HELD, **CHANGED}
CHANGE = {**HELD, "old_id": "bigint", **CHANGED}
MOMENT = {**HELD, "name": "string", "at": "timestamp"}
EXTRACT = {**HELD, "name": "string", "taken": "timestamp", "amount": "decimal(12,2)"}
INTERVAL = {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
# Truncates are drawn elsewhere: they act on all histories, so there are few.
OPS = [*(op for op in KINDS if KINDS[op] != "truncate"), "i", "Update", "delete", "U", "U", "D", "X", None]
LEDGER_OPS = [*OPS, *["CORRECTION", "correction", "REVERSAL", "Reversal"] * 3]
DELETE = "op = 'D'"


def deleted(row: Row) -> bool | None:
    """Return whether DELETE applies to a row."""
    return None if row["op"] is None else row["op"] == "D"


def _merge(name: str, adds: dict[str, str] | None = None, **options: Any) -> Load:
    model = {**options, "delete": deleted} if "delete" in options else options
    return Load(
        name,
        {"merge": {"key": KEY, "order_by": ORDER, **options}},
        EVENT,
        partial(merge, columns=list(EVENT), key=KEY, order_by=ORDER, **model),
        partial(draws.rows_of, draws.event),
        adds or {},
    )


def _scd2(name: str, **options: Any) -> Load:
    return Load(
        name,
        {"scd2": {"key": KEY, "order_by": ORDER, "delete": DELETE, **options}},
        EVENT,
        partial(scd2, columns=list(EVENT), key=KEY, order_by=ORDER, delete=deleted, **options),
        partial(draws.rows_of, draws.event),
        INTERVAL,
    )


def _changes(name: str, ops: Sequence[str | None], adds: dict[str, str] | None = None, **options: Any) -> Load:
    options = {"key": KEY, "order_by": ORDER, "op": "op", **options}
    return Load(
        name,
        {"changes": options},
        CHANGE,
        partial(changes, columns=list(CHANGE), **options),
        partial(draws.rows_of, partial(draws.change, ops)),
        adds or {},
        truncates=True,
    )


def _snapshot(name: str, into: str, **options: Any) -> Load:
    options = {"key": KEY, "taken": "taken", "into": into, **options}
    return Load(
        name,
        {"snapshot": options},
        EXTRACT,
        partial(snapshot, columns=list(EXTRACT), **options),
        draws.extracts,
        INTERVAL if into == "scd2" else {},
    )


MOVES = {"id": "old_id"}
LOADS = {
    load.name: load
    for load in (
        Load("append", "append", MOMENT, append, partial(draws.rows_of, draws.moment)),
        Load("replace", "replace", MOMENT, append, partial(draws.rows_of, draws.moment)),
        Load(
            "replace_partitions",
            {"replace_partitions": "id"},
            MOMENT,
            append,
            partial(draws.rows_of, draws.moment),
            keeps_null=["id"],
        ),
        Load(
            "dedup",
            {"append": {"dedup": KEY, "by": "at"}},
            MOMENT,
            partial(dedup, columns=list(MOMENT), key=KEY, by="at"),
            partial(draws.rows_of, draws.moment),
        ),
        Load(
            "dedup_within",
            {"append": {"dedup": KEY, "by": "at", "within": "1h"}},
            MOMENT,
            partial(dedup, columns=list(MOMENT), key=KEY, by="at", within=draws.HOUR),
            partial(draws.rows_of, draws.moment),
        ),
        Load(
            "keyed",
            {"merge": {"key": KEY}},
            EVENT,
            partial(keyed, key=KEY),
            draws.one_a_key,
            repeats=False,
            keeps_null=KEY,
        ),
        _merge("merge"),
        _merge("merge_delete", delete=DELETE),
        _merge("merge_soft", {"is_deleted": "boolean"}, delete=DELETE, soft_delete="is_deleted"),
        _merge("merge_update", delete=DELETE, update=["amount"]),
        _scd2("scd2"),
        _scd2("scd2_track", track=["name"]),
        _scd2("scd2_ignore", ignore=["op"]),
        _changes("changes", OPS),
        _changes("changes_moves", OPS, previous_key=MOVES),
        _changes("changes_amounts", LEDGER_OPS, {"_entry": "string"}, amounts=["amount"]),
        _changes("changes_all", LEDGER_OPS, {"_entry": "string"}, amounts=["amount"], previous_key=MOVES),
        _snapshot("snapshot_merge", "merge"),
        _snapshot("snapshot_scd2", "scd2"),
        _snapshot("snapshot_scd2_ignore", "scd2", ignore=["amount"]),
        _snapshot("snapshot_scd2_track", "scd2", track=["amount"]),
    )
}


NEVER_NULL = {
    "history": "coalesce(history, -1)",
    "id": "coalesce(id, 0)",
    "old_id": "coalesce(old_id, id, 0)",
    "name": "coalesce(name, '?')",
    "at": "coalesce(at, TIMESTAMP'2026-01-01 00:00:00Z')",
    "taken": "coalesce(taken, TIMESTAMP'2026-01-01 00:00:00Z')",
    "seq": "CASE WHEN seq IS NULL THEN -1 ELSE seq END",
    "op": "CASE WHEN op IS NULL THEN 'U' ELSE op END",
    "amount": "coalesce(amount, CAST(0 AS decimal(12,2)))",
}
"""By column, SQL that replaces NULL. Spark knows that the result is never NULL."""


def never_null(load: Load) -> Load:
    """Return the same load over a query whose columns are never NULL, except those that must be nullable."""
    return replace(load, model=lambda rows: load.model([_filled(row, load.keeps_null) for row in rows]))


def _filled(row: Row, nullable: Sequence[str]) -> Row:
    """Return a row as NEVER_NULL transforms it."""
    given = {
        "history": -1,
        "id": 0,
        "old_id": row["id"] or 0,
        "name": "?",
        "at": draws.FIRST,
        "taken": draws.FIRST,
        "seq": -1,
        "op": "U",
        "amount": Decimal("0.00"),
    }
    return {name: given[name] if value is None and name not in nullable else value for name, value in row.items()}
