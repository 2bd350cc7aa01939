"""Stores the extract of a batch in the warehouse until the batch is done, for sources that cannot be read again."""

from __future__ import annotations

from lakesmith.declare import TableName
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.staged import SUCCESS_MARKER, remove_staged, staged_folders, staged_name
from lakesmith.ports import TableFolder
from lakesmith.store import Warehouse

_EXTRACT_IN = "_extract_in"
"""The file, in the folder of an attempt, with the name of the folder that has the extract."""


def staged_folder(warehouse: Warehouse, table: TableName, batch: Batch) -> TableFolder:
    """Return the folder with the extract of one attempt."""
    attempts = _attempts(warehouse, table)
    folder = attempts.below(staged_name(batch.sequence, batch.attempt))
    other = folder.read(_EXTRACT_IN)
    return folder if other is None else attempts.below(other.decode())


def is_staged(warehouse: Warehouse, table: TableName, batch: Batch) -> bool:
    """Whether the extract is complete: Spark writes `_SUCCESS` after the last file."""
    return staged_folder(warehouse, table, batch).stat(SUCCESS_MARKER) is not None


def hand_over_staged(warehouse: Warehouse, table: TableName, held: Batch, batch: Batch) -> None:
    """Give the extract of one attempt to the next, because the source might return other rows by now."""
    if is_staged(warehouse, table, held):
        name = staged_folder(warehouse, table, held).path.rpartition("/")[2]
        folder = _attempts(warehouse, table).below(staged_name(batch.sequence, batch.attempt))
        folder.replace(_EXTRACT_IN, name.encode())


def remove_staged_extracts(warehouse: Warehouse, table: TableName, batch: Batch) -> None:
    """Remove the extracts of a completed batch and of earlier batches, for all attempts."""
    remove_staged(staged_folders(_attempts(warehouse, table)), batch.sequence)


def _attempts(warehouse: Warehouse, table: TableName) -> TableFolder:
    return warehouse.folder(f"_lakesmith/staged/{table}")
