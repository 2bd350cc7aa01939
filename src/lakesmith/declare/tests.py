"""Unit tests of tables: input rows, and expected rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesmith.declare.names import TableName
from lakesmith.errors import Place


@dataclass(frozen=True, slots=True)
class Word:
    """A value as written. Its type is that of its column; if that is unknown, it is inferred from the text."""

    text: str
    plain: bool
    """Whether it is written without quotes: `5` may be a number, `"5"` is text."""
    at: Place = field(compare=False)


Value = None | Word | tuple["Value", ...] | Mapping[str, "Value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row by column; a missing column is NULL in input rows, and not compared in expected rows."""

    values: Mapping[str, Value]
    at: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that must be in quarantine."""

    row: Row
    rules: tuple[str, ...] | None
    """The names of all checks that it failed; None when they do not matter."""


Rows = tuple[Row, ...]
Batch = Mapping[TableName, Rows]
"""Input rows, by table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTest:
    """A unit test: input rows, and the expected result."""

    name: str
    table: TableName
    description: str | None = None
    given: Batch
    """The input rows; for the tested table itself, its rows before the run."""
    then: tuple[Batch, ...] = ()
    """Later input rows, each batch followed by a run."""
    expect: Rows | None = None
    exactly: bool = False
    """Whether columns that are not named must be NULL."""
    quarantine: tuple[RejectedRow, ...] | None = None
    """All rows that must be quarantined; None when that does not matter."""
    fails: str | None = None
    """The code of the expected error; no batch follows it."""
    declared_at: Place = field(compare=False)
