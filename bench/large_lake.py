"""A lake of two hundred tables that are up to date: declarations, landing files, logs, batches and ledger.

delta-rs writes its tables, so building it takes seconds and no Spark. A plan finds everything unchanged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakesmith.declare import Files, ReplacePartitions, Table
from lakesmith.lake import Lake
from lakesmith.ledger.batch import Batch, CompletedBatch
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.content import BatchContent, ChangedRows, FullBuild, NewFiles
from lakesmith.ledger.tables import Ledger
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.steps import Position
from lakesmith.ports import FileFact, Store
from lakesmith.records import CheckRecord, RunRecord, StepRecord
from lakesmith.store import Warehouse, open_store

BRONZE, SILVER, GOLD, PYTHON = 60, 60, 60, 20
COMMITS = 3
"""The commits in each table's log."""
RUNS = 50
ROWS = 5
START = datetime(2026, 11, 1, tzinfo=UTC)

_BRONZE = """description: Orders of shop {number}, as they arrive.
source: {{files: landing/shop_{number:03}/*.json}}
contract: additive
freshness: 1d
columns:
  order_id: bigint
  amount: double
"""
_SILVER = """/* lakesmith
description: Each order of shop {number} once.
load: {{merge: {{key: order_id, order_by: updated_at}}}}
columns:
  order_id:   {{type: bigint, required: true}}
  email:      {{type: string, tags: [pii]}}
  amount:     {{type: "decimal(12,2)", check: "amount >= 0"}}
  day:        {{type: date, required: true}}
checks:
  known_currency: {{where: "currency IN ('EUR', 'USD')", on_fail: quarantine}}
  enough_rows:    {{expect: "count(*) > 0", on_fail: fail}}
*/
SELECT
  order_id,
  lower(email) AS email,
  amount,
  upper(currency) AS currency,
  CASE WHEN amount > 100 THEN 'large' ELSE 'small' END AS size,
  to_date(ordered_at) AS day,
  to_timestamp(updated_at) AS updated_at
FROM bronze.shop_{number:03}
WHERE order_id IS NOT NULL
"""
_DAILY = """/* lakesmith
description: What shop {number} sold each day.
load: {{replace_partitions: day}}
columns:
  day: {{type: date, required: true}}
checks:
  no_empty_day: {{where: "orders > 0", on_fail: fail}}
*/
SELECT day, currency, count(*) AS orders, sum(amount) AS sales
FROM silver.orders_{number:03}
GROUP BY day, currency
"""
_JOINED = """/* lakesmith
description: Orders of shop {number} beside those of shop {other}.
load: replace
*/
WITH here AS (SELECT day, sum(amount) AS sales FROM silver.orders_{number:03} GROUP BY day),
     there AS (SELECT day, sum(amount) AS sales FROM silver.orders_{other:03} GROUP BY day)
SELECT here.day, here.sales AS sales, there.sales AS other_sales, here.sales - there.sales AS ahead
FROM here LEFT JOIN there ON here.day = there.day
"""
_PYTHON = '''"""Customers of shop {number} by what they spent."""

from pyspark.sql import functions as F

import lakesmith as lake


@lake.gold(load=lake.replace(), checks=[lake.check("named", where="email IS NOT NULL", on_fail="warn")])
def spenders_{number:03}(orders=lake.ref("silver.orders_{number:03}"), days=lake.ref("gold.daily_{number:03}")):
    """Best first."""
    recent = days.agg(F.max("day").alias("newest"))
    return orders.crossJoin(recent).groupBy("email").agg(F.sum("amount").alias("spent"))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    table_id: str
    version: int


def build(folder: Path, batches: int = COMMITS) -> None:
    """Create the lake in an empty or missing folder; each bronze table has ingested `batches` batches of one file."""
    assert batches >= COMMITS
    _declare(folder, batches)
    lake = Lake.open(folder)
    assert len(lake.tables) == BRONZE + SILVER + GOLD + PYTHON
    warehouse = Warehouse(lake.declaration.environment.warehouse)
    landing = open_store(lake.declaration.environment.landing)
    built: dict[str, list[_Built]] = {}
    for name in lake.graph.order:
        upstream = [str(each) for each in lake.graph.upstream(name)]
        built[str(name)] = _build_table(lake.tables[name], upstream, built, warehouse, landing)
    _record_runs(warehouse, [str(name) for name in lake.graph.order])


def _declare(folder: Path, batches: int) -> None:
    texts = {"lakesmith.yml": "name: large\nenvironments: {dev: {warehouse: .lakesmith/warehouse}}\n"}
    for number in range(BRONZE):
        texts[f"bronze/shop_{number:03}.yml"] = _BRONZE.format(number=number)
        texts[f"silver/orders_{number:03}.sql"] = _SILVER.format(number=number)
        gold = "daily" if number % 3 else "joined"
        text = _DAILY if number % 3 else _JOINED
        texts[f"gold/{gold}_{number:03}.sql"] = text.format(number=number, other=(number + 1) % BRONZE)
    with_days = [number for number in range(BRONZE) if number % 3]
    for number in with_days[:PYTHON]:
        texts[f"gold/spenders_{number:03}.py"] = _PYTHON.format(number=number)
    for number in range(BRONZE):
        for batch in range(batches):
            orders = [json.dumps({"order_id": batch * ROWS + row, "amount": 9.5}) for row in range(ROWS)]
            texts[f"landing/shop_{number:03}/{batch:04}.json"] = "\n".join(orders) + "\n"
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _build_table(
    table: Table, upstream: list[str], built: dict[str, list[_Built]], warehouse: Warehouse, landing: Store
) -> list[_Built]:
    """Commit the table's batches one after the other: pin, commit, and mark as done."""
    location = warehouse.table(table.name)
    batches = Batches(warehouse.store, table.name)
    files = tuple(landing.list(table.origin.files)) if isinstance(table.origin, Files) else ()
    total = len(files) or COMMITS
    made: list[_Built] = []
    for number in range(total):
        version = max(number - (total - COMMITS), 0)
        pinned = batches.pin(_batch(table, number, upstream, built, files[number : number + 1]))
        if number >= total - COMMITS:
            write_deltalake(
                location,
                _rows(table, number),
                mode="append",
                partition_by=[table.load.by] if isinstance(table.load, ReplacePartitions) else None,
                configuration={"delta.enableChangeDataFeed": "true"} if version == 0 else None,
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(f"lakesmith.{table.name}", pinned.sequence)],
                    custom_metadata={"userMetadata": pinned.note},
                ),
            )
            made.append(_Built(table_id=str(DeltaTable(location).metadata().id), version=version))
        batches.finish(
            CompletedBatch(
                sequence=pinned.sequence,
                attempt=pinned.attempt,
                version=version,
                run_id=pinned.run_id,
                rows_in=ROWS,
                rows_written=ROWS,
                rows_quarantined=0,
                rows_deduplicated=0,
            )
        )
    return made


def _batch(
    table: Table, number: int, upstream: list[str], built: dict[str, list[_Built]], files: tuple[FileFact, ...]
) -> Batch:
    build: BatchContent = FullBuild() if number == 0 else ChangedRows(since=dict.fromkeys(upstream, number - 1))
    return Batch(
        sequence=number + 1,
        attempt=0,
        parent=number,
        run_id=_run_id(number),
        pinned_at=int((START + timedelta(days=number)).timestamp() * 1000),
        definition=definition(table),
        content=NewFiles(files=files) if files else build,
        inputs={each: Position(table_id=built[each][number].table_id, version=number) for each in upstream},
    )


def _rows(table: Table, number: int) -> pa.Table:
    """Return a few rows in the columns of the table's source or query."""
    first = number * ROWS
    text, moment = pa.array(["text"] * ROWS), pa.array([START] * ROWS, pa.timestamp("us", tz="UTC"))
    numbers = pa.array(range(first, first + ROWS), pa.int64())
    day = pa.array([(START + timedelta(days=number)).date()] * ROWS, pa.date32())
    money = pa.array([9] * ROWS, pa.decimal128(22, 2))
    kinds: dict[str, dict[str, pa.Array]] = {
        "shop": {
            "order_id": numbers,
            "amount": pa.array([9.5] * ROWS, pa.float64()),
            **dict.fromkeys(("email", "currency", "ordered_at", "updated_at"), text),
            **dict.fromkeys(("_source_file", "_run_id", "_row_hash"), text),
            **dict.fromkeys(("_source_modified", "_ingested_at"), moment),
        },
        "orders": {
            "order_id": numbers,
            **dict.fromkeys(("email", "currency", "size"), text),
            "amount": money.cast(pa.decimal128(12, 2)),
            "day": day,
            "updated_at": moment,
        },
        "daily": {"day": day, "currency": text, "orders": numbers, "sales": money},
        "joined": {"day": day, "sales": money, "other_sales": money, "ahead": money},
        "spenders": {"email": text, "spent": money},
    }
    return pa.table(kinds[table.name.name.partition("_")[0]])


def _record_runs(warehouse: Warehouse, tables: list[str]) -> None:
    ledger = Ledger(warehouse)
    for number in range(RUNS):
        started, run_id = START + timedelta(days=number), _run_id(number)
        steps = [
            StepRecord(
                run_id=run_id,
                table=table,
                step="build",
                mode="changes",
                reason="changes in this run",
                outcome="ok",
                sequence=number + 1,
                rows_in=ROWS,
                rows_written=ROWS,
                version_before=number,
                version=number + 1,
                started_at=started,
                seconds=0.5,
            )
            for table in tables
        ]
        checks = [
            CheckRecord(
                run_id=run_id,
                table=table,
                sequence=number + 1,
                check="order_id.required",
                severity="quarantine",
                failed_rows=0,
                passed=True,
                checked_at=started,
            )
            for table in tables
        ]
        run = RunRecord(
            run_id=run_id,
            lake="large",
            environment="dev",
            plan_hash="0" * 16,
            outcome="ok",
            tables=len(tables),
            rows_in=ROWS * len(tables),
            rows_written=ROWS * len(tables),
            rows_quarantined=0,
            rows_deduplicated=0,
            started_at=started,
            seconds=100.0,
            lakesmith_version="0.1.0",
        )
        ledger.record(run, steps, checks)


def _run_id(number: int) -> str:
    return f"{START + timedelta(days=number):%Y%m%d-%H%M%S}-{number:06x}"
