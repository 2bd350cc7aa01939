"""A power cut at any moment of a run loses no acknowledged work, and a rerun is correct."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.faults.attach import Jvm
from tests.faults.attacked_lake import AttackedLake, Oracle
from tests.faults.lake_process import Answer
from tests.faults.power import Disk, Survival
from tests.faults.recorded import SAID, SEED
from tests.faults.syscalls import Event, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(3600)]

FLOWS = ("merge", "staged", "partitions", "changes")
_COMMIT = re.compile(r".+/_delta_log/\d{20}\.json")
CUTS = int(os.environ.get("CUTS", "12"))
"""The number of random cuts for each lake, besides those right after a commit."""


@dataclass(frozen=True)
class Recording:
    """The recorded changes of a process."""

    root: Path
    """The original folder. A lake is rebuilt there, because its rows have the paths of landing files."""
    events: Sequence[Event]
    copy: Path
    """The present folder of the recorded lakes."""

    def span(self, lake: str) -> range:
        """Return the events of a lake, from first to last."""
        of = [at for at, event in enumerate(self.events) if event.path.startswith(f"{self.root}/{lake}/.lakesmith/")]
        return range(of[0], of[-1] + 1)

    def disk(self, upto: int) -> Disk:
        disk = Disk(self.root)
        for event in self.events[: upto + 1]:
            disk.apply(event)
        return disk

    def acknowledgements(self, lake: str, upto: int) -> Iterator[dict[str, Any]]:
        """Yield the acknowledgements about a lake until an event."""
        for event in self.events[: upto + 1]:
            if event.kind == "write" and event.path == str(self.root / SAID):
                record = json.loads(event.data)
                if record["lake"] == lake:
                    yield record


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("recorded")
    root = folder / "lakes"
    root.mkdir()
    command = [sys.executable, "-m", "tests.faults.recorded", str(root), *FLOWS]
    events = record(command, root, folder / "trace")
    return Recording(root, events, root.rename(folder / "copy"))


@dataclass(frozen=True)
class Rebuild:
    """Rebuilds lakes as a power cut leaves them."""

    oracle: Oracle
    spark: SparkSession

    def __call__(self, recording: Recording, lake: str, at: int, survival: Survival) -> AttackedLake:
        """Return the lake after an event, with everything that is certain about it."""
        shutil.rmtree(recording.root, ignore_errors=True)
        recording.disk(at).cut(recording.root, survival, random.Random(f"{SEED}/{lake}/{at}/{survival}"))
        context: Any = self.spark.sparkContext
        context._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # it caches an earlier lake of this folder
        attacked = AttackedLake(recording.root / lake, lake, SEED, self.oracle, Jvm.of(self.spark))
        _replay_acknowledgements(attacked, recording.acknowledgements(lake, at))
        landed = sorted((attacked.folder / "landing" / "events").glob("*.json"))
        attacked.landed = len(landed)
        for file in landed:  # a file with another time counts as changed
            status = (recording.copy / file.relative_to(recording.root)).stat()
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        return attacked


@pytest.fixture(scope="module")
def rebuild(oracle: Oracle, shared_spark: SparkSession) -> Rebuild:
    return Rebuild(oracle, shared_spark)


def _replay_acknowledgements(attacked: AttackedLake, records: Iterable[dict[str, Any]]) -> None:
    for said in records:
        attacked.landed = said["landed"]
        if answer := said["answer"]:
            attacked.acknowledge(said["do"], Answer(**{**answer, "steps": tuple(map(tuple, answer["steps"]))}))
        else:
            attacked.expect(said["do"])


def cuts(recording: Recording, lake: str) -> Iterator[tuple[int, Survival]]:
    """Yield moments right after commits and random ones, each with one way to lose unsynced data."""
    ways = cycle(get_args(Survival))
    span = recording.span(lake)
    commits = [at for at in span if _COMMIT.fullmatch(recording.events[at].to)]
    chance = random.Random(f"{SEED}/{lake}")
    for at in (*chance.sample(commits, min(CUTS, len(commits))), *chance.sample(span, CUTS)):
        yield at, next(ways)


@pytest.mark.parametrize("lake", FLOWS)
def test_a_power_cut_loses_no_acknowledged_work_and_a_rerun_is_correct(
    recording: Recording, rebuild: Rebuild, lake: str
) -> None:
    for at, survival in cuts(recording, lake):
        attacked, event = rebuild(recording, lake, at, survival), recording.events[at]
        where = f"{survival} survives a cut after event {at}: {event.kind} {event.path} {event.to}"
        assert attacked.check() == [], where
        assert attacked.run_to_completion() == [], where


def test_a_power_cut_detects_writers_that_do_not_sync(recording: Recording, rebuild: Rebuild) -> None:
    for java in (True, False):
        unsynced = [event for event in recording.events if event.kind != "sync" or is_java(event) != java]
        planted = replace(recording, events=unsynced)
        assert rebuild(planted, "merge", planted.span("merge")[-1], "names").check()


def is_java(event: Event) -> bool:
    return not event.program.startswith("python")
