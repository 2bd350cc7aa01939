"""Quarantined rows and held batches: list them, replay or discard rows, approve a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakesmith import quarantine as quarantine_queries
from lakesmith.declare import TableName
from lakesmith.errors import UsageError, did_you_mean
from lakesmith.lake.open_lake import OnEvent, OpenLake
from lakesmith.lake.reads import internal_query
from lakesmith.lake.running import Decision, execute_decision, plan_of_steps, user
from lakesmith.ledger.batches import flow
from lakesmith.ledger.held import HeldBatch, HeldBatches
from lakesmith.plan.steps import Approval, CommitHeldBatch, QuarantineFilter, Replay, ReplayQuarantine, Step
from lakesmith.reports import Facet, FacetCount, QuarantineCount, QuarantinedRow, RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL = QuarantineFilter()


def approve(
    lake: OpenLake,
    run_id: str,
    *,
    reason: str,
    by: str | None = None,
    on_event: OnEvent | None = None,
    session: SparkSession | None = None,
) -> RunReport:
    """Commit the batches that the gates of a run hold. The audit table records who approved them, and why."""
    held = [batch for batch in held_batches(lake) if batch.run_id == run_id]
    if not held:
        runs = [batch.run_id for batch in held_batches(lake)]
        raise UsageError(
            "unknown-run",
            f"no held batch belongs to run {run_id!r}",
            hint=did_you_mean(run_id, runs, label="runs with held batches")
            if runs
            else "no batch is held: the next batch of a table replaces its held batch",
        )
    who = by or user()
    steps: dict[TableName, Step] = {
        lake.table_name(batch.table): CommitHeldBatch(
            table=lake.table_name(batch.table),
            sequence=batch.sequence,
            attempt=batch.attempt,
            approval=Approval(by=who, why=reason, run_id=run_id, rows=batch.rows, rejected=batch.rejected),
            reason=f"approved by {who}: {reason}",
        )
        for batch in held
    }
    subjects = {batch.table: f"batch {batch.sequence} of run {run_id}" for batch in held}
    decision = Decision(action="approve", by=who, why=reason, subjects=subjects)
    return execute_decision(lake, plan_of_steps(lake, steps), decision, on_event, session)


def held_batches(lake: OpenLake) -> tuple[HeldBatch, ...]:
    """The batches that gates hold."""
    batches = HeldBatches(lake.warehouse.store)
    held = (batches.get(str(name)) for name in sorted(lake.tables))
    return tuple(batch for batch in held if batch is not None)


def replay(
    lake: OpenLake,
    table: str,
    chosen: QuarantineFilter,
    *,
    set: Mapping[str, str] | None = None,
    edits: Mapping[str, Mapping[str, str | None]] | None = None,
    why: str = "",
    by: str | None = None,
    on_event: OnEvent | None = None,
    session: SparkSession | None = None,
) -> RunReport:
    """Apply today's rules to quarantined rows. Rows that pass enter the table exactly once.

    `set` maps a column to the SQL that fixes rows which do not pass unchanged. `edits` maps a row's id to new values.
    """
    quarantine_queries.refuse_unreadable_sql(set or {})
    full_ids = {quarantine_ids(lake, table, (row,))[0]: values for row, values in (edits or {}).items()}
    replay = Replay(chosen=chosen, by=by or user(), why=why, set=set or {}, edits=full_ids)
    return _replay(lake, table, replay, on_event=on_event, session=session)


def discard(
    lake: OpenLake,
    table: str,
    chosen: QuarantineFilter,
    *,
    why: str,
    by: str | None = None,
    on_event: OnEvent | None = None,
    session: SparkSession | None = None,
) -> RunReport:
    """Discard quarantined rows. They stay stored with the reason, and count as discarded."""
    replay = Replay(chosen=chosen, by=by or user(), why=why, discard=True)
    return _replay(lake, table, replay, on_event=on_event, session=session)


def _replay(
    lake: OpenLake, table: str, replay: Replay, *, on_event: OnEvent | None, session: SparkSession | None
) -> RunReport:
    name = lake.table_name(table)
    query = partial(internal_query, lake)
    if not lake.quarantined_rows(name) or not quarantine_queries.count(query, name, replay.chosen):
        return RunReport(run=None, steps=(), checks=())
    columns = _replayable_columns(lake, name)
    changed = [*replay.set, *(column for values in replay.edits.values() for column in values)]
    unknown = [column for column in changed if column.lower() not in columns]
    if unknown:
        raise UsageError(
            "unknown-column",
            f"{unknown[0]!r} is not a column of {name}",
            table=table,
            hint=did_you_mean(unknown[0], columns, label="columns"),
        )
    action = "discard" if replay.discard else "replay"
    step = ReplayQuarantine(table=name, replay=replay, reason=f"{action} requested by {replay.by}")
    decision = Decision(action=action, by=replay.by, why=replay.why, subjects={table: str(replay.chosen)})
    return execute_decision(lake, plan_of_steps(lake, {name: step}), decision, on_event, session)


def _replayable_columns(lake: OpenLake, name: TableName) -> list[str]:
    facts = lake.table_facts(name)
    stored = [column.name for column in facts.columns] if facts else []
    declared = [column.name for column in lake.tables[name].columns]
    return list(dict.fromkeys(each.lower() for each in (*stored, *declared, "raw")))


def quarantine_counts(lake: OpenLake) -> tuple[QuarantineCount, ...]:
    """How many rows each reason has sent to quarantine, most first."""
    counts: list[QuarantineCount] = []
    for name in sorted(lake.tables):
        if lake.format.facts(lake.warehouse.quarantine(name), flow(name)) is None:
            continue
        answer = internal_query(
            lake,
            "SELECT reason, count(*) AS found, any_value(raw) AS example FROM "
            f"(SELECT unnest(reasons) AS reason, raw FROM quarantine.{name.layer}_{name.name}) "
            "GROUP BY reason ORDER BY found DESC, reason",
        )
        for reason, rows, example in answer.rows:
            counts.append(
                QuarantineCount(table=str(name), reason=str(reason), rows=int(str(rows)), example=str(example)[:200])
            )
    return tuple(counts)


def quarantine_rows(
    lake: OpenLake, tables: Sequence[str] = (), chosen: QuarantineFilter = _ALL, *, limit: int = 50
) -> tuple[QuarantinedRow, ...]:
    """Quarantined rows, the oldest first."""
    return quarantine_queries.rows(partial(internal_query, lake), _with_quarantine(lake, tables), chosen, limit=limit)


def quarantine_row(lake: OpenLake, table: str, row_id: str | None = None) -> QuarantinedRow:
    """One quarantined row, by its id or a prefix of it. Without an id, the oldest row."""
    chosen = QuarantineFilter(ids=quarantine_ids(lake, table, (row_id,))) if row_id else _ALL
    rows = quarantine_rows(lake, (table,), chosen, limit=1)
    if not rows:
        raise UsageError("unknown-row", f"the quarantine of {table} is empty", hint="lakesmith quarantine stats")
    return rows[0]


def quarantine_ids(lake: OpenLake, table: str, prefixes: Sequence[str]) -> tuple[str, ...]:
    """The full ids of quarantined rows, by prefixes of them."""
    name = lake.table_name(table)
    return tuple(
        quarantine_queries.full_id(partial(internal_query, lake), name, each, lake.quarantined_rows(name))
        for each in prefixes
    )


def quarantine_stats(
    lake: OpenLake, tables: Sequence[str] = (), *, by: Facet = "rule", chosen: QuarantineFilter = _ALL
) -> tuple[FacetCount, ...]:
    """How many rows are quarantined, by table, rule, reason, batch or age."""
    return quarantine_queries.facets(partial(internal_query, lake), _with_quarantine(lake, tables), by, chosen)


def _with_quarantine(lake: OpenLake, tables: Sequence[str]) -> list[TableName]:
    names = [lake.table_name(table) for table in tables] or sorted(lake.tables)
    return [name for name in names if lake.quarantined_rows(name)]
