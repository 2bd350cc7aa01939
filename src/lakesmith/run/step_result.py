"""What a step did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakesmith.errors import LakesmithError
from lakesmith.plan.steps import BatchMode
from lakesmith.ports import FileFact, TableFacts
from lakesmith.records import CheckRecord, FileRecord
from lakesmith.spark.incoming import BatchResult

StepMode = BatchMode | Literal["columns", "held"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step did."""

    mode: StepMode
    reason: str
    before: TableFacts | None
    """The table before the step."""
    batch: BatchResult | None = None
    """None when there was nothing to do."""
    file_records: tuple[FileRecord, ...] = ()
    """The files that were read, with what became of their rows."""
    ingested: tuple[FileFact, ...] = ()
    """The files that are in the table now, or in quarantine as a whole."""
    postponed: tuple[LakesmithError, ...] = ()
    """Errors of files that the next run tries again."""
    warnings: tuple[CheckRecord, ...] = ()
    """Schema warnings found before any row was read."""

    @property
    def checks(self) -> tuple[CheckRecord, ...]:
        return (*self.warnings, *(self.batch.checks if self.batch else ()))
