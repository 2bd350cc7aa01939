"""A lake with its declarations, its warehouse and what reads the tables' logs: the value that every topic works on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lakesmith import sqlproof
from lakesmith.cache import read_cache, write_cache
from lakesmith.contracts import ContractComparison, PublishedContract, compare_all
from lakesmith.declare import Files, LakeDeclaration, Table, TableName
from lakesmith.errors import UsageError, did_you_mean
from lakesmith.formats import Delta, FactsCache
from lakesmith.jvm.java import cache_folder
from lakesmith.jvm.lake_jars import drivers_of, jars_of, settings_of
from lakesmith.ledger.batches import flow
from lakesmith.ledger.contracts import RecordedContracts
from lakesmith.ledger.skipped import ReportedEntries
from lakesmith.ledger.tables import Ledger
from lakesmith.plan.graph import Graph
from lakesmith.ports import Store, TableFacts
from lakesmith.reports import Event
from lakesmith.sqlproof.analysis_cache import analysis_cache
from lakesmith.store import Warehouse, landing_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnEvent = Callable[[Event], None]
"""Receives what a run does while it runs."""


@dataclass(frozen=True, kw_only=True)
class OpenLake:
    """A lake in one environment."""

    declaration: LakeDeclaration
    warehouse: Warehouse
    format: Delta
    facts_cache: FactsCache
    ledger: Ledger
    reported_entries: ReportedEntries
    contract_versions: RecordedContracts
    queries_file: Path
    """Caches what the planner has read from queries."""

    @classmethod
    def of(cls, declaration: LakeDeclaration) -> OpenLake:
        """Open a lake. Starts nothing and writes nothing."""
        adopted = {name: table.adopted for name, table in declaration.tables.items() if table.adopted is not None}
        environment = declaration.environment
        warehouse = Warehouse(environment.warehouse, adopted, environment.umask, environment.storage)
        cached = cache_folder() / "lakes" / hashlib.sha256(warehouse.store.url.encode()).hexdigest()[:16]
        facts_cache, ledger = FactsCache(cached.with_suffix(".facts.json")), Ledger(warehouse)
        return cls(
            declaration=declaration,
            warehouse=warehouse,
            format=Delta(facts_cache),
            facts_cache=facts_cache,
            ledger=ledger,
            reported_entries=ReportedEntries(ledger, cached.with_suffix(".skipped.json")),
            contract_versions=RecordedContracts(ledger, cached.with_suffix(".contracts.json")),
            queries_file=cached.with_suffix(f".{_code_version()}.json"),
        )

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def environment(self) -> str:
        return self.declaration.environment.name

    @property
    def tables(self) -> Mapping[TableName, Table]:
        return self.declaration.tables

    @cached_property
    def landings(self) -> Mapping[TableName, tuple[Store, str]]:
        """For each table from files, the store that the files arrive in and the glob that finds them."""
        environment = self.declaration.environment
        return {
            name: landing_store(table.origin.files, environment.landing, environment.storage, table.origin.symlinks)
            for name, table in self.tables.items()
            if isinstance(table.origin, Files)
        }

    @cached_property
    def graph(self) -> Graph:
        """The dependency graph of the tables. Raises when declarations contradict each other."""
        analysis_cache.load(read_cache(self.queries_file))
        return Graph.of(self.tables, self.declaration.unrun)

    def save_queries(self) -> None:
        """Write newly parsed queries to the cache."""
        if analysis_cache.changed:
            write_cache(self.queries_file, analysis_cache.used())
            analysis_cache.changed = False

    def table_name(self, text: str) -> TableName:
        """The declared table of that name. Raises when there is none."""
        name = TableName.parse(text)
        if name not in self.tables:
            raise UsageError(
                "unknown-table",
                f"there is no table {text!r}",
                hint=did_you_mean(text, map(str, self.tables), label="tables"),
            )
        assert name
        return name

    def table_facts(self, name: TableName) -> TableFacts | None:
        """What a table's log says of its newest version; None for a table that is not built."""
        return self.format.facts(self.warehouse.table(name), flow(name))

    def quarantined_rows(self, name: TableName) -> int:
        """How many rows a table has in quarantine."""
        facts = self.format.facts(self.warehouse.quarantine(name), flow(name))
        return facts.rows if facts else 0

    def recorded_contracts(self) -> Mapping[str, Sequence[PublishedContract]]:
        """The recorded versions of contracts, by table."""
        facts = self.format.facts(self.warehouse.system("contracts"), "")
        self.facts_cache.save()
        return self.contract_versions.read(facts)

    def compatibility_verdicts(self) -> dict[TableName, ContractComparison]:
        """How each declared contract compares with its recorded versions."""
        return compare_all(self.tables, self.recorded_contracts())

    def start_session(self) -> SparkSession:
        """Start Spark with the lake's settings, jars and drivers."""
        from lakesmith.jvm.session import open_session

        environment = self.declaration.environment
        return open_session(
            self.name,
            settings_of(self.declaration, self.warehouse.store),
            jars_of(self.declaration),
            drivers_of(self.declaration),
            private=environment.secret_variables,
            umask=environment.umask,
        )


def today() -> date:
    """The day in UTC."""
    return datetime.now(UTC).date()


def ignore(_: object) -> None:
    """The callback of a caller that wants no events."""


def not_built(name: str, hint: str) -> UsageError:
    """The error for a table that is declared and has no version yet."""
    return UsageError("not-built", f"{name} is declared, but no run has built it yet", table=name, hint=hint)


def _code_version() -> str:
    """Changes with the code that reads queries: what another version of it cached does not count."""
    files = sorted(Path(str(sqlproof.__file__)).parent.glob("*.py"))
    return hashlib.sha256(repr([(file.name, file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()[:8]
