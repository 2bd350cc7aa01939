"""Some days of a table, computed again from what it has read of its inputs already."""

from __future__ import annotations

from datetime import timedelta

from lakesmith.plan.steps import Span
from lakesmith.sql import literal


def within(expression: str, kind: str, days: Span) -> str:
    """SQL: a value of a type lies in some days, which are those of UTC."""
    mark = {"timestamp": "TIMESTAMP'{} 00:00:00Z'", "timestamp_ntz": "TIMESTAMP_NTZ'{} 00:00:00'", "date": "DATE'{}'"}
    # Text is compared as text: for Delta to find the files of some partitions, nothing may be cast, nor be BETWEEN.
    first, after = (mark.get(kind, "'{}'").format(day) for day in (days.start, days.end + timedelta(days=1)))
    return f"{expression} >= {first} AND {expression} < {after}"


def refused_within(column: str, kind: str, days: Span, sequence: int) -> str:
    """SQL: a row in quarantine is of these days, or of this batch."""
    path = literal(f"$['{column}']")
    return f"({within(f'try_cast(get_json_object(raw, {path}) AS {kind})', kind, days)}) OR batch = {sequence}"
