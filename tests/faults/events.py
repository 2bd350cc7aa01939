"""What lands in a lake under attack, as a function of a seed and the number of the file: whoever knows the two knows
every row, without Spark and without Lakesmith."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.models.rows import Row

ROWS = 12
"""How many lines a file has."""
KEYS = 8
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
START = 1_767_225_600
"""The first second of 2026."""


def lines(seed: int, file: int) -> list[str]:
    """The lines of a file: rows, some of them late or wrong, good ones of earlier files again, and some lines that
    nobody can read."""
    choose = random.Random(f"{seed}/{file}")
    told = []
    for number in range(ROWS):
        text = json.dumps(_row(seed, file, number))
        chance = choose.random()
        if chance < 0.06:
            told.append(text[: len(text) // 2])
        elif chance < 0.14 and file > 1:
            earlier = _row(seed, choose.randrange(1, file), choose.randrange(ROWS))
            told.append(text if is_wrong(earlier) else json.dumps(earlier))
        else:
            told.append(text)
    choose.shuffle(told)
    return told


def _row(seed: int, file: int, number: int) -> Row:
    choose = random.Random(f"{seed}/{file}/{number}")
    late = choose.choice((0, 0, 0, 0, 3, 40))
    return {
        "seq": file * 100 + number,
        "id": None if choose.random() < 0.05 else choose.randrange(KEYS),
        "name": choose.choice("abc"),
        "amount": -choose.randrange(1, 9) if choose.random() < 0.1 else choose.randrange(100),
        "day": choose.choice(DAYS),
        "at": START + max(0, file - late) * 60 + choose.randrange(120),
        "op": choose.choice(("I", "U", "U", "D")),
        "taken": START + file * 3600,
    }


def is_wrong(row: Row) -> bool:
    """Whether a row has no key, or an amount that no table takes."""
    return row["id"] is None or row["amount"] < 0


def readable(seed: int, file: int) -> list[Row]:
    """The rows of a file that can be read."""
    return [row for row in map(_read, lines(seed, file)) if row is not None]


def unreadable(seed: int, file: int) -> list[str]:
    """The lines of a file that nobody can read."""
    return [line for line in lines(seed, file) if _read(line) is None]


def _read(line: str) -> Row | None:
    try:
        row: Any = json.loads(line)
    except ValueError:
        return None
    assert isinstance(row, dict)
    return row
