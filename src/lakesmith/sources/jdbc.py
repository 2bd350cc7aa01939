"""A table of a database without a connection to it: what may be new in it, and which rows a batch stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import pairwise
from typing import Literal

from lakesmith.ports import Slice

WATERMARK = "watermark"
"""How far the watermark column has been read; empty when every row was without a value in it."""
OVERLAPPING = "overlapping"
"""How many rows the next batch will read again. A change of it alone tells that rows came late."""
EXTRACTED = "extracted"
"""The run that has read a table as a whole: unlike any other, so there is always something new."""

Kind = Literal["number", "date", "moment", "instant", "text"]
"""What values can be compared with each other: a `moment` has no time zone, an `instant` has.

They are kept as text that tells all of them: numbers with each digit, times in ISO 8601 to the microsecond, instants
in UTC.
"""
_DAY = 86_400
_EPOCH = {"moment": datetime(1970, 1, 1), "instant": datetime(1970, 1, 1, tzinfo=UTC)}
_EXACT = Context(prec=2000)
"""More digits than a watermark has: by default Python rounds to 28."""


def new_rows(reached: Mapping[str, int | str]) -> Slice:
    """The stretch after `reached`, without its end: only a run can tell, because it takes a connection."""
    return Slice(since=reached, until={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The column that tells which rows are new, and conditions on it in the database's SQL."""

    column: str
    """Quoted for the database."""
    kind: Kind
    overlap: float = 0.0
    fits: str | None = None
    """A condition that holds for values that can be compared; None where all can."""

    @property
    def odd(self) -> str:
        """Rows that no watermark ever passes: they come with each batch, and are told from those that are there."""
        return f"({self.column} IS NULL OR NOT ({self.fits}))" if self.fits else f"{self.column} IS NULL"

    def newer(self, since: str) -> str:
        """Rows after `since`; those that are odd are not among them."""
        conditions = [f"NOT {self.odd}"]
        if since:
            past = _past(self.kind, since)
            conditions.append(f"{self.column} >= {past}" if past else f"{self.column} > {literal(self.kind, since)}")
        return " AND ".join(conditions)

    def stretch(self, since: str, until: str) -> str:
        """Rows up to `until`, from so far before `since` as rows may have come late."""
        if not until:
            return self.odd
        past = _past(self.kind, until)
        conditions = [f"NOT {self.odd}"]
        conditions.append(f"{self.column} < {past}" if past else f"{self.column} <= {literal(self.kind, until)}")
        if since:
            conditions.append(f"{self.column} >= {literal(self.kind, self.lowest(since))}")
        return f"({self.odd} OR ({' AND '.join(conditions)}))"

    def lowest(self, since: str) -> str:
        """The first value that is read again. The last one always is: rows may share it and come one after another."""
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
    """A value in the database's SQL. The braces are JDBC's own, which each driver turns into what its server reads."""
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


def parts(column: str, kind: Kind, least: str, most: str, count: int) -> list[str]:
    """Conditions of which each row meets exactly one, whatever its value is, also when it has none."""
    low, high = _number(kind, least), _number(kind, most)
    bounds = [_from_number(kind, low + (high - low) * step / count) for step in range(1, count)]
    cuts = [literal(kind, bound) for bound in dict.fromkeys(bounds)]
    if not cuts:
        return []
    between = [f"{column} >= {one} AND {column} < {next}" for one, next in pairwise(cuts)]
    return [f"{column} < {cuts[0]} OR {column} IS NULL", *between, f"{column} >= {cuts[-1]}"]


def _past(kind: Kind, value: str) -> str | None:
    """The first time after a value: rows of a database that keeps more digits than Spark lie in between."""
    if kind not in ("moment", "instant"):
        return None
    return literal(kind, str(datetime.fromisoformat(value) + timedelta(microseconds=1)))


def instant(microseconds: int) -> str:
    """Microseconds since 1970 as the text that is kept of an instant."""
    return str(_EPOCH["instant"] + timedelta(microseconds=microseconds))


def _number(kind: Kind, value: str) -> Decimal:
    match kind:
        case "date":
            return Decimal(date.fromisoformat(value).toordinal())
        case "moment" | "instant":
            return Decimal((datetime.fromisoformat(value) - _EPOCH[kind]) // timedelta(microseconds=1))
        case _:
            return Decimal(value)


def _from_number(kind: Kind, number: Decimal) -> str:
    whole = int(number)
    match kind:
        case "date":
            return str(date.fromordinal(whole))
        case "moment" | "instant":
            return str(_EPOCH[kind] + timedelta(microseconds=whole))
        case _:
            return str(whole)
