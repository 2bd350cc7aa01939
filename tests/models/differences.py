"""Describes where a table differs from its model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tests.models.cases import Load
from tests.models.changes import KINDS
from tests.models.histories import History, expected, pack
from tests.models.rows import Row


def first_difference(load: Load, histories: Sequence[History], upto: int, table: Sequence[Row]) -> str | None:
    """Describe the first history whose rows differ from the model; None when all are equal. Columns that the load does
    not define are ignored."""
    want, have = _by_history(load, expected(load, histories, upto)), _by_history(load, table)
    wrong = {id for id in {*want, *have} if want.get(id, Counter()) != have.get(id, Counter())}
    for history in histories:
        if history.id in wrong:
            nothing: Counter[tuple[Any, ...]] = Counter()
            pair = want.get(history.id, nothing), have.get(history.id, nothing)
            return _description(load, histories, history, upto, len(wrong), *pair)
    return f"{load.name}: the table has unknown histories: {sorted(wrong, key=str)}" if wrong else None


def _by_history(load: Load, rows: Sequence[Row]) -> dict[Any, Counter[tuple[Any, ...]]]:
    found: dict[Any, Counter[tuple[Any, ...]]] = {}
    for row in rows:
        bag = found.setdefault(row["history"], Counter())
        bag[tuple(_utc(row[column]) for column in load.table_columns)] += 1
    return found


def _utc(value: Any) -> Any:
    """Spark returns times without a zone in the zone of the session, which tests set to UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _description(
    load: Load,
    histories: Sequence[History],
    history: History,
    upto: int,
    count: int,
    want: Counter[tuple[Any, ...]],
    have: Counter[tuple[Any, ...]],
) -> str:
    lines = [f"{load.name}: {count} of {len(histories)} histories differ after batch {upto}; history {history.id}:"]
    lines.append(f"  load: {load.declaration}")
    lines.append(f"  events: {' | '.join(load.columns)}")
    for number, batch in enumerate(pack([history])[: upto + 1]):
        lines += [f"    batch {number}: {_line(row.values())}" for row in batch]
    lines += _shared(load, histories, history, upto)
    lines.append(f"  table: {' | '.join(load.table_columns)}")
    for row in sorted({*want, *have}, key=str):
        mark = "same   " if want[row] == have[row] else f"{have[row]} not {want[row]}"
        lines.append(f"    {mark}: {_line(row)}")
    lines.append("  'n not m': the table has the row n times, the model m times")
    return "\n".join(lines)


def _shared(load: Load, histories: Sequence[History], history: History, upto: int) -> list[str]:
    """Return the rows of other histories that affect this one."""
    batches = pack([other for other in histories if other.id != history.id])[: upto + 1]
    rows = [row for batch in batches for row in batch]
    if load.truncates:
        truncates = [row for row in rows if KINDS.get((row["op"] or "").upper()) == "truncate"]
        return [f"    of another history: {_line(row.values())}" for row in truncates]
    if "taken" in load.columns:
        times = sorted({row["taken"] for row in rows if row["taken"] is not None and row["id"] is not None})
        return [f"    extracts of other histories: {_line(times)}"]
    return []


def _line(values: Any) -> str:
    return " | ".join(_short(value) for value in values)


def _short(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    return repr(value) if isinstance(value, str) else str(value)
