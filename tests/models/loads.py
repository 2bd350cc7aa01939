"""The models of the loads: from the rows Q of a query to the table T, as a bag. `changes` has its own module.

They are written to be read, not to be fast: sort, then iterate. `columns` are those of the query, in the order of the
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.models.rows import Condition, Row, by_key, never, place, places, values

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


GONE = "(gone)"
"""The column that marks a key as missing from an extract. No query can give it."""


class KeyTwice(Exception):
    """A load that accepts one row for each key got two."""


def append(rows: Sequence[Row]) -> list[Row]:
    """T = Q; also for `replace` and `replace_partitions`."""
    return [dict(row) for row in rows]


def dedup(
    rows: Sequence[Row], *, columns: Sequence[str], key: Sequence[str], by: str, within: timedelta | None = None
) -> list[Row]:
    """Return the first row of each key, or of each key in each time window."""
    table = []
    for mine in by_key(rows, key).values():
        seen = set()
        for row in sorted(mine, key=lambda row: (place(row[by]), places(row, columns))):
            window = None if within is None else _window(row[by], within)
            if window not in seen:
                seen.add(window)
                table.append(dict(row))
    return table


def _window(moment: datetime | None, length: timedelta) -> int | None:
    return None if moment is None else (moment - EPOCH) // length


def keyed(rows: Sequence[Row], *, key: Sequence[str]) -> list[Row]:
    """`merge` without `order_by`."""
    groups = by_key(rows, key)
    for at, mine in groups.items():
        if len(mine) > 1:
            raise KeyTwice(at)
    return [dict(row) for mine in groups.values() for row in mine]


def merge(
    rows: Sequence[Row],
    *,
    columns: Sequence[str],
    key: Sequence[str],
    order_by: Sequence[str],
    delete: Condition = never,
    soft_delete: str | None = None,
    update: Sequence[str] = (),
) -> list[Row]:
    """Each row of a key, in order, replaces the previous one; with `update`, only these columns and the order."""
    table = []
    for mine in by_key(rows, key).values():
        current: Row | None = None
        for row in _ranked(mine, columns, order_by, delete):
            if soft_delete is not None:
                current = {**row, soft_delete: delete(row) is True}
            elif delete(row) is True:
                current = None
            elif current is None or not update:
                current = dict(row)
            else:
                for column in (*update, *order_by):
                    current[column] = row[column]
        if current is not None:
            table.append(current)
    return table


def scd2(
    rows: Sequence[Row],
    *,
    columns: Sequence[str],
    key: Sequence[str],
    order_by: Sequence[str],
    delete: Condition = never,
    track: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
) -> list[Row]:
    """Return the intervals in which the tracked columns of a key are equal."""
    time = order_by[0]
    tracked = [c for c in columns if c not in (*key, *order_by, *ignore)] if track is None else track
    table: list[Row] = []
    for mine in by_key(rows, key).values():
        # In order of time, like the rows; a later row of the same time replaces the previous one.
        last_of_each_time = {
            row[time]: row for row in _ranked(mine, columns, order_by, delete) if row[time] is not None
        }
        current: Row | None = None
        for now, row in last_of_each_time.items():
            gone = delete(row) is True
            if current is not None and not gone and values(current, tracked) == values(row, tracked):
                current.update(row)
                continue
            if current is not None:
                current.update(valid_to=now, is_current=False)
            current = None if gone else {**row, "valid_from": now, "valid_to": None, "is_current": True}
            if current is not None:
                table.append(current)
    return table


def snapshot(
    rows: Sequence[Row],
    *,
    columns: Sequence[str],
    key: Sequence[str],
    taken: str,
    into: str,
    track: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
) -> list[Row]:
    """`merge` or `scd2` of the rows that differ from the previous extract, with a delete where a key is missing from
    the next extract."""
    changes: list[Row] = []
    before: dict[tuple[Any, ...], Row] = {}
    content = [column for column in columns if column != taken]
    for time, extract in _extracts(rows, columns, key, taken):
        # A row may have more keys, such as the number of its file.
        unchanged = {
            at for at, row in extract.items() if at in before and all(row[c] == before[at][c] for c in content)
        }
        changes += [{**row, GONE: False} for at, row in extract.items() if at not in unchanged]
        changes += [{**row, taken: time, GONE: True} for at, row in before.items() if at not in extract]
        before = extract
    if into == "merge":
        table = merge(changes, columns=columns, key=key, order_by=[taken], delete=_gone)
    else:
        table = scd2(changes, columns=columns, key=key, order_by=[taken], delete=_gone, track=track, ignore=ignore)
    return [{column: value for column, value in row.items() if column != GONE} for row in table]


def rejected(
    rows: Sequence[Row], *, columns: Sequence[str], key: Sequence[str], taken: str, max_shrink: str
) -> list[Any]:
    """Return the extracts that shrank too much, compared with the newest earlier accepted one. Rows are counted by key.
    The limit is text, because binary fractions reject 3 rows after 10 at 0.7."""
    shrunk = []
    limit = Fraction(0)
    for time, extract in _extracts(rows, columns, key, taken):
        if len(extract) < limit:
            shrunk.append(time)
        else:
            limit = (1 - Fraction(max_shrink)) * len(extract)
    return shrunk


def _extracts(
    rows: Sequence[Row], columns: Sequence[str], key: Sequence[str], taken: str
) -> list[tuple[Any, dict[tuple[Any, ...], Row]]]:
    """Return the extracts by time, each with the greatest row of each key."""
    extracts: dict[Any, list[Row]] = {}
    for row in rows:
        if row[taken] is not None:
            extracts.setdefault(row[taken], []).append(row)
    found = []
    for time in sorted(extracts):
        greatest = {
            at: max(mine, key=lambda row: places(row, columns)) for at, mine in by_key(extracts[time], key).items()
        }
        if greatest:
            found.append((time, greatest))
    return found


def _gone(row: Row) -> bool | None:
    gone: bool = row[GONE]
    return gone


def _ranked(rows: Sequence[Row], columns: Sequence[str], order_by: Sequence[str], delete: Condition) -> list[Row]:
    """Sort by order, then rows before deletes, then content."""
    return sorted(rows, key=lambda row: (places(row, order_by), delete(row) is True, places(row, columns)))
