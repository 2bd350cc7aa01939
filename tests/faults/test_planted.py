"""Each planted bug is found; without it, the same attack finds nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.faults.attacked_lake import PATIENCE, AttackedLake, untyped
from tests.faults.conftest import AttackLake
from tests.faults.lake_process import Order, answer_of, start
from tests.faults.planted import BUGS
from tests.faults.test_planted_dimensions import DIMENSIONS
from tests.marks import first_only

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

SLEEP = 1.5
"""The seconds until the lease of a stopped process expires."""


def resume_after_takeover(lake: AttackedLake) -> list[str]:
    """Stop a process before its commit, and resume it after another took over."""
    process, order = _stopped(lake, place="table.committing", lease_seconds=SLEEP)
    time.sleep(SLEEP)
    broken = lake.run_to_completion()
    return [*broken, *_resume(lake, process, order), *lake.check(completed=True)]


def run_beside_a_holder(lake: AttackedLake) -> list[str]:
    """Stop a process for a moment, and start another run."""
    process, order = _stopped(lake, place="batch.pinned")
    answer = lake.send(lake.order())
    codes = {error["code"] for error in answer.errors} if answer else set()
    broken = [] if "table-leased" in codes else ["L two processes worked on silver.events at the same time"]
    return [*broken, *_resume(lake, process, order), *lake.run_to_completion()]


def kill_during_commit(lake: AttackedLake) -> list[str]:
    """Kill a process during its commit."""
    assert lake.send(lake.order(place="table.committing", about="silver.events")) is None
    return [*lake.check(), *lake.run_to_completion()]


def lose_the_reply(lake: AttackedLake) -> list[str]:
    """Commit, and lose the reply."""
    answer = lake.send(lake.order(place="table.committed", about="silver.events", action="fail"))
    assert answer is not None
    assert {error["code"] for error in answer.errors} == {"commit-unknown"}
    return [*untyped(answer), *lake.check(), *lake.run_to_completion()]


def vacuum_beside_a_commit(lake: AttackedLake) -> list[str]:
    """Stop a process after it wrote its files to the table's folder, vacuum the table, and resume the process."""
    process, order = _stopped(lake, place="table.committing", lease_seconds=SLEEP)
    time.sleep(SLEEP)
    broken = untyped(lake.send(lake.order("vacuum")))
    return [*broken, *_resume(lake, process, order), *lake.check(), *lake.run_to_completion()]


ATTACKS: dict[str, tuple[Callable[[AttackedLake], list[str]], str]] = {
    "no fence": (resume_after_takeover, "NR"),
    "no lock": (run_beside_a_holder, "L"),
    "bookmark first": (kill_during_commit, "NR"),
    "cleanup on unknown": (lose_the_reply, "V"),
    "vacuum unlocked": (vacuum_beside_a_commit, "VNR"),
}
"""By bug, the attack that finds it, and the promises that it breaks."""


def test_every_plantable_bug_has_a_test() -> None:
    assert ATTACKS.keys() | DIMENSIONS.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", first_only(ATTACKS))
def test_a_planted_bug_is_found_and_without_it_nothing_is_found(attack_lake: AttackLake, bug: str) -> None:
    attack, promises = ATTACKS[bug]
    for planted in (None, bug):
        lake = attack_lake("append", plant=planted)
        lake.land()
        assert lake.run_to_completion() == []
        lake.land()
        broken = attack(lake)
        if planted is None:
            assert broken == []
        else:
            assert {each[0] for each in broken} & set(promises), broken


def _stopped(lake: AttackedLake, **details: Any) -> tuple[BaseProcess, Order]:
    """Start a process and wait until it is stopped while it works on the silver table."""
    order = lake.order(about="silver.events", action="stop", **details)
    process = start(order)
    deadline = time.monotonic() + PATIENCE
    while _state(process) != "T":
        assert process.is_alive()
        assert time.monotonic() < deadline, f"{order.place} was not reached"
        time.sleep(0.05)
    return process, order


def _state(process: BaseProcess) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def _resume(lake: AttackedLake, process: BaseProcess, order: Order) -> list[str]:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)
    process.join(PATIENCE)
    assert not process.is_alive()
    answer = answer_of(order)
    assert answer is not None
    lake.acknowledge(order.do, answer)
    return list(untyped(answer))
