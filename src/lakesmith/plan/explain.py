"""The first reader of a plan: tells what will happen, as plain values that any output can show."""

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

    step: Literal["ingest", "widen", "build", "refill", "finish", "publish", "mend", "compact", "vacuum", "restore"]
    what: str
    cost_reason: str | None = None
    """Why it is not done in a cheaper way."""


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
    """Checks for which rows have to be brought together."""
    skipped: tuple[SkippedEntry, ...] = ()
    """Entries of the landing folder that are not ingested and that no run has reported yet."""
    problem: LakesmithError | None = None


def explain(plan: Plan) -> tuple[ExplainedTable, ...]:
    """The plan's tables by layer, each in an order that the graph allows."""
    problems = {problem.table: problem for problem in reversed(plan.problems)}
    told = (_explained(table, problems.get(str(table.table))) for table in plan.tables)
    ranks: dict[str, int] = {layer: rank for rank, layer in enumerate(LAYERS)}
    return tuple(sorted(told, key=lambda table: ranks[table.layer]))


def in_words(step: Step) -> ExplainedStep:
    """What one step does."""
    match step:
        case Ingest(files=files):
            if step.slice is not None:
                return ExplainedStep(step="ingest", what=f"take in {step.reason}")
            count = "1 file" if len(files) == 1 else f"{len(files)} files"
            return ExplainedStep(step="ingest", what=f"take in {count} ({size(sum(file.size for file in files))})")
        case Widen(columns=columns):
            wider = ", ".join(f"{column.name} to {column.type}" for column in columns)
            return ExplainedStep(step="widen", what=f"widen {wider}")
        case Build(cost_reason=cost_reason):
            return ExplainedStep(step="build", what=_build_in_words(step), cost_reason=cost_reason)
        case BackfillChunk(chunk=chunk, column=column):
            return ExplainedStep(step="refill", what=f"compute again the rows with {column} from {chunk}")
        case CommitHeldBatch(sequence=sequence, approval=approval):
            return ExplainedStep(step="publish", what=f"commit batch {sequence} at the word of {approval.by}")
        case ReplayQuarantine(replay=replay):
            what = "discard rows of the quarantine" if replay.discard else "judge rows of the quarantine again"
            return ExplainedStep(step="mend", what=what)
        case Finish(sequence=sequence):
            return ExplainedStep(step="finish", what=f"finish batch {sequence}, which was interrupted")
        case Compact(files=files, bytes=bytes):
            return ExplainedStep(step="compact", what=f"put the rows of {files} files together ({size(bytes)})")
        case Vacuum(older_than=older_than):
            kept = f"no version of the last {age(older_than)} needs"
            return ExplainedStep(step="vacuum", what=f"delete files that {kept}")
        case Restore(version=version, stays=True):
            return ExplainedStep(step="restore", what=f"stay at version {version}, and follow the inputs back")
        case Restore(version=version):
            return ExplainedStep(step="restore", what=f"go back to version {version}")
        case _:
            assert_never(step)


def age(seconds: float) -> str:
    """A length of time, as people type it."""
    units = {"d": 86400, "h": 3600, "m": 60}
    for unit, length in units.items():
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"


def _explained(table: TablePlan, problem: LakesmithError | None) -> ExplainedTable:
    return ExplainedTable(
        table=str(table.table),
        layer=table.table.layer,
        symbol=_SYMBOLS[table.status] if problem is None else "!",
        status=table.status,
        reason=table.reason,
        steps=tuple(in_words(step) for step in table.steps),
        after=tuple(str(name) for name in table.after),
        shuffles=table.shuffles,
        skipped=table.skipped,
        problem=problem,
    )


def _build_in_words(build: Build) -> str:
    followed = " and ".join(
        f"{each.table} since version {each.since}" for each in build.inputs if each.since is not None
    )
    match build.mode:
        case "changes":
            return f"compute from changed rows of {followed}"
        case "sums":
            return f"add up what is new in {followed}"
        case "keys":
            return f"recompute the keys touched by changes of {followed}"
        case "partitions":
            return f"recompute the partitions touched by changes of {followed}"
        case "whole":
            return f"compute all rows from {', '.join(str(each.table) for each in build.inputs)}"
        case _:
            assert_never(build.mode)
