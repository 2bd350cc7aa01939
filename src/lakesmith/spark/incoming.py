"""Rows on their way into a table, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.declare import Table
from lakesmith.ledger.batch import Batch, Done
from lakesmith.ports import Part, TableFacts
from lakesmith.quality import Past, Rules
from lakesmith.records import CheckRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


ARRIVING = ("files", "slice", "changes", "sums", "replay")
"""Modes of batches that bring rows which were not there before; those of others were computed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingBatch:
    """Rows on their way into a table."""

    table: Table
    batch: Batch
    rows: DataFrame
    rules: Rules
    facts: TableFacts | None
    """The table as it is before this batch."""
    evolve: bool
    """The table's columns follow the rows'."""
    own_rows: str | None = None
    """SQL: rows of the table that the batch itself wrote, where `facts` are those of the table after it."""
    part: Part | None = None
    """The rows that are replaced, when it is not the whole table."""
    refused_part: Part | None = None
    """Which rows of the quarantine are replaced with it, when it is not all of them and not none."""
    columns_added: tuple[str, ...] = ()
    """Fields that are new with these rows, at every depth, where that is known already."""
    whole: DataFrame | None = None
    """All rows that the query gives, where those of the batch may not suffice."""
    beside: DataFrame | None = None
    """Good rows that are not among them, because they were mended."""
    whole_rules: Rules | None = None
    """The rules that these are judged by, where they are others."""
    keys: DataFrame | None = None
    """The keys that are computed from all their rows, where some are; every key when it is None."""
    columns_widened: tuple[str, ...] = ()
    """Likewise, fields for which these rows have a wider type than the table: `name: int → bigint`."""
    inputs: Mapping[str, DataFrame] = field(default_factory=dict)
    """By input table, the rows that these were made from, where these are all of them."""
    past: Callable[[Sequence[str]], Mapping[str, Sequence[Past]]] = lambda _: {}
    """By name of a check, what it found in the good batches before, newest first."""
    again: Callable[[Sequence[str]], Rules] | None = None
    """The rules where the batch does not bring some declared columns; None where that does not matter."""

    @property
    def payload(self) -> list[str]:
        """The columns that are stored."""
        return [name for name in self.rows.columns if not name.startswith(HIDDEN)]

    @property
    def replaces(self) -> bool:
        """The batch is the whole content of the table or of some part of it, not an addition to it."""
        return self.batch.mode == "whole" or self.part is not None

    @property
    def recomputes(self) -> bool:
        """Rows of some keys are computed anew, also of those of which nothing is left."""
        return self.batch.mode in ("keys", "replay") or (self.batch.mode == "days" and not self.replaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnd:
    """What was read from one file."""

    number: int
    """Its place in the batch."""
    rows: int
    refused: int
    rescued: int
    bytes: int
    code: str | None
    """Why the file as a whole could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What became of a batch."""

    done: Done
    bytes: int
    checks: tuple[CheckRecord, ...]
    columns_added: tuple[str, ...] = ()
    columns_widened: tuple[str, ...] = ()
    rescued: int = 0
    """Rows with fields that did not fit their columns."""
    ends: tuple[FileEnd, ...] = ()
    """For files, what was read from each."""
