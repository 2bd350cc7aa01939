"""What is promised of a table's columns, and what happens when the data or the promise changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from lakesmith.errors import Place

Contract = Literal["additive", "strict", "open"]
Compatibility = Literal["backward", "forward", "full", "none"]
Reaction = Literal["evolve", "freeze", "quarantine", "discard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifts:
    """What is done with data that is not as the contract says, by the kind of difference."""

    new_column: Reaction
    """A field that is neither declared nor in the table. `discard` leaves its values out and keeps the row."""
    missing_column: Reaction
    """A declared column that a row does not bring at all."""
    type: Reaction
    """A value that does not fit its column."""
    nullability: Reaction
    """A required column without a value."""


def drifts(contract: Contract, *, bronze: bool) -> Drifts:
    """What a word stands for where a table does not say more. Bronze keeps beside a row what does not fit; elsewhere
    there is no such place, and a query that does not give a declared column is wrong."""
    strict = contract == "strict"
    return Drifts(
        new_column="freeze" if strict else "evolve",
        missing_column="evolve" if bronze else "freeze",
        type=("freeze" if strict else "evolve") if bronze else "quarantine",
        nullability="quarantine",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """An earlier major version that can still be read, as a view."""

    major: int
    until: date
    columns: Mapping[str, str] = field(default_factory=dict)
    """SQL over the table as it is now, for columns that cannot be taken over as they are."""
    declared_at: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Where the contract is published, or where it comes from."""

    connection: str
    subject: str
    truth: Literal["here", "registry"] = "here"
    """`here`: the declaration is published there; `registry`: the declaration has to agree with what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The parts of a contract beside its columns."""

    version: str | None = None
    """As it was written, `2` or `2.1.0`; else it is counted from the changes."""
    compatibility: Compatibility = "forward"
    """Which changes of the columns may pass without a new major version."""
    drift: Drifts | None = None
    """Where it was written; else what the word of the contract stands for."""
    previous: tuple[Previous, ...] = ()
    registry: Registered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinePolicy:
    """How long rows may lie in quarantine."""

    alert_after: float | None = None
    """Seconds after which a row that nobody has looked after is told of."""
    alert_rows: int | None = None
    """How many rows may be there before it is told."""
    discard_after: float | None = None
    """Seconds after which a run discards a row, and counts it."""
