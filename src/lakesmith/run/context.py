"""What all steps of a run share: its id, the warehouse, the landing folders, and how to start Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesmith.declare import Environment, Table, TableName
from lakesmith.ports import Store, TableFormat
from lakesmith.quality import PastResult
from lakesmith.spark.ingest import IngestContext
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all steps of a run share."""

    run_id: str
    environment: Environment
    warehouse: Warehouse
    landings: Mapping[TableName, tuple[Store, str]]
    """By bronze table from files, the store that its files arrive in, and the glob that finds them there."""
    format: TableFormat
    session: Callable[[], SparkSession] = field(repr=False)
    """Return a session for one step alone; the first call starts Spark."""
    check_history: Callable[[TableName, Sequence[str]], Mapping[str, Sequence[PastResult]]] = field(repr=False)
    """By name of a table's checks, their results in the good batches before, newest first."""
    contracts: Mapping[TableName, str] = field(default_factory=dict)
    """By table with a contract, the version of the contract."""

    def ingest_context(self, table: Table) -> IngestContext:
        """Return what reads the source of a table."""
        landing, _ = self.landings.get(table.name, (self.warehouse.store, ""))
        return IngestContext(
            spark=self.session(), landing=landing, warehouse=self.warehouse, environment=self.environment
        )
