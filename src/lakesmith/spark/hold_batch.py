"""Stores a batch that failed its gate, so that a person can query and approve it before the next batch commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.declare import Table
from lakesmith.failpoints import failpoint
from lakesmith.ledger.held import HeldBatch, HeldBatches
from lakesmith.ledger.staged import remove_files
from lakesmith.spark.gate import GateFailed, sample_rows
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.row_checks import is_file_end
from lakesmith.sql import quoted
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def hold_batch(warehouse: Warehouse, incoming: IncomingBatch, rows: DataFrame, failed: GateFailed) -> GateFailed:
    """Store the checked rows and a description of the held batch. Return the error to raise, with sample rows."""
    folder = warehouse.held(incoming.table.name)
    remove_files(folder)
    rows.where(f"NOT {is_file_end(rows.columns)}").selectExpr(
        *map(quoted, incoming.payload),
        f"{incoming.rules.names()} AS _rules",
        f"({incoming.rules.quarantined()}) AS _rejected",
    ).write.mode("overwrite").parquet(folder.below("rows").engine_url("spark"))
    folder.confirm({found.key: found.size for found in folder.list()})
    failed.samples = sample_rows(rows, incoming, failed.failures)
    if failed.samples:
        failed.what += "".join(f"\n    {sample}" for sample in failed.samples)
    batch = incoming.batch
    HeldBatches(warehouse.store).save(
        HeldBatch(
            table=str(incoming.table.name),
            run_id=batch.run_id,
            sequence=batch.sequence,
            attempt=batch.attempt,
            held_at=batch.pinned_at,
            rows=failed.counts.rows_in,
            rejected=failed.counts.rejected,
            broken=dict(failed.counts.broken),
            failures=tuple(failure.what for failure in failed.failures),
            samples=failed.samples,
        )
    )
    failpoint("batch.held", incoming.table.name)
    return failed


def discard_held_batch(warehouse: Warehouse, table: Table) -> None:
    """Remove the held batch of a table: a newer batch was committed."""
    folder = warehouse.held(table.name)
    if any(folder.list()):
        HeldBatches(warehouse.store).remove(str(table.name))
        remove_files(folder)
