"""The power goes at any moment of a run: what was acknowledged is there, and a rerun is right."""

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
from tests.faults.power import Disk, Survival
from tests.faults.recorded import SAID, SEED
from tests.faults.siege import Oracle, Siege
from tests.faults.syscalls import Event, record
from tests.faults.victim import Answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(3600)]

FLOWS = ("merge", "staged", "partitions", "changes")
_COMMIT = re.compile(r".+/_delta_log/\d{20}\.json")
CUTS = 12
"""For each lake, besides those right after a commit."""


@dataclass(frozen=True)
class Recording:
    """What a process did to its lakes."""

    root: Path
    """Where the lakes were. A lake is put back there: paths of landing files are in its rows."""
    events: Sequence[Event]
    kept: Path
    """Where the lakes of the process are now."""

    def span(self, lake: str) -> range:
        """The events from the first of a lake to its last."""
        of = [at for at, event in enumerate(self.events) if event.path.startswith(f"{self.root}/{lake}/.lakesmith/")]
        return range(of[0], of[-1] + 1)

    def disk(self, upto: int) -> Disk:
        disk = Disk(self.root)
        for event in self.events[: upto + 1]:
            disk.apply(event)
        return disk

    def said(self, lake: str, upto: int) -> Iterator[dict[str, Any]]:
        """What the process has said of a lake by then."""
        for event in self.events[: upto + 1]:
            if event.kind == "write" and event.path == str(self.root / SAID):
                told = json.loads(event.data)
                if told["lake"] == lake:
                    yield told


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("recorded")
    root = folder / "lakes"
    root.mkdir()
    command = [sys.executable, "-m", "tests.faults.recorded", str(root), *FLOWS]
    events = record(command, root, folder / "trace")
    return Recording(root, events, root.rename(folder / "kept"))


@dataclass(frozen=True)
class Rebuild:
    """Makes lakes as a power cut leaves them."""

    oracle: Oracle
    spark: SparkSession

    def __call__(self, recording: Recording, lake: str, at: int, survival: Survival) -> Siege:
        """The lake after an event, with all that is known of it for certain."""
        shutil.rmtree(recording.root, ignore_errors=True)
        recording.disk(at).cut(recording.root, survival, random.Random(f"{SEED}/{lake}/{at}/{survival}"))
        context: Any = self.spark.sparkContext
        context._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # it knows another lake of this place
        siege = Siege(recording.root / lake, lake, SEED, self.oracle, Jvm.of(self.spark))
        _tell(siege, recording.said(lake, at))
        landed = sorted((siege.folder / "landing" / "events").glob("*.json"))
        siege.landed = len(landed)
        for file in landed:  # one that has changed since it was pinned is another one
            status = (recording.kept / file.relative_to(recording.root)).stat()
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        return siege


@pytest.fixture(scope="module")
def rebuild(oracle: Oracle, shared_spark: SparkSession) -> Rebuild:
    return Rebuild(oracle, shared_spark)


def _tell(siege: Siege, said: Iterable[dict[str, Any]]) -> None:
    for told in said:
        siege.landed = told["landed"]
        if answer := told["answer"]:
            siege.heard(told["do"], Answer(**{**answer, "steps": tuple(map(tuple, answer["steps"]))}))
        else:
            siege.expect(told["do"])


def cuts(recording: Recording, lake: str) -> Iterator[tuple[int, Survival]]:
    """Moments right after commits, and others, each with one of the ways in which a disk may lose what is unsynced."""
    ways = cycle(get_args(Survival))
    span = recording.span(lake)
    commits = [at for at in span if _COMMIT.fullmatch(recording.events[at].to)]
    chance = random.Random(f"{SEED}/{lake}")
    for at in (*chance.sample(commits, min(CUTS, len(commits))), *chance.sample(span, CUTS)):
        yield at, next(ways)


@pytest.mark.parametrize("lake", FLOWS)
def test_after_a_power_cut_nothing_acknowledged_is_lost_and_a_rerun_is_right(
    recording: Recording, rebuild: Rebuild, lake: str
) -> None:
    for at, survival in cuts(recording, lake):
        siege, event = rebuild(recording, lake, at, survival), recording.events[at]
        where = f"{survival} survives a cut after event {at}: {event.kind} {event.path} {event.to}"
        assert siege.judge() == [], where
        assert siege.settle() == [], where


def test_a_power_cut_finds_writers_that_do_not_sync(recording: Recording, rebuild: Rebuild) -> None:
    for java in (True, False):
        kept = [event for event in recording.events if event.kind != "sync" or is_java(event) != java]
        planted = replace(recording, events=kept)
        assert rebuild(planted, "merge", planted.span("merge")[-1], "names").judge()


def is_java(event: Event) -> bool:
    return not event.program.startswith("python")
