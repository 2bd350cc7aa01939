"""Reads the source of a batch into rows with audit columns, and marks records that cannot be parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.declare import Environment, Files, Jdbc, Kafka, OtherTable, Table
from lakesmith.ledger.batch import Batch
from lakesmith.ports import Store, TableFacts, TableFolder
from lakesmith.sources import connection
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestContext:
    """What every reader needs: the Spark session, the stores and the environment."""

    spark: SparkSession
    landing: Store
    warehouse: Warehouse
    environment: Environment


def read_batch(
    context: IngestContext,
    table: Table,
    batch: Batch,
    facts: TableFacts | None,
    *,
    survey: bool,
    whole: bool = False,
    into: TableFolder | None = None,
) -> DataFrame:
    """Return the rows of a batch: payload, audit columns, and hidden columns about records that cannot be parsed.

    With `survey`, all input is scanned for new columns before any row is read. With `whole`, no file is read in parts.
    With `into`, readers may write good rows to this folder of the table; then the rows have the column WRITTEN_FILE.
    """
    # Imported on use, because most lakes use few kinds of sources.
    match table.origin:
        case Files() as source:
            from lakesmith.spark.ingest.files import read_files

            return read_files(context, table, source, batch, facts, survey=survey, whole=whole, into=into)
        case Kafka() as source:
            from lakesmith.spark.ingest.kafka import read_topic

            return read_topic(context, table, source, batch, facts, survey=survey)
        case Jdbc() as source:
            from lakesmith.spark.ingest.jdbc import read_database

            return read_database(context, table, source, batch, facts)
        case OtherTable() as source:
            from lakesmith.spark.ingest.other_tables import read_table

            return read_table(context, table, source, batch, facts)
        case _:
            raise AssertionError(f"{table.name} has no source")


def check_source(environment: Environment, table: Table, batch: Batch, facts: TableFacts | None) -> tuple[str, ...]:
    """Return schema changes of the source that do not fit the table, before any record is read.

    Raise when the contract or the source forbids them. Only sources with a schema registry report changes.
    """
    match table.origin:
        case Kafka() as source:
            from lakesmith.spark.ingest.kafka import check_schemas

            assert batch.slice is not None
            return check_schemas(table, source, connection(table, environment), batch.slice, facts)
        case _:
            return ()


def pin_slice(context: IngestContext, table: Table, batch: Batch) -> Batch:
    """Return the batch with the end of its slice, where only the source knows how far it goes."""
    match table.origin:
        case Jdbc() as source:
            from lakesmith.spark.ingest.jdbc import pin_watermark

            return pin_watermark(context, table, source, batch)
        case _:
            return batch
