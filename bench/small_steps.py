"""The price of a small step: many tiny tables, one new row each, in one cold run.

The price is the slope between a small lake and a large one, so the start of the JVM does not count.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.measure import busy, call, lakesmith, show

SMALL, LARGE = 5, 30
LOADS = {
    "append": "append",
    "merge": "{merge: {key: id, order_by: at}}",
    "scd2": "{scd2: {key: id, order_by: at}}",
}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.small_steps", description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="runs with one new row a table that are measured")
    parser.add_argument("--load", choices=sorted(LOADS), action="append", help="loads of the silver tables")
    options = parser.parse_args(words)
    busy_before, rows = busy(), []
    for load in options.load or LOADS:
        with tempfile.TemporaryDirectory() as temporary:
            small, large = (_measured(Path(temporary), load, count, options.times) for count in (SMALL, LARGE))
        further = 2 * (LARGE - SMALL)
        rows.append(
            [
                f"bronze append + silver {load}",
                f"{small.wall:.1f}",
                f"{large.wall:.1f}",
                f"{(large.wall - small.wall) / further:.2f}",
                f"{(large.cpu - small.cpu) / further:.2f}",
            ]
        )
    header = ("steps", f"{2 * SMALL} steps, wall s", f"{2 * LARGE} steps, wall s", "wall s a step", "CPU s a step")
    show(f"A further small step of a cold run, median of {options.times} runs ({busy_before})", header, rows)


@dataclass(frozen=True, slots=True)
class _Cost:
    wall: float
    cpu: float


def _measured(folder: Path, load: str, count: int, times: int) -> _Cost:
    lake = folder / f"{load}-{count}"
    _make(lake, load, count)
    command = [lakesmith(), "--lake", str(lake), "run"]
    _land(lake, count, 0, rows=20)
    call(command)
    costs = []
    for day in range(1, times + 1):
        _land(lake, count, day, rows=1)
        costs.append(call(command))
    return _Cost(median(c.wall for c in costs), median(c.cpu for c in costs))


def _make(lake: Path, load: str, count: int) -> None:
    for name in ("bronze", "silver", "landing"):
        (lake / name).mkdir(parents=True)
    (lake / "lakesmith.yml").write_text("name: small\nenvironments: {dev: {warehouse: warehouse}}\n")
    for table in range(count):
        (lake / "bronze" / f"t{table}.yml").write_text(
            f"source: {{files: landing/t{table}/*.json}}\ncolumns: {{id: bigint, amount: int, at: timestamp}}\n"
        )
        (lake / "silver" / f"t{table}.sql").write_text(
            f"/* lakesmith\nload: {LOADS[load]}\n*/\nSELECT id, amount, at FROM bronze.t{table}\n"
        )


def _land(lake: Path, count: int, day: int, rows: int) -> None:
    for table in range(count):
        folder = lake / "landing" / f"t{table}"
        folder.mkdir(exist_ok=True)
        lines = ({"id": row, "amount": day, "at": f"2026-01-{day + 1:02} 00:00:00"} for row in range(rows))
        (folder / f"day{day}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
