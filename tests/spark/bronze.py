"""A bronze table that tests update batch by batch, like a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesmith.columns import ALREADY_INGESTED, CORRUPT, ERROR_CODE
from lakesmith.declare import Append, Column, Environment, Source, Table, TableName
from lakesmith.declare.contract import Contract
from lakesmith.declare.secrets import Settings
from lakesmith.errors import Place
from lakesmith.formats import Delta
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.content import SourceSlice
from lakesmith.ports import TableFacts, Write
from lakesmith.sources import new_slice
from lakesmith.spark.ingest import IngestContext, pin_slice, read_batch
from lakesmith.spark.ingest.staged_extract import remove_staged_extracts
from lakesmith.spark.ingest.table_schema import wider_fields
from lakesmith.store import Warehouse, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = TableName("bronze", "orders")
HERE = Place("bronze/orders.yml")


@dataclass
class Bronze:
    """The table `bronze.orders` of a lake in a folder."""

    spark: SparkSession
    folder: Path
    connections: Mapping[str, Settings] = field(default_factory=dict)
    reached: Mapping[str, int | str] = field(default_factory=dict)
    sequence: int = 0

    @property
    def context(self) -> IngestContext:
        warehouse = str(self.folder / "lake")
        environment = Environment(
            name="dev", warehouse=warehouse, landing=str(self.folder), connections=self.connections
        )
        landing = open_store(str(self.folder))
        return IngestContext(spark=self.spark, landing=landing, warehouse=Warehouse(warehouse), environment=environment)

    @property
    def facts(self) -> TableFacts | None:
        return Delta().facts(self.context.warehouse.table(NAME), "bronze.orders")

    @property
    def staged(self) -> list[str]:
        folder = self.folder / "lake" / "_lakesmith" / "staged" / str(NAME)
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def table(self, source: Source, contract: Contract = "additive", **columns: str) -> Table:
        typed = tuple(Column(name=name, type=type, declared_at=HERE) for name, type in columns.items())
        return Table(name=NAME, origin=source, load=Append(), contract=contract, columns=typed, declared_at=HERE)

    def pin(self, table: Table) -> Batch | None:
        """Return the next batch, or None when nothing is new."""
        found = new_slice(table, self.context.environment, self.reached)
        if found is None:
            return None
        batch = Batch(
            sequence=self.sequence + 1,
            attempt=1,
            parent=self.sequence,
            run_id=f"run-{self.sequence + 1}",
            pinned_at=1_700_000_000_000,
            definition="",
            content=SourceSlice(slice=found),
        )
        pinned = pin_slice(self.context, table, batch)
        assert pinned.slice is not None
        return pinned if pinned.slice.until != pinned.slice.since else None

    def read(self, table: Table, batch: Batch) -> DataFrame:
        return read_batch(self.context, table, batch, self.facts, survey=False)

    def commit(self, rows: DataFrame, batch: Batch) -> None:
        fresh = (
            rows.where(f"NOT {ALREADY_INGESTED}").drop(ALREADY_INGESTED) if ALREADY_INGESTED in rows.columns else rows
        )
        write = Write(
            flow="bronze.orders",
            sequence=batch.sequence,
            note=batch.note,
            evolve=self.facts is not None,
            widen=bool(wider_fields(fresh, self.facts)),
        )
        Delta().append(fresh.drop(CORRUPT, ERROR_CODE), self.context.warehouse.table(NAME), write)

    def run(self, table: Table) -> tuple[int, int] | None:
        """Return the written and the deduplicated rows of a batch; None when nothing is new."""
        batch = self.pin(table)
        if batch is None:
            return None
        before = self.facts
        rows = self.read(table, batch)
        again = rows.where(ALREADY_INGESTED).count() if ALREADY_INGESTED in rows.columns else 0
        self.commit(rows, batch)
        remove_staged_extracts(self.context.warehouse, table.name, batch)
        assert batch.slice is not None
        self.sequence, self.reached = batch.sequence, batch.slice.until
        assert self.facts is not None
        return self.facts.rows - (before.rows if before else 0), again

    def rows(self, *columns: str, order: str = "id") -> list[tuple[Any, ...]]:
        stored = self.spark.read.format("delta").load(self.context.warehouse.table(NAME).url)
        return [tuple(row) for row in stored.orderBy(*order.split(", ")).selectExpr(*columns).collect()]
