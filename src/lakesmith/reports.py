"""The results of commands. The CLI, the web pages and Python callers all read these values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from lakesmith.errors import LakesmithError
from lakesmith.records import CheckRecord, FileRecord, Outcome, RunRecord, SkippedRecord, StepRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """`adopt`: a table of another lake that this lake reads in place."""

    table: str
    location: str
    files: int
    rows: int
    created: bool
    """Whether the command wrote a Delta log; False when the folder had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """`validate`: a summary of a valid lake."""

    lake: str
    environment: str
    tables: int
    by_layer: dict[str, int]
    checks: int
    warnings: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    """Python files that were parsed and not run."""
    not_checked: tuple[str, ...] = ()
    """Checks that were skipped because of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSchema:
    """`contract publish`: one table's contract in a schema registry."""

    table: str
    subject: str
    id: int
    """The registry's id of the schema."""
    version: int | None
    """The version of the subject; None where the registry is the source of truth."""
    state: Literal["registered", "unchanged", "agrees"]
    """`agrees`: the registry is the source of truth, and the declaration equals its schema."""
    compatibility: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """`contract publish`: the result for each table."""

    contracts: tuple[PublishedSchema, ...]
    errors: tuple[LakesmithError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """`status`: the current state of one table."""

    table: str
    layer: str
    load: str
    state: Literal["fresh", "late", "missing", "ok"]
    """`ok` when the table declares no freshness."""
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
    """`status --quarantine`: how many rows are in quarantine for one reason."""

    table: str
    reason: str
    rows: int
    example: str
    """The raw payload of one of the rows, truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow:
    """`quarantine list|show`: one quarantined row."""

    table: str
    id: str
    raw: str
    """The original payload."""
    fields: str | None
    """The parsed fields, as JSON."""
    rules: list[str]
    reasons: list[str]
    rule_versions: list[str] | None
    contract: str | None
    """The version of the table's contract when the row was quarantined."""
    position: str | None
    batch: int
    run_id: str
    quarantined_at: datetime


Facet = Literal["table", "rule", "reason", "batch", "age"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCount:
    """`quarantine stats`: how many rows a quarantine has in one group."""

    table: str
    facet: Facet
    value: str
    rows: int
    oldest: datetime
    newest: datetime
    rank: str = ""
    """The sort key of groups that have an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """`history TABLE`: one version of a table. `run_id` is None for a commit by another writer."""

    version: int
    committed_at: datetime
    operation: str
    rows_written: int | None
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """`releases`: consistent versions of all tables, each made from the others' versions."""

    release: str
    """The run that recorded it."""
    released_at: datetime
    tables: Mapping[str, int]
    """The version of each table, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """`lineage`: `target` is made from `source`. Both are tables, or columns as `layer.table.column`."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """`lineage`: the upstream and downstream tables of a table, or of the whole lake."""

    table: str | None
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]
    columns: tuple[Edge, ...]
    """The columns of queries that can be analysed."""
    sources: dict[str, str]
    """The source of each bronze table."""


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
    """Under the compatibility that the table declares."""
    version: str
    """The version that this change alone would cause."""
    consumers: tuple[str, ...]
    """Columns derived from the changed column, and tables that read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractDiff:
    """`contract diff`: a declared contract compared with the newest recorded version."""

    table: str
    recorded: str | None
    """None when no run has recorded a version."""
    version: str
    compatibility: str
    acknowledged: bool
    changes: tuple[ContractChange, ...]
    removed: bool = False
    """No file declares the table any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """`contract check`: a column whose stored type differs from its declaration."""

    column: str
    declared: str | None
    stored: str | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractCheck:
    """`contract check`: a stored table compared with its declared contract."""

    table: str
    state: Literal["agrees", "differs", "not built"]
    columns: int
    """How many columns the contract declares."""
    differences: tuple[ColumnDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequent:
    """`profile`: a frequent value."""

    value: object
    rows: int | None
    """How many rows have it; None when it was not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """`profile`: statistics of one column. A masked column shows no values."""

    column: str
    type: str
    """The Spark SQL type, if the column has a simple one."""
    nulls: int
    null_rate: float
    distinct: int | None
    counted: bool
    """Whether `distinct` is exact; otherwise it is an estimate."""
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
    pattern: str | None = None
    """The pattern that every value matches: `email`, `uuid`, …"""
    masked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """`profile`: a rule that the data satisfies."""

    name: str
    """The name of the check or the column."""
    kind: Literal["column", "check"]
    rule: dict[str, object]
    """The YAML keys below the name."""
    reason: str
    """The observation behind the proposal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """`profile`: statistics of a table's columns, and proposed checks."""

    table: str
    version: int
    rows: int
    """How many rows the table has."""
    profiled_rows: int
    """Fewer than `rows` when only a sample was read."""
    columns: tuple[ColumnProfile, ...]
    proposals: tuple[Proposal, ...]
    yaml: str
    """The proposals as YAML for a declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`doctor`: the result of one check of the machine."""

    subject: str
    """`java`, `jars`, `spark`, `storage`, `versions`, …"""
    ok: bool
    found: str
    fix: str | None = None
    """The command or change that fixes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """`run`: what a run did."""

    run: RunRecord | None
    """None when there was nothing to do; then nothing was written."""
    steps: tuple[StepRecord, ...]
    checks: tuple[CheckRecord, ...]
    files: tuple[FileRecord, ...] = ()
    """The ingested files with their row counts."""
    skipped: tuple[SkippedRecord, ...] = ()
    """Skipped entries of landing folders that no earlier run has reported."""
    errors: tuple[LakesmithError, ...] = ()
    not_built: tuple[str, ...] = ()
    """When there was nothing to do: tables that are still not built, and why."""

    @property
    def outcome(self) -> Outcome:
        return self.run.outcome if self.run else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """`test`: an unexpected or missing row. Values are texts; None is NULL."""

    of: Literal["table", "quarantine"]
    expected: dict[str, str | None] | None
    """None for an unexpected row."""
    found: dict[str, str | None] | None
    """None for a missing row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTestResult:
    """`test`: the result of one unit test."""

    table: str
    name: str
    file: str
    line: int
    description: str | None
    outcome: Literal["passed", "failed", "error"]
    """`error` when the test is invalid or could not run."""
    seconds: float
    differences: tuple[RowDifference, ...] = ()
    error: LakesmithError | None = None
    """The unexpected error of the run or the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTestReport:
    """`test`: the results of all unit tests."""

    results: tuple[UnitTestResult, ...]
    untested: tuple[str, ...]
    """Selected tables that have a query and no test."""
    seconds: float

    def count(self, outcome: str) -> int:
        return sum(result.outcome == outcome for result in self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyReport:
    """`test --empty`: which queries Spark accepts on empty tables."""

    checked: tuple[str, ...]
    skipped: dict[str, str]
    """Why a table could not be checked, by table."""
    assumed: dict[str, tuple[str, ...]]
    """Columns that queries read but no declaration or table has, by table. The check assumes that they fit."""
    errors: tuple[LakesmithError, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """Event: a step has started."""

    table: str
    step: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStarting:
    """Event: the JVM is about to start."""


Event = SparkStarting | StepStarted | StepRecord
"""A `StepRecord` says that a step has ended."""
