"""A batch that a gate has refused is kept, to be looked at and perhaps approved, until the table goes on."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from lakesmith.declare import Table
from lakesmith.disk import make_folders, sync_tree
from lakesmith.failpoints import reach
from lakesmith.ledger.held import HeldBatch, HeldBatches
from lakesmith.spark.checked import closes_file
from lakesmith.spark.gate import GateFailed, samples
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.sql import quoted
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def hold(warehouse: Warehouse, arrival: IncomingBatch, rows: DataFrame, failed: GateFailed) -> GateFailed:
    """Keep the rows, which are checked, and what is known of them; returns the error to raise, with some of them."""
    folder = warehouse.held(arrival.table.name)
    shutil.rmtree(folder, ignore_errors=True)
    make_folders(folder)
    rows.where(f"NOT {closes_file(rows.columns)}").selectExpr(
        *map(quoted, arrival.payload),
        f"{arrival.rules.names()} AS _rules",
        f"({arrival.rules.refused()}) AS _refused",
    ).write.parquet(os.path.join(folder, "rows"))
    sync_tree(folder)
    failed.samples = samples(rows, arrival, failed.failures)
    if failed.samples:
        failed.what += "".join(f"\n    {sample}" for sample in failed.samples)
    batch = arrival.batch
    HeldBatches(warehouse.storage).keep(
        HeldBatch(
            table=str(arrival.table.name),
            run_id=batch.run_id,
            sequence=batch.sequence,
            attempt=batch.attempt,
            held_at=batch.pinned_at,
            rows=failed.counts.came,
            refused=failed.counts.refused,
            broken=dict(failed.counts.broken),
            failures=tuple(failure.what for failure in failed.failures),
            samples=failed.samples,
        )
    )
    reach("batch.held", arrival.table.name)
    return failed


def let_go(warehouse: Warehouse, table: Table) -> None:
    """Forget the batch that was kept: the table has gone on."""
    folder = warehouse.held(table.name)
    if os.path.isdir(folder):
        HeldBatches(warehouse.storage).forget(str(table.name))
        shutil.rmtree(folder, ignore_errors=True)
