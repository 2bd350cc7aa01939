"""Tables that are kept in order: files put together, old ones deleted, earlier versions brought back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakesmith.declare import TableName
from lakesmith.errors import LakesmithError, UsageError, raise_all
from lakesmith.lake.refused import Refused, audited, user
from lakesmith.ledger.readers import unread
from lakesmith.ledger.staged import last_changed, staged_folders
from lakesmith.plan.explain import age, in_words
from lakesmith.plan.needs import unmet
from lakesmith.plan.steps import Compact, LakeFacts, Plan, Restore, Step, TablePlan, Vacuum
from lakesmith.ports import TableFacts
from lakesmith.reports import Event, RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK = 7 * 86400.0
_HOUR = 3600.0


class Kept(Refused):
    """Tables in order."""

    def compact(
        self,
        tables: Sequence[str] = (),
        *,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Put the rows of small files together, in the tables that are named or in all. No row changes."""
        return self._carry_out(self.plan_compact(tables), "compact", on_event, session)

    def plan_compact(self, tables: Sequence[str] = ()) -> Plan:
        """What `compact` would do."""
        return self._maintenance_plan(tables, self._compact)

    def vacuum(
        self,
        tables: Sequence[str] = (),
        *,
        older_than: float = WEEK,
        force: bool = False,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Delete the files that no version of the last `older_than` seconds needs, nor a table that is behind.

        Less than an hour is refused without `force`: a query that goes on may still read what is deleted.
        """
        return self._carry_out(
            self.plan_vacuum(tables, older_than=older_than, force=force), "vacuum", on_event, session
        )

    def plan_vacuum(self, tables: Sequence[str] = (), *, older_than: float = WEEK, force: bool = False) -> Plan:
        """What `vacuum` would do."""
        if older_than < _HOUR and not force:
            raise UsageError(
                "vacuum-too-short",
                f"files that were needed {age(older_than)} ago may still be read: a query that goes on would fail, "
                "and no version from before could be restored",
                hint="keep an hour at the least, or add --force when nobody reads the lake",
            )
        return self._maintenance_plan(tables, partial(self._vacuum, older_than))

    def restore(
        self,
        table: str,
        version: int,
        *,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Give a table the rows of an earlier version again, and its quarantine what it held then.

        The next run takes in again what came since, and computes again what is made from the table.
        """
        return self._carry_out(self.plan_restore(table, version), "restore", on_event, session)

    def plan_restore(self, table: str, version: int) -> Plan:
        """What `restore` would do."""
        name = self._own(table)
        facts = self._table_facts(name)
        if facts is None:
            raise UsageError(
                "not-built", f"{name} is declared, but holds nothing yet", hint="there is no version of it"
            )
        if not 0 <= version <= facts.version:
            raise UsageError(
                "unknown-version",
                f"{name} has no version {version}",
                table=str(name),
                hint=f"`lakesmith history {name}` lists the versions",
            )
        self._format.refuse_restore(facts.location, version)
        after = sorted(map(str, self.graph.descendants(name)))
        told = f"; the next run computes {', '.join(after)} again" if after else ""
        reason = f"from version {facts.version}; the next run takes in again what came since{told}"
        return self._steps_plan({name: Restore(table=name, version=version, reason=reason)})

    def _compact(self, name: TableName, facts: TableFacts) -> Step | str:
        found = [facts, *(kept for place in self._beside(name) if (kept := self._format.facts(place, "")))]
        several = [each for each in found if each.files > 1]
        files, size = sum(each.files for each in several), sum(each.bytes for each in several)
        if not several:
            return "its rows are in one file"
        return Compact(table=name, files=files, bytes=size, reason=f"{files} files")

    def _vacuum(self, older_than: float, name: TableName, facts: TableFacts) -> Step | str:
        readers = self._readers(name)
        read_at = [(reader, self._warehouse.table(reader)) for reader in readers]
        found = unread(self._format, self._warehouse.storage, facts, name, read_at)
        behind = found.age(time.time()) if found else 0.0
        held_up = (
            f"{found.reader} has read it up to version {found.version}: what is newer is kept, however old "
            f"(lakesmith run {found.reader} reads it)"
            if found and behind > older_than
            else ""
        )
        places = [facts.location, *self._beside(name)]
        files = sum(self._format.stale(place, max(older_than, behind)) for place in places)
        before = time.time() - max(older_than, behind)
        staged = staged_folders(self._warehouse.staged(name))
        if not files and not any(last_changed(folder) < before for folder in staged):
            return held_up or f"no file is older than {age(older_than)} and not needed"
        reason = "; ".join(filter(None, [f"{files} files at the most", held_up]))
        return Vacuum(table=name, older_than=older_than, readers=readers, reason=reason)

    def _beside(self, name: TableName) -> tuple[str, ...]:
        """Where it lies what is kept beside a table."""
        return (self._warehouse.quarantine(name), self._warehouse.settled(name), self._warehouse.ends(name))

    def _readers(self, name: TableName) -> tuple[TableName, ...]:
        """The tables that read this one, for their rows or for their checks."""
        from lakesmith.quality import looked_up, rules_of

        asked = (
            other
            for other, table in self.tables.items()
            if any(reference.table == name for reference in looked_up(rules_of(table)))
        )
        return tuple(dict.fromkeys((*self.graph.downstream(name), *asked)))

    def _maintenance_plan(self, tables: Sequence[str], made: Callable[[TableName, TableFacts], Step | str]) -> Plan:
        names = [self._own(table) for table in tables]
        names = names or [name for name in self.graph.order if self.tables[name].adopted is None]
        steps: dict[TableName, Step | str] = {}
        for name in dict.fromkeys(names):
            facts = self._table_facts(name)
            steps[name] = made(name, facts) if facts else "it was never built"
        self._memory.save()
        return self._steps_plan(steps)

    def _steps_plan(self, steps: dict[TableName, Step | str]) -> Plan:
        """A plan of one step a table, or of the reason why there is none."""
        tables = [
            TablePlan(table=name, status="unchanged", reason=step)
            if isinstance(step, str)
            else TablePlan(table=name, status="changed", reason=step.reason, steps=(step,))
            for name, step in steps.items()
        ]
        plan = Plan(lake=self.name, environment=self.environment, tables=tuple(tables))
        unable = [unmet(self.tables[s.table], s, self._format.name, self._format.capabilities) for s in plan.steps]
        raise_all([error for error in unable if error])
        return plan

    def _carry_out(
        self,
        plan: Plan,
        action: str,
        on_event: Callable[[Event], None] | None,
        session: SparkSession | None,
        why: str = "",
        judge: Callable[[], Sequence[LakesmithError]] | None = None,
    ) -> RunReport:
        if not any(plan.steps):
            return RunReport(run=None, steps=(), checks=(), unmade=())
        told = {str(step.table): in_words(step).what for step in plan.steps}
        decision = partial(audited, action, user(), why, told)
        return self._execute(plan, LakeFacts(), on_event=on_event, session=session, decision=decision, judge=judge)

    def _own(self, text: str) -> TableName:
        """A table of this lake that is its to write."""
        name = self._name(text)
        if self.tables[name].adopted is not None:
            raise UsageError(
                "adopted-table",
                f"{name} is adopted: the lake that writes it keeps it in order",
                table=str(name),
                hint="leave it out, or name the tables that are meant",
            )
        return name
