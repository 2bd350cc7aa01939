"""The first reader of a plan: describes what will happen, as plain values that any output can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from lakesmith.declare import LAYERS
from lakesmith.errors import LakesmithError
from lakesmith.plan.planner import size
from lakesmith.plan.steps import (
    BackfillChunk,
    Build,
    CommitHeldBatch,
    Compact,
    Finish,
    Ingest,
    Plan,
    ReplayQuarantine,
    Restore,
    Status,
    Step,
    StepName,
    TablePlan,
    Vacuum,
    Widen,
)
from lakesmith.ports import SkippedEntry

Symbol = Literal["+", "~", "=", "!"]
_SYMBOLS: dict[Status, Symbol] = {"added": "+", "changed": "~", "unchanged": "="}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStep:
    """One step in words."""

    step: StepName
    what: str
    cost_reason: str | None = None
    """Why no cheaper mode is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTable:
    """What will happen to one table, in words."""

    table: str
    layer: str
    symbol: Symbol
    """`+` added, `~` changed, `=` unchanged, `!` has a problem."""
    status: Status
    reason: str
    steps: tuple[ExplainedStep, ...]
    after: tuple[str, ...]
    shuffles: tuple[str, ...] = ()
    """Checks for which Spark shuffles rows."""
    skipped: tuple[SkippedEntry, ...] = ()
    """Entries of the landing folder that are not ingested and that no run has reported yet."""
    problem: LakesmithError | None = None


def explain(plan: Plan) -> tuple[ExplainedTable, ...]:
    """Return the plan's tables by layer, in run order."""
    problems = {problem.table: problem for problem in reversed(plan.problems)}
    explained = (_explain_table(table, problems.get(str(table.table))) for table in plan.tables)
    ranks: dict[str, int] = {layer: rank for rank, layer in enumerate(LAYERS)}
    return tuple(sorted(explained, key=lambda table: ranks[table.layer]))


def explain_step(step: Step) -> ExplainedStep:
    """Describe what one step does."""
    cost_reason = step.cost_reason if isinstance(step, Build) else None
    return ExplainedStep(step=step.name, what=_describe(step), cost_reason=cost_reason)


def _describe(step: Step) -> str:
    match step:
        case Ingest(files=files):
            if step.slice is not None:
                return f"ingest {step.reason}"
            count = "1 file" if len(files) == 1 else f"{len(files)} files"
            return f"ingest {count} ({size(sum(file.size for file in files))})"
        case Widen(columns=columns):
            wider = ", ".join(f"{column.name} to {column.type}" for column in columns)
            return f"widen {wider}"
        case Build():
            return _describe_build(step)
        case BackfillChunk(chunk=chunk, column=column):
            return f"rebuild the rows with {column} from {chunk}"
        case CommitHeldBatch(sequence=sequence, approval=approval):
            return f"commit held batch {sequence}, approved by {approval.by}"
        case ReplayQuarantine(replay=replay):
            return "discard quarantined rows" if replay.discard else "replay quarantined rows"
        case Finish(sequence=sequence):
            return f"finish batch {sequence}, which was interrupted"
        case Compact(files=files, bytes=bytes):
            return f"compact {files} files ({size(bytes)})"
        case Vacuum(older_than=older_than):
            return f"delete files that no version of the last {age(older_than)} references"
        case Restore(version=version, keeps_rows=True):
            return f"stay at version {version}, and record the restored versions of its inputs"
        case Restore(version=version):
            return f"restore version {version}"
        case _:
            assert_never(step)


def age(seconds: float) -> str:
    """Format a length of time as people type it."""
    units = {"d": 86400, "h": 3600, "m": 60}
    for unit, length in units.items():
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"


def _explain_table(table: TablePlan, problem: LakesmithError | None) -> ExplainedTable:
    return ExplainedTable(
        table=str(table.table),
        layer=table.table.layer,
        symbol=_SYMBOLS[table.status] if problem is None else "!",
        status=table.status,
        reason=table.reason,
        steps=tuple(explain_step(step) for step in table.steps),
        after=tuple(str(name) for name in table.after),
        shuffles=table.shuffles,
        skipped=table.skipped,
        problem=problem,
    )


def _describe_build(build: Build) -> str:
    followed = " and ".join(
        f"{each.table} since version {each.since}" for each in build.inputs if each.since is not None
    )
    match build.mode:
        case "changes":
            return f"build from changed rows of {followed}"
        case "sums":
            return f"add new rows of {followed} to the sums"
        case "keys":
            return f"recompute the keys touched by changes of {followed}"
        case "partitions":
            return f"recompute the partitions touched by changes of {followed}"
        case "full":
            return f"full build from {', '.join(str(each.table) for each in build.inputs)}"
        case _:
            assert_never(build.mode)
