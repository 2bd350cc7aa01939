"""What a step asks of a table format, so that a format which cannot do it is refused before any I/O."""

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


def needs(table: Table, step: Step) -> frozenset[Capability]:
    """The capabilities without which a step cannot be taken."""
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
        case Build(mode="whole"):
            return frozenset({*always, Capability.OVERWRITE, Capability.TIME_TRAVEL})
        case BackfillChunk():
            place = {Capability.OVERWRITE_WHERE, Capability.TIME_TRAVEL}
            weighed = isinstance(table.load, Merge | Scd2 | Changes | Snapshot)
            return frozenset({*always, *place, *([Capability.MERGE] if weighed else [])})
        case Build():
            followed = {*always, Capability.CHANGE_FEED, Capability.TIME_TRAVEL}
            match table.load:
                case Merge() | Scd2() | Changes() | Snapshot():
                    return frozenset({*followed, Capability.MERGE})
                case ReplacePartitions():
                    return frozenset({*followed, Capability.OVERWRITE_WHERE})
                case Append(dedup=dedup) if dedup:
                    return frozenset({*followed, Capability.MERGE})
                case Append() | Replace():
                    return frozenset(followed)
                case _:
                    assert_never(table.load)
        case _:
            assert_never(step)


def unmet(table: Table, step: Step, format: str, capabilities: frozenset[Capability]) -> LakesmithError | None:
    """The error for a step that a format cannot take, or None when it can."""
    missing = sorted(capability.value for capability in needs(table, step) - capabilities)
    if not missing:
        return None
    return DeclarationError(
        "format-cannot",
        f"{format} tables cannot {' or '.join(missing)}",
        at=table.declared_at,
        table=str(table.name),
        hint="use another load, or another table format",
    )
