"""Histories for each load: rows split into batches, in any order, some empty, some repeated.

Many histories share one table; the column `history` separates their keys. Truncates and extracts have no key: they act
on all histories of a table, so the expected rows are computed from all rows together.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from hypothesis import strategies as st
from tests.models.cases import Load
from tests.models.draws import Choose, truncate
from tests.models.rows import Row

BATCHES = 5


@dataclass(frozen=True)
class History:
    """The batches of rows with one value of `history`."""

    id: int
    batches: tuple[tuple[Row, ...], ...]


def histories(load: Load, seed: int, n: int, truncates: int = 2) -> list[History]:
    """Draw histories; equal for an equal seed. There are `truncates` truncates in total, because each acts on every
    history."""
    return _histories(load, random.Random(seed).randrange, n, truncates)


@st.composite
def some_histories(draw: st.DrawFn, load: Load, most: int = 3) -> list[History]:
    """Draw a few histories for one table, sometimes with a truncate."""

    def choose(n: int) -> int:
        return draw(st.integers(0, n - 1))

    truncates = max(0, choose(6) - 3)
    return _histories(load, choose, 1 + choose(most), truncates)


def pack(histories: Sequence[History]) -> list[list[Row]]:
    """Return the rows of all histories by batch."""
    batches = [[_stamped(history.id, batch) for batch in history.batches] for history in histories]
    return [[row for rows in together for row in rows] for together in zip_longest(*batches, fillvalue=[])]


def expected(load: Load, histories: Sequence[History], upto: int) -> list[Row]:
    """Return the table after the batches 0 to `upto`, inclusive."""
    return load.model([row for batch in pack(histories)[: upto + 1] for row in batch])


def _histories(load: Load, choose: Choose, n: int, truncates: int) -> list[History]:
    found = [History(id, _cut(load, choose, load.draw(choose))) for id in range(n)]
    for _ in range(truncates if load.truncates else 0):
        at = choose(n)
        batches = list(found[at].batches)
        batch = choose(len(batches))
        batches[batch] = (*batches[batch], truncate(choose))
        found[at] = replace(found[at], batches=tuple(batches))
    return found


def _cut(load: Load, choose: Choose, rows: list[Row]) -> tuple[tuple[Row, ...], ...]:
    """Split the rows randomly into up to five batches, so that rows are late. Some batches are empty, some are
    repeated."""
    batches: list[list[Row]] = [[] for _ in range(1 + choose(BATCHES))]
    for row in _shuffled(choose, rows):
        batches[choose(len(batches))].append(row)
    if load.repeats and len(batches) < BATCHES and choose(3) == 2:
        batches.insert(choose(len(batches) + 1), list(batches[choose(len(batches))]))
    while len(batches) < BATCHES and choose(3) == 2:
        batches.insert(choose(len(batches) + 1), [])
    return tuple(tuple(batch) for batch in batches)


def _shuffled(choose: Choose, rows: Sequence[Row]) -> list[Row]:
    left, out = list(rows), []
    while left:
        out.append(left.pop(choose(len(left))))
    return out


def _stamped(history: int, rows: Sequence[Row]) -> list[Row]:
    """Set the history of a row, unless the row sets it itself, as a truncate does."""
    return [{"history": history, **row} for row in rows]
