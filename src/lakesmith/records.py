"""The rows of the system tables. What a run tells while it goes on is the same values."""

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
    """`ingest`, `widen`, `build`, `refill`, `finish`, `publish`, `mend`, `compact`, `vacuum` or `restore`."""
    mode: str
    """`files`, `columns`, `changes`, `partitions`, `whole`, …"""
    reason: str
    outcome: Outcome
    sequence: int
    rows_in: int = 0
    rows_written: int = 0
    rows_quarantined: int = 0
    rows_deduplicated: int = 0
    rows_discarded: int = 0
    """Rows that were given up, by the contract or at somebody's word."""
    rows_rescued: int = 0
    """Rows that were written, of which a field did not fit and is in `_rescued`."""
    columns_added: str | None = None
    """Columns that the table gained with these rows, separated by commas."""
    columns_widened: str | None = None
    """Columns that became wider with these rows, as `name: int → bigint`, separated by semicolons."""
    bytes: int = 0
    version_before: int | None = None
    version: int | None = None
    started_at: datetime
    seconds: float
    error: str | None = None
    """The error's code and text when the step failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One file that was taken in: `rows_in = rows_written + rows_quarantined + rows_discarded`, as the tables tell."""

    run_id: str
    table: str
    sequence: int
    file: str
    bytes: int
    rows_in: int
    """As many as its reader counted."""
    rows_written: int
    rows_quarantined: int
    rows_discarded: int = 0
    """Rows that the contract says to drop."""
    code: str | None = None
    """Why the file could not be read; then it is in quarantine as a whole, as one row."""
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecord:
    """One entry of a landing folder that is not ingested. A run reports it once, and later runs do not."""

    run_id: str
    """The run that reported it."""
    table: str
    file: str
    """Its path; bytes that are not UTF-8 are spelled out, as in `caf\\xe9.json`."""
    code: str
    """Why it is skipped."""
    reason: str
    """Likewise, in words."""
    reported_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """What one rule found in one batch."""

    run_id: str
    table: str
    sequence: int
    check: str
    severity: str
    failed_rows: int
    """Rows that broke a row rule; 0 for a batch rule."""
    passed: bool
    observed: str | None = None
    """For a batch rule, what was found."""
    value: float | None = None
    """Likewise, as a number that later batches are compared with."""
    sketch: str | None = None
    """For `drift`, how the values were spread, as JSON."""
    mode: str = ""
    """How the batch was made, as for a step: one of all rows is not held against one of changed rows."""
    committed: bool = True
    """The batch passed its gates, or somebody let it pass: only such batches tell later ones what is usual."""
    owner: str | None = None
    checked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Somebody's decision about rows that a rule had refused, or about a table as a whole."""

    run_id: str
    """The run that carried it out."""
    table: str
    action: str
    """`approve`, `replay`, `discard`, `compact`, `vacuum`, `restore` or `rollback`."""
    by: str
    why: str
    subject: str
    """Which batch, which rows, or what was done, in words."""
    rows: int
    outcome: Outcome
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """One table of a release: all tables of a lake, each at a version that was made from those of the others."""

    release: str
    """The run that ended with it."""
    table: str
    version: int
    table_id: str
    """Another once the table was dropped and made anew."""
    released_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractRecord:
    """One version of a table's contract."""

    table: str
    version: str
    """`major.minor.patch`."""
    hash: str
    """The same for the same definition."""
    definition: str
    """The promised columns and terms, as JSON."""
    compatibility: str
    change: str
    """What is new in it, in words."""
    acknowledged: bool
    """It breaks readers, and the declaration said that it may."""
    until: str | None = None
    """For a new major version, the last day on which the one before can be read."""
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
