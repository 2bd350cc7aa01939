"""The cost of a change against the cost of a rebuild: merge, scd2 and replace_partitions, by the share of changed rows.

The baseline is the full rebuild of the same table in the same session; for scd2 also a hand-written MERGE and the
rewrite of the whole table, on clones of the same table. Changed keys are the newest ones, or spread so that every file
changes. For replace_partitions, of plain rows and of sums by day and customer, the share is a share of partitions.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from bench.histories import Clone
from bench.measure import busy, show, spread
from bench.processes import compiling_below, cpu_below
from lakesmith.jvm.session import open_session
from lakesmith.lake import Lake
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

SHARES = (0.0001, 0.001, 0.01, 0.1)
DAYS = 100
COLUMNS = "id, customer, amount, note, at, day"
ROWS = f"SELECT {COLUMNS} FROM bronze.orders"
DAILY = (
    "SELECT day, customer, count(*) AS orders, sum(amount) AS amount, max(at) AS at FROM bronze.orders "
    "GROUP BY day, customer"
)
LOADS = {
    "merge": ("{merge: {key: id, order_by: at}}", ROWS, ("newest", "spread")),
    "scd2": ("{scd2: {key: id, order_by: at}}", ROWS, ("newest", "spread")),
    "partitions": ("{replace_partitions: day}", ROWS, ("partitions",)),
    "daily": ("{replace_partitions: day}", DAILY, ("partitions",)),
}
WANTED = {"merge": 5, "scd2": 5, "partitions": 20, "daily": 20}
"""How many times cheaper than the rebuild a change of 1 % of the rows or partitions must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    wall: float
    cpu: float
    compiling: float
    """The part of the JVM's compilers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The costs of one share of changed rows."""

    load: str
    where: str
    share: float
    mode: str
    costs: tuple[Cost, ...]
    by_hand: tuple[Cost, ...] = ()
    rewritten: tuple[Cost, ...] = ()


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.loads", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the table")
    parser.add_argument("--times", type=int, default=3, help="how often each share changes")
    parser.add_argument("--loads", default=",".join(LOADS), help="loads, separated by commas")
    options = parser.parse_args(words)
    load = busy()
    rebuilds: dict[str, Cost] = {}
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as temporary:
        # The times of compiler threads that end would be lost.
        spark = open_session("bench", {"spark.driver.extraJavaOptions": "-XX:-UseDynamicNumberOfCompilerThreads"})
        try:
            for name in options.loads.split(","):
                bench = _Bench(spark, Path(temporary) / name, name, options.rows)
                rebuilds[name] = bench.rebuild()
                for point in bench.changes(options.times):
                    points.append(point)
                    print(*_row(point, rebuilds[name]), sep="  ", file=sys.stderr, flush=True)
        finally:
            spark.stop()
    show(f"{options.rows:,} rows ({load})", _HEADER, [_row(point, rebuilds[point.load]) for point in points])
    for name, rebuild in rebuilds.items():
        took = f"{rebuild.wall:.1f} s, {rebuild.cpu:.1f} s of CPU ({rebuild.compiling:.1f} of it JIT)"
        print(f"\n{name}: the rebuild took {took}; times cheaper by CPU:")
        for point in points:
            if point.load == name:
                times = rebuild.cpu / _cpu(point)
                print(f"  {point.where} {point.share:>6.2%} |{'#' * max(1, round(times))} {times:.1f}")


_HEADER = (
    "load",
    "changed",
    "mode",
    "wall s",
    "CPU s",
    "of it JIT",
    "cheaper by wall",
    "by CPU",
    "wanted",
    "by hand wall s",
    "CPU s",
    "rewrite wall s",
    "CPU s",
)


def _row(point: Point, rebuild: Cost) -> list[str]:
    times = rebuild.cpu / _cpu(point)
    wanted = f"≥ {WANTED[point.load]} {'yes' if times >= WANTED[point.load] else 'NO'}" if point.share == 0.01 else ""
    return [
        point.load,
        f"{point.share:.2%} {point.where}",
        point.mode,
        *_spreads(point.costs),
        f"{median(cost.compiling for cost in point.costs):.1f}",
        f"{rebuild.wall / median(cost.wall for cost in point.costs):.1f}",
        f"{times:.1f}",
        wanted,
        *_spreads(point.by_hand),
        *_spreads(point.rewritten),
    ]


