"""What the verbs answer. The CLI, the web pages and Python all read these values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from lakesmith.errors import LakesmithError
from lakesmith.records import CheckRecord, FileRecord, Outcome, RunRecord, SkippedRecord, StepRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A table of another lake that is used where it lies."""

    table: str
    location: str
    files: int
    rows: int
    made: bool
    """A log was written beside the files; False when there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """`validate`: what was found fit."""

    lake: str
    environment: str
    tables: int
    by_layer: dict[str, int]
    checks: int
    warnings: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    """Python files that were read and not run."""
    not_checked: tuple[str, ...] = ()
    """What was left out because of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """`contract publish`: one table's contract in a schema registry."""

    table: str
    subject: str
    id: int
    """The registry's number of the schema."""
    version: int | None
    """The version of the subject; not told where the registry is the source of truth."""
    state: Literal["registered", "unchanged", "agrees"]
    """`agrees`: the registry is the source of truth, and the declaration is as it says."""
    compatibility: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """`contract publish`: what became of each table."""

    contracts: tuple[Published, ...]
    errors: tuple[LakesmithError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """`status`: one table as it is now."""

    table: str
    layer: str
    load: str
    state: Literal["fresh", "late", "missing", "ok"]
    """`ok` when no freshness was promised."""
    rows: int | None
    quarantined: int | None
    """Rows in the table's quarantine."""
    bytes: int | None
    version: int | None
    updated_at: datetime | None
    age_seconds: float | None
    freshness_seconds: float | None
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCount:
    """How many rows a rule refused, over all batches."""

    table: str
    reason: str
    rows: int
    example: str
    """The raw payload of one of them, shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow:
    """`quarantine list|show`: one row that was refused."""

    table: str
    id: str
    raw: str
    """The payload as it came."""
    fields: str | None
    """What was read from it, as JSON."""
    rules: list[str]
    reasons: list[str]
    rule_versions: list[str] | None
    contract: str | None
    """The version of the table's contract at that time."""
    position: str | None
    batch: int
    run_id: str
    quarantined_at: datetime


Facet = Literal["table", "rule", "reason", "batch", "age"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCount:
    """`quarantine stats`: how many rows a quarantine has of one kind."""

    table: str
    facet: Facet
    value: str
    rows: int
    oldest: datetime
    newest: datetime
    rank: str = ""
    """Where kinds have an order, the place in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """`history TABLE`: one version of one table, with the run that made it where Lakesmith did."""

    version: int
    committed_at: datetime
    operation: str
    rows_written: int | None
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """`releases`: all tables of a lake, each at a version that was made from those of the others."""

    release: str
    """The run that ended with it."""
    released_at: datetime
    tables: Mapping[str, int]
    """By name, the version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """`lineage`: `target` is made from `source`."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEdge:
    """`lineage`: a column and the columns that it is made from, where the query can be read."""

    source: str
    """`layer.table.column`."""
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """`lineage`: where a table's rows come from and where they go; the whole lake when no table is named."""

    table: str | None
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]
    columns: tuple[ColumnEdge, ...]
    sources: dict[str, str]
    """For each bronze table, where its rows come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractChange:
    """`contract diff`: one change of a contract."""

    kind: str
    path: str
    what: str
    backward: bool
    """The new contract can read old data."""
    forward: bool
    """The old contract can read new data."""
    breaking: bool
    """By the compatibility that the table promises."""
    version: str
    """The version that this change alone would lead to."""
    consumers: tuple[str, ...]
    """Columns that are made from the changed one, and tables that read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractDiff:
    """`contract diff`: a contract as it is declared, against the newest that is recorded."""

    table: str
    recorded: str | None
    """None when no run has recorded one."""
    version: str
    compatibility: str
    acknowledged: bool
    changes: tuple[ContractChange, ...]
    gone: bool = False
    """No file declares the table any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """`contract check`: a column that is not stored as it is declared."""

    column: str
    declared: str | None
    stored: str | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractCheck:
    """`contract check`: a stored table against its declared contract."""

    table: str
    state: Literal["agrees", "differs", "not built"]
    columns: int
    """How many are declared."""
    disagreements: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequent:
    """`profile`: a value that comes often."""

    value: object
    rows: int | None
    """How many rows have it; None where it was not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """`profile`: what the values of one column are like. Of a masked column no value is told."""

    column: str
    type: str
    """A Spark SQL type where the column has a simple one."""
    nulls: int
    null_rate: float
    distinct: int | None
    counted: bool
    """Whether `distinct` was counted one by one; else it is near the truth."""
    unique: bool
    min: object = None
    max: object = None
    mean: float | None = None
    deviation: float | None = None
    quantiles: dict[str, float] = field(default_factory=dict)
    not_finite: int = 0
    """How many values are NaN or infinite."""
    shortest: int | None = None
    longest: int | None = None
    frequent: tuple[Frequent, ...] = ()
    form: str | None = None
    """What every value looks like: `email`, `uuid`, …"""
    masked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """`profile`: a promise that the data keep."""

    name: str
    """Of the check; of the column where it is a promise about a column."""
    kind: Literal["column", "check"]
    rule: dict[str, object]
    """The keys below the name, as they are written in YAML."""
    reason: str
    """What was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """`profile`: what the rows of a table are like, and what could be promised of them."""

    table: str
    version: int
    rows: int
    """How many the table has."""
    looked_at: int
    """Fewer than `rows` when only a sample was read."""
    columns: tuple[ColumnProfile, ...]
    proposals: tuple[Proposal, ...]
    yaml: str
    """The proposals as a declaration has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`doctor`: one thing that was looked at."""

    subject: str
    """`java`, `jars`, `spark`, `storage`, `versions`, …"""
    ok: bool
    found: str
    mend: str | None = None
    """The command or change that mends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """`run`: what was done."""

    run: RunRecord | None
    """None when there was nothing to do: then nothing is written either."""
    steps: tuple[StepRecord, ...]
    checks: tuple[CheckRecord, ...]
    files: tuple[FileRecord, ...] = ()
    """The files that were taken in, with their own books."""
    skipped: tuple[SkippedRecord, ...] = ()
    """Entries of landing folders that are not ingested; no run has reported them before."""
    errors: tuple[LakesmithError, ...] = ()
    unmade: tuple[str, ...] = ()
    """When there was nothing to do: the tables that do not exist all the same, and why."""

    @property
    def outcome(self) -> Outcome:
        return self.run.outcome if self.run else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """`test`: a row that is not as it was expected; values are texts, None is NULL."""

    of: Literal["table", "quarantine"]
    expected: dict[str, str | None] | None
    """None for a row that was not expected."""
    found: dict[str, str | None] | None
    """None for a row that is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """`test`: how one test ended."""

    table: str
    name: str
    file: str
    line: int
    description: str | None
    outcome: Literal["passed", "failed", "error"]
    """`error` when the test itself does not make sense, or could not be carried out."""
    seconds: float
    differences: tuple[RowDifference, ...] = ()
    error: LakesmithError | None = None
    """What the run or the test ended with, where that was not expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """`test`: how the tests ended."""

    results: tuple[TrialResult, ...]
    untested: tuple[str, ...]
    """Selected tables that have a query and no test."""
    seconds: float

    def count(self, outcome: str) -> int:
        return sum(result.outcome == outcome for result in self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyReport:
    """`test --empty`: which queries Spark takes, on tables without rows."""

    checked: tuple[str, ...]
    skipped: dict[str, str]
    """By table, why nothing can be said of it."""
    assumed: dict[str, tuple[str, ...]]
    """By table, columns that are read and that neither the declaration nor the table knows: taken to fit."""
    errors: tuple[LakesmithError, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """Told while a run goes on: a table's step has begun."""

    table: str
    step: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStarting:
    """Told once, before the JVM starts."""


Event = SparkStarting | StepStarted | StepRecord
"""A `StepRecord` tells that a step has ended."""
