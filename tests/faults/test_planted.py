"""Bugs that are planted on purpose are found, each of them; without them the same attack finds nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.faults.conftest import Besiege
from tests.faults.planted import BUGS
from tests.faults.siege import PATIENCE, Siege, untyped
from tests.faults.test_planted_dimensions import DIMENSIONS
from tests.faults.victim import Order, answer_of, start
from tests.marks import first_only

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

SLEEP = 1.5
"""How long a lease outlives a process that was stopped."""


def slept(siege: Siege) -> list[str]:
    """A process is stopped before its commit, and goes on when another has taken its place."""
    process, order = _stopped(siege, place="files.moved", lease_seconds=SLEEP)
    time.sleep(SLEEP)
    broken = siege.settle()
    return [*broken, *_go_on(siege, process, order), *siege.judge(settled=True)]


def beside(siege: Siege) -> list[str]:
    """A process is stopped for a moment, and another comes."""
    process, order = _stopped(siege, place="batch.pinned")
    answer = siege.send(siege.order())
    told = {error["code"] for error in answer.errors} if answer else set()
    broken = [] if "table-leased" in told else ["L two processes worked on silver.events at the same time"]
    return [*broken, *_go_on(siege, process, order), *siege.settle()]


def cut_in_the_middle(siege: Siege) -> list[str]:
    """A process is killed in the middle of its commit."""
    assert siege.send(siege.order(place="files.moved", about="silver.events")) is None
    return [*siege.judge(), *siege.settle()]


def not_heard(siege: Siege) -> list[str]:
    """The commit is made, and the reply to it is lost."""
    answer = siege.send(siege.order(place="table.committed", about="silver.events", strike="fail"))
    assert answer is not None
    assert {error["code"] for error in answer.errors} == {"commit-unknown"}
    return [*untyped(answer), *siege.judge(), *siege.settle()]


def vacuumed(siege: Siege) -> list[str]:
    """A process is stopped when its files lie in the table's folder, and they are vacuumed before it goes on."""
    process, order = _stopped(siege, place="files.moved", lease_seconds=SLEEP)
    time.sleep(SLEEP)
    broken = untyped(siege.send(siege.order("vacuum")))
    return [*broken, *_go_on(siege, process, order), *siege.judge(), *siege.settle()]


ATTACKS: dict[str, tuple[Callable[[Siege], list[str]], str]] = {
    "no fence": (slept, "NR"),
    "no lock": (beside, "L"),
    "bookmark first": (cut_in_the_middle, "NR"),
    "cleanup on unknown": (not_heard, "V"),
    "vacuum unlocked": (vacuumed, "VNR"),
}
"""By bug, the attack that finds it, and which promises are then broken."""


def test_every_bug_that_can_be_planted_is_looked_for() -> None:
    assert ATTACKS.keys() | DIMENSIONS.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", first_only(ATTACKS))
def test_a_planted_bug_is_found_and_without_it_there_is_nothing_to_find(besiege: Besiege, bug: str) -> None:
    attack, promises = ATTACKS[bug]
    for planted in (None, bug):
        siege = besiege("append", plant=planted)
        siege.land()
        assert siege.settle() == []
        siege.land()
        broken = attack(siege)
        if planted is None:
            assert broken == []
        else:
            assert {each[0] for each in broken} & set(promises), broken


def _stopped(siege: Siege, **details: Any) -> tuple[BaseProcess, Order]:
    """A process that works on the silver table and stands still."""
    order = siege.order(about="silver.events", strike="stop", **details)
    process = start(order)
    deadline = time.monotonic() + PATIENCE
    while _state(process) != "T":
        assert process.is_alive()
        assert time.monotonic() < deadline, f"{order.place} was not reached"
        time.sleep(0.05)
    return process, order


def _state(process: BaseProcess) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def _go_on(siege: Siege, process: BaseProcess, order: Order) -> list[str]:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)
    process.join(PATIENCE)
    assert not process.is_alive()
    answer = answer_of(order)
    assert answer is not None
    siege.heard(order.do, answer)
    return list(untyped(answer))
