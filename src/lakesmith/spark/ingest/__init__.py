"""What a batch stands for becomes rows: as they arrived, with where they came from, unreadable ones marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.declare import Environment, Files, Jdbc, Kafka, OtherTable, Table
from lakesmith.ledger.batch import Batch
from lakesmith.ports import Storage, TableFacts
from lakesmith.sources import connection
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Inlet:
    """What rows are taken in through."""

    spark: SparkSession
    landing: Storage
    warehouse: Warehouse
    environment: Environment


def read_batch(
    inlet: Inlet, table: Table, batch: Batch, facts: TableFacts | None, *, survey: bool, into: str | None = None
) -> DataFrame:
    """The rows of a batch: the payload, the audit columns, and hidden ones that tell what could not be read.

    `survey` looks through all of it for columns that are new before any row is read. Good rows may be written to the
    table's folder `into` as they are read: whether they were, the column that tells of the files shows.
    """
    # One module for each kind of source: most lakes use few of them.
    match table.origin:
        case Files() as source:
            from lakesmith.spark.ingest.files import read_files

            return read_files(inlet, table, source, batch, facts, survey=survey, into=into)
        case Kafka() as source:
            from lakesmith.spark.ingest.kafka import read_topic

            return read_topic(inlet, table, source, batch, facts, survey=survey)
        case Jdbc() as source:
            from lakesmith.spark.ingest.jdbc import read_database

            return read_database(inlet, table, source, batch, facts)
        case OtherTable() as source:
            from lakesmith.spark.ingest.tables import read_table

            return read_table(inlet, table, source, batch, facts)
        case _:
            raise AssertionError(f"{table.name} has no source")


def check_source(environment: Environment, table: Table, batch: Batch, facts: TableFacts | None) -> tuple[str, ...]:
    """What is new in the source's schemas that the table cannot hold as it is; an error where that is not allowed.

    Told before a record is read, where the source has schemas by itself.
    """
    match table.origin:
        case Kafka() as source:
            from lakesmith.spark.ingest.kafka import check_schemas

            assert batch.slice is not None
            return check_schemas(table, source, connection(table, environment), batch.slice, facts)
        case _:
            return ()


def pin_slice(inlet: Inlet, table: Table, batch: Batch) -> Batch:
    """The batch with its stretch of the source settled, where only the source itself can tell how far it goes."""
    match table.origin:
        case Jdbc() as source:
            from lakesmith.spark.ingest.jdbc import pin_rows

            return pin_rows(inlet, table, source, batch)
        case _:
            return batch
