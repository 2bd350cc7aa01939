"""Ten new files beside 1,000, 10,000 and 100,000 that are taken in already: what a plan and a run cost."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from bench.measure import busy, show
from bench.processes import cpu_below
from lakesmith.declare import TableName
from lakesmith.lake import Lake
from lakesmith.ledger.batches import Batches
from lakesmith.ports import FileFact
from lakesmith.spark.session import open_session
from lakesmith.storage import LocalStorage

NEW = 10


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.many_files", description=__doc__)
    parser.add_argument("--known", type=int, nargs="*", default=[0, 1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(words)
    load = busy()
    rows = []
    spark = open_session("bench", {})
    try:
        for known in options.known:
            with tempfile.TemporaryDirectory() as temporary:
                rows.append(_measured(spark, Path(temporary), known, options.rounds))
    finally:
        spark.stop()
    header = ("files taken in", "new", "plan: CPU s", "run: wall s", "run: CPU s")
    show(f"Cost of {NEW} new files, best of {options.rounds} ({load})", header, rows)


def _measured(spark: object, folder: Path, known: int, rounds: int) -> list[str]:
    lake = folder / "lake"
    (lake / "bronze").mkdir(parents=True)
    (lake / "lakesmith.yml").write_text("name: bench\n")
    (lake / "bronze" / "orders.yml").write_text("source: {files: landing/*.json}\ncolumns: {id: bigint}\n")
    landing = lake / "landing"
    landing.mkdir()
    _land(landing, "first", 1)
    Lake.open(lake).run(session=spark)  # type: ignore[arg-type]
    for number in range(known):
        (landing / f"known-{number:06}.json").write_text('{"id": 1}\n')
    _as_if_taken(lake, known)
    plans, runs = [], []
    for number in range(rounds + 1):
        _land(landing, f"new-{number}", NEW)
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
    return [f"{known:,}", str(NEW), f"{min(plans):.3f}", f"{wall:.2f}", f"{cpu:.2f}"]


def _land(folder: Path, name: str, count: int) -> None:
    for number in range(count):
        (folder / f"{name}-{number}.json").write_text(json.dumps({"id": number}) + "\n")


def _as_if_taken(lake: Path, known: int) -> None:
    """Write down that the files were taken in by the batch that there is: taking in 100,000 is not what is measured."""
    storage = LocalStorage(lake / ".lakesmith" / "warehouse")
    batches = Batches(storage, TableName("bronze", "orders"))
    facts = [FileFact(f.path, f.size, f.modified) for f in LocalStorage(lake).list("landing/*.json")]
    assert len(facts) == known + 1
    batches.sum_up(1, 1, {fact.path: fact for fact in facts})


if __name__ == "__main__":
    main()
