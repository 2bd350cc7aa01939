"""A table: the one thing that users declare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lakesmith.declare.loads import Load
from lakesmith.declare.names import TableName
from lakesmith.declare.sources import OtherTable, Source
from lakesmith.errors import Place

Severity = Literal["warn", "quarantine", "fail"]
Contract = Literal["additive", "strict", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A promise about one column."""

    name: str
    type: str | None = None
    """A Spark SQL type, such as `decimal(12,2)`. Without one, the type is what the data brings."""
    required: bool = False
    """A row without a value goes to quarantine."""
    check: str | None = None
    """A condition that each row has to meet, or the row goes to quarantine."""
    tags: tuple[str, ...] = ()
    description: str | None = None
    declared_at: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A rule with a severity. Exactly one of `where` (each row) and `expect` (the whole batch) is given."""

    name: str
    where: str | None = None
    """A condition on one row: rows for which it is false have failed. As in SQL, unknown (NULL) is not false."""
    expect: str | None = None
    """A condition on aggregates of the batch, such as `count(*) > 0`."""
    on_fail: Severity
    description: str | None = None
    declared_at: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """A SELECT over whole tables of the lake."""

    text: str
    declared_at: Place = field(compare=False)
    """Where the statement's first line stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonQuery:
    """A function from DataFrames to a DataFrame. Imported for real only when rows must move."""

    path: str
    """The Python file, absolute."""
    function: str
    refs: tuple[tuple[str, TableName], ...]
    """Parameter name and the table that it stands for."""
    source: str
    """The function's source text: a change of it is a change of the table's definition."""
    rowwise: bool = False
    """The author's promise that each output row depends on one input row only."""
    declared_at: Place = field(compare=False)


Query = SqlQuery | PythonQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a table is: its layer, where its rows come from, how they enter, and what is promised of them."""

    name: TableName
    origin: Source | Query
    load: Load
    contract: Contract = "additive"
    columns: tuple[Column, ...] = ()
    checks: tuple[Check, ...] = ()
    owner: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    freshness: float | None = None
    """Seconds after which the table counts as late."""
    enabled: bool = True
    declared_at: Place = field(compare=False)
    load_at: Place | None = field(default=None, compare=False)
    """Where the load is written, if it is."""

    @property
    def adopted(self) -> str | None:
        """Where the table lies when it is one of another lake, which is read in place and never written."""
        return self.origin.location if isinstance(self.origin, OtherTable) and self.origin.adopt else None
