"""The demo's two days with Lakesmith, against the same pipeline by hand with the same and with default settings."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.measure import busy, call, show, spread, verdict
from bench.shop import ORDERS, make_shop
from lakesmith.columns import AUDIT

LAKESMITH, BY_HAND, STOCK = "lakesmith", "by hand", "by hand, stock"
WAYS = (LAKESMITH, BY_HAND, STOCK)
LIMITS = {BY_HAND: 1.10, STOCK: 0.6}
TABLES = (
    "bronze.orders",
    "bronze.customers",
    "silver.orders",
    "silver.customers",
    "gold.daily_sales",
    "gold.country_sales",
)
UNLIKE = frozenset(AUDIT)
"""Columns that differ between runs or folders, or that the pipeline by hand does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Seconds of the two days in one process."""

    first: float
    """From the start of the process, so it includes the start of Spark."""
    second: float
    cpu: float
    """CPU time of both days, Python and JVM. Other work of the machine affects it too."""

    @property
    def total(self) -> float:
        return self.first + self.second


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.demo", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each pipeline runs, in turns")
    parser.add_argument("--orders", type=int, default=ORDERS, help="orders a day")
    parser.add_argument("--jobs", action="store_true", help="then count Spark's jobs, in runs that are not timed")
    options = parser.parse_args(words)
    load = busy()
    taken: dict[str, list[Days]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(options.rounds):
            folders = {way: Path(temporary) / f"{number}" / way.replace(", ", "-").replace(" ", "-") for way in WAYS}
            for way, folder in folders.items():
                make_shop(folder, options.orders)
                taken[way].append(two_days(way, folder))
            for way in (BY_HAND, STOCK):
                assert_same(folders[LAKESMITH] / ".lakesmith" / "warehouse", folders[way] / "by_hand", way)
        _show(taken, load, options.orders)
        if options.jobs:
            _show_jobs(Path(temporary), options.orders)


def two_days(way: str, folder: Path, settings: dict[str, str] | None = None) -> Days:
    """Run both days in one process."""
    environment = {**os.environ, "TZ": "UTC", "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    command = [sys.executable, "-m", "bench.two_days", way, str(folder), json.dumps(settings or {})]
    started = time.time()
    cost = call(command, environment=environment, folder=folder)
    (first, _), (second, cpu) = json.loads(cost.output.splitlines()[-1])
    return Days(first=first - started, second=second - first, cpu=cpu)


def assert_same(lakesmith: Path, by_hand: Path, way: str) -> None:
    """Check that both pipelines have the same rows, and rejected the same number by the same rules."""
    for table in TABLES:
        for place in (table, f"quarantine.{table}"):
            ours, theirs = _content(lakesmith, place), _content(by_hand, place)
            only = {LAKESMITH: list(ours - theirs)[:3], way: list(theirs - ours)[:3]}
            assert ours == theirs, f"{place} is not the same both ways; rows that only one has: {only}"


def _content(warehouse: Path, table: str) -> Counter[tuple[object, ...]]:
    """Return how often each row occurs."""
    import pyarrow as pa

    from lakesmith.formats import Delta

    delta = Delta()
    location = str(warehouse / table.replace(".", "/"))
    facts = delta.facts(location, "")
    if facts is None:
        return Counter()
    found = delta.arrow(location, facts.version)
    rows = found.read_all() if isinstance(found, pa.RecordBatchReader) else found.to_table()
    names = ["rules"] if table.startswith("quarantine.") else sorted(set(rows.column_names) - UNLIKE)
    values = [[str(value) for value in rows[name].to_pylist()] for name in names]
    return Counter(zip(*values, strict=True))


def _show(taken: dict[str, list[Days]], load: str, orders: int) -> None:
    parts = ("first", "second", "total", "cpu")
    rows = [[way, *(spread([getattr(days, part) for days in taken[way]], 1) for part in parts)] for way in WAYS]
    for other, limit in LIMITS.items():
        middles = {way: [median(getattr(days, part) for days in taken[way]) for part in parts] for way in WAYS}
        ratios = [ours / theirs for ours, theirs in zip(middles[LAKESMITH], middles[other], strict=True)]
        text = [f"{ratio:.2f}" for ratio in ratios]
        text[2] += f", {verdict(ratios[2], limit)}"
        rows.append([f"{LAKESMITH} / {other}", *text])
    title = f"Two days of {orders} orders, seconds, median of {len(taken[LAKESMITH])} ({load})"
    show(title, ("way", "day 1, with the start of Spark", "day 2", "both", "CPU of both"), rows)


def _show_jobs(temporary: Path, orders: int) -> None:
    """Count the jobs of Spark, from its event log."""
    rows = []
    for way in WAYS:
        folder = temporary / "jobs" / way.replace(", ", "-").replace(" ", "-")
        make_shop(folder, orders)
        log = folder / "events"
        log.mkdir()
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": log.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        file = folder / "lakesmith.yml"
        text = ", ".join(f'{name}: "{value}"' for name, value in settings.items())
        file.write_text(file.read_text().replace("  dev:\n", f"  dev:\n    spark: {{{text}}}\n"))
        two_days(way, folder, settings)
        events = Counter(json.loads(line)["Event"] for each in log.iterdir() for line in each.open())
        counted = ("SparkListenerJobStart", "SparkListenerStageCompleted", "SparkListenerTaskEnd")
        rows.append([way, *(str(events[event]) for event in counted)])
    show("What Spark did in both days", ("way", "jobs", "stages", "tasks"), rows)


if __name__ == "__main__":
    main()
