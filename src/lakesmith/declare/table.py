"""Tables and their columns and queries."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakesmith.declare.checks import Check
from lakesmith.declare.contract import Contract, Drifts, QuarantinePolicy, Terms, drifts
from lakesmith.declare.loads import Load
from lakesmith.declare.names import TableName
from lakesmith.declare.sources import OtherTable, Source
from lakesmith.errors import Place

_PRIVATE = ("pii", "secret", "confidential", "sensitive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The contract of one column."""

    name: str
    type: str | None = None
    """A Spark SQL type, such as `decimal(12,2)`. Without one, the type comes from the data."""
    required: bool = False
    """Rows with NULL in the column are quarantined."""
    check: str | None = None
    """A condition on each row; rows for which it is false are quarantined."""
    key: bool = False
    """Part of the key: required, and unique in a batch together with the other key columns."""
    unique: bool = False
    """Rows whose value another row of the batch has too are quarantined."""
    tags: tuple[str, ...] = ()
    description: str | None = None
    since: str | None = None
    """The contract version that introduced it."""
    deprecated: str | None = None
    """Why it is deprecated, or what to use instead."""
    currency: str | None = None
    """The currency of amounts, or the column with the currency."""
    timezone: str | None = None
    """The time zone of the column's times."""
    declared_at: Place = field(compare=False)

    @property
    def is_required(self) -> bool:
        """Whether no row may be NULL: a key is required too."""
        return self.required or self.key

    @property
    def is_private(self) -> bool:
        """Whether its tags mark its values as private: one of `_PRIVATE`, alone or before a colon."""
        return any(tag.lower().partition(":")[0] in _PRIVATE for tag in self.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """A SELECT over tables of the lake."""

    text: str
    declared_at: Place = field(compare=False)
    """The place of the statement's first line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonQuery:
    """A function from DataFrames to a DataFrame. Imported with the real Spark only when it runs."""

    path: str
    """The Python file, absolute."""
    function: str
    refs: tuple[tuple[str, TableName], ...]
    """Parameter names and their tables."""
    source: str
    """The function's source text: changing it changes the table's definition."""
    rowwise: bool = False
    """The author's promise that each output row depends on one input row only."""
    declared_at: Place = field(compare=False)


Query = SqlQuery | PythonQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: its layer, its source or query, its load, its contract and its checks."""

    name: TableName
    origin: Source | Query
    load: Load
    contract: Contract = "additive"
    terms: Terms = field(default_factory=Terms)
    quarantine: QuarantinePolicy = field(default_factory=QuarantinePolicy)
    columns: tuple[Column, ...] = ()
    checks: tuple[Check, ...] = ()
    owner: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    freshness: float | None = None
    """Seconds without new rows after which the table is stale."""
    enabled: bool = True
    declared_at: Place = field(compare=False)
    load_at: Place | None = field(default=None, compare=False)
    """The place of the written load, if any."""

    @property
    def drift(self) -> Drifts:
        """The reaction to data that differs from the contract."""
        return self.terms.drift or drifts(self.contract, bronze=self.name.layer == "bronze")

    @property
    def adopted(self) -> str | None:
        """The location of an adopted table, which is read in place and never written."""
        return self.origin.location if isinstance(self.origin, OtherTable) and self.origin.adopt else None
