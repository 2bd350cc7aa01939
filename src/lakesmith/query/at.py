"""Parses `--at`: which version of which table a query reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakesmith.errors import UsageError

Moment = int | datetime
"""A version, or a time in UTC that stands for the version that was current then."""

_HINT = "write a version (3), a time (2026-11-15T10:00) or one table's version (silver.orders=3)"


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """The versions that a query reads; the newest by default."""

    everywhere: Moment | None = None
    by_table: Mapping[str, Moment] = field(default_factory=dict)

    def of(self, table: str) -> Moment | None:
        """Return the requested version of one table; None is the newest."""
        return self.by_table.get(table, self.everywhere)

    def check(self, tables: Collection[str]) -> None:
        """Raise when `--at` names a table that the query does not read."""
        for name in sorted(set(self.by_table) - set(tables)):
            raise UsageError(
                "bad-at",
                f"--at names {name}, which the query does not read",
                hint=f"the query reads {', '.join(sorted(tables)) or 'no table'}",
            )


def parse_at(values: Sequence[str]) -> At:
    """Combine several `--at` values."""
    everywhere: Moment | None = None
    by_table: dict[str, Moment] = {}
    for value in values:
        table, equals, moment = value.rpartition("=")
        table = table.strip().lower()
        if not equals:
            if everywhere is not None:
                raise UsageError(
                    "bad-at", "--at is given twice for all tables", hint="name a table: --at silver.orders=3"
                )
            everywhere = _moment(moment, value)
        elif table.count(".") != 1 or table in by_table:
            what = f"--at {value}: {table!r} is " + ("named twice" if table in by_table else "not a table's name")
            raise UsageError("bad-at", what, hint=_HINT)
        else:
            by_table[table] = _moment(moment, value)
    return At(everywhere=everywhere, by_table=by_table)


def _moment(text: str, value: str) -> Moment:
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 8:
        return int(text)
    try:
        # A bare date is its first moment, as in Spark's TIMESTAMP AS OF.
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError("bad-at", f"--at {value}: neither a version nor a time", hint=_HINT) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
