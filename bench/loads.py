"""What a change costs against what the table costs: merge, scd2 and replace_partitions, over a share of changed rows.

The baseline of each is the full rebuild of the same table in the same session; for scd2 also a MERGE written by hand.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import busy, show
from bench.processes import cpu_below
from lakesmith.lake import Lake
from lakesmith.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARES = (0.0001, 0.001, 0.01, 0.1)
DAYS = 100
LOADS = {
    "merge": (
        "silver",
        "{merge: {key: id, order_by: at}}",
        "SELECT id, customer, amount, note, at, day FROM bronze.orders",
    ),
    "scd2": (
        "silver",
        "{scd2: {key: id, order_by: at}}",
        "SELECT id, customer, amount, note, at, day FROM bronze.orders",
    ),
    "partitions": (
        "gold",
        "{replace_partitions: day}",
        "SELECT day, customer % 1000 AS bucket, count(*) AS n, sum(amount) AS amount FROM bronze.orders "
        "GROUP BY day, customer % 1000",
    ),
}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.loads", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the table")
    parser.add_argument("--loads", default=",".join(LOADS), help="which loads, with commas")
    options = parser.parse_args(words)
    load = busy()
    rows: list[list[str]] = []
    curves: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        spark = open_session("bench", {})
        try:
            for name in options.loads.split(","):
                found = _measured(spark, Path(temporary) / name, name, options.rows)
                rows += found
                curves[name] = [(share, float(row[5])) for share, row in zip(SHARES, found, strict=False)]
        finally:
            spark.stop()
    header = ("load", "changed", "mode", "wall s", "CPU s", "cheaper by CPU", "by wall", "note")
    show(f"{options.rows:,} rows ({load}); the rebuild is 1", header, rows)
    for name, curve in curves.items():
        print(f"\n{name}: how many times cheaper than the rebuild, by CPU")
        for share, times in curve:
            print(f"  {share:>8.2%} {'#' * max(1, round(times))} {times:.1f}")


def _measured(spark: SparkSession, folder: Path, name: str, count: int) -> list[list[str]]:
    layer, load, query = LOADS[name]
    source = folder / "orders"
    _rows(spark, 0, count).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(source))
    lake = folder / "lake"
    for place in ("bronze", layer):
        (lake / place).mkdir(parents=True)
    (lake / "lakesmith.yml").write_text("name: bench\n")
    (lake / "bronze" / "orders.yml").write_text(f"source: {{table: {json.dumps(str(source))}, adopt: true}}\n")
    (lake / layer / f"{name}.sql").write_text(f"/* lakesmith\nload: {load}\n*/\n{query}\n")
    _cost(spark, lake)
    whole = _cost(spark, lake, full_refresh=True)
    found = [[name, "all", "whole", f"{whole[0]:.1f}", f"{whole[1]:.1f}", "1.0", "1.0", "the rebuild"]]
    changed = []
    for number, share in enumerate(SHARES, start=1):
        new = _rows(spark, number, round(count * share), count, days=name != "partitions")
        new.write.format("delta").mode("append").save(str(source))
        wall, cpu = _cost(spark, lake)
        mode = Lake.open(lake).history()[0]
        step = next(s for s in Lake.open(lake).run_steps(mode.run_id) if s.table.endswith(name))
        ratio = [f"{whole[1] / cpu:.1f}", f"{whole[0] / wall:.1f}"]
        changed.append([name, f"{share:.2%}", step.mode, f"{wall:.1f}", f"{cpu:.1f}", *ratio, ""])
        if name == "scd2" and share == 0.01:
            by_hand = _by_hand(spark, lake, number, count, share)
            told = f"by hand: {by_hand[0]:.1f} s wall, {by_hand[1]:.1f} s CPU"
            changed[-1][-1] = told
    return changed + found


def _rows(spark: SparkSession, version: int, count: int, among: int = 0, *, days: bool = True) -> object:
    """Orders; later versions change `count` of them, spread over all keys, or over one day's partition."""
    step = max(1, among // count) if among else 1
    day = f"CAST((id * {step}) % {DAYS} AS int)" if days or not among else "7"
    return spark.range(0, count, 1, 8).selectExpr(
        f"id * {step} AS id",
        f"(id * {step}) % 100003 AS customer",
        f"CAST((id % 1000) + {version} AS decimal(12,2)) AS amount",
        f"concat('some words about order ', id * {step}, ' version {version}') AS note",
        f"TIMESTAMP'2026-01-01' + make_interval(0, 0, 0, {version}) AS at",
        f"{day} AS day",
    )


def _cost(spark: SparkSession, lake: Path, *, full_refresh: bool = False) -> tuple[float, float]:
    wall, cpu = time.monotonic(), cpu_below()
    report = Lake.open(lake).run(full_refresh=full_refresh, session=spark)
    assert report.outcome == "ok", report.errors
    return time.monotonic() - wall, cpu_below() - cpu


def _by_hand(spark: SparkSession, lake: Path, version: int, count: int, share: float) -> tuple[float, float]:
    """The same kind of change once more, by the MERGE that people write for it."""
    table = lake / ".lakesmith" / "warehouse" / "silver" / "scd2"
    _rows(spark, version + 50, round(count * share), count).createOrReplaceTempView("changed")  # type: ignore[attr-defined]
    columns = "id, customer, amount, note, at, day"
    wall, cpu = time.monotonic(), cpu_below()
    spark.sql(
        f"MERGE INTO delta.`{table}` AS t USING ("
        f"  SELECT id AS merge_key, * FROM changed UNION ALL"
        f"  SELECT NULL, c.* FROM changed c JOIN delta.`{table}` h ON c.id = h.id WHERE h.is_current AND "
        f"  (c.customer, c.amount, c.note, c.day) <> (h.customer, h.amount, h.note, h.day)"
        f") AS s ON t.id = s.merge_key AND t.is_current "
        f"WHEN MATCHED AND (s.customer, s.amount, s.note, s.day) <> (t.customer, t.amount, t.note, t.day) "
        f"THEN UPDATE SET valid_to = s.at, is_current = false "
        f"WHEN NOT MATCHED THEN INSERT ({columns}, valid_from, valid_to, is_current) "
        f"VALUES ({', '.join('s.' + c for c in columns.split(', '))}, s.at, NULL, true)"
    ).collect()
    return time.monotonic() - wall, cpu_below() - cpu


if __name__ == "__main__":
    main()
