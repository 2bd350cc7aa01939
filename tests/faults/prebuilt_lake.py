"""A lake whose bronze table is filled without Spark, with batches as a run pins, commits and completes them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from tests.ledger.completed import done

from lakesmith.declare import TableName
from lakesmith.lake import Lake
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches, flow
from lakesmith.ledger.content import NewFiles
from lakesmith.plan.fingerprint import definition
from lakesmith.ports import FileFact
from lakesmith.store import LocalStore

BRONZE = TableName("bronze", "orders")
DECLARED = {
    "lakesmith.yml": "name: shop\n",
    "bronze/orders.yml": "source: {files: landing/*.json}\n",
    "silver/orders.sql": "/* lakesmith\nload: append\n*/\nSELECT id FROM bronze.orders\n",
}


@dataclass
class PrebuiltLake:
    """The lake and the places of its files."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        return self.folder / ".lakesmith/warehouse"

    @property
    def table(self) -> Path:
        return self.warehouse / "bronze/orders"

    @property
    def batches(self) -> Batches:
        return Batches(LocalStore(self.warehouse), BRONZE)

    def commit(self, version: int) -> Path:
        return self.table / "_delta_log" / f"{version:020}.json"

    def batch(self, name: str) -> Path:
        return self.warehouse / "_lakesmith/batches/bronze.orders" / f"{name}.json"

    def data(self, version: int) -> Path:
        lines = map(json.loads, self.commit(version).read_text().splitlines())
        return self.table / str(next(line["add"]["path"] for line in lines if "add" in line))

    def lake(self) -> Lake:
        return Lake.open(self.folder)

    def land(self, number: int) -> FileFact:
        path = self.folder / f"landing/{number}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"id": number}) + "\n")
        return FileFact(f"landing/{number}.json", path.stat().st_size, path.stat().st_mtime_ns // 1_000_000)

    def ingest(self, number: int, *, finish: bool = True) -> Batch:
        """Land a file, and commit its row as batch `number`."""
        batch = self.batches.pin(
            Batch(
                sequence=number,
                attempt=0,
                parent=number - 1,
                run_id="run",
                pinned_at=1,
                definition=definition(self.lake().tables[BRONZE]),
                content=NewFiles(files=(self.land(number),)),
            )
        )
        write_deltalake(
            str(self.table),
            pa.table({"id": pa.array([number], pa.int64())}),
            mode="append",
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": batch.note},
                app_transactions=[Transaction(flow(BRONZE), number)],
            ),
        )
        if finish:
            self.finish(batch, DeltaTable(str(self.table)).version())
        return batch

    def finish(self, batch: Batch, version: int) -> None:
        self.batches.finish(replace(done(batch, version), rows_in=1, rows_written=1))

    def ids(self) -> list[object]:
        return [id for (id,) in self.lake().query("SELECT id FROM bronze.orders ORDER BY id").rows]


def build_lake(folder: Path, batches: int = 4) -> PrebuiltLake:
    """Create a lake with this number of batches in its bronze table, one row each."""
    for name, text in DECLARED.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made = PrebuiltLake(folder)
    for number in range(1, batches + 1):
        made.ingest(number)
    return made
