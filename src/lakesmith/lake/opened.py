"""A lake that was opened: its declarations, and what the tables' own logs tell of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lakesmith import plan as plan_room
from lakesmith.cache import keep, read_kept
from lakesmith.contracts import (
    Published,
    Verdict,
    judge_all,
)
from lakesmith.declare import Files, LakeDeclaration, Table, TableName
from lakesmith.errors import (
    UsageError,
    did_you_mean,
)
from lakesmith.formats import Delta, FactsMemory
from lakesmith.jvm.java import cache_folder
from lakesmith.jvm.needed import drivers_of, jars_of
from lakesmith.ledger.batches import flow
from lakesmith.ledger.contracts import RecordedContracts
from lakesmith.ledger.skipped import ReportedEntries
from lakesmith.ledger.tables import Ledger
from lakesmith.load import load_lake
from lakesmith.plan.graph import Graph
from lakesmith.ports import Storage, TableFacts
from lakesmith.sqlproof.readings import readings
from lakesmith.storage import Warehouse, landing_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Opened:
    """A lake in one environment."""

    def __init__(self, declaration: LakeDeclaration) -> None:
        self.declaration = declaration
        self.name = declaration.name
        self.environment = declaration.environment.name
        adopted = {name: table.adopted for name, table in declaration.tables.items() if table.adopted is not None}
        self._warehouse = Warehouse(declaration.environment.warehouse, adopted, declaration.environment.umask)
        kept = cache_folder() / "lakes" / hashlib.sha256(self._warehouse.root.encode()).hexdigest()[:16]
        self._readings_file = kept.with_suffix(f".{_plan_age()}.json")
        self._memory = FactsMemory(kept.with_suffix(".facts.json"))
        self._format = Delta(self._memory)
        self._ledger = Ledger(self._warehouse)
        self._reported = ReportedEntries(self._ledger, kept.with_suffix(".skipped.json"))
        self._recorded = RecordedContracts(self._ledger, kept.with_suffix(".contracts.json"))

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        environment: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Self:
        """Read the declarations below `path`. Starts nothing and writes nothing."""
        return cls(load_lake(path, environment=environment, variables=variables or {}))

    @property
    def tables(self) -> Mapping[TableName, Table]:
        return self.declaration.tables

    @cached_property
    def _landings(self) -> Mapping[TableName, tuple[Storage, str]]:
        """For tables from files, the store that they arrive in and the glob that finds them there."""
        here = self.declaration.environment
        return {
            name: landing_of(table.origin.files, here.landing, here.storage, table.origin.symlinks)
            for name, table in self.tables.items()
            if isinstance(table.origin, Files)
        }

    @cached_property
    def graph(self) -> Graph:
        """Which table is made from which; raises when the declarations do not fit together."""
        readings.fill(read_kept(self._readings_file))
        return Graph.of(self.tables, self.declaration.unrun)

    def _keep_readings(self) -> None:
        if readings.grown:
            keep(self._readings_file, readings.kept())
            readings.grown = False

    def _table_facts(self, name: TableName) -> TableFacts | None:
        return self._format.facts(self._warehouse.table(name), flow(name))

    def _name(self, text: str) -> TableName:
        name = TableName.parse(text)
        if name not in self.tables:
            raise UsageError(
                "unknown-table",
                f"there is no table {text!r}",
                hint=did_you_mean(text, map(str, self.tables), label="tables"),
            )
        assert name
        return name

    def _quarantined(self, name: TableName) -> int:
        facts = self._format.facts(self._warehouse.quarantine(name), flow(name))
        return facts.rows if facts else 0

    def _compatibility_verdicts(self) -> dict[TableName, Verdict]:
        return judge_all(self.tables, self._published())

    def _published(self) -> Mapping[str, Sequence[Published]]:
        """The recorded versions of contracts, by table."""
        facts = self._format.facts(self._warehouse.system("contracts"), "")
        self._memory.save()
        return self._recorded.read(facts)

    def _start_session(self) -> SparkSession:
        from lakesmith.jvm.session import open_session

        here = self.declaration.environment
        return open_session(
            self.name,
            here.spark,
            jars_of(self.declaration),
            drivers_of(self.declaration),
            private=here.secret_variables,
            umask=here.umask,
        )


def _plan_age() -> str:
    """Changes with the code that reads queries: what another version read does not count."""
    files = sorted(Path(str(plan_room.__file__)).parent.glob("*.py"))
    return hashlib.sha256(repr([(file.name, file.stat().st_mtime_ns) for file in files]).encode()).hexdigest()[:8]
