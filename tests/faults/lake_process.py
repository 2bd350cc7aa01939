"""A process that works on a lake. It is killed at a failpoint, or ends and reports what it did."""

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

LakeCommand = Literal["run", "replay", "discard", "compact", "vacuum", "restore", "rollback"]

HANGS = 360.0
"""After this number of seconds, a process prints its stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a process does, and where it is killed."""

    lake: str
    answer: str
    """The file that the process writes its answer to."""
    do: LakeCommand = "run"
    table: str = "silver.events"
    version: int = 0
    """For a restore, the table's version; for a rollback, how many releases it goes back."""
    jvm: Jvm | None = None
    """None for its own Spark."""
    place: str | None = None
    about: str = ""
    nth: int = 1
    action: Literal["kill", "stop", "fail", "jvm"] = "kill"
    """At the failpoint: SIGKILL, SIGSTOP, an error of the operating system, or SIGKILL for its own JVM."""
    plant: str | None = None
    lease_seconds: float | None = None
    large: bool = False
    """Whether every table counts as large."""
    few: bool = False
    """Whether the driver commits the rows of small batches."""

    @property
    def progress(self) -> Path:
        """The file to which the process adds a line at each failpoint."""
        return Path(f"{self.answer}.places")

    def reached(self) -> list[tuple[str, str]]:
        """Return the failpoints that the process reached, each with its subject."""
        if not self.progress.exists():
            return []
        pairs = (line.partition(" ") for line in self.progress.read_text().splitlines())
        return [(place, about) for place, _, about in pairs]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a process reports at its end."""

    run: str | None = None
    steps: tuple[tuple[str, int, int], ...] = ()
    """Table, sequence and version of each successful step."""
    errors: tuple[dict[str, Any], ...] = ()
    bug: str | None = None
    release: str | None = None
    """The release of a rollback."""


def start(order: Order) -> BaseProcess:
    """Start a process that has loaded its libraries."""
    Path(order.answer).unlink(missing_ok=True)
    order.progress.unlink(missing_ok=True)
    process = FORKS.Process(target=carry_out_order, args=(order,))
    process.start()
    return process


def answer_of(order: Order) -> Answer | None:
    """Return the report of a process; None when it was killed before."""
    try:
        fields = json.loads(Path(order.answer).read_text())
    except FileNotFoundError:
        return None
    return Answer(
        run=fields["run"],
        steps=tuple((table, sequence, version) for table, sequence, version in fields["steps"]),
        errors=tuple(fields["errors"]),
        bug=fields["bug"],
        release=fields["release"],
    )


def carry_out_order(order: Order) -> None:
    """Carry out the order in this process."""
    os.setpgid(0, 0)  # so that its own Spark can be killed with it
    faulthandler.dump_traceback_later(HANGS)
    prepare(order)
    _say(order, _run_order(order))


def prepare(order: Order) -> None:
    """Make this process act at its failpoint, and plant its bug."""
    times = 0
    progress = os.open(order.progress, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def reached(place: str, about: str) -> None:
        nonlocal times
        os.write(progress, f"{place} {about}\n".encode())
        if place == order.place and order.about in about.replace("/", "."):
            times += 1
            if times == order.nth:
                _act(order.action)

    failpoints.watch(reached)
    if order.lease_seconds is not None:
        from lakesmith.ledger import lease

        lease.LEASE_SECONDS = order.lease_seconds
    if not order.few:
        from lakesmith.spark import batch_counts

        batch_counts.FEW_ROWS = -1
    if order.large:
        from lakesmith.spark import write

        write._DV_MERGE_BYTES = 0
    if order.plant is not None:
        plant(order.plant)


def _act(how: str) -> None:
    if how == "fail":
        raise OSError(5, "Input/output error")
    if how == "jvm":
        kill_jvm(os.getpid())
        return
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    time.sleep(0.01)


def _run_order(order: Order) -> Answer:
    try:
        spark = order.jvm.attach() if order.jvm else None
    except Exception:  # noqa: BLE001 - any error is reported
        # If the JVM was killed this early, the process has not read the lake yet.
        return Answer() if order.jvm and order.jvm.has_ended() else Answer(bug=traceback.format_exc())
    release = None
    try:
        lake = Lake.open(order.lake)
        if order.do == "rollback":
            release = next((each.release for each in reversed(lake.releases(limit=order.version + 1))), None)
        report = _report(lake, order, release, spark)
    except LakesmithError as error:
        return Answer(errors=(_error_fields(error),))
    except BaseException:  # noqa: BLE001 - any error is reported
        return Answer(bug=traceback.format_exc())
    return answer_to(report, release)


def answer_to(report: RunReport, release: str | None = None) -> Answer:
    """Return the parts of a report that fault injection needs."""
    steps = [(step.table, step.sequence, step.version) for step in report.steps if step.outcome == "ok"]
    return Answer(
        release=release,
        run=report.run.run_id if report.run else None,
        steps=tuple((table, sequence, version) for table, sequence, version in steps if version is not None),
        errors=tuple(map(_error_fields, report.errors)),
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
            # If all runs were killed before their end, no release exists.
            return lake.rollback(release, session=spark) if release else RunReport(run=None, steps=(), checks=())
        case _:
            assert_never(order.do)


def _error_fields(error: LakesmithError) -> dict[str, Any]:
    return {"code": error.code, "what": error.what, "hint": error.hint, "exit_code": error.exit_code}


def _say(order: Order, answer: Answer) -> None:
    unfinished = Path(f"{order.answer}.part")
    unfinished.write_text(json.dumps(asdict(answer)))
    unfinished.rename(order.answer)
