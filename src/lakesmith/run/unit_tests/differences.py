"""Finds missing rows, unexpected rows, and rows with the same identity but other values."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from lakesmith.reports import RowDifference

Cells = Mapping[str, str | None]
_Choice = tuple[tuple[str, ...], tuple[str | None, ...]]
"""The columns and values that a found row must have."""


def differences(
    expected: Sequence[Cells],
    found: Sequence[Cells],
    key: Sequence[str] = (),
    of: Literal["table", "quarantine"] = "table",
) -> tuple[RowDifference, ...]:
    """Return how the rows differ, ignoring order. Only the columns of an expected row are compared.

    `key` are the columns that identify a row.
    """
    matched = _matched(expected, found)
    missing = [number for number in range(len(expected)) if number not in matched]
    unexpected = sorted(set(range(len(found))) - set(matched.values()))
    pairs = _pairs(expected, found, missing, unexpected, key)
    columns = list(dict.fromkeys(name for row in expected for name in row)) or None
    changed = [
        RowDifference(
            of=of,
            expected=dict(expected[number]),
            found=_only(found[pairs[number]], expected[number]) if number in pairs else None,
        )
        for number in missing
    ]
    paired = set(pairs.values())
    added = [
        RowDifference(of=of, expected=None, found=_only(found[number], columns))
        for number in unexpected
        if number not in paired
    ]
    return (*changed, *added)


def _matched(expected: Sequence[Cells], found: Sequence[Cells]) -> dict[int, int]:
    """Return a matching found row by expected row, for as many rows as possible."""
    fitting: dict[tuple[str, ...], dict[tuple[str | None, ...], list[int]]] = {}
    for row in expected:
        names = tuple(row)
        if names not in fitting:
            index = fitting[names] = {}
            for number, other in enumerate(found):
                if all(name in other for name in names):
                    index.setdefault(tuple(other[name] for name in names), []).append(number)
    choices = [(tuple(row), tuple(row.values())) for row in expected]
    candidates = {choice: fitting[choice[0]].get(choice[1], []) for choice in choices}
    # A matched row stays matched: it need not be looked at as a free one again.
    untried = {choice: iter(fits) for choice, fits in candidates.items()}
    owner: dict[int, int] = {}
    held: dict[int, int] = {}
    hopeless: set[_Choice] = set()

    def take(number: int, candidate: int) -> None:
        owner[candidate], held[number] = number, candidate

    def make_room(number: int) -> bool:
        """Find a free row along a chain of matches, and shift the matches of the chain."""
        wanted_by: dict[int, int] = {}
        waiting, looked = deque([number]), set()
        while waiting:
            wanting = waiting.popleft()
            if choices[wanting] in looked:
                continue
            looked.add(choices[wanting])
            for candidate in candidates[choices[wanting]]:
                if candidate in wanted_by:
                    continue
                wanted_by[candidate] = wanting
                if candidate in owner:
                    waiting.append(owner[candidate])
                    continue
                while wanting != number:
                    released = held[wanting]
                    take(wanting, candidate)
                    candidate, wanting = released, wanted_by[released]
                take(number, candidate)
                return True
        return False

    # Rows with more columns have fewer candidates: taking them first avoids most shifts.
    for number in sorted(range(len(expected)), key=lambda number: -len(expected[number])):
        choice = choices[number]
        free = next((candidate for candidate in untried[choice] if candidate not in owner), None)
        if free is not None:
            take(number, free)
        elif choice not in hopeless and not make_room(number):
            hopeless.add(choice)
    return held


def _pairs(
    expected: Sequence[Cells],
    found: Sequence[Cells],
    missing: Sequence[int],
    unexpected: Sequence[int],
    key: Sequence[str],
) -> dict[int, int]:
    """Pair missing and unexpected rows that are the same row: the key is equal, or most values are."""
    scores = []
    for number in missing:
        row = expected[number]
        for other in unexpected:
            same = sum(name in found[other] and found[other][name] == value for name, value in row.items())
            has_key = bool(key) and all(name in row for name in key)
            keyed = has_key and all(row[name] == found[other].get(name) for name in key)
            if keyed or (not has_key and 2 * same >= len(row) and same):
                scores.append((not keyed, -same, number, other))
    pairs: dict[int, int] = {}
    paired: set[int] = set()
    for _, _, number, other in sorted(scores):
        if number not in pairs and other not in paired:
            pairs[number] = other
            paired.add(other)
    return pairs


def _only(row: Cells, names: Sequence[str] | Cells | None) -> dict[str, str | None]:
    return dict(row) if names is None else {name: row[name] for name in names if name in row}
