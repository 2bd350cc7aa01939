"""A run with nothing new: reads the logs, writes nothing, starts no Spark."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from bench.demo import LAKESMITH, two_days
from bench.measure import busy, call, lakesmith, show, spread
from bench.shop import make_shop

CALLS = 5


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.nothing_new", description=__doc__)
    parser.add_argument("--times", type=int, default=CALLS, help="runs that are measured")
    options = parser.parse_args(words)
    load = busy()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "shop"
        make_shop(folder)
        two_days(LAKESMITH, folder)
        before = _files(folder)
        # A java that does not work: a run that starts Spark would fail.
        environment = {**os.environ, "LAKESMITH_JAVA": str(folder / "no-java")}
        command = [lakesmith(), "--lake", str(folder), "run"]
        call(command, environment=environment)
        costs = [call(command, environment=environment) for _ in range(options.times)]
        after = _files(folder)
    written = sorted(name for name in after if after[name] != before.get(name))
    assert not written, f"a run with nothing new wrote {written}"
    row = ["lakesmith run", spread([c.wall for c in costs]), spread([c.cpu for c in costs]), str(len(written)), "no"]
    header = ("command", "wall s", "CPU s", "files written", "Spark started")
    show(f"The demo's lake with nothing new, median of {options.times} ({load})", header, [row])


def _files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return each file and folder with its modification time and size."""
    found = {}
    for path in folder.rglob("*"):
        about = path.stat()
        found[str(path.relative_to(folder))] = (about.st_ino, about.st_mtime_ns, about.st_size)
    return found


if __name__ == "__main__":
    main()
