"""The current state of tables from their Delta logs: rows, versions, freshness."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Literal

from lakesmith.declare import Table
from lakesmith.ports import TableFacts
from lakesmith.reports import TableStatus


def table_status(
    table: Table, facts: TableFacts | None, quarantine: TableFacts | None, now: datetime | None = None
) -> TableStatus:
    """Return the current state of one table."""
    # After the clock was set back, an age is never negative.
    age = max(((now or datetime.now(UTC)) - facts.committed_at).total_seconds(), 0.0) if facts else None
    return TableStatus(
        table=str(table.name),
        layer=table.name.layer,
        load=load_name(table),
        state=_state(age, table.freshness),
        rows=facts.rows if facts else None,
        quarantined=quarantine.rows if quarantine else 0,
        bytes=facts.bytes if facts else None,
        version=facts.version if facts else None,
        updated_at=facts.committed_at if facts else None,
        age_seconds=age,
        freshness_seconds=table.freshness,
        owner=table.owner,
    )


def load_name(table: Table) -> str:
    """Return the name of the load in declarations: its class in snake case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(table.load).__name__).lower()


def _state(age: float | None, promised: float | None) -> Literal["fresh", "late", "missing", "ok"]:
    if age is None:
        return "missing"
    if promised is None:
        return "ok"
    return "fresh" if age <= promised else "late"
