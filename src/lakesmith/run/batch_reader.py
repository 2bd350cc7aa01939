"""The rows that a batch stands for, from wherever they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lakesmith.declare import Append, Environment, Files, Source, Table, TableName
from lakesmith.ledger.batch import Batch
from lakesmith.ports import Storage, TableFacts, TableFormat
from lakesmith.quality import PastResult, checks_only_readability, rules_of
from lakesmith.spark.build import build_batch
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.ingest import IngestContext, read_batch
from lakesmith.spark.ingest.table_schema import new_fields, wider_fields
from lakesmith.spark.row_checks import field_paths
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReader:
    """Where rows are read from."""

    warehouse: Warehouse
    environment: Environment
    landings: Mapping[TableName, tuple[Storage, str]]
    """By bronze table, the store that its files arrive in, and the glob that finds them there."""
    format: TableFormat
    session: Callable[[], SparkSession] = field(repr=False)
    """A session for one step alone; starts Spark when it is the first to ask."""
    past: Callable[[TableName, Sequence[str]], Mapping[str, Sequence[PastResult]]] = field(repr=False)
    """By name of a table's checks, what they found in the good batches before, newest first."""

    def ingest_context(self, table: Table | None = None) -> IngestContext:
        """What reads a table's source."""
        return IngestContext(
            spark=self.session(),
            landing=self.landings[table.name][0] if table and table.name in self.landings else self.warehouse.storage,
            warehouse=self.warehouse,
            environment=self.environment,
        )

    def into(self, table: Table) -> str | None:
        """The folder that readers may write rows to, where nothing but to read them is left to do."""
        if not (
            isinstance(table.origin, Files)
            and isinstance(table.load, Append)
            and checks_only_readability(rules_of(table))
            and table.drift.missing_column == "evolve"
        ):
            return None
        location = self.warehouse.table(table.name)
        return location if self.format.accepts_files(location) else None

    def arrival(
        self,
        table: Table,
        batch: Batch,
        facts: TableFacts | None,
        *,
        survey: bool = False,
        into: str | None = None,
    ) -> IncomingBatch | None:
        """The rows that a batch stands for; None when there are none by its nature."""
        if isinstance(table.origin, Source):
            rows = read_batch(self.ingest_context(table), table, batch, facts, survey=survey, into=into)
            known = partial(rules_of, table, fields=field_paths(rows))
            return IncomingBatch(
                table=table,
                batch=batch,
                rows=rows,
                rules=known(),
                facts=facts,
                evolve=True,
                columns_added=new_fields(rows, facts),
                columns_widened=wider_fields(rows, facts),
                past=partial(self.past, table.name),
                rules_if_missing=None if table.drift.missing_column == "evolve" else lambda gone: known(missing=gone),
            )
        built = build_batch(self.session(), table, batch, self.format, self.warehouse)
        if built is None:
            return None
        return IncomingBatch(
            table=table if built.load is None else replace(table, load=built.load),
            batch=batch,
            rows=built.rows,
            rules=rules_of(table, casts=built.casts, missing=built.missing, undeclared=built.undeclared),
            facts=facts,
            evolve=batch.is_full or table.contract != "strict",
            replace_where=built.replace_where,
            replace_quarantine=built.replace_quarantine,
            whole=built.whole,
            keys=built.keys,
            inputs=built.inputs,
            past=partial(self.past, table.name),
        )
