"""Compact and vacuum tables, and restore one of them to an earlier version."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakesmith.declare import TableName
from lakesmith.errors import LakesmithError, UsageError
from lakesmith.lake.open_lake import OnEvent, OpenLake
from lakesmith.lake.running import Decision, execute_decision, plan_of_steps, user
from lakesmith.ledger.readers import slowest_reader
from lakesmith.plan.explain import age, describe
from lakesmith.plan.steps import Compact, Plan, Restore, Step, Vacuum
from lakesmith.ports import TableFacts, TableFolder
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK = 7 * 86400.0
_HOUR = 3600.0


def compact(
    lake: OpenLake, tables: Sequence[str] = (), *, on_event: OnEvent | None = None, session: SparkSession | None = None
) -> RunReport:
    """Merge the rows of small files into larger files, in the named tables or in all. No row changes."""
    return execute_maintenance(lake, plan_compact(lake, tables), "compact", on_event, session)


def plan_compact(lake: OpenLake, tables: Sequence[str] = ()) -> Plan:
    """What `compact` would do."""
    return _maintenance_plan(lake, tables, partial(_compact_step, lake))


def vacuum(
    lake: OpenLake,
    tables: Sequence[str] = (),
    *,
    older_than: float = WEEK,
    force: bool = False,
    on_event: OnEvent | None = None,
    session: SparkSession | None = None,
) -> RunReport:
    """Delete data files that no version of the last `older_than` seconds references and no table still has to read.

    Less than an hour needs `force`, because a running query may still read such files.
    """
    return execute_maintenance(
        lake, plan_vacuum(lake, tables, older_than=older_than, force=force), "vacuum", on_event, session
    )


def plan_vacuum(lake: OpenLake, tables: Sequence[str] = (), *, older_than: float = WEEK, force: bool = False) -> Plan:
    """What `vacuum` would do."""
    if older_than < _HOUR and not force:
        raise UsageError(
            "vacuum-too-short",
            f"running queries may still read files that were current {age(older_than)} ago, and would fail; "
            "older versions could not be restored",
            hint="keep at least an hour, or add --force when no one reads the lake",
        )
    return _maintenance_plan(lake, tables, partial(_vacuum_step, lake, older_than))


def restore(
    lake: OpenLake, table: str, version: int, *, on_event: OnEvent | None = None, session: SparkSession | None = None
) -> RunReport:
    """Restore a table and its quarantine to an earlier version.

    The next run re-ingests later data and recomputes the downstream tables.
    """
    return execute_maintenance(lake, plan_restore(lake, table, version), "restore", on_event, session)


def plan_restore(lake: OpenLake, table: str, version: int) -> Plan:
    """What `restore` would do."""
    name = _own_table(lake, table)
    facts = lake.table_facts(name)
    if facts is None:
        raise UsageError(
            "not-built", f"{name} is declared, but no run has built it yet", hint="it has no version to restore"
        )
    if not 0 <= version <= facts.version:
        raise UsageError(
            "unknown-version",
            f"{name} has no version {version}",
            table=str(name),
            hint=f"`lakesmith history {name}` lists the versions",
        )
    lake.format.check_restore(facts.folder, version)
    after = sorted(map(str, lake.graph.descendants(name)))
    recomputed = f" and recomputes {', '.join(after)}" if after else ""
    reason = f"from version {facts.version}; the next run re-ingests later data{recomputed}"
    return plan_of_steps(lake, {name: Restore(table=name, version=version, reason=reason)})


def _compact_step(lake: OpenLake, name: TableName, facts: TableFacts) -> Step | str:
    beside = (lake.format.facts(folder, "") for folder in _tables_beside(lake, name))
    compactable = [each for each in (facts, *beside) if each and each.files > 1]
    if not compactable:
        return "it has only one data file"
    files, size = sum(each.files for each in compactable), sum(each.bytes for each in compactable)
    return Compact(table=name, files=files, bytes=size, reason=f"{files} files")


def _vacuum_step(lake: OpenLake, older_than: float, name: TableName, facts: TableFacts) -> Step | str:
    readers = _readers(lake, name)
    read_at = [(reader, lake.warehouse.table(reader)) for reader in readers]
    slowest = slowest_reader(lake.format, lake.warehouse.store, facts, name, read_at)
    behind = slowest.age(time.time()) if slowest else 0.0
    waiting = (
        f"{slowest.reader} has read it up to version {slowest.version}; newer files stay until "
        f"`lakesmith run {slowest.reader}` has read them"
        if slowest and behind > older_than
        else ""
    )
    places = [facts.folder, *_tables_beside(lake, name)]
    files = sum(lake.format.count_unused_files(place, max(older_than, behind)) for place in places)
    if not files:
        return waiting or f"no unused file is older than {age(older_than)}"
    reason = "; ".join(filter(None, [f"at most {files} files", waiting]))
    return Vacuum(table=name, older_than=older_than, readers=readers, reason=reason)


def _tables_beside(lake: OpenLake, name: TableName) -> tuple[TableFolder, ...]:
    """The folders of a table's quarantine, quarantine decisions and deleted keys."""
    return (
        lake.warehouse.quarantine(name),
        lake.warehouse.quarantine_decisions(name),
        lake.warehouse.deleted_keys(name),
    )


def _readers(lake: OpenLake, name: TableName) -> tuple[TableName, ...]:
    """The tables whose query or checks read this one."""
    from lakesmith.quality import referenced_tables, rules_of

    checked = (
        other
        for other, table in lake.tables.items()
        if any(reference.table == name for reference in referenced_tables(rules_of(table)))
    )
    return tuple(dict.fromkeys((*lake.graph.downstream(name), *checked)))


def _maintenance_plan(
    lake: OpenLake, tables: Sequence[str], choose_step: Callable[[TableName, TableFacts], Step | str]
) -> Plan:
    names = [_own_table(lake, table) for table in tables]
    names = names or [name for name in lake.graph.order if lake.tables[name].adopted is None]
    steps: dict[TableName, Step | str] = {}
    for name in dict.fromkeys(names):
        facts = lake.table_facts(name)
        steps[name] = choose_step(name, facts) if facts else "it is not built yet"
    lake.facts_cache.save()
    return plan_of_steps(lake, steps)


def execute_maintenance(
    lake: OpenLake,
    plan: Plan,
    action: str,
    on_event: OnEvent | None,
    session: SparkSession | None,
    why: str = "",
    judge: Callable[[], Sequence[LakesmithError]] | None = None,
) -> RunReport:
    """Execute a maintenance plan, and record in the audit table who started it."""
    subjects = {str(step.table): describe(step) for step in plan.steps}
    decision = Decision(action=action, by=user(), why=why, subjects=subjects)
    return execute_decision(lake, plan, decision, on_event, session, judge)


def _own_table(lake: OpenLake, text: str) -> TableName:
    """A table that this lake writes. Raises for an adopted table."""
    name = lake.table_name(text)
    if lake.tables[name].adopted is not None:
        raise UsageError(
            "adopted-table",
            f"{name} is adopted: only the lake that writes it does its maintenance",
            table=str(name),
            hint="leave it out, or name other tables",
        )
    return name
