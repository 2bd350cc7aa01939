"""What a user expects of a table: rows that are given, and rows that come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesmith.declare.names import TableName
from lakesmith.errors import Place


@dataclass(frozen=True, slots=True)
class Word:
    """A value as it is written. Its type is that of its column, and where nobody knows that one, what it looks like."""

    text: str
    plain: bool
    """Not in quotes: `5` may be a number, `"5"` is a text."""
    at: Place = field(compare=False)


Value = None | Word | tuple["Value", ...] | Mapping[str, "Value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row by column; a column that is left out is NULL where rows are given, and not looked at where expected."""

    values: Mapping[str, Value]
    at: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row that has to be in quarantine."""

    row: Row
    rules: tuple[str, ...] | None
    """The names of all rules that it broke; None when they do not matter."""


Rows = tuple[Row, ...]
Batch = Mapping[TableName, Rows]
"""Rows that come, by table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTest:
    """Some rows go into a table, others are expected to come out."""

    name: str
    table: TableName
    description: str | None = None
    given: Batch
    """The inputs; of the table itself, the rows that it holds before."""
    then: tuple[Batch, ...] = ()
    """What comes to the inputs later, each followed by a run."""
    expect: Rows | None = None
    exactly: bool = False
    """Every column of the table is compared, also those that are not named: they are NULL."""
    quarantine: tuple[Refused, ...] | None = None
    """All rows that have to be refused; None when that does not matter."""
    fails: str | None = None
    """The code of the error that a run has to end with; no batch is given after it."""
    declared_at: Place = field(compare=False)
