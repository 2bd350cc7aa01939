"""Carries out one act of chaos: starts a process, lets other writers commit, kills, and listens to what is left."""

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

from tests.faults.aims import Aim, layer_of
from tests.faults.command import Command
from tests.faults.jvm_processes import kill_jvm
from tests.faults.other_writers import Burst, Writers
from tests.faults.siege import PATIENCE, Siege, untyped
from tests.faults.victim import Order, answer_of, start

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_SOON = 0.02


@dataclass
class Struck:
    """What came of an act."""

    killed: bool = False
    layer: str = ""
    place: str = ""
    """The place that the process came to last."""
    foreign: int = 0
    broken: list[str] = field(default_factory=list)

    def at(self, reached: list[tuple[str, str]]) -> None:
        """The process had come to these places when it was struck."""
        self.layer, self.place = layer_of(reached), reached[-1][0] if reached else "start"


class Strikes:
    """Acts on one lake."""

    def __init__(self, siege: Siege, writers: Writers, kill_engine: Callable[[], bool]) -> None:
        self._siege = siege
        self._writers = writers
        self._kill_engine = kill_engine
        self._jvm_killed = False
        self._seen: list[tuple[str, str]] = []
        """The places that a process had come to when it was struck at a moment."""

    def carry_out(self, aim: Aim) -> Struck:
        order = self._siege.order(
            aim.do, place=aim.place, about=aim.about, nth=aim.nth, strike=aim.strike, **aim.details
        )
        struck = Struck()
        self._commit(aim.burst, "before", struck)
        self._siege.expect(aim.do)
        if aim.weapon == "own-jvm":
            self._lone_jvm(aim, order, struck)
        else:
            self._process(aim, order, struck)
        struck.at(_upto_strike(order) if order.place else self._seen)
        self._commit(aim.burst, "after", struck)
        return struck

    def _commit(self, burst: Burst | None, when: str, struck: Struck) -> None:
        if burst is not None and burst.when == when:
            made = self._writers.commit(self._siege.warehouse, burst)
            self._siege.foreign += made
            struck.foreign += len(made)

    def _process(self, aim: Aim, order: Order, struck: Struck) -> None:
        """A process that borrows a JVM, or has a Spark of its own that dies with it."""
        process = start(order)
        assert process.pid is not None
        twin = None
        if aim.weapon == "twin":
            beside = replace(order, answer=f"{order.answer}.twin", do="run")
            twin = (beside, start(beside))
        deadline = time.monotonic() + PATIENCE
        if order.strike == "stop":
            self._while_stopped(aim, process, struck)
        elif aim.burst is not None and aim.burst.when == "beside":
            _wait(aim.table, order, process.is_alive)
            self._commit(aim.burst, "beside", struck)
        if aim.weapon != "place":
            self._at_moment(aim, order, process)
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            killed(process.pid, group=True)
            process.join()
            struck.broken.append(f"E {order.do} hung for {PATIENCE:.0f} s")
        self._listen(aim, order, process, struck)
        # Killed in Python at a place, a driver has nothing under way in its JVM; killed at a moment, it may have.
        if struck.killed and aim.weapon in ("moment", "twin"):
            self._siege.may_commit = True
        elif self._jvm_killed:
            self._siege.may_commit = False
        if twin is not None:
            self._hear_twin(aim, *twin, struck)

    def _at_moment(self, aim: Aim, order: Order, process: BaseProcess) -> None:
        assert process.pid is not None
        if aim.after is not None:
            _wait(aim.after, order, process.is_alive)
        process.join(aim.moment)
        self._seen = order.reached()
        if not process.is_alive():
            return
        if aim.weapon in ("jvm", "both"):
            self._jvm_killed = self._kill_engine()
        if aim.weapon != "jvm":
            killed(process.pid, group=aim.weapon == "own")

    def _while_stopped(self, aim: Aim, process: BaseProcess, struck: Struck) -> None:
        """Another writer commits while the process stands still at its place; then it goes on, or is killed."""
        assert process.pid is not None
        deadline = time.monotonic() + PATIENCE
        while process.is_alive() and time.monotonic() < deadline:
            if _state(process.pid) == "T":
                self._commit(aim.burst, "while stopped", struck)
                os.kill(process.pid, signal.SIGCONT if aim.goes_on else signal.SIGKILL)
                return
            process.join(_SOON)

    def _listen(self, aim: Aim, order: Order, process: BaseProcess, struck: Struck) -> None:
        answer = answer_of(order)
        if answer is None:
            struck.killed = process.exitcode == -signal.SIGKILL
            if not struck.killed and not struck.broken:
                struck.broken.append(f"E {order.do} died by itself: {process.exitcode}")
            return
        struck.killed = aim.weapon == "jvm" and self._jvm_killed
        struck.broken += untyped(answer)
        self._siege.heard(order.do, answer)

    def _hear_twin(self, aim: Aim, beside: Order, other: BaseProcess, struck: Struck) -> None:
        siege = self._siege
        other.join(PATIENCE)
        if other.is_alive() and other.pid is not None:
            killed(other.pid)
            struck.broken.append("E a twin hung")
        heard = answer_of(beside)
        struck.broken += untyped(heard)
        siege.rolled_back = None
        if heard is not None:
            siege.heard("run", heard)
            if aim.do not in ("run", "compact", "vacuum") and heard.run is not None:
                siege.released.pop(heard.run, None)  # before the decision or after it: nobody knows
        if aim.do in ("restore", "rollback"):
            siege.acknowledged = 0  # the table may have gone back after the twin had ended

    def _lone_jvm(self, aim: Aim, order: Order, struck: Struck) -> None:
        """`lakesmith run` with a Spark of its own, whose JVM alone is killed.

        It has to end by itself, with an exit code that says that Spark is in the way, and the run has to be recorded.
        """
        command = Command(order)
        process = command.process

        def is_alive() -> bool:
            return process.poll() is None

        if aim.burst is not None and aim.burst.when == "beside":
            _wait(aim.table, order, is_alive)
            self._commit(aim.burst, "beside", struck)
        if aim.place is None:
            if aim.after is not None:
                _wait(aim.after, order, is_alive)
            time.sleep(aim.moment)
            deadline = time.monotonic() + 10
            while is_alive() and not struck.killed and time.monotonic() < deadline:
                self._seen = order.reached()
                struck.killed = kill_jvm(process.pid)  # it may not have been started yet
                time.sleep(_SOON)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            killed(process.pid, group=True)
            process.wait()
            struck.broken.append(f"E lakesmith run hung for {PATIENCE:.0f} s after its JVM was killed")
        ended = command.ended()
        struck.killed = struck.killed or (aim.place is not None and len(_strikes(order)) >= order.nth)
        struck.broken += ended.broken
        struck.broken += [] if ended.answer.bug else untyped(ended.answer)
        if struck.killed and ended.answer.run is None:
            struck.broken.append(f"A lakesmith run ended with exit code {ended.code}, and did not say which run it was")
        if struck.killed and order.place in _NEED_SPARK and ended.code != 4:
            struck.broken.append(f"E lakesmith run ended with exit code {ended.code} when its JVM was gone")
        if struck.killed and ended.code == 4 and not ended.answer.errors:
            struck.broken.append("E lakesmith run ended with exit code 4 and without an error")
        self._siege.heard("run", ended.answer)
        killed(process.pid, group=True)  # what is left of its JVM's workers


_NEED_SPARK = ("batch.pinned",)
"""Places after which the process cannot do without its JVM."""


def _strikes(order: Order) -> list[int]:
    """Which of the places that the process came to are the one at which it is struck."""
    places = enumerate(order.reached())
    return [at for at, (place, about) in places if place == order.place and order.about in about.replace("/", ".")]


def _upto_strike(order: Order) -> list[tuple[str, str]]:
    """The places that the process came to until it was struck: without its JVM it may have gone on."""
    strikes = _strikes(order)
    return order.reached()[: strikes[order.nth - 1] + 1] if len(strikes) >= order.nth else order.reached()


def _wait(table: str, order: Order, is_alive: Callable[[], bool]) -> None:
    """Until a process has taken the lease of a table, or is at its end."""
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
    """Kill a process, or its whole group; whether it was there."""
    assert process is not None
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL) if group else os.kill(process, signal.SIGKILL)
        return True
    return False
