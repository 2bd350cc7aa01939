"""One large file of CSV and of JSON lines into bronze, with one core and with two.

With one core, one task reads the whole file. With two, several tasks read its parts.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.ingest import COLUMNS, _order
from bench.measure import busy, call, show, spread
from bench.processes import cpu_below
from lakesmith.jvm.session import open_session
from lakesmith.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 1.7
FORMATS = ("csv", "json")
_BLOCK = 200_000
"""How many different rows a file has; they are repeated until it is large enough."""


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.large_file", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1, help="the size of each file; the target is stated for 5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where files and lakes are written")
    parser.add_argument("--one", nargs=2, metavar=("FILE", "CORES"), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.one:
        print(json.dumps(_ingest(Path(options.one[0]), int(options.one[1]))))
        return
    load = busy()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        rows = [_measured(Path(temporary), format, options.gigabytes, options.rounds) for format in FORMATS]
    header = ("format", "MB", "1 core: wall s", "CPU s", "2 cores: wall s", "CPU s", "faster by")
    show(f"One file into bronze, median of {options.rounds} ({load}); at least {LIMIT} is wanted", header, rows)


def _measured(folder: Path, format: str, gigabytes: float, rounds: int) -> list[str]:
    file = folder / f"orders.{format}"
    _make_file(file, int(gigabytes * 1e9))
    # In turns, because the speed of the machine changes.
    turns = [[_cost(file, cores) for cores in (1, 2)] for _ in range(rounds)]
    size = file.stat().st_size
    file.unlink()
    one, two = ([turn[which] for turn in turns] for which in (0, 1))
    cells = [spread([cost[part] for cost in costs], 1) for costs in (one, two) for part in (0, 1)]
    ratio = median(wall for wall, _ in one) / median(wall for wall, _ in two)
    return [format, f"{size / 1e6:.0f}", *cells, f"{ratio:.2f}"]


def _make_file(file: Path, size: int) -> None:
    chance = random.Random(1)
    orders = [_order(number, chance) for number in range(_BLOCK)]
    text = io.StringIO()
    if file.suffix == ".json":
        text.writelines(json.dumps(order) + "\n" for order in orders)
    else:
        # The notes are quoted, as a reader of quoted fields has more to do.
        csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerows(o.values() for o in orders)
    block = text.getvalue().encode()
    with file.open("wb") as out:
        if file.suffix == ".csv":
            out.write((",".join(COLUMNS) + "\n").encode())
        while out.tell() < size:
            out.write(block)


def _cost(file: Path, cores: int) -> tuple[float, float]:
    """Ingest the file in a process of its own, because a JVM has its number of cores for life."""
    answer = call([sys.executable, "-m", "bench.large_file", "--one", str(file), str(cores)])
    wall, cpu = json.loads(answer.output.splitlines()[-1])
    return wall, cpu


def _ingest(file: Path, cores: int) -> tuple[float, float]:
    """Return the wall and CPU time of a run that ingests the file, after one that ingests a small file."""
    landing = file.parent / "landing"
    spark = open_session("bench", {"spark.master": f"local[{cores}]"})
    try:
        with file.open("rb") as lines:
            first = [lines.readline() for _ in range(1000)]
        _run(spark, landing, "small", file.suffix, first)
        wall, cpu = time.monotonic(), cpu_below()
        _run(spark, landing, "large", file.suffix, file)
        return time.monotonic() - wall, cpu_below() - cpu
    finally:
        spark.stop()


def _run(spark: SparkSession, landing: Path, name: str, format: str, content: Path | Sequence[bytes]) -> None:
    shutil.rmtree(landing, ignore_errors=True)
    landing.mkdir()
    landed = landing / f"orders{format}"
    if isinstance(content, Path):
        landed.hardlink_to(content)
    else:
        landed.write_bytes(b"".join(content))
    lake = landing.parent / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    (lake / "bronze").mkdir(parents=True)
    (lake / "lakesmith.yml").write_text(
        f"name: bench\nenvironments: {{dev: {{landing: {json.dumps(str(landing))}}}}}\n"
    )
    columns = "".join(f"  {column}: {type}\n" for column, type in COLUMNS.items())
    (lake / "bronze" / f"{name}.yml").write_text(f"source: {{files: '*{format}'}}\ncolumns:\n{columns}")
    report = Lake.open(lake).run(session=spark)
    assert report.outcome == "ok", report.errors


if __name__ == "__main__":
    main()
