"""Queries and profiles, answered without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lakesmith.contracts import earlier_versions
from lakesmith.declare import QueryLimits, TableName
from lakesmith.errors import UsageError
from lakesmith.lake.open_lake import OpenLake, not_built, today
from lakesmith.lake.releases import released_tables
from lakesmith.ledger.batches import Batches, flow
from lakesmith.ledger.tables import SYSTEM_TABLES
from lakesmith.ports import Answer, TableFolder
from lakesmith.reports import TableProfile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

    from lakesmith.query import At


def query(
    lake: OpenLake,
    sql: str,
    *,
    at: Sequence[str] = (),
    release: str | None = None,
    limit: int | None = None,
    timeout: float | None = None,
    memory: int | None = None,
) -> Answer:
    """Answer SQL over the lake's tables, the system tables and the quarantine, without a JVM.

    `release` reads the lake's tables at the versions of a release. `limit` returns only the first rows. A query stops
    with an error after `timeout` seconds or beyond `memory` bytes; the environment sets the defaults.
    """
    limits = query_limits(lake, timeout=timeout, memory=memory)
    return _answer(lake, sql, limits, at=at, release=release, limit=limit)


def query_limits(lake: OpenLake, *, timeout: float | None = None, memory: int | None = None) -> QueryLimits:
    """The time and memory that a query may use: the arguments, or else the environment's settings."""
    usual = lake.declaration.environment.query
    return QueryLimits(timeout=timeout or usual.timeout, memory=memory or usual.memory)


def internal_query(lake: OpenLake, sql: str) -> Answer:
    """Answer one of Lakesmith's own queries, without a time limit."""
    return _answer(lake, sql, QueryLimits(timeout=None, memory=lake.declaration.environment.query.memory))


def _answer(
    lake: OpenLake,
    sql: str,
    limits: QueryLimits,
    *,
    at: Sequence[str] = (),
    release: str | None = None,
    limit: int | None = None,
) -> Answer:
    from lakesmith.query import DuckDB, match_tables, parse_at

    if at and release:
        raise UsageError("conflicting-options", "--at and --release exclude each other", hint="leave one of them out")
    engine, moments = DuckDB(limits), parse_at(at)
    folders = _folders(lake)
    referenced = engine.referenced(sql)
    views = earlier_versions(referenced, lake.tables, lake.recorded_contracts, today())
    stored = {*(referenced - views.keys()), *(view.table for view in views.values())}
    names = tuple(dict.fromkeys(match_tables(stored, folders).values()))
    if release is not None:
        moments = _versions_in_release(lake, release, names)
    moments.check(names)
    tables = {name: _rows_at(lake, name, folders[name], moments.of(name)) for name in names}
    return engine.query(sql, tables, {name.lower(): view for name, view in views.items()}, rows=limit)


def _versions_in_release(lake: OpenLake, release: str, names: Sequence[str]) -> At:
    """The versions that a release names for the lake's tables among `names`."""
    from lakesmith.query import At

    released = released_tables(lake, release)
    declared = [name for name in names if TableName.parse(name) in lake.tables]
    for name in declared:
        facts = lake.format.facts(lake.warehouse.table(lake.table_name(name)), "")
        if name not in released or facts is None or facts.table_id != released[name].table_id:
            raise UsageError(
                "not-released",
                f"release {release} does not have the current {name}",
                table=name,
                hint=f"it has {', '.join(sorted(released))}; `lakesmith releases` lists other releases",
            )
    return At(by_table={name: released[name].version for name in declared})


def _rows_at(
    lake: OpenLake, name: str, folder: TableFolder, moment: int | datetime | None
) -> pa.dataset.Dataset | pa.RecordBatchReader:
    if name.startswith("held."):
        return _held_rows(name, folder)
    facts = lake.format.facts(folder, "")
    if facts is None:
        raise not_built(name, f"`lakesmith run +{name}` builds it")
    _refuse_lost_commits(lake, name, folder)
    if isinstance(moment, datetime):
        moment = lake.format.version_at(folder, moment)
    return lake.format.arrow(folder, facts.version if moment is None else moment)


def _refuse_lost_commits(lake: OpenLake, name: str, folder: TableFolder) -> None:
    """Raise when a table has lost its newest commits: a query would silently return older rows."""
    table = TableName.parse(name)
    if table is None or table not in lake.tables or lake.tables[table].adopted:
        return
    facts = lake.format.facts(folder, flow(table))
    if facts is not None:
        commits = partial(lake.format.commits, folder)
        Batches(lake.warehouse.store, table).refuse_lost_commits(facts, commits)


def _held_rows(name: str, folder: TableFolder) -> pa.dataset.Dataset:
    import pyarrow.dataset as ds

    files = [folder.key(file.key) for file in folder.list("rows/") if file.key.endswith(".parquet")]
    if not files:
        raise UsageError(
            "not-held", f"no held batch is named {name}", hint="`lakesmith approve` lists the held batches"
        )
    return ds.dataset(files, filesystem=folder.store.arrow())


def _folders(lake: OpenLake) -> dict[str, TableFolder]:
    """Every table name that a query may use, and the folder of the table."""
    tables = {str(name): lake.warehouse.table(name) for name in lake.tables}
    beside = {f"quarantine.{n.layer}_{n.name}": lake.warehouse.quarantine(n) for n in lake.tables}
    beside |= {f"quarantine_decisions.{n.layer}_{n.name}": lake.warehouse.quarantine_decisions(n) for n in lake.tables}
    beside |= {f"held.{n.layer}_{n.name}": lake.warehouse.held(n) for n in lake.tables}
    system = {f"system.{name}": lake.warehouse.system(name) for name in SYSTEM_TABLES}
    return {**tables, **beside, **system}


def profile_table(lake: OpenLake, table: str, *, rows: int = 1_000_000) -> TableProfile:
    """Profile a table's values and propose checks. Samples a table of more than `rows` rows."""
    from lakesmith.query import ProfileInput, profile

    name = lake.table_name(table)
    downstream = lake.graph.descendants(name)
    inputs: dict[TableName, ProfileInput] = {}
    for each, declared in lake.tables.items():
        if each not in downstream and (facts := lake.table_facts(each)):
            open_rows = partial(lake.format.arrow, facts.folder, facts.version)
            inputs[each] = ProfileInput(table=declared, version=facts.version, rows=facts.rows, open=open_rows)
    if name not in inputs:
        raise not_built(str(name), f"`lakesmith run +{name}` builds it")
    return profile(inputs.pop(name), inputs, limit=rows, now=datetime.now(UTC))
