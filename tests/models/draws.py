"""Draws the rows of one history: few keys and few times, so that rows collide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.models.rows import Row

Choose = Callable[[int], int]
"""Draw a number below the given one. Hypothesis shrinks towards 0."""

MOST_ROWS = 14
HOUR = timedelta(hours=1)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = [FIRST + hour * HOUR for hour in range(6)]
# Around full hours before and after 1970, where flooring and truncating differ.
MOMENTS = [
    start + offset
    for start in (FIRST, datetime(1969, 12, 31, 23, tzinfo=UTC))
    for offset in (timedelta(), timedelta(microseconds=1), HOUR - timedelta(microseconds=1), HOUR)
]
# The last two sort differently by code point and by UTF-16 unit.
NAMES = [*["a", "b"] * 4, None, "", "A", "a ", "～", "😀"]
AMOUNTS = [*[Decimal("1.00")] * 4, Decimal("2.50"), Decimal("-1.00"), Decimal("0.00"), None]
IDS = [1, 1, 1, 1, 1, 2, 2, 3, None]


def rows_of(draw_row: Callable[[Choose], Row], choose: Choose) -> list[Row]:
    """Draw rows; some repeat an earlier row, have another time, or differ in one value, which mostly is a tie."""
    rows: list[Row] = []
    for _ in range(choose(MOST_ROWS + 1)):
        row = draw_row(choose)
        how = choose(12)
        if rows and how >= 6:
            earlier = rows[choose(len(rows))]
            other = list(row)[choose(len(row))] if how == 7 else "at"
            row = dict(earlier) if how == 6 else {**earlier, other: row[other]}
        rows.append(row)
    return rows


def one_of(choose: Choose, options: Sequence[Any]) -> Any:
    return options[choose(len(options))]


def event(choose: Choose) -> Row:
    return {
        "id": one_of(choose, IDS),
        "name": one_of(choose, NAMES),
        "at": one_of(choose, [*TIMES, *TIMES, None]),
        "seq": one_of(choose, [0, 0, 1, None]),
        "op": one_of(choose, ["U", "U", "U", "D", None]),
        "amount": one_of(choose, AMOUNTS),
    }


def moment(choose: Choose) -> Row:
    return {"id": one_of(choose, IDS), "name": one_of(choose, NAMES), "at": one_of(choose, [*MOMENTS, None])}


def change(ops: Sequence[str | None], choose: Choose) -> Row:
    return {
        "id": one_of(choose, IDS),
        "old_id": one_of(choose, [None, None, None, None, 1, 2, 3]),
        "name": one_of(choose, NAMES),
        "at": one_of(choose, [*TIMES, *TIMES, None]),
        "seq": one_of(choose, [0, 0, 1, None]),
        "op": one_of(choose, ops),
        "amount": one_of(choose, AMOUNTS),
    }


def truncate(choose: Choose) -> Row:
    """Draw truncates: mostly without a key; a key is ignored."""
    row = change(["T", "truncate", "Truncate"], choose)
    row["at"] = one_of(choose, TIMES[1:4])  # Later ones would leave few rows.
    return row if choose(3) == 2 else {"history": None, **row, "id": None, "old_id": None}


def extracts(choose: Choose) -> list[Row]:
    """Draw extracts of a small table: most keys and values stay, some rows are repeated, or have no key or time."""
    rows = []
    held: dict[Any, Row] = {}
    for taken in TIMES[: one_of(choose, [0, 1, 2, 3, 4, 5, 5, 5, 5, 5])]:
        for id in [1, 2, 3, 4]:
            what = choose(6)
            if what <= 1 or id not in held:
                held[id] = {"id": id, "name": one_of(choose, NAMES), "amount": one_of(choose, AMOUNTS)}
            if what != 5:
                rows.append({**held[id], "taken": taken})
            if what == 4:
                rows.append({**held[id], "taken": taken, "name": one_of(choose, NAMES)})
        if choose(8) == 7:
            rows.append({**one_of(choose, list(held.values())), one_of(choose, ["id", "amount"]): None, "taken": taken})
        if choose(8) == 7:
            rows.append({**one_of(choose, list(held.values())), "taken": None})
    return [{column: row[column] for column in ("id", "name", "taken", "amount")} for row in rows]


def one_a_key(choose: Choose) -> list[Row]:
    rows = [event(choose) for _ in range(choose(MOST_ROWS))]
    return [*{row["id"]: row for row in rows if row["id"]}.values(), *(row for row in rows if not row["id"])]
