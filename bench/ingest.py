"""JSON and CSV into bronze, against the bare read and write of Spark on the same files, in the same session.

Lakesmith also adds audit columns, detects drift and quarantines bad rows; the bare write does not.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import busy, show, spread
from bench.processes import cpu_below
from lakesmith.jvm.session import open_session
from lakesmith.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "order_id": "bigint",
    "customer": "bigint",
    "email": "string",
    "amount": "double",
    "currency": "string",
    "country": "string",
    "status": "string",
    "updated_at": "string",
    "quantity": "bigint",
    "note": "string",
}
LIMIT = 0.8


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.ingest", description=__doc__)
    parser.add_argument("--rows", type=int, default=800_000, help="rows of each format, in 8 files")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that are measured, after one that is not")
    options = parser.parse_args(words)
    load = busy()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sizes = make_files(folder / "landing", options.rows)
        spark = open_session("bench", {})
        try:
            for format in ("json", "csv"):
                rows.append(_measured(spark, folder, format, sizes[format], options.rounds))
        finally:
            spark.stop()
    header = ("format", "MB", "bare: wall s", "CPU s", "Lakesmith: wall s", "CPU s", "throughput, wall", "by CPU")
    show(f"Into bronze, median of {options.rounds} ({load}); at least {LIMIT} is wanted", header, rows)


def make_files(landing: Path, rows: int) -> dict[str, int]:
    """Write orders as JSON lines and as CSV; return the bytes of each."""
    chance = random.Random(1)
    each = rows // 8
    for format in ("json", "csv"):
        (landing / format).mkdir(parents=True)
    for file in range(8):
        with (
            (landing / "json" / f"{file}.json").open("w") as as_json,
            (landing / "csv" / f"{file}.csv").open("w") as as_csv,
        ):
            as_csv.write(",".join(COLUMNS) + "\n")
            for number in range(file * each, (file + 1) * each):
                order = _order(number, chance)
                as_json.write(json.dumps(order) + "\n")
                as_csv.write(",".join(map(str, order.values())) + "\n")
    return {format: sum(f.stat().st_size for f in (landing / format).iterdir()) for format in ("json", "csv")}


def _order(number: int, chance: random.Random) -> dict[str, object]:
    return {
        "order_id": number,
        "customer": chance.randrange(50_000),
        "email": f"user{chance.randrange(50_000)}@example.com",
        "amount": round(chance.random() * 1000, 2),
        "currency": chance.choice(("EUR", "USD", "GBP")),
        "country": chance.choice(("DE", "FR", "US", "NO")),
        "status": chance.choice(("new", "paid", "sent", "returned")),
        "updated_at": f"2026-01-{1 + number % 28:02}T{number % 24:02}:00:00Z",
        "quantity": chance.randrange(10),
        "note": "some words about it " * chance.randrange(4),
    }


def _measured(spark: SparkSession, folder: Path, format: str, size: int, rounds: int) -> list[str]:
    # In turns, because the speed of the machine changes.
    turns = [
        [_cost(partial(work, spark, folder, format), folder) for work in (_bare, _lakesmith)] for _ in range(rounds + 1)
    ]
    bare, ours = ([turn[which] for turn in turns[1:]] for which in (0, 1))
    by_wall = sorted(wall for wall, _ in bare)[rounds // 2] / sorted(wall for wall, _ in ours)[rounds // 2]
    by_cpu = sorted(cpu for _, cpu in bare)[rounds // 2] / sorted(cpu for _, cpu in ours)[rounds // 2]
    return [
        format,
        f"{size / 1e6:.0f}",
        *(spread([cost[part] for cost in costs]) for costs in (bare, ours) for part in (0, 1)),
        f"{by_wall:.2f}",
        f"{by_cpu:.2f}",
    ]


def _cost(work: Callable[[], None], folder: Path) -> tuple[float, float]:
    for made in ("bare", "lake"):
        shutil.rmtree(folder / made, ignore_errors=True)
    wall, cpu = time.monotonic(), cpu_below()
    work()
    return time.monotonic() - wall, cpu_below() - cpu


def _bare(spark: SparkSession, folder: Path, format: str) -> None:
    schema = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    reader = spark.read.schema(schema).option("header", format == "csv")
    reader.format(format).load(str(folder / "landing" / format)).write.format("delta").save(str(folder / "bare"))


def _lakesmith(spark: SparkSession, folder: Path, format: str) -> None:
    lake = folder / "lake"
    (lake / "bronze").mkdir(parents=True)
    (lake / "lakesmith.yml").write_text(
        f"name: bench\nenvironments: {{dev: {{landing: {json.dumps(str(folder / 'landing'))}}}}}\n"
    )
    columns = "".join(f"  {name}: {type}\n" for name, type in COLUMNS.items())
    (lake / "bronze" / "orders.yml").write_text(f"source: {{files: {format}/*.{format}}}\ncolumns:\n{columns}")
    report = Lake.open(lake).run(session=spark)
    assert report.outcome == "ok", report.errors


if __name__ == "__main__":
    main()
