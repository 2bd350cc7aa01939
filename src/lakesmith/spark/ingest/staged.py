"""What a batch reads is kept below the warehouse until the batch is done, where its source would not give it twice."""

from __future__ import annotations

import shutil
from pathlib import Path

from lakesmith.declare import Table, TableName
from lakesmith.ledger.batch import Batch
from lakesmith.spark.ingest import Inlet
from lakesmith.storage import Warehouse


def staged_key(table: TableName, batch: Batch) -> str:
    """Where the rows of one attempt are kept, below the warehouse."""
    return f"{_folder(table)}/{batch.sequence:08}.{batch.attempt:02}"


def staged_folder(warehouse: Warehouse, table: TableName, batch: Batch) -> str:
    return f"{warehouse.root}/{staged_key(table, batch)}"


def is_staged(warehouse: Warehouse, table: TableName, batch: Batch) -> bool:
    """Whether all rows are there: Spark makes the mark when the last file is in its place."""
    return warehouse.storage.read(f"{staged_key(table, batch)}/_SUCCESS") is not None


def take_over(warehouse: Warehouse, table: TableName, held: Batch, batch: Batch) -> None:
    """Give the rows that were kept for one attempt to another: the source might give others by now."""
    if is_staged(warehouse, table, held):
        Path(staged_folder(warehouse, table, held)).rename(staged_folder(warehouse, table, batch))


def forget(inlet: Inlet, table: Table, batch: Batch) -> None:
    """Remove what was kept for a batch that is done, for its other attempts and for those before it."""
    folder = _folder(table.name)
    for name in inlet.warehouse.storage.keys(folder):
        if int(name.partition(".")[0]) <= batch.sequence:
            shutil.rmtree(Path(inlet.warehouse.root, folder, name), ignore_errors=True)


def _folder(table: TableName) -> str:
    return f"_lakesmith/staged/{table}"
