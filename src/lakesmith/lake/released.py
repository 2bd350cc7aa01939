"""A lake goes back to a release: each of its tables to the version that the release names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesmith.declare import TableName
from lakesmith.errors import DataError, LakesmithError, raise_all
from lakesmith.lake.upkeep import Kept
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
        plan = self.plan_rollback(release)
        named = next(record.release for record in self._released(release).values())
        return self._carry_out(plan, "rollback", on_event, session, f"release {named}")

    def plan_rollback(self, release: str) -> Plan:
        """What `rollback` would do."""
        released = self._released(release)
        steps: dict[TableName, Step | str] = {}
        errors: list[LakesmithError] = []
        for name in self.graph.order:
            try:
                steps[name] = self._way_back(name, released.get(str(name)))
            except LakesmithError as error:
                error.table = str(name)
                errors.append(error)
        raise_all(errors)
        plan = self._steps_plan(steps)
        going = {table.table for table in plan.tables if table.steps}
        # A table whose input could not go back stays where it is.
        before = {name: tuple(sorted(self.graph.ancestors(name) & going)) for name in steps}
        return replace(plan, tables=tuple(replace(table, after=before[table.table]) for table in plan.tables))

    def _way_back(self, name: TableName, released: ReleaseRecord | None) -> Step | str:
        if self.tables[name].adopted is not None:
            return "it is adopted: the lake that writes it takes it back"
        if released is None:
            return "it is not in the release, and stays as it is"
        facts = self._table_facts(name)
        if facts is None or facts.table_id != released.table_id:
            raise DataError(
                "release-gone",
                f"{name} was {'dropped' if facts is None else 'dropped and made anew'} since the release",
                table=str(name),
                hint="nothing was changed; take the other tables back with `lakesmith restore TABLE --to VERSION`",
            )
        if facts.changed <= released.version:
            return "its rows are those of the release"
        self._format.refuse_restore(facts.location, released.version)
        return Restore(table=name, version=released.version, reason=f"from version {facts.version}")
