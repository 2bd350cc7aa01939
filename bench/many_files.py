"""The cost of a plan and a run with ten new files beside 1,000, 10,000 and 100,000 ingested ones.

Files are in folders by day, a thousand in each. `full` lists every file, `ordered` lists from the last name on.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from unittest import mock

from bench.measure import busy, show
from bench.processes import cpu_below
from lakesmith.declare import TableName
from lakesmith.jvm.session import open_session
from lakesmith.lake import Lake
from lakesmith.ledger.batches import Batches
from lakesmith.ports import FileFact
from lakesmith.store import LocalStore
from lakesmith.store.globs import Glob

NEW = 10
A_DAY = 1_000
GLOB = "landing/*/*.json"
LISTINGS = ("full", "ordered")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.many_files", description=__doc__)
    parser.add_argument("--known", type=int, nargs="*", default=[0, 1_000, 10_000, 100_000])
    parser.add_argument("--listing", type=int, nargs="*", default=[1_000, 10_000, 100_000], help="listing alone")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(words)
    load = busy()
    rows = [row for known in options.listing for row in _listed(known, options.rounds)]
    header = ("files there", "listing", "list: CPU s", "folders listed", "files looked at")
    show(f"Looking for {NEW} new files, best of {options.rounds} ({load})", header, rows)
    if not options.known:
        return
    rows = []
    spark = open_session("bench", {})
    try:
        for known in options.known:
            for listing in LISTINGS:
                with tempfile.TemporaryDirectory() as temporary:
                    rows.append(_measured(spark, Path(temporary), known, listing, options.rounds))
    finally:
        spark.stop()
    header = ("files ingested", "listing", "plan: CPU s", "run: wall s", "run: CPU s")
    show(f"Cost of {NEW} new files, best of {options.rounds} ({load})", header, rows)


def _listed(known: int, rounds: int) -> Iterator[list[str]]:
    """Measure the listing alone, with the ingested files in memory."""
    with tempfile.TemporaryDirectory() as temporary:
        landing = Path(temporary) / "landing"
        last = _land_known(landing, known)
        storage = LocalStore(temporary)
        taken = {file.path: file for file in storage.list(GLOB)}
        _land(landing / "day=9999-01-01", "new", NEW)
        for listing in LISTINGS:
            after = None if listing == "full" else f"landing/{last}"
            times = []
            for _ in range(rounds):
                cpu = time.process_time()
                found = list(storage.list(GLOB, taken, after))
                times.append(time.process_time() - cpu)
                assert len(found) == NEW
            folders, files = _calls(storage, after)
            yield [f"{known:,}", listing, f"{min(times):.3f}", f"{folders:,}", f"{files:,}"]


def _calls(storage: LocalStore, after: str | None) -> tuple[int, int]:
    """Count the folders that a listing enters, and the files that it checks."""
    opened = mock.Mock(side_effect=os.open)
    with mock.patch("os.open", opened):
        files = sum(1 for _ in storage._matching(Glob(GLOB), after))
    return opened.call_count, files


def _measured(spark: object, folder: Path, known: int, listing: str, rounds: int) -> list[str]:
    lake = folder / "lake"
    (lake / "bronze").mkdir(parents=True)
    (lake / "lakesmith.yml").write_text("name: bench\n")
    source = f'source: {{files: "{GLOB}", listing: {listing}}}\ncolumns: {{id: bigint}}\n'
    (lake / "bronze" / "orders.yml").write_text(source)
    landing = lake / "landing"
    _land(landing / "day=9999-01-01", "first", 1)
    Lake.open(lake).run(session=spark)  # type: ignore[arg-type]
    _land_known(landing, known)
    _mark_as_ingested(lake, known)
    plans, runs = [], []
    for number in range(rounds + 1):
        _land(landing / f"day=9999-01-{number + 2:02}", "new", NEW)
        opened = Lake.open(lake)
        cpu = time.process_time()
        plan = opened.plan()
        plans.append(time.process_time() - cpu)
        assert [len(step.files) for step in plan.steps] == [NEW]  # type: ignore[union-attr]
        wall, cpu = time.monotonic(), cpu_below()
        report = opened.run(session=spark)  # type: ignore[arg-type]
        runs.append((time.monotonic() - wall, cpu_below() - cpu))
        assert [step.rows_in for step in report.steps] == [NEW]
    wall, cpu = min(run[0] for run in runs[1:]), min(run[1] for run in runs[1:])
    return [f"{known:,}", listing, f"{min(plans):.3f}", f"{wall:.2f}", f"{cpu:.2f}"]


def _land(folder: Path, name: str, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{name}-{number}.json").write_text(json.dumps({"id": number}) + "\n")


def _land_known(landing: Path, known: int) -> str:
    """Land files of earlier days, and return the path of the last one."""
    last = ""
    for number in range(known):
        day = date(2020, 1, 1) + timedelta(days=number // A_DAY)
        if number % A_DAY == 0:
            (landing / f"day={day}").mkdir(parents=True)
        last = f"day={day}/{number % A_DAY:06}.json"
        (landing / last).write_text('{"id": 1}\n')
    return last


def _mark_as_ingested(lake: Path, known: int) -> None:
    """Record the files as ingested by the existing batch: the ingestion of 100,000 files is not measured."""
    storage = LocalStore(lake / ".lakesmith" / "warehouse")
    batches = Batches(storage, TableName("bronze", "orders"))
    facts = [FileFact(f.path, f.size, f.modified) for f in LocalStore(lake).list(GLOB)]
    assert len(facts) == known + 1
    batches.write_summary(1, 1, {fact.path: fact for fact in facts})


if __name__ == "__main__":
    main()
