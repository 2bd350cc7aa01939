"""A table: the one thing that users declare."""

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
    """A promise about one column."""

    name: str
    type: str | None = None
    """A Spark SQL type, such as `decimal(12,2)`. Without one, the type is what the data brings."""
    required: bool = False
    """A row without a value goes to quarantine."""
    check: str | None = None
    """A condition that each row has to meet, or the row goes to quarantine."""
    key: bool = False
    """Together with the other columns that are keys, it tells rows apart: required, and unique in a batch."""
    unique: bool = False
    """A row whose value another row of the batch has too goes to quarantine."""
    tags: tuple[str, ...] = ()
    description: str | None = None
    since: str | None = None
    """The version of the contract that brought it."""
    deprecated: str | None = None
    """Why it should not be used any more, or what to use in its place."""
    currency: str | None = None
    """The currency of amounts, or the column that holds it."""
    timezone: str | None = None
    """The zone that times are meant in."""
    declared_at: Place = field(compare=False)

    @property
    def is_private(self) -> bool:
        """Its tags say that its values are not to be shown: one of these words, alone or before a colon."""
        return any(tag.lower().partition(":")[0] in _PRIVATE for tag in self.tags)


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
    terms: Terms = field(default_factory=Terms)
    quarantine: QuarantinePolicy = field(default_factory=QuarantinePolicy)
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
    def drift(self) -> Drifts:
        """What is done with data that is not as the contract says."""
        return self.terms.drift or drifts(self.contract, bronze=self.name.layer == "bronze")

    @property
    def adopted(self) -> str | None:
        """Where the table lies when it is one of another lake, which is read in place and never written."""
        return self.origin.location if isinstance(self.origin, OtherTable) and self.origin.adopt else None
