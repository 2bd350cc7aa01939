"""SQL predicates that select the rows of a range of days."""

from __future__ import annotations

from datetime import timedelta

from lakesmith.plan.steps import Span
from lakesmith.sql import literal


def in_days(expression: str, kind: str, days: Span) -> str:
    """Return SQL: whether a value of a type lies within some UTC days."""
    mark = {"timestamp": "TIMESTAMP'{} 00:00:00Z'", "timestamp_ntz": "TIMESTAMP_NTZ'{} 00:00:00'", "date": "DATE'{}'"}
    # Text is compared as text. Delta prunes partitions only without casts and without BETWEEN.
    first, after = (mark.get(kind, "'{}'").format(day) for day in (days.start, days.end + timedelta(days=1)))
    return f"{expression} >= {first} AND {expression} < {after}"


def quarantined_in_days(column: str, kind: str, days: Span, sequence: int) -> str:
    """Return SQL: whether a quarantined row belongs to these days or to this batch."""
    path = literal(f"$['{column}']")
    return f"({in_days(f'try_cast(get_json_object(raw, {path}) AS {kind})', kind, days)}) OR batch = {sequence}"
