"""Roll the whole lake back to a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakesmith.declare import TableName
from lakesmith.errors import DataError, InfrastructureError, LakesmithError, raise_all
from lakesmith.lake.facts import read_progress
from lakesmith.lake.maintenance import execute_maintenance
from lakesmith.lake.open_lake import OnEvent, OpenLake
from lakesmith.lake.releases import released_tables
from lakesmith.lake.running import plan_of_steps
from lakesmith.ledger.batches import Batches
from lakesmith.plan.steps import Plan, Restore, Step
from lakesmith.records import ReleaseRecord
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rollback(
    lake: OpenLake, release: str, *, on_event: OnEvent | None = None, session: SparkSession | None = None
) -> RunReport:
    """Restore every table and its quarantine to the version that a release names.

    The next run re-ingests later data, as after `restore`.
    """
    released = released_tables(lake, release)
    why = next(f"release {record.release}" for record in released.values())
    judge = partial(_overwritten_tables, lake, released, why)
    return execute_maintenance(lake, _plan_of_release(lake, released), "rollback", on_event, session, why, judge)


def plan_rollback(lake: OpenLake, release: str) -> Plan:
    """What `rollback` would do."""
    return _plan_of_release(lake, released_tables(lake, release))


def _plan_of_release(lake: OpenLake, released: Mapping[str, ReleaseRecord]) -> Plan:
    steps: dict[TableName, Step | str] = {}
    errors: list[LakesmithError] = []
    for name in lake.graph.order:
        try:
            moving = {
                str(before) for before, step in steps.items() if isinstance(step, Restore) and not step.keeps_rows
            }
            steps[name] = _rollback_step(lake, name, released, moving)
        except LakesmithError as error:
            error.table = str(name)
            errors.append(error)
    raise_all(errors)
    plan = plan_of_steps(lake, steps)
    restored = {table.table for table in plan.tables if table.steps}
    # A table is restored only after its inputs: if one of them fails, the table stays unchanged.
    before = {name: tuple(sorted(lake.graph.ancestors(name) & restored)) for name in steps}
    return replace(plan, tables=tuple(replace(table, after=before[table.table]) for table in plan.tables))


def _rollback_step(
    lake: OpenLake, name: TableName, released: Mapping[str, ReleaseRecord], moving: set[str]
) -> Step | str:
    from lakesmith.run.maintenance import Maintenance

    if lake.tables[name].adopted is not None:
        return "it is adopted: only the lake that writes it can restore it"
    if str(name) not in released:
        return "it is not in the release and stays unchanged"
    version, facts = released[str(name)].version, lake.table_facts(name)
    if facts is None or facts.table_id != released[str(name)].table_id:
        raise DataError(
            "released-table-dropped",
            f"{name} was {'dropped' if facts is None else 'dropped and created again'} since the release",
            table=str(name),
            hint="nothing was changed; restore the other tables with `lakesmith restore TABLE --to VERSION`",
        )
    progress = read_progress(lake, name, facts)
    maintenance = Maintenance(
        table=lake.tables[name],
        facts=facts,
        progress=progress,
        run_id="",
        batches=Batches(lake.warehouse.store, name),
        warehouse=lake.warehouse,
        format=lake.format,
        session=lake.start_session,
        landing=lake.landings.get(name),
    )
    inputs = {str(each): released[str(each)].version for each in lake.graph.upstream(name) if str(each) in released}
    input_versions = {
        text: number for text, number in inputs.items() if lake.tables[lake.table_name(text)].adopted is None
    }
    if maintenance.plan_restore(version) is not None or progress.unfinished is not None:
        return Restore(
            table=name, version=version, input_versions=input_versions, reason=f"from version {facts.version}"
        )
    reason = "its rows are already those of the release"
    if (
        moving.isdisjoint(input_versions)
        and maintenance.positions_after_restore(progress.positions, input_versions) == progress.positions
    ):
        return reason
    # Its bookmark points to versions that its inputs leave: the next run would read their restore as new rows.
    return Restore(table=name, version=version, input_versions=input_versions, keeps_rows=True, reason=reason)


def _is_restored(lake: OpenLake, text: str, released: ReleaseRecord) -> bool:
    """Whether a table has the rows of the release, or this lake does not write it."""
    name = TableName.parse(text)
    if name is None or name not in lake.tables or lake.tables[name].adopted is not None:
        return True
    facts = lake.table_facts(name)
    commits = partial(lake.format.commits, lake.warehouse.table(name))
    return facts is not None and Batches(lake.warehouse.store, name).has_rows_of(facts, released.version, commits)


def _overwritten_tables(lake: OpenLake, released: Mapping[str, ReleaseRecord], why: str) -> list[LakesmithError]:
    return [
        InfrastructureError(
            "rollback-conflict",
            f"{table} differs from {why}: another run wrote to it during the rollback",
            table=table,
            hint="nothing is lost: wait for the other run to end, then roll back again",
        )
        for table, record in released.items()
        if not _is_restored(lake, table, record)
    ]
