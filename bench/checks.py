"""The cost of checks: a load with 30 row rules and 10 batch rules against the same load without rules, with 1 %
rejected rows, and against the same rules in other libraries on the same rows, in the same session."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench import other_checks
from bench.measure import busy, show, spread
from bench.processes import cpu_below
from lakesmith.jvm.session import open_session
from lakesmith.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WITH_CHECKS, REJECTED, SLOWER = 1.20, 1.10, 5.0

COLUMNS = {
    "id": "id",
    "customer": "id % 100000",
    "amount": "CAST(pmod(id * 7919, 100000) / 100 AS decimal(12,2))",
    "currency": "element_at(array('EUR', 'USD', 'GBP'), CAST(id % 3 AS int) + 1)",
    "email": "concat('user', id % 100000, '@example.com')",
    "at": "timestamp_seconds(1700000000 + id % 8000000)",
    "quantity": "CAST(id % 50 AS int)",
    "score": "pmod(id * 104729, 1000003) / 1000003D",
    "country": "element_at(array('DE', 'FR', 'US', 'GB', 'IT'), CAST(id % 5 AS int) + 1)",
    "paid": "id % 2 = 0",
}

ROW_RULES = """\
  r01: {required: [id]}
  r02: {required: [customer]}
  r03: {required: [amount]}
  r04: {required: [currency]}
  r05: {required: [email]}
  r06: {required: [at]}
  r07: {required: [quantity]}
  r08: {required: [score]}
  r09: {required: [country]}
  r10: {required: [paid]}
  r11: {range: {column: id, min: 0}}
  r12: {range: {column: customer, min: 0, max: 100000}}
  r13: {range: {column: amount, min: 0, max: 1000}}
  r14: {range: {column: quantity, min: 0, max: 49}}
  r15: {range: {column: score, min: 0, max: 1}}
  r16: {range: {column: at, min: "2020-01-01", max: "2030-01-01"}}
  r17: {in: {column: currency, values: [EUR, USD, GBP]}}
  r18: {in: {column: country, values: [DE, FR, US, GB, IT]}}
  r19: {length: {column: email, min: 5, max: 40}}
  r20: {length: {column: currency, min: 3, max: 3}}
  r21: {length: {column: country, min: 2, max: 2}}
  r22: {pattern: {column: email, matches: "^user[0-9]+@"}}
  r23: {sql: "amount * quantity >= 0"}
  r24: {sql: "customer < id + 100000"}
  r25: {sql: "quantity < 100"}
  r26: {sql: "score < 2"}
  r27: {sql: "amount < 5000"}
  r28: {sql: "email LIKE '%@%'"}
  r29: {sql: "at > timestamp'2000-01-01'"}
  r30: {sql: "id % 100 <> REJECT"}
"""

BATCH_RULES = """\
  b01: {row_count: {min: 1}}
  b02: {null_rate: {column: email, max: 1%}}
  b03: {null_rate: {column: amount, max: 1%}}
  b04: {sum: {column: amount, min: 0}}
  b05: {mean: {column: amount, min: 400, max: 600}}
  b06: {mean: {column: score, min: 0.4, max: 0.6}}
  b07: {quantile: {column: amount, at: 0.5, min: 400, max: 600}}
  b08: {distinct: {column: country, min: 4, max: 6}}
  b09: {expect: "max(quantity) < 50"}
  b10: {expect: "min(at) > timestamp'2000-01-01'"}
