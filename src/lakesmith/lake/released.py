"""A lake goes back to a release: each of its tables to the version that the release names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakesmith.declare import TableName
from lakesmith.errors import DataError, InfrastructureError, LakesmithError, raise_all
from lakesmith.lake.maintenance import Kept
from lakesmith.ledger.batches import Batches
from lakesmith.plan.steps import Plan, Restore, Step
from lakesmith.records import ReleaseRecord
from lakesmith.reports import Event, RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Released(Kept):
    """A lake that goes back."""

    def rollback(
        self,
        release: str,
        *,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Give every table the rows again that it had in a release, and the quarantines what they held then.

        The next run takes in again what came since, as after `restore`.
        """
        released = self._released(release)
        why = next(f"release {record.release}" for record in released.values())
        judge = partial(self._overtaken, released, why)
        return self._carry_out(self._plan_rollback(released), "rollback", on_event, session, why, judge)

    def plan_rollback(self, release: str) -> Plan:
        """What `rollback` would do."""
        return self._plan_rollback(self._released(release))

    def _plan_rollback(self, released: Mapping[str, ReleaseRecord]) -> Plan:
        steps: dict[TableName, Step | str] = {}
        errors: list[LakesmithError] = []
        for name in self.graph.order:
            try:
                moving = {str(before) for before, step in steps.items() if isinstance(step, Restore) and not step.stays}
                steps[name] = self._way_back(name, released, moving)
            except LakesmithError as error:
                error.table = str(name)
                errors.append(error)
        raise_all(errors)
        plan = self._steps_plan(steps)
        going = {table.table for table in plan.tables if table.steps}
        # A table whose input could not go back stays where it is.
        before = {name: tuple(sorted(self.graph.ancestors(name) & going)) for name in steps}
        return replace(plan, tables=tuple(replace(table, after=before[table.table]) for table in plan.tables))

    def _way_back(self, name: TableName, released: Mapping[str, ReleaseRecord], moving: set[str]) -> Step | str:
        from lakesmith.run.maintenance import Maintenance

        if self.tables[name].adopted is not None:
            return "it is adopted: the lake that writes it takes it back"
        if str(name) not in released:
            return "it is not in the release, and stays as it is"
        version, facts = released[str(name)].version, self._table_facts(name)
        if facts is None or facts.table_id != released[str(name)].table_id:
            raise DataError(
                "release-gone",
                f"{name} was {'dropped' if facts is None else 'dropped and made anew'} since the release",
                table=str(name),
                hint="nothing was changed; take the other tables back with `lakesmith restore TABLE --to VERSION`",
            )
        progress = self._progress(name, facts)
        upkeep = Maintenance(
            table=self.tables[name],
            facts=facts,
            progress=progress,
            run_id="",
            batches=Batches(self._warehouse.storage, name),
            warehouse=self._warehouse,
            format=self._format,
            session=self._start_session,
            landing=self._landings.get(name),
        )
        inputs = {str(each): released[str(each)].version for each in self.graph.upstream(name) if str(each) in released}
        together = {text: number for text, number in inputs.items() if self.tables[self._name(text)].adopted is None}
        if upkeep.way_back(version) is not None or progress.unfinished is not None:
            return Restore(table=name, version=version, together=together, reason=f"from version {facts.version}")
        reason = "its rows are those of the release"
        if moving.isdisjoint(together) and upkeep.beside(progress.positions, together) == progress.positions:
            return reason
        # Its bookmark tells of versions that its inputs leave: the next run would take their way back for news.
        return Restore(table=name, version=version, together=together, stays=True, reason=reason)

    def _is_there(self, text: str, released: ReleaseRecord) -> bool:
        """Whether a table has the rows of the release, or is not this lake's to take back."""
        name = TableName.parse(text)
        if name is None or name not in self.tables or self.tables[name].adopted is not None:
            return True
        facts = self._table_facts(name)
        commits = partial(self._format.commits, self._warehouse.table(name))
        return facts is not None and Batches(self._warehouse.storage, name).is_at(facts, released.version, commits)

    def _overtaken(self, released: Mapping[str, ReleaseRecord], why: str) -> list[LakesmithError]:
        return [
            InfrastructureError(
                "rollback-overtaken",
                f"{table} is not as in {why}: another run has written to it meanwhile",
                table=table,
                hint="nothing is lost: wait until the other run has ended, then roll back again",
            )
            for table, record in released.items()
            if not self._is_there(table, record)
        ]
