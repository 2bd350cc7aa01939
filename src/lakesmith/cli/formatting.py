"""Formats numbers, sizes and times for people."""

from __future__ import annotations

from datetime import UTC, datetime


def count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def size(number: int | None) -> str:
    """Bytes as kB, MB, GB or TB of a thousand each."""
    if number is None:
        return "–"
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if round(amount, 1) < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} TB"


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def age(seconds: float | None) -> str:
    """How long ago, roughly."""
    if seconds is None:
        return "never"
    if seconds < 10:
        return "just now"
    for limit, unit, name in ((100, 1, "s"), (6000, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name} ago"
    return f"{seconds / 86400:.0f} days ago"


def moment(when: datetime | None) -> str:
    return "–" if when is None else when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def plural(number: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
