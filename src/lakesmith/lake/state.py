"""The state of the tables, the history of runs and versions, and the machine's health."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from lakesmith.declare import LAYERS
from lakesmith.errors import UsageError, did_you_mean
from lakesmith.jvm.lake_jars import jars_of
from lakesmith.lake.open_lake import OpenLake
from lakesmith.ledger.batches import flow, run_of_commit
from lakesmith.monitor import table_status
from lakesmith.plan.select import select as choose
from lakesmith.records import RunRecord, StepRecord
from lakesmith.reports import Finding, TableStatus, Version


def table_states(lake: OpenLake, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[TableStatus, ...]:
    """The current state of each table, ordered by layer."""
    names = choose(lake.graph, lake.tables, select, exclude) if select or exclude else frozenset(lake.tables)
    ordered = sorted(names, key=lambda name: (LAYERS.index(name.layer), name.name))
    try:
        return tuple(
            table_status(
                lake.tables[name],
                lake.table_facts(name),
                lake.format.facts(lake.warehouse.quarantine(name), flow(name)),
            )
            for name in ordered
        )
    finally:
        lake.facts_cache.save()


def history(
    lake: OpenLake, table: str | None = None, *, limit: int = 20
) -> tuple[RunRecord, ...] | tuple[Version, ...]:
    """The newest runs; with a table, its newest versions."""
    if table is None:
        return lake.ledger.runs(limit)
    name = lake.table_name(table)
    return tuple(
        Version(
            version=commit.version,
            committed_at=commit.committed_at,
            operation=commit.operation,
            rows_written=written.inserted + written.updated,
            run_id=run_of_commit(commit),
        )
        for commit in islice(lake.format.commits(lake.warehouse.table(name)), limit)
        for written in [lake.format.commit_result(commit)]
    )


def run_steps(lake: OpenLake, run_id: str) -> tuple[StepRecord, ...]:
    """The steps of one run."""
    steps = lake.ledger.steps(run_id=run_id)
    if not steps:
        runs = [run.run_id for run in lake.ledger.runs(200)]
        raise UsageError("unknown-run", f"there is no run {run_id!r}", hint=did_you_mean(run_id, runs, label="runs"))
    return steps


def doctor(lake: OpenLake, *, fix: bool = False, deep: bool = False) -> tuple[Finding, ...]:
    """Check Java, jars, Spark, storage and versions, and say how to fix each problem."""
    from lakesmith import doctor

    return doctor.diagnose(
        lake.warehouse.store,
        lake.declaration.environment.connections,
        fix=fix,
        deep=deep,
        jar_sets=jars_of(lake.declaration),
        start=lake.start_session,
    )
