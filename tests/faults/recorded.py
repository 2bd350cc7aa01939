"""A process that works on lakes and writes its acknowledgements to a file beside them. `strace` records it.

python -m tests.faults.recorded FOLDER merge staged
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.events import Events
from tests.faults.lake_process import LakeCommand, answer_to
from tests.faults.layouts import layout

from lakesmith import disk
from lakesmith.formats.delta import commit
from lakesmith.jvm.session import close_session, open_session
from lakesmith.lake import Lake
from lakesmith.ledger.tables import Ledger
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.records import RunRecord
from lakesmith.reports import RunReport
from lakesmith.spark import batch_counts, write
from lakesmith.store import LocalStore, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("SEED", "7"))
SAID = "acknowledged.jsonl"
GATED: Mapping[str, str] = {
    "lakesmith.yml": "name: gated\n",
    "bronze/events.yml": 'source: {files: "landing/events/*.json", archive: archive}\n',
    "silver/events.sql": (
        "/* lakesmith\nload: {merge: {key: id, order_by: seq}}\n"
        "checks:\n  few: {expect: count(*) < 1, on_fail: fail}\n*/\n"
        "SELECT seq, id FROM bronze.events WHERE id IS NOT NULL\n"
    ),
    "gold/kinds.sql": (
        "/* lakesmith\nload: {replace_partitions: kind}\n*/\n"
        "SELECT concat('a b%20/é?#:', seq % 2) AS kind, count(*) AS n FROM bronze.events GROUP BY kind\n"
    ),
}
"""A lake whose gate holds the first batch, whose files are archived, and whose partitions have odd names: the log store
skips missing files, so it would not sync a file whose name it misreads."""


def declare(lake: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        _write(lake / name, text)


def land(lake: Path, number: int) -> None:
    """Land a file: it is durable before it gets its name."""
    _write(
        lake / "landing" / "events" / f"{number:05}.json", "".join(f"{line}\n" for line in Events(SEED).lines(number))
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    for folder in path.parents:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class Recorded:
    """One lake and the acknowledgements of its runs."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._lake = Lake.open(folder)
        self._folder, self._spark, self._landed = folder, spark, 0

    def run(self, *, large: bool = False, few: bool = False) -> None:
        """Land a file and run; with `large`, a merge marks rows in deletion vectors; with `few`, the driver commits the
        rows."""
        vars(batch_counts)["FEW_ROWS"] = 10_000 if few else -1
        vars(write)["_DV_MERGE_BYTES"] = 0 if large else 64 << 20
        self._landed += 1
        land(self._folder, self._landed)
        self._do("run", lambda: self._lake.run(jobs=1, session=self._spark))

    def compact(self, table: str) -> None:
        self._do("compact", lambda: self._lake.compact((table,), session=self._spark))

    def replay(self, table: str) -> None:
        chosen, amount = QuarantineFilter(rule="positive"), {"amount": "abs(amount)"}
        self._do(
            "replay",
            lambda: self._lake.replay(table, chosen, set=amount, why="test", by="test", session=self._spark),
        )

    def _do(self, what: LakeCommand, work: Callable[[], RunReport]) -> None:
        said = {"lake": self._folder.name, "do": what, "landed": self._landed}
        self._say({**said, "answer": None})
        self._say({**said, "answer": asdict(answer_to(work()))})

    def _say(self, record: dict[str, Any]) -> None:
        with (self._folder.parent / SAID).open("a") as file:
            file.write(json.dumps(record) + "\n")


def ledger(folder: Path, *, sync: bool) -> None:
    """Write records of runs and archive a file, without Spark. With `sync=False`, `disk.sync` does nothing: a planted
    bug."""
    if not sync:
        original = disk.sync
        for name, module in list(sys.modules.items()):
            if name.startswith("lakesmith") and vars(module).get("sync") is original:
                vars(module)["sync"] = lambda path: None
    records = Ledger(Warehouse(str(folder)))
    for number in range(3):
        run = RunRecord(
            run_id=str(number),
            lake="x",
            environment="x",
            plan_hash="x",
            outcome="ok",
            tables=0,
            rows_in=0,
            rows_written=0,
            rows_quarantined=0,
            rows_deduplicated=0,
            started_at=datetime.now(UTC),
            seconds=1.0,
            lakesmith_version="x",
        )
        records.record(run, (), ())
    (folder / SAID).write_text("{}")
    landed = folder / "landing/events/1.json"
    disk.make_folders(landed.parent)
    landed.write_text("{}")  # not synced: not every sender does it
    LocalStore(folder).move("landing/events/1.json", "landing/events/archive/1.json")


def main(folder: str, *flows: str) -> None:
    if flows[0] == "ledger":
        ledger(Path(folder), sync=flows[1:] != ("no-sync",))
        return
    # Write checkpoints often: they must be synced too.
    vars(commit)["_INTERVAL"] = 2
    often = {"spark.databricks.delta.properties.defaults.checkpointInterval": "2"}
    session = open_session("recorded", often, ("delta",), brief=True)
    for name in flows:
        lake = Path(folder, name)
        declare(lake, GATED if name == "gated" else layout(name, SEED).declarations())
        recorded = Recorded(lake, session)
        recorded.run()
        if name == "gated":
            continue
        recorded.run()
        if name == "merge":
            recorded.run(large=True)
            recorded.run(few=True)
            recorded.compact("silver.events")
            recorded.replay("silver.events")
    close_session(session)


if __name__ == "__main__":
    main(*sys.argv[1:])
