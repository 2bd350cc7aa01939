"""The input of a table write (the rows of one batch and their rules) and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesmith.columns import FILE_END, FILE_NUMBER, HIDDEN
from lakesmith.declare import Table
from lakesmith.ledger.batch import Batch, CompletedBatch
from lakesmith.ledger.content import BackfilledDays, ChangedKeys, ReplayedRows
from lakesmith.ports import ReplaceWhere, TableFacts
from lakesmith.quality import PastResult, Rules
from lakesmith.records import CheckRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingBatch:
    """The rows of one batch, with everything that is needed to judge and commit them."""

    table: Table
    batch: Batch
    rows: DataFrame
    rules: Rules
    facts: TableFacts | None
    """The table before this batch."""
    evolve: bool
    """Whether new columns of the rows are added to the table."""
    own_rows: str | None = None
    """SQL predicate over the table: rows that this batch wrote. Set only when `facts` describe the table after it."""
    replace_where: ReplaceWhere | None = None
    """Which rows of the table are replaced, when not all are."""
    replace_quarantine: ReplaceWhere | None = None
    """Which rows of the quarantine are replaced, when some but not all are."""
    columns_added: tuple[str, ...] = ()
    """New fields at every depth, as dotted names, where the reader determined them."""
    all_rows: Callable[[], DataFrame] | None = None
    """Returns all rows of the query, where the rows of the batch may not be enough to compute a key."""
    fixed_rows: DataFrame | None = None
    """Good rows that `all_rows` lacks, because they were fixed in the quarantine."""
    all_rows_rules: Rules | None = None
    """The rules for `all_rows`, when they differ from `rules`."""
    keys: DataFrame | None = None
    """The keys to recompute from all their rows. None means every key."""
    columns_widened: tuple[str, ...] = ()
    """Fields for which the rows have a wider type than the table, as `name: int → bigint`."""
    inputs: Mapping[str, DataFrame] = field(default_factory=dict)
    """By input table, the rows that the query read, where the batch covers all of them."""
    expects_few: bool = False
    """Whether few rows are expected. Then the driver tries to collect them."""
    few: bool = False
    """Whether the driver has collected the rows, because they are few."""
    past: Callable[[Sequence[str]], Mapping[str, Sequence[PastResult]]] = lambda _: {}
    """Returns earlier results of good batches by check name, newest first."""
    rules_if_missing: Callable[[Sequence[str]], Rules] | None = None
    """Returns the rules for a batch that lacks some declared columns. None where missing columns do not matter."""

    @property
    def payload(self) -> list[str]:
        """The stored columns."""
        return [name for name in self.rows.columns if not name.startswith(HIDDEN)]

    @property
    def replaces(self) -> bool:
        """Whether the batch replaces the rows of the table, or of a part of it."""
        return self.batch.is_full or self.replace_where is not None

    @property
    def recomputes(self) -> bool:
        """Whether the batch recomputes keys from all their rows, including keys that have no rows left."""
        match self.batch.content:
            case ChangedKeys() | ReplayedRows():
                return True
            case BackfilledDays():
                return not self.replaces
            case _:
                return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """What was read from one file."""

    number: int
    """The index of the file in the batch."""
    rows: int
    rejected: int
    rescued: int
    bytes: int
    code: str | None
    """Why the whole file could not be read."""

    @classmethod
    def from_row(cls, row: Row) -> FileRead:
        """Return what the marker row at the end of a file contains."""
        return cls(number=row[FILE_NUMBER], **row[FILE_END].asDict())

    def plus(self, other: FileRead) -> FileRead:
        """Add what was read from another part of the file."""
        return FileRead(
            number=self.number,
            rows=self.rows + other.rows,
            rejected=self.rejected + other.rejected,
            rescued=self.rescued + other.rescued,
            bytes=self.bytes + other.bytes,
            code=self.code or other.code,
        )


def by_file(reads: Iterable[FileRead]) -> tuple[FileRead, ...]:
    """Add up what was read from the parts of each file."""
    found: dict[int, FileRead] = {}
    for read in reads:
        found[read.number] = found[read.number].plus(read) if read.number in found else read
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The outcome of a batch."""

    done: CompletedBatch
    bytes: int
    checks: tuple[CheckRecord, ...]
    columns_added: tuple[str, ...] = ()
    columns_widened: tuple[str, ...] = ()
    rescued: int = 0
    """Number of rows with a value that did not fit its column."""
    file_reads: tuple[FileRead, ...] = ()
    """What was read from each file."""
