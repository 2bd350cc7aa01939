"""Stores the extract of a batch in the warehouse until the batch is done, for sources that cannot be read again."""

from __future__ import annotations

import shutil
from pathlib import Path

from lakesmith.declare import Table, TableName
from lakesmith.ledger.batch import Batch
from lakesmith.spark.ingest import IngestContext
from lakesmith.storage import Warehouse


def staged_key(table: TableName, batch: Batch) -> str:
    """Return the storage key of the extract of one attempt."""
    return f"{_folder(table)}/{batch.sequence:08}.{batch.attempt:02}"


def staged_folder(warehouse: Warehouse, table: TableName, batch: Batch) -> str:
    return f"{warehouse.root}/{staged_key(table, batch)}"


def is_staged(warehouse: Warehouse, table: TableName, batch: Batch) -> bool:
    """Whether the extract is complete: Spark writes `_SUCCESS` after the last file."""
    return warehouse.storage.read(f"{staged_key(table, batch)}/_SUCCESS") is not None


def hand_over_staged(warehouse: Warehouse, table: TableName, held: Batch, batch: Batch) -> None:
    """Move the extract of one attempt to the next, because the source might return other rows by now."""
    if is_staged(warehouse, table, held):
        Path(staged_folder(warehouse, table, held)).rename(staged_folder(warehouse, table, batch))


def remove_staged_extracts(context: IngestContext, table: Table, batch: Batch) -> None:
    """Remove the extracts of a completed batch and of earlier batches, for all attempts."""
    folder = _folder(table.name)
    for name in context.warehouse.storage.keys(folder):
        if int(name.partition(".")[0]) <= batch.sequence:
            shutil.rmtree(Path(context.warehouse.root, folder, name), ignore_errors=True)


def _folder(table: TableName) -> str:
    return f"_lakesmith/staged/{table}"
