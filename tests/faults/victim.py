"""A process that works on a lake and is killed at a place, or ends and says what it did."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never

from tests.faults.attach import Jvm
from tests.faults.forks import FORKS
from tests.faults.jvm_processes import kill_jvm
from tests.faults.planted import plant

from lakesmith import failpoints
from lakesmith.errors import LakesmithError
from lakesmith.lake import Lake
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from pyspark.sql import SparkSession

Deed = Literal["run", "replay", "discard", "compact", "vacuum", "restore", "rollback"]

HANGS = 360.0
"""Seconds after which a process tells what it is waiting for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a process is to do, and where it ends."""

    lake: str
    answer: str
    """The file that the process writes its answer to."""
    do: Deed = "run"
    table: str = "silver.events"
    version: int = 0
    """Of a table that is restored; of a lake that is rolled back, how many releases ago."""
    jvm: Jvm | None = None
    """None for a Spark of its own."""
    place: str | None = None
    about: str = ""
    nth: int = 1
    strike: Literal["kill", "stop", "fail", "jvm"] = "kill"
    """At the place: SIGKILL, SIGSTOP, an error of the operating system, or SIGKILL for the JVM that it has started."""
    plant: str | None = None
    lease_seconds: float | None = None
    large: bool = False
    """Whether tables count as large from their first byte on."""

    @property
    def progress(self) -> Path:
        """The file that the process adds a line to at each place."""
        return Path(f"{self.answer}.places")

    def reached(self) -> list[tuple[str, str]]:
        """The places that the process came to, and what each was about."""
        if not self.progress.exists():
            return []
        pairs = (line.partition(" ") for line in self.progress.read_text().splitlines())
        return [(place, about) for place, _, about in pairs]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a process says at its end."""

    run: str | None = None
    steps: tuple[tuple[str, int, int], ...] = ()
    """Table, sequence and version of each step that did something."""
    errors: tuple[dict[str, Any], ...] = ()
    bug: str | None = None
    release: str | None = None
    """What the lake was rolled back to."""


def start(order: Order) -> BaseProcess:
    """Begin, in a process that already knows its libraries."""
    Path(order.answer).unlink(missing_ok=True)
    order.progress.unlink(missing_ok=True)
    process = FORKS.Process(target=obey, args=(order,))
    process.start()
    return process


def answer_of(order: Order) -> Answer | None:
    """What the process said; None when it was killed before."""
    try:
        told = json.loads(Path(order.answer).read_text())
    except FileNotFoundError:
        return None
    return Answer(
        run=told["run"],
        steps=tuple((table, sequence, version) for table, sequence, version in told["steps"]),
        errors=tuple(told["errors"]),
        bug=told["bug"],
        release=told["release"],
    )


def obey(order: Order) -> None:
    """Do as one is told."""
    os.setpgid(0, 0)  # so that a Spark of its own can be killed with it
    faulthandler.dump_traceback_later(HANGS)
    prepare(order)
    _say(order, _done(order))


def prepare(order: Order) -> None:
    """Make this process strike at its place, and work with the bug that is planted."""
    times = 0
    progress = os.open(order.progress, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def reached(place: str, about: str) -> None:
        nonlocal times
        os.write(progress, f"{place} {about}\n".encode())
        if place == order.place and order.about in about.replace("/", "."):
            times += 1
            if times == order.nth:
                _strike(order.strike)

    failpoints.watch(reached)
    if order.lease_seconds is not None:
        from lakesmith.ledger import lease

        lease.LEASE_SECONDS = order.lease_seconds
    if order.large:
        from lakesmith.spark import write

        write._DV_MERGE_BYTES = 0
    if order.plant is not None:
        plant(order.plant)


def _strike(how: str) -> None:
    if how == "fail":
        raise OSError(5, "Input/output error")
    if how == "jvm":
        kill_jvm(os.getpid())
        return
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    time.sleep(0.01)


def _done(order: Order) -> Answer:
    try:
        spark = order.jvm.attach() if order.jvm else None
    except Exception:  # noqa: BLE001 - whatever it is, it is what there is to be told
        # Where the JVM was killed this early, nothing of the lake was looked at yet.
        return Answer() if order.jvm and order.jvm.has_ended() else Answer(bug=traceback.format_exc())
    release = None
    try:
        lake = Lake.open(order.lake)
        if order.do == "rollback":
            release = next((each.release for each in reversed(lake.releases(limit=order.version + 1))), None)
        report = _report(lake, order, release, spark)
    except LakesmithError as error:
        return Answer(errors=(_told(error),))
    except BaseException:  # noqa: BLE001 - whatever it is, it is what there is to be told
        return Answer(bug=traceback.format_exc())
    return answer_to(report, release)


def answer_to(report: RunReport, release: str | None = None) -> Answer:
    """What a report says that whoever attacks a lake has to know."""
    steps = [(step.table, step.sequence, step.version) for step in report.steps if step.outcome == "ok"]
    return Answer(
        release=release,
        run=report.run.run_id if report.run else None,
        steps=tuple((table, sequence, version) for table, sequence, version in steps if version is not None),
        errors=tuple(map(_told, report.errors)),
    )


def _report(lake: Lake, order: Order, release: str | None, spark: SparkSession | None) -> RunReport:
    match order.do:
        case "run":
            return lake.run(jobs=1, session=spark)
        case "replay":
            chosen = QuarantineFilter(rule="positive")
            return lake.replay(order.table, chosen, set={"amount": "abs(amount)"}, why="test", by="test", session=spark)
        case "discard":
            return lake.discard(order.table, QuarantineFilter(), why="test", by="test", session=spark)
        case "compact":
            return lake.compact((order.table,), session=spark)
        case "vacuum":
            return lake.vacuum((order.table,), older_than=0.0, force=True, session=spark)
        case "restore":
            return lake.restore(order.table, order.version, session=spark)
        case "rollback":
            # Where all runs were killed before their end there is no release.
            return lake.rollback(release, session=spark) if release else RunReport(run=None, steps=(), checks=())
        case _:
            assert_never(order.do)


def _told(error: LakesmithError) -> dict[str, Any]:
    return {"code": error.code, "what": error.what, "hint": error.hint, "exit_code": error.exit_code}


def _say(order: Order, answer: Answer) -> None:
    unfinished = Path(f"{order.answer}.part")
    unfinished.write_text(json.dumps(asdict(answer)))
    unfinished.rename(order.answer)
