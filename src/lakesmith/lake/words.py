"""Words that several parts of a lake use."""

from __future__ import annotations

from datetime import UTC, date, datetime

from lakesmith.declare import LAYERS, TableName
from lakesmith.reports import (
    Event,
    TrialResult,
)


def layer_order(name: TableName) -> tuple[int, str]:
    return [*LAYERS].index(name.layer), name.name  # type: ignore[arg-type]


def today() -> date:
    """The day in UTC."""
    return datetime.now(UTC).date()


def silent(event: Event | TrialResult) -> None:
    """Nobody is listening."""
