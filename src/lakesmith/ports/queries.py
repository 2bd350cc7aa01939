"""The port to query engines, with the values that it exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a query."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool = False
    """Whether there are more rows than these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewColumn:
    """A column of a view."""

    name: str
    sql: str | None = None
    """Spark SQL over the columns of the table; by default the column of the same name."""
    type: str | None = None
    """The Spark SQL type that it is cast to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view of one table."""

    table: str
    columns: tuple[ViewColumn, ...]


class QueryEngine(Protocol):
    """Answers SQL over tables of the lake."""

    name: str

    def referenced(self, sql: str) -> frozenset[str]:
        """The table names, as written, that a statement reads; an error when it is not a single SELECT."""

    def query(
        self,
        sql: str,
        tables: Mapping[str, pa.dataset.Dataset | pa.RecordBatchReader],
        views: Mapping[str, View] | None = None,
        *,
        rows: int | None = None,
    ) -> Answer:
        """Run the statement over these tables, these views of them, and nothing else. Returns the first `rows`."""
