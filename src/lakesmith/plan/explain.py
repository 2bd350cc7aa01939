"""The first reader of a plan: describes what will happen."""

from __future__ import annotations

from typing import Literal, assert_never

from lakesmith.declare import LAYERS
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

Symbol = Literal["+", "~", "=", "!"]
_SYMBOLS: dict[Status, Symbol] = {"added": "+", "changed": "~", "unchanged": "="}


def explain(plan: Plan) -> list[tuple[Symbol, TablePlan]]:
    """Return the tables by layer, in run order. The symbol of a table says its status, or `!` for a problem."""
    problems = {problem.table for problem in plan.problems}
    tables = sorted(plan.tables, key=lambda table: LAYERS.index(table.table.layer))
    return [("!" if str(table.table) in problems else _SYMBOLS[table.status], table) for table in tables]


def describe(step: Step) -> str:
    """Say what a step does."""
    match step:
        case Ingest(files=files):
            if step.slice is not None:
                return f"ingest {step.reason}"
            count = "1 file" if len(files) == 1 else f"{len(files)} files"
            return f"ingest {count} ({size(sum(file.size for file in files))})"
        case Widen(columns=columns):
            return f"widen {', '.join(f'{column.name} to {column.type}' for column in columns)}"
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
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"


def _describe_build(build: Build) -> str:
    since = [f"{each.table} since version {each.since}" for each in build.inputs if each.since is not None]
    changed = " and ".join(since)
    match build.mode:
        case "changes":
            return f"build from changed rows of {changed}"
        case "sums":
            return f"add new rows of {changed} to the sums"
        case "keys":
            return f"recompute the keys touched by changes of {changed}"
        case "partitions":
            return f"recompute the partitions touched by changes of {changed}"
        case "full":
            return f"full build from {', '.join(str(each.table) for each in build.inputs)}"
        case _:
            assert_never(build.mode)
