"""What becomes of rows and batches that rules have refused: looked at, taken back, given up, approved."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lakesmith import quarantine as quarantine_room
from lakesmith.declare import TableName
from lakesmith.errors import (
    UsageError,
    did_you_mean,
)
from lakesmith.lake.running import Running
from lakesmith.ledger.held import HeldBatch, HeldBatches
from lakesmith.plan.steps import (
    Approval,
    Chosen,
    CommitHeldBatch,
    LakeFacts,
    Plan,
    Replay,
    ReplayQuarantine,
    Step,
    TablePlan,
)
from lakesmith.records import AuditRecord, StepRecord
from lakesmith.reports import (
    Event,
    Facet,
    FacetCount,
    QuarantinedRow,
    RunReport,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ALL = Chosen()
"""All rows of a quarantine."""


class Refused(Running):
    """Rows that were refused."""

    def approve(
        self,
        run_id: str,
        *,
        reason: str,
        by: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Publish the batches that the gates of a run have held back."""
        held = [batch for batch in self.held() if batch.run_id == run_id]
        if not held:
            known = [batch.run_id for batch in self.held()]
            raise UsageError(
                "unknown-run",
                f"no batch of run {run_id!r} is held back",
                hint=did_you_mean(run_id, known, label="runs whose batches are held")
                if known
                else "none is: a batch is kept until its table goes on",
            )
        who = by or user()
        steps: dict[TableName, Step] = {
            self._name(batch.table): CommitHeldBatch(
                table=self._name(batch.table),
                sequence=batch.sequence,
                attempt=batch.attempt,
                approval=Approval(by=who, why=reason, run_id=run_id, rows=batch.rows, refused=batch.refused),
                reason=f"approved by {who}: {reason}",
            )
            for batch in held
        }
        told = {batch.table: f"batch {batch.sequence} of run {run_id}" for batch in held}
        decision = partial(audited, "approve", who, reason, told)
        return self._execute(self._only(steps), LakeFacts(), on_event=on_event, session=session, decision=decision)

    def held(self) -> tuple[HeldBatch, ...]:
        """The batches that gates have refused and that are kept."""
        kept = HeldBatches(self._warehouse.storage)
        found = (kept.of(str(name)) for name in sorted(self.tables))
        return tuple(batch for batch in found if batch is not None)

    def replay(
        self,
        table: str,
        chosen: Chosen,
        *,
        set: Mapping[str, str] | None = None,
        edits: Mapping[str, Mapping[str, str | None]] | None = None,
        why: str = "",
        by: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Judge rows of a table's quarantine by today's rules; those that pass enter the table, once.

        `set` gives SQL by column that mends rows which do not pass as they are, `edits` values by a row's id.
        """
        quarantine_room.refuse_unreadable_sql(set or {})
        whole = {self.quarantine_ids(table, (row,))[0]: values for row, values in (edits or {}).items()}
        replay = Replay(chosen=chosen, by=by or user(), why=why, set=set or {}, edits=whole)
        return self._mend(table, replay, on_event=on_event, session=session)

    def discard(
        self,
        table: str,
        chosen: Chosen,
        *,
        why: str,
        by: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> RunReport:
        """Give rows of a table's quarantine up; they are counted, and kept apart with the reason."""
        replay = Replay(chosen=chosen, by=by or user(), why=why, discard=True)
        return self._mend(table, replay, on_event=on_event, session=session)

    def _mend(
        self,
        table: str,
        replay: Replay,
        *,
        on_event: Callable[[Event], None] | None,
        session: SparkSession | None,
    ) -> RunReport:
        name = self._name(table)
        if not self._quarantined(name):
            return RunReport(run=None, steps=(), checks=())
        if not quarantine_room.count(self._internal_query, name, replay.chosen):
            return RunReport(run=None, steps=(), checks=())
        known = self._mendable(name)
        named = [*replay.set, *(column for values in replay.edits.values() for column in values)]
        unknown = [each for each in named if each.lower() not in known]
        if unknown:
            raise UsageError(
                "unknown-column",
                f"{unknown[0]!r} is not a column of {name}",
                table=table,
                hint=did_you_mean(unknown[0], known, label="columns"),
            )
        action = "discard" if replay.discard else "replay"
        step = ReplayQuarantine(table=name, replay=replay, reason=f"{action} asked for by {replay.by}")
        decision = partial(audited, action, replay.by, replay.why, {table: str(replay.chosen)})
        return self._execute(
            self._only({name: step}), LakeFacts(), on_event=on_event, session=session, decision=decision
        )

    def _mendable(self, name: TableName) -> list[str]:
        facts = self._table_facts(name)
        stored = [column.name for column in facts.columns] if facts else []
        declared = [column.name for column in self.tables[name].columns]
        return list(dict.fromkeys(each.lower() for each in (*stored, *declared, "raw")))

    def _only(self, steps: Mapping[TableName, Step]) -> Plan:
        tables = [
            TablePlan(table=name, status="changed", reason=step.reason, steps=(step,)) for name, step in steps.items()
        ]
        return Plan(lake=self.name, environment=self.environment, tables=tuple(tables))

    def quarantine_rows(
        self, tables: Sequence[str] = (), chosen: Chosen = _ALL, *, limit: int = 50
    ) -> tuple[QuarantinedRow, ...]:
        """Rows that were refused, the oldest first."""
        return quarantine_room.rows(self._internal_query, self._with_quarantine(tables), chosen, limit=limit)

    def quarantine_row(self, table: str, row_id: str | None = None) -> QuarantinedRow:
        """One row, by its id or the beginning of it; the oldest where none is given."""
        chosen = Chosen(ids=self.quarantine_ids(table, (row_id,))) if row_id else _ALL
        rows = self.quarantine_rows((table,), chosen, limit=1)
        if not rows:
            raise UsageError(
                "unknown-row", f"nothing is in the quarantine of {table}", hint="lakesmith quarantine stats"
            )
        return rows[0]

    def quarantine_ids(self, table: str, beginnings: Sequence[str]) -> tuple[str, ...]:
        """The whole ids of rows, of which the beginnings are given."""
        name = self._name(table)
        return tuple(
            quarantine_room.whole_id(self._internal_query, name, each, self._quarantined(name)) for each in beginnings
        )

    def quarantine_stats(
        self, tables: Sequence[str] = (), *, by: Facet = "rule", chosen: Chosen = _ALL
    ) -> tuple[FacetCount, ...]:
        """How many rows were refused, by table, rule, reason, batch or age."""
        return quarantine_room.facets(self._internal_query, self._with_quarantine(tables), by, chosen)

    def _with_quarantine(self, tables: Sequence[str]) -> list[TableName]:
        names = [self._name(table) for table in tables] or sorted(self.tables)
        return [name for name in names if self._quarantined(name)]


def user() -> str:
    """Who is at this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def audited(
    action: str, by: str, why: str, subjects: Mapping[str, str], run_id: str, steps: Sequence[StepRecord]
) -> list[AuditRecord]:
    """A decision that was carried out, or was to be."""
    now = datetime.now(UTC)
    return [
        AuditRecord(
            run_id=run_id,
            table=step.table,
            action=action,
            by=by,
            why=why,
            subject=subjects.get(step.table, ""),
            rows=step.rows_in,
            outcome=step.outcome,
            decided_at=now,
        )
        for step in steps
    ]
