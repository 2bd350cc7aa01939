"""Contracts: compared with recorded and stored tables, exported, imported and published."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakesmith.contracts import (
    Consumers,
    compare_stored_table,
    diff_report,
    new_records,
    removed_contracts,
    tables_with_contract,
)
from lakesmith.lake.declarations import column_names
from lakesmith.lake.facts import read_facts
from lakesmith.lake.open_lake import OpenLake
from lakesmith.records import ContractRecord, StepRecord
from lakesmith.reports import ContractCheck, ContractDiff, Publication

if TYPE_CHECKING:
    from lakesmith.exchange import Format, ImportResult


def diff_contracts(lake: OpenLake, tables: Sequence[str] = ()) -> tuple[ContractDiff, ...]:
    """How contracts have changed since a run recorded them, and which readers that affects."""
    verdicts = lake.compatibility_verdicts()
    chosen = tables_with_contract(lake.tables, verdicts, [lake.table_name(name) for name in tables])
    readers = Consumers(lake.graph, lake.tables, column_names(lake, read_facts(lake, remote=False)))
    removed = () if tables else removed_contracts(lake.tables, lake.recorded_contracts()).values()
    return (*(diff_report(verdicts[name], readers.of) for name in chosen), *removed)


def undeclared_tables(lake: OpenLake) -> tuple[str, ...]:
    """Warnings for stored tables with a recorded contract and no declaration: no run updates them any more."""
    removed = {name: lake.warehouse.table(name) for name in removed_contracts(lake.tables, lake.recorded_contracts())}
    return tuple(
        f"{name} has a recorded contract, but no file declares it; declare it again, or inform its readers "
        f"and remove {folder}"
        for name, folder in removed.items()
        if lake.format.facts(folder, "")
    )


def check_contracts(lake: OpenLake, tables: Sequence[str] = ()) -> tuple[ContractCheck, ...]:
    """Whether stored tables have the columns that their contracts promise."""
    declared = [name for name, table in lake.tables.items() if table.columns]
    chosen = tables_with_contract(lake.tables, declared, [lake.table_name(name) for name in tables])
    if any(lake.tables[name].terms.registry for name in chosen):
        from lakesmith.lake.registries import check_registries

        check_registries(lake, [lake.tables[name] for name in chosen])
    return tuple(compare_stored_table(lake.tables[name], lake.table_facts(name)) for name in chosen)


def new_contract_records(lake: OpenLake, run_id: str, steps: Sequence[StepRecord]) -> list[ContractRecord]:
    """New versions of the contracts whose tables a run has updated."""
    failed = {step.table for step in steps if step.outcome != "ok"}
    updated = [step.table for step in steps if step.table not in failed]
    return new_records(lake.compatibility_verdicts().values(), updated, run_id, datetime.now(UTC))


def export_table_contract(lake: OpenLake, table: str, format: Format = "odcs") -> str:
    """The table's contract as a document in the format `odcs`, `avro` or `json-schema`."""
    from lakesmith.exchange import export_contract

    return export_contract(lake.tables[lake.table_name(table)], format, lake=lake.name)


def import_document(
    file: str | Path, *, layer: str | None = None, name: str | None = None, part: str | None = None
) -> ImportResult:
    """Translate a contract document or a Great Expectations suite into a declaration. Writes nothing; needs no lake."""
    from lakesmith.exchange import ImportRequest, import_contract, read_document

    return import_contract(read_document(file), ImportRequest(file=str(file), layer=layer, name=name, part=part))


def publish_contracts(lake: OpenLake, tables: Sequence[str] = ()) -> Publication:
    """Register the tables' schemas, or compare them where the registry is the truth.

    Without `tables`, all tables that name a registry.
    """
    from lakesmith.lake.registries import publish_all

    chosen = [lake.tables[lake.table_name(table)] for table in tables] or list(lake.tables.values())
    return publish_all(lake, chosen, named=bool(tables))
