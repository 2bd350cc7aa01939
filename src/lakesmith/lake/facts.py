"""Reads from warehouse, ledger, landing folders and databases what a plan needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lakesmith import quarantine as quarantine_queries
from lakesmith.declare import Files, TableName
from lakesmith.errors import DataError, InfrastructureError, LakesmithError
from lakesmith.lake.open_lake import OpenLake, today
from lakesmith.lake.reads import internal_query
from lakesmith.ledger.batches import Batches
from lakesmith.plan.listing import listed_up_to, next_listing
from lakesmith.plan.steps import LakeFacts, Progress, QuarantineFilter
from lakesmith.ports import SkippedEntry, TableFacts
from lakesmith.sources import new_slice
from lakesmith.store import LocalStore, foreign_entries, list_in_order


def read_facts(lake: OpenLake, *, remote: bool = True) -> LakeFacts:
    """Everything that a plan depends on. Without `remote`, skip remote stores, databases and Kafka."""
    tables, progress, landing, skipped, listings, slices = {}, {}, {}, {}, {}, {}
    problems: dict[TableName, LakesmithError] = {}
    for name, table in lake.tables.items():
        try:
            if facts := lake.table_facts(name):
                tables[name] = facts
            progress[name] = read_progress(lake, name, facts)
        except (DataError, InfrastructureError) as error:
            error.table = str(name)
            progress[name], problems[name] = Progress(), error
        try:
            if isinstance(table.origin, Files):
                storage, glob = lake.landings[name]
                if not remote and not isinstance(storage, LocalStore):
                    continue
                ingested, seen = progress[name].ingested, progress[name].seen
                not_ingested: set[SkippedEntry] = set()
                if table.origin.listing == "ordered":
                    listing = listings[name] = next_listing(seen, storage.location(glob), today().isoformat())
                    up_to = listed_up_to(seen, listing.pattern)
                    landing[name] = list_in_order(storage, glob, ingested, listing.after, up_to, not_ingested.add)
                else:
                    landing[name] = tuple(storage.find(glob, ingested, None, not_ingested.add))
                if foreign := foreign_entries(not_ingested, glob, table.origin.archive):
                    skipped[name] = foreign
            elif remote and (found := new_slice(table, lake.declaration.environment, progress[name].source_position)):
                slices[name] = found
        except LakesmithError as error:
            error.table = str(name)
            problems.setdefault(name, error)
    for problem in problems.values():
        lake.declaration.environment.mask(problem)
    lake.facts_cache.save()
    return LakeFacts(
        tables=tables,
        progress=progress,
        landing=landing,
        skipped=skipped,
        listings=listings,
        slices=slices,
        problems=problems,
        widened_columns=_widened_since(lake, tables, progress),
        quarantine_expired=_rows_to_discard(lake),
    )


def read_progress(lake: OpenLake, name: TableName, facts: TableFacts | None) -> Progress:
    """How far a table has read its inputs."""
    if lake.tables[name].adopted:
        return Progress()  # the batches in its log belong to the lake that writes it
    commits = partial(lake.format.commits, lake.warehouse.table(name))
    return Batches(lake.warehouse.store, name).progress(facts, commits)


def _rows_to_discard(lake: OpenLake) -> dict[TableName, int]:
    limits = {name: table.quarantine.discard_after for name, table in lake.tables.items()}
    limited = {name: limit for name, limit in limits.items() if limit is not None and lake.quarantined_rows(name)}
    return {
        name: quarantine_queries.count(partial(internal_query, lake), name, QuarantineFilter(older_than=limit))
        for name, limit in limited.items()
    }


def _widened_since(
    lake: OpenLake, tables: Mapping[TableName, TableFacts], progress: Mapping[TableName, Progress]
) -> dict[tuple[TableName, int], Sequence[str]]:
    """By table and version that another table has read up to: the columns that were widened since."""
    read = {(name, at.version) for each in progress.values() for name, at in each.positions.items()}
    retyped: dict[tuple[TableName, int], Sequence[str]] = {}
    for name, since in read:
        source = TableName.parse(name)
        facts = tables.get(source) if source else None
        if source and facts and facts.widened and facts.version > since:
            retyped[source, since] = lake.format.changed_types(facts.folder, since)
    return retyped
