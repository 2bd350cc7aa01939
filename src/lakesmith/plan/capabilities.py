"""What a step needs from a table format, so that a plan fails before any I/O where the format lacks it."""

from __future__ import annotations

from typing import assert_never

from lakesmith.declare import Append, Changes, Load, Merge, Replace, ReplacePartitions, Scd2, Snapshot, Table
from lakesmith.errors import DeclarationError, LakesmithError
from lakesmith.plan.steps import (
    BackfillChunk,
    Build,
    CommitHeldBatch,
    Compact,
    Finish,
    Ingest,
    ReplayQuarantine,
    Restore,
    Step,
    Vacuum,
    Widen,
)
from lakesmith.ports import Capability


def required_capabilities(table: Table, step: Step) -> frozenset[Capability]:
    """Return the capabilities that a step needs."""
    evolution = {Capability.SCHEMA_EVOLUTION} if table.contract != "strict" else set()
    writes = frozenset({Capability.APPEND, Capability.FENCE, Capability.READ_WITHOUT_SPARK, *evolution})
    match step:
        case Ingest() | Finish() | CommitHeldBatch():
            return writes
        case ReplayQuarantine():
            return writes | {Capability.MERGE, Capability.TIME_TRAVEL}
        case Compact():
            return frozenset({Capability.COMPACT})
        case Vacuum():
            return frozenset({Capability.FENCE, Capability.VACUUM})
        case Restore():
            return frozenset({Capability.FENCE, Capability.RESTORE})
        case Widen():
            return writes | {Capability.TYPE_WIDENING}
        case Build(mode="full"):
            return writes | {Capability.OVERWRITE, Capability.TIME_TRAVEL}
        case BackfillChunk():
            merges = {Capability.MERGE} if isinstance(table.load, Merge | Scd2 | Changes | Snapshot) else set()
            return writes | {Capability.OVERWRITE_WHERE, Capability.TIME_TRAVEL, *merges}
        case Build():
            return writes | {Capability.CHANGE_FEED, Capability.TIME_TRAVEL, *_incremental_load(table.load)}
        case _:
            assert_never(step)


def _incremental_load(load: Load) -> set[Capability]:
    match load:
        case Merge() | Scd2() | Changes() | Snapshot():
            return {Capability.MERGE}
        case ReplacePartitions():
            return {Capability.OVERWRITE_WHERE}
        case Append(dedup=dedup):
            return {Capability.MERGE} if dedup else set()
        case Replace():
            return set()
        case _:
            assert_never(load)


def unsupported_step(
    table: Table, step: Step, format: str, capabilities: frozenset[Capability]
) -> LakesmithError | None:
    """Return the error for a step that a format does not support, or None."""
    missing = sorted(capability.value for capability in required_capabilities(table, step) - capabilities)
    if not missing:
        return None
    return DeclarationError(
        "format-cannot",
        f"{format} tables cannot {' or '.join(missing)}",
        at=table.declared_at,
        table=str(table.name),
        hint="use another load, or another table format",
    )
