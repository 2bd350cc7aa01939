"""The contract of a table's columns, and the reactions when the data or the contract changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Literal

from lakesmith.declare.forms import Duration, LowName, Text
from lakesmith.errors import Place

Contract = Literal["additive", "strict", "open"]
Compatibility = Literal["backward", "forward", "full", "none"]
Reaction = Literal["evolve", "freeze", "quarantine", "discard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifts:
    """The reactions to data that differs from the contract, by kind of difference."""

    new_column: Reaction
    """A field that is neither declared nor in the table. `discard` drops its values and keeps the row."""
    missing_column: Reaction
    """A declared column that is missing in a row."""
    type: Reaction
    """A value that does not fit its column."""
    nullability: Reaction
    """NULL in a required column."""


def drifts(contract: Contract, *, bronze: bool) -> Drifts:
    """Return the default reactions of a contract mode. Bronze rescues values that do not fit; other layers cannot,
    and there a query without a declared column is an error."""
    strict = contract == "strict"
    return Drifts(
        new_column="freeze" if strict else "evolve",
        missing_column="evolve" if bronze else "freeze",
        type=("freeze" if strict else "evolve") if bronze else "quarantine",
        nullability="quarantine",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """An earlier major version that is still readable, as a view."""

    major: int
    until: date
    columns: Mapping[str, str] = field(default_factory=dict)
    """SQL over the current table, for columns that differ from it."""
    declared_at: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A schema registry that also holds the contract."""

    connection: Annotated[LowName, "A name below `connections` of the environment."]
    subject: Annotated[Text, "The subject in the registry; `layer.table-value` by default."] = ""
    truth: Annotated[
        Literal["here", "registry"],
        "`here` publishes the declaration; `registry` checks it against the registered schema. `here` by default.",
    ] = "here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The parts of a contract besides its columns."""

    version: str | None = None
    """As written, `2` or `2.1.0`; None counts it from the changes."""
    compatibility: Compatibility = "forward"
    """Which changes of the columns need no new major version."""
    drift: Drifts | None = None
    """The written reactions; None for the defaults of the contract mode."""
    previous: tuple[Previous, ...] = ()
    registry: Registered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinePolicy:
    """How long rows may stay in quarantine."""

    alert_after: Annotated[Duration | None, "Alert about rows in quarantine for longer than this, such as `7d`."] = None
    alert_rows: Annotated[int | None, "Alert about more quarantined rows than this."] = None
    discard_after: Annotated[Duration | None, "A run discards rows that are in quarantine for longer than this."] = None
