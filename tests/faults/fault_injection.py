"""Injects the faults of one plan: starts a process, lets other writers commit, kills it, and reads what it reported."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.attacked_lake import PATIENCE, AttackedLake, untyped
from tests.faults.command import Command
from tests.faults.fault_plans import FaultPlan, layer_of
from tests.faults.jvm_processes import kill_jvm
from tests.faults.lake_process import Order, answer_of, start
from tests.faults.other_writers import Burst, Writers

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_SOON = 0.02


@dataclass
class InjectionResult:
    """The result of one plan."""

    killed: bool = False
    layer: str = ""
    place: str = ""
    """The last failpoint that the process reached."""
    foreign: int = 0
    broken: list[str] = field(default_factory=list)

    def at(self, reached: list[tuple[str, str]]) -> None:
        """Record the failpoints that the process had reached before the kill."""
        self.layer, self.place = layer_of(reached), reached[-1][0] if reached else "start"


class FaultInjector:
    """Injects faults into one lake."""

    def __init__(self, lake: AttackedLake, writers: Writers, kill_engine: Callable[[], bool]) -> None:
        self._lake = lake
        self._writers = writers
        self._kill_engine = kill_engine
        self._jvm_killed = False
        self._seen: list[tuple[str, str]] = []
        """The failpoints that a process had reached when it was killed at a moment."""

    def carry_out(self, plan: FaultPlan) -> InjectionResult:
        order = self._lake.order(
            plan.do, place=plan.place, about=plan.about, nth=plan.nth, action=plan.action, **plan.details
        )
        result = InjectionResult()
        self._commit(plan.burst, "before", result)
        self._lake.expect(plan.do)
        if plan.weapon == "own-jvm":
            self._lone_jvm(plan, order, result)
        else:
            self._process(plan, order, result)
        result.at(_reached_before_action(order) if order.place else self._seen)
        self._commit(plan.burst, "after", result)
        return result

    def _commit(self, burst: Burst | None, when: str, result: InjectionResult) -> None:
        if burst is not None and burst.when == when:
            made = self._writers.commit(self._lake.warehouse, burst)
            self._lake.foreign += made
            result.foreign += len(made)

    def _process(self, plan: FaultPlan, order: Order, result: InjectionResult) -> None:
        """Run a process that borrows a JVM, or has its own Spark that dies with it."""
        process = start(order)
        assert process.pid is not None
        twin = None
        if plan.weapon == "twin":
            beside = replace(order, answer=f"{order.answer}.twin", do="run")
            twin = (beside, start(beside))
        deadline = time.monotonic() + PATIENCE
        if order.action == "stop":
            self._while_stopped(plan, process, result)
        elif plan.burst is not None and plan.burst.when == "beside":
            _wait(plan.table, order, process.is_alive)
            self._commit(plan.burst, "beside", result)
        if plan.weapon != "place":
            self._at_moment(plan, order, process)
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            killed(process.pid, group=True)
            process.join()
            result.broken.append(f"E {order.do} hung for {PATIENCE:.0f} s")
        self._read_answer(plan, order, process, result)
        # A driver that is killed at a failpoint has no job in its JVM; one that is killed at a moment may have one.
        if result.killed and plan.weapon in ("moment", "twin"):
            self._lake.may_commit = True
        elif self._jvm_killed:
            self._lake.may_commit = False
        if twin is not None:
            self._read_twin_answer(plan, *twin, result)

    def _at_moment(self, plan: FaultPlan, order: Order, process: BaseProcess) -> None:
        assert process.pid is not None
        if plan.after is not None:
            _wait(plan.after, order, process.is_alive)
        process.join(plan.moment)
        self._seen = order.reached()
        if not process.is_alive():
            return
        if plan.weapon in ("jvm", "both"):
            self._jvm_killed = self._kill_engine()
        if plan.weapon != "jvm":
            killed(process.pid, group=plan.weapon == "own")

    def _while_stopped(self, plan: FaultPlan, process: BaseProcess, result: InjectionResult) -> None:
        """Let another writer commit while the process is stopped at its failpoint; then resume or kill it."""
        assert process.pid is not None
        deadline = time.monotonic() + PATIENCE
        while process.is_alive() and time.monotonic() < deadline:
            if _state(process.pid) == "T":
                self._commit(plan.burst, "while stopped", result)
                os.kill(process.pid, signal.SIGCONT if plan.continues else signal.SIGKILL)
                return
            process.join(_SOON)

    def _read_answer(self, plan: FaultPlan, order: Order, process: BaseProcess, result: InjectionResult) -> None:
        answer = answer_of(order)
        if answer is None:
            result.killed = process.exitcode == -signal.SIGKILL
            if not result.killed and not result.broken:
                result.broken.append(f"E {order.do} died by itself: {process.exitcode}")
            return
        result.killed = plan.weapon == "jvm" and self._jvm_killed
        result.broken += untyped(answer)
        self._lake.acknowledge(order.do, answer)

    def _read_twin_answer(self, plan: FaultPlan, beside: Order, other: BaseProcess, result: InjectionResult) -> None:
        lake = self._lake
        other.join(PATIENCE)
        if other.is_alive() and other.pid is not None:
            killed(other.pid)
            result.broken.append("E a twin hung")
        answer = answer_of(beside)
        result.broken += untyped(answer)
        lake.rolled_back = None
        if answer is not None:
            lake.acknowledge("run", answer)
            if plan.do not in ("run", "compact", "vacuum") and answer.run is not None:
                lake.released.pop(answer.run, None)  # it is unknown whether it precedes the decision
        if plan.do in ("restore", "rollback"):
            lake.acknowledged = 0  # the table may have been restored after the twin ended

    def _lone_jvm(self, plan: FaultPlan, order: Order, result: InjectionResult) -> None:
        """Run `lakesmith run` with its own Spark, and kill only its JVM.

        The command must end by itself, with the exit code for a failed Spark, and must record the run.
        """
        command = Command(order)
        process = command.process

        def is_alive() -> bool:
            return process.poll() is None

        if plan.burst is not None and plan.burst.when == "beside":
            _wait(plan.table, order, is_alive)
            self._commit(plan.burst, "beside", result)
        if plan.place is None:
            if plan.after is not None:
                _wait(plan.after, order, is_alive)
            time.sleep(plan.moment)
            deadline = time.monotonic() + 10
            while is_alive() and not result.killed and time.monotonic() < deadline:
                self._seen = order.reached()
                result.killed = kill_jvm(process.pid)  # it may not have started yet
                time.sleep(_SOON)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            killed(process.pid, group=True)
            process.wait()
            result.broken.append(f"E lakesmith run hung for {PATIENCE:.0f} s after its JVM was killed")
        ended = command.ended()
        result.killed = result.killed or (plan.place is not None and len(_actions(order)) >= order.nth)
        result.broken += ended.broken
        result.broken += [] if ended.answer.bug else untyped(ended.answer)
        if result.killed and ended.answer.run is None:
            result.broken.append(f"A lakesmith run ended with exit code {ended.code}, and did not say which run it was")
        if result.killed and order.place in _NEED_SPARK and ended.code != 4:
            result.broken.append(f"E lakesmith run ended with exit code {ended.code} when its JVM was gone")
        if result.killed and ended.code == 4 and not ended.answer.errors:
            result.broken.append("E lakesmith run ended with exit code 4 and without an error")
        self._lake.acknowledge("run", ended.answer)
        killed(process.pid, group=True)  # the remaining workers of its JVM


_NEED_SPARK = ("batch.pinned",)
"""Failpoints after which the process needs its JVM."""


def _actions(order: Order) -> list[int]:
    """Return the positions of the target failpoint among the reached failpoints."""
    places = enumerate(order.reached())
    return [at for at, (place, about) in places if place == order.place and order.about in about.replace("/", ".")]


def _reached_before_action(order: Order) -> list[tuple[str, str]]:
    """Return the failpoints reached until the kill: a process may continue without its JVM."""
    actions = _actions(order)
    return order.reached()[: actions[order.nth - 1] + 1] if len(actions) >= order.nth else order.reached()


def _wait(table: str, order: Order, is_alive: Callable[[], bool]) -> None:
    """Wait until a process has taken the lease of a table, or finishes."""
    deadline = time.monotonic() + PATIENCE
    while is_alive() and time.monotonic() < deadline:
        if any(
            place == "ledger.recording" or (place == "lease.taken" and table in about)
            for place, about in order.reached()
        ):
            return
        time.sleep(_SOON)


def _state(process: int) -> str:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def killed(process: int | None, *, group: bool = False) -> bool:
    """Kill a process or its whole group; return whether it existed."""
    assert process is not None
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL) if group else os.kill(process, signal.SIGKILL)
        return True
    return False
