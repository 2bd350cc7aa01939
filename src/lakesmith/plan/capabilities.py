"""What a step needs from a table format, so that a plan fails before any I/O where the format lacks it."""

from __future__ import annotations

from typing import assert_never

from lakesmith.declare import Append, Changes, Merge, Replace, ReplacePartitions, Scd2, Snapshot, Table
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
    always = {Capability.APPEND, Capability.FENCE, Capability.READ_WITHOUT_SPARK}
    if table.contract != "strict":
        always.add(Capability.SCHEMA_EVOLUTION)
    match step:
        case Ingest() | Finish() | CommitHeldBatch():
            return frozenset(always)
        case ReplayQuarantine():
            return frozenset({*always, Capability.MERGE, Capability.TIME_TRAVEL})
        case Compact():
            return frozenset({Capability.COMPACT})
        case Vacuum():
            return frozenset({Capability.FENCE, Capability.VACUUM})
        case Restore():
            return frozenset({Capability.FENCE, Capability.RESTORE})
        case Widen():
            return frozenset({*always, Capability.TYPE_WIDENING})
        case Build(mode="full"):
            return frozenset({*always, Capability.OVERWRITE, Capability.TIME_TRAVEL})
        case BackfillChunk():
            overwrite = {Capability.OVERWRITE_WHERE, Capability.TIME_TRAVEL}
            merges = isinstance(table.load, Merge | Scd2 | Changes | Snapshot)
            return frozenset({*always, *overwrite, *([Capability.MERGE] if merges else [])})
        case Build():
            incremental = {*always, Capability.CHANGE_FEED, Capability.TIME_TRAVEL}
            match table.load:
                case Merge() | Scd2() | Changes() | Snapshot():
                    return frozenset({*incremental, Capability.MERGE})
                case ReplacePartitions():
                    return frozenset({*incremental, Capability.OVERWRITE_WHERE})
                case Append(dedup=dedup) if dedup:
                    return frozenset({*incremental, Capability.MERGE})
                case Append() | Replace():
                    return frozenset(incremental)
                case _:
                    assert_never(table.load)
        case _:
            assert_never(step)


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
