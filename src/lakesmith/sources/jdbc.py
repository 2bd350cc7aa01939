"""Slices of a database table and their SQL conditions, without a connection to the database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, Literal

from lakesmith.ports import Slice

WATERMARK = "watermark"
"""The value that the watermark column was read up to; empty when every row has NULL in it."""
OVERLAPPING = "overlapping"
"""How many rows the next batch reads again. When only this changes, late rows have arrived."""
EXTRACTED = "extracted"
"""The run that read the whole table. It differs for each run, so there is always something new."""

Kind = Literal["number", "date", "moment", "instant", "text"]
"""The kinds of watermark values: a `moment` has no time zone, an `instant` has one.

They are stored as lossless text: numbers with all digits, times in ISO 8601 to the microsecond, instants in UTC.
"""
_DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=2000)
"""More digits than a watermark has: by default Python rounds to 28."""


def new_rows(reached: Mapping[str, int | str]) -> Slice:
    """Return the slice after `reached` without its end: only a run, which has a connection, can find that."""
    return Slice(since=reached, until={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The watermark column, and conditions on it in the database's SQL."""

    column: str
    """Quoted for the database."""
    kind: Kind
    overlap: float = 0.0
    fits: str | None = None
    """A condition that is true for comparable values; None when all are comparable."""

    @property
    def incomparable(self) -> str:
        """The condition for rows that no watermark can order: every batch reads them, and stored ones are skipped."""
        return f"({self.column} IS NULL OR NOT ({self.fits}))" if self.fits else f"{self.column} IS NULL"

    def newer(self, since: str) -> str:
        """Return the condition for rows after `since`, without incomparable ones."""
        conditions = [f"NOT {self.incomparable}"]
        if since:
            past = _next_microsecond(self.kind, since)
            conditions.append(f"{self.column} >= {past}" if past else f"{self.column} > {literal(self.kind, since)}")
        return " AND ".join(conditions)

    def condition(self, since: str, until: str) -> str:
        """Return the condition for rows up to `until`, starting at `since` less the overlap."""
        if not until:
            return self.incomparable
        past = _next_microsecond(self.kind, until)
        conditions = [f"NOT {self.incomparable}"]
        conditions.append(f"{self.column} < {past}" if past else f"{self.column} <= {literal(self.kind, until)}")
        if since:
            conditions.append(f"{self.column} >= {literal(self.kind, self.first_reread(since))}")
        return f"({self.incomparable} OR ({' AND '.join(conditions)}))"

    def first_reread(self, since: str) -> str:
        """Return the first value to read again. `since` itself is always read again: several rows may share it."""
        match self.kind:
            case "number":
                return f"{_EXACT.subtract(Decimal(since), Decimal(str(self.overlap)).normalize()):f}"
            case "date":
                return str(date.fromisoformat(since) - timedelta(days=math.ceil(self.overlap / _DAY)))
            case "moment" | "instant":
                return str(datetime.fromisoformat(since) - timedelta(seconds=self.overlap))
            case "text":
                return since


def literal(kind: Kind, value: str) -> str:
    """Return a value in the database's SQL. The braces are JDBC escapes, which each driver translates."""
    match kind:
        case "number":
            return value
        case "date":
            return f"{{d '{value}'}}"
        case "moment":
            return f"{{ts '{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S.%f}'}}"
        case "instant":
            return f"CAST('{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S.%f}+00:00' AS TIMESTAMP WITH TIME ZONE)"
        case "text":
            return "'" + value.replace("'", "''") + "'"


def partition_conditions(column: str, kind: Kind, least: str, most: str, count: int) -> list[str]:
    """Return conditions that partition the rows: each row, also with NULL, matches exactly one."""
    low, high = (_ordinal(kind, text) for text in (least, most))
    bounds = [low + (high - low) * step // count for step in range(1, count)]
    cuts = [literal(kind, str(bound)) for bound in dict.fromkeys(bounds)]
    if not cuts:
        return []
    between = [f"{column} >= {one} AND {column} < {next}" for one, next in pairwise(cuts)]
    return [f"{column} < {cuts[0]} OR {column} IS NULL", *between, f"{column} >= {cuts[-1]}"]


def _next_microsecond(kind: Kind, value: str) -> str | None:
    """Return the next microsecond after a time: databases may store more digits than Spark, in between."""
    if kind not in ("moment", "instant"):
        return None
    return literal(kind, str(datetime.fromisoformat(value) + timedelta(microseconds=1)))


def instant(microseconds: int) -> str:
    """Return the stored text of an instant in microseconds since 1970."""
    return str(_EPOCH + timedelta(microseconds=microseconds))


def _ordinal(kind: Kind, text: str) -> Any:
    """Return a watermark as a value with which Python can calculate."""
    match kind:
        case "date":
            return date.fromisoformat(text)
        case "moment" | "instant":
            return datetime.fromisoformat(text)
        case _:
            return int(Decimal(text))
