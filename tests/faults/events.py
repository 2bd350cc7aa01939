"""The landed rows as a function of a seed and a file's number. Tests compute them without Spark and Lakesmith."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.faults.file_names import is_ingested, odd_name, plain_name
from tests.models.rows import Row

ROWS = 12
"""The number of lines in a file."""
KEYS = 8
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
START = 1_767_225_600
"""The first second of 2026."""
OPTIONAL = ("name", "amount", "day", "at", "op", "taken")
"""Columns that may be NULL. `seq` never is, and `id` is in every landing zone."""


@dataclass(frozen=True, slots=True)
class Events:
    """The files of one landing zone."""

    seed: int
    nulls: bool = False
    """Whether optional columns are sometimes NULL."""
    sparse: bool = False
    """Whether some numbers have no file: then a run finds new files in other streams only."""
    odd_names: bool = False

    def name(self, file: int) -> bytes:
        return odd_name(self.seed, file) if self.odd_names and file > 1 else plain_name(file)

    def lands(self, file: int) -> bool:
        """Return whether a file with this number exists. The first does: a table without input is not built."""
        return file == 1 or not self.sparse or random.Random(f"{self.seed}/{file}/lands").random() < 0.7

    def counts(self, file: int) -> bool:
        """Return whether a file with this number exists and is ingested."""
        return self.lands(file) and is_ingested(self.name(file))

    def readable(self, file: int) -> list[Row]:
        """Return the readable rows of an ingested file."""
        return [dict(row) for row in _rows(self, file)] if self.counts(file) else []

    def unreadable(self, file: int) -> list[str]:
        """Return the unreadable lines of an ingested file."""
        return [line for line in self.lines(file) if _read(line) is None] if self.counts(file) else []

    def lines(self, file: int) -> list[str]:
        """Return the lines of a file: rows, some of them late or invalid, repeated rows of earlier files, and some
        unreadable lines."""
        choose = random.Random(f"{self.seed}/{file}")
        lines = []
        for number in range(ROWS):
            text = json.dumps(self._row(file, number))
            chance = choose.random()
            if chance < 0.06:
                lines.append(text[: len(text) // 2])
            elif chance < 0.14 and file > 1:
                earlier = self._row(choose.randrange(1, file), choose.randrange(ROWS))
                lines.append(text if is_wrong(earlier) else json.dumps(earlier))
            else:
                lines.append(text)
        choose.shuffle(lines)
        return lines

    def _row(self, file: int, number: int) -> Row:
        choose = random.Random(f"{self.seed}/{file}/{number}")
        late = choose.choice((0, 0, 0, 0, 3, 40))
        row = {
            "seq": file * 100 + number,
            "id": None if choose.random() < 0.05 else choose.randrange(KEYS),
            "name": choose.choice("abc"),
            "amount": -choose.randrange(1, 9) if choose.random() < 0.1 else choose.randrange(100),
            "day": choose.choice(DAYS),
            "at": START + max(0, file - late) * 60 + choose.randrange(120),
            "op": choose.choice(("I", "U", "U", "D")),
            "taken": START + file * 3600,
        }
        if self.nulls:
            row |= {column: None for column in OPTIONAL if choose.random() < 0.08}
        return row


@lru_cache(maxsize=512)
def _rows(events: Events, file: int) -> tuple[Row, ...]:
    return tuple(row for row in map(_read, events.lines(file)) if row is not None)


def is_wrong(row: Row) -> bool:
    """Return whether a row has no key, or an amount that every table rejects."""
    return row["id"] is None or (row["amount"] or 0) < 0


def _read(line: str) -> Row | None:
    try:
        row: Any = json.loads(line)
    except ValueError:
        return None
    assert isinstance(row, dict)
    return row