"""
NOTHING_REJECTED, ONE_IN_A_HUNDRED = "-1", "1"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.checks", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=3, help="rounds that are measured, after one that is not")
    parser.add_argument("--alone", action="store_true", help="leave the other libraries out")
    options = parser.parse_args(words)
    load = busy()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        spark = open_session("bench", {})
        try:
            _make_rows(spark, folder / "rows", options.rows)
            lakes = {name: _lake(folder, name, checks) for name, checks in _lakes().items()}
            ours = _measured({name: _load(lake, spark) for name, lake in lakes.items()}, rounds=options.times)
            _show_ours(ours, options.rows, load)
            if not options.alone:
                rows = spark.read.format("delta").load(str(folder / "rows"))
                _show_others(ours, _measured(_others(rows), rounds=1, warm=False), options.rows)
        finally:
            spark.stop()


def _lakes() -> dict[str, str]:
    rules = ROW_RULES.replace("REJECT", NOTHING_REJECTED) + BATCH_RULES
    return {
        "no checks": "",
        "30 + 10 rules": f"checks:\n{rules}",
        "and 1 % rejected": "checks:\n" + ROW_RULES.replace("REJECT", ONE_IN_A_HUNDRED) + BATCH_RULES,
    }


def _lake(folder: Path, name: str, checks: str) -> Lake:
    at = folder / name.replace(" ", "_").replace("%", "")
    for file, text in {
        "lakesmith.yml": "name: bench\n",
        "bronze/orders.yml": f"source: {{adopt: {folder / 'rows'}}}\n",
        "silver/orders.sql": f"/* lakesmith\nload: replace\n{checks}*/\nSELECT * FROM bronze.orders\n",
    }.items():
        (at / file).parent.mkdir(parents=True, exist_ok=True)
        (at / file).write_text(text)
    return Lake.open(at)


def _load(lake: Lake, spark: SparkSession) -> Callable[[], None]:
    def run() -> None:
        report = lake.run(["silver.orders"], full_refresh=True, session=spark)
        assert not report.errors, report.errors
        warehouse = Path(lake.declaration.environment.warehouse)
        # Only the newest version is needed; save disk space.
        for old in sorted((warehouse / "silver/orders").glob("batch-*"), key=lambda path: path.stat().st_mtime)[:-1]:
            shutil.rmtree(old)

    return run


def _others(rows: DataFrame) -> dict[str, Callable[[], None]]:
    return {
        f"Great Expectations {other_checks.version('great_expectations')}": lambda: other_checks.great_expectations(
            rows
        ),
        f"cuallee {other_checks.version('cuallee')}": lambda: other_checks.cuallee(rows),
    }


def _make_rows(spark: SparkSession, at: Path, rows: int) -> None:
    made = spark.range(0, rows, 1, 8).selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items()))
    made.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(at))


Costs = dict[str, list[tuple[float, float]]]
"""By load, the wall and CPU seconds of each round."""


def _measured(loads: dict[str, Callable[[], None]], *, rounds: int, warm: bool = True) -> Costs:
    """Run all loads in turn, so that other work of the machine affects each of them."""
    costs: Costs = {name: [] for name in loads}
    for number in range(rounds + warm):
        for name, load in loads.items():
            before, started = cpu_below(), time.monotonic()
            load()
            if number or not warm:
                costs[name].append((time.monotonic() - started, cpu_below() - before))
    return costs


def _show_ours(costs: Costs, rows: int, load: str) -> None:
    plain, checked, rejected = costs
    table = []
    for name, base, limit in ((plain, plain, 1.0), (checked, plain, WITH_CHECKS), (rejected, checked, REJECTED)):
        wall, cpu = ([round[side] for round in costs[name]] for side in (0, 1))
        against = [median(each[side] for each in costs[base]) for side in (0, 1)]
        ratios = [median(wall) / against[0], median(cpu) / against[1]]
        wanted = "" if name == base else f"≤ {limit} {'yes' if ratios[0] <= limit else 'NO'}"
        table.append((name, spread(wall), spread(cpu), f"{ratios[0]:.2f}", f"{ratios[1]:.2f}", wanted))
    header = ("load", "wall s", "CPU s", "by wall", "by CPU", "wanted")
    show(
        f"{rows:,} rows into silver ({load}); the second against the first, the third against the second", header, table
    )


def _show_others(ours: Costs, others: Costs, rows: int) -> None:
    """Compare with the added cost of the checks, and with the whole load, which the other libraries do not run."""
    plain, whole = ([median(each[side] for each in ours[name]) for side in (0, 1)] for name in list(ours)[:2])
    added = [with_them - without for with_them, without in zip(whole, plain, strict=True)]
    table = [
        ("Lakesmith, added by the checks", f"{added[0]:.1f}", f"{added[1]:.1f}", "1.0", "", ""),
        ("Lakesmith, whole load with checks", f"{whole[0]:.1f}", f"{whole[1]:.1f}", "", "1.0", ""),
    ]
    for name, ((wall, cpu),) in others.items():
        ratio = wall / added[0]
        expected = f"≥ {SLOWER:g} {'yes' if ratio >= SLOWER else 'NO'}"
        shown_costs = (f"{wall:.1f}", f"{cpu:.1f}", f"{ratio:.1f}", f"{wall / whole[0]:.1f}")
        table.append((f"{name}, checks alone", *shown_costs, expected))
    header = ("same 40 rules", "wall s", "CPU s", "to added", "to load", "expected")
    show(f"{rows:,} rows", header, table)


if __name__ == "__main__":
    main()
