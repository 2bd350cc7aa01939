"""The rows of the system tables. The events of a run are the same values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Outcome = Literal["ok", "failed", "skipped", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a run: `rows_in = rows_written + rows_quarantined + rows_deduplicated + rows_discarded`, counted."""

    run_id: str
    table: str
    step: str
    """`ingest`, `widen`, `build`, `backfill`, `finish`, `commit`, `replay`, `compact`, `vacuum` or `restore`."""
    mode: str
    """`files`, `columns`, `changes`, `partitions`, `full`, …; docs/reference/system-tables.md lists all."""
    reason: str
    outcome: Outcome
    sequence: int
    rows_in: int = 0
    rows_written: int = 0
    rows_quarantined: int = 0
    rows_deduplicated: int = 0
    rows_discarded: int = 0
    """Rows that the contract or a person discarded."""
    rows_rescued: int = 0
    """Written rows with a field in `_rescued`, because it did not fit its type."""
    columns_added: str | None = None
    """Columns that this step added to the table, separated by commas."""
    columns_widened: str | None = None
    """Columns that this step widened, as `name: int → bigint`, separated by semicolons."""
    bytes: int = 0
    version_before: int | None = None
    version: int | None = None
    started_at: datetime
    seconds: float
    error: str | None = None
    """The error's code and text when the step failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One ingested file: `rows_in = rows_written + rows_quarantined + rows_discarded`, counted in the tables."""

    run_id: str
    table: str
    sequence: int
    file: str
    bytes: int
    rows_in: int
    """Rows that the reader counted in the file."""
    rows_written: int
    rows_quarantined: int
    rows_discarded: int = 0
    """Rows that the contract drops."""
    code: str | None = None
    """The error code of an unreadable file, which is in quarantine as a single row."""
    ingested_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecord:
    """One entry of a landing folder that is not ingested. A run reports it once, and later runs do not."""

    run_id: str
    """The run that reported it."""
    table: str
    file: str
    """Its path; bytes that are not UTF-8 are escaped, as in `caf\\xe9.json`."""
    code: str
    """Why it is skipped."""
    reason: str
    """Why it is skipped, as a sentence."""
    reported_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """The result of one rule on one batch."""

    run_id: str
    table: str
    sequence: int
    check: str
    severity: str
    failed_rows: int
    """Rows that broke a row rule; 0 for a batch rule."""
    passed: bool
    observed: str | None = None
    """The observed value of a batch rule, as text."""
    value: float | None = None
    """The observed value as a number, for comparison with later batches."""
    sketch: str | None = None
    """For `drift`, the distribution of the values, as JSON."""
    mode: str = ""
    """The mode of the batch's step: full batches and incremental batches are not compared."""
    committed: bool = True
    """The batch passed its gates or was approved. Later batches are compared only with such batches."""
    owner: str | None = None
    checked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """A person's decision about quarantined rows, a held batch or a whole table."""

    run_id: str
    """The run that executed it."""
    table: str
    action: str
    """`approve`, `replay`, `discard`, `compact`, `vacuum`, `restore` or `rollback`."""
    decided_by: str
    reason: str
    subject: str
    """The batch, the rows or the maintenance step, in words."""
    rows: int
    outcome: Outcome
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """One table of a release, which names consistent versions of all tables."""

    release: str
    """The run that recorded it."""
    table: str
    version: int
    table_id: str
    """Changes when the table is dropped and created again."""
    released_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractRecord:
    """One version of a table's contract."""

    table: str
    version: str
    """`major.minor.patch`."""
    hash: str
    """The hash of the definition."""
    definition: str
    """The promised columns and terms, as JSON."""
    compatibility: str
    change: str
    """The change from the version before, in words."""
    acknowledged: bool
    """A breaking change that the declaration acknowledges."""
    until: str | None = None
    """For a new major version, the last day on which readers can query the version before."""
    run_id: str
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One execution of a plan."""

    run_id: str
    lake: str
    environment: str
    plan_hash: str
    outcome: Outcome
    tables: int
    rows_in: int
    rows_written: int
    rows_quarantined: int
    rows_deduplicated: int
    rows_discarded: int = 0
    started_at: datetime
    seconds: float
    lakesmith_version: str