def _spreads(costs: tuple[Cost, ...]) -> tuple[str, str]:
    if not costs:
        return "", ""
    return spread([cost.wall for cost in costs], 1), spread([cost.cpu for cost in costs], 1)


def _cpu(point: Point) -> float:
    return median(cost.cpu for cost in point.costs)


class _Bench:
    """One lake with one table over the orders of another lake."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, count: int) -> None:
        self._spark, self._name, self._count = spark, name, count
        self._table = f"silver.{name}"
        load, query, self._wheres = LOADS[name]
        self._source, self._lake = folder / "orders", folder / "lake"
        self._version = self._clones = 0
        first = self._orders(f"range(0, {count}, 1, 16)")
        first.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(self._source))
        for place in ("bronze", "silver"):
            (self._lake / place).mkdir(parents=True)
        (self._lake / "lakesmith.yml").write_text("name: bench\n")
        (self._lake / "bronze" / "orders.yml").write_text(f"source: {{table: {json.dumps(str(self._source))}}}\n")
        (self._lake / "silver" / f"{name}.sql").write_text(f"/* lakesmith\nload: {load}\n*/\n{query}\n")
        self._run()

    def rebuild(self) -> Cost:
        return _cost(lambda: self._run(self._table, full_refresh=True))[0]

    def changes(self, times: int) -> Iterator[Point]:
        for where in self._wheres:
            for share in SHARES:
                yield self._changed(where, share, times)

    def _changed(self, where: str, share: float, times: int) -> Point:
        costs, by_hand, rewritten, mode = [], [], [], ""
        for attempt in range(times):
            self._version += 1
            changed = self._orders(self._keys(where, share))
            if self._name == "scd2" and share in (0.001, 0.01):
                by_hand.append(_cost(self._clone(changed).merge)[0])
            if self._name == "scd2" and share == 0.01 and attempt == 0:
                rewritten.append(_cost(self._clone(changed).rewrite)[0])
            changed.write.format("delta").mode("append").save(str(self._source))
            self._run("bronze.orders")
            cost, report = _cost(lambda: self._run(self._table))
            costs.append(cost)
            (mode,) = (step.mode for step in report.steps)
        return Point(
            load=self._name,
            where=where,
            share=share,
            mode=mode,
            costs=tuple(costs),
            by_hand=tuple(by_hand),
            rewritten=tuple(rewritten),
        )

    def _keys(self, where: str, share: float) -> str:
        """Return SQL for the changed keys: 1 % of the rows of each changed partition, and at least one partition."""
        if where == "partitions":
            return f"range({round(self._count * (1 - max(share, 1 / DAYS)))}, {self._count}, 100, 2)"
        if where == "spread":
            return f"range(0, {self._count}, {round(1 / share)}, 2)"
        return f"range({round(self._count * (1 - share))}, {self._count}, 1, 2)"

    def _orders(self, keys: str) -> DataFrame:
        return self._spark.sql(
            f"SELECT id, id % 100003 AS customer, CAST(id % 1000 + {self._version} AS decimal(12,2)) AS amount, "
            f"concat('some words about order ', id, ' version {self._version}') AS note, "
            f"TIMESTAMP'2026-01-01' + make_interval(0, 0, 0, {self._version}) AS at, "
            f"CAST(id * {DAYS} DIV {self._count} AS int) AS day FROM {keys}"
        )

    def _run(self, *select: str, full_refresh: bool = False) -> RunReport:
        report = Lake.open(self._lake).run(select, full_refresh=full_refresh, session=self._spark)
        assert report.outcome == "ok", report.errors
        return report

    def _clone(self, changed: DataFrame) -> Clone:
        table, self._clones = self._lake / ".lakesmith" / "warehouse" / "silver" / "scd2", self._clones + 1
        at = self._source.with_name(f"clone_{self._clones}")
        return Clone(self._spark, table, at, COLUMNS.split(", "), changed)


def _cost(work: Callable[[], T]) -> tuple[Cost, T]:
    wall, cpu, compiling = time.monotonic(), cpu_below(), compiling_below()
    made = work()
    cost = Cost(wall=time.monotonic() - wall, cpu=cpu_below() - cpu, compiling=compiling_below() - compiling)
    return cost, made


if __name__ == "__main__":
    main()
