"""Each dimension of chaos can fail: a bug that is planted in it is found, and without it there is nothing to find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.faults.aims import Aim
from tests.faults.attach import Jvm
from tests.faults.other_writers import Burst, Writers
from tests.faults.siege import Oracle, Siege
from tests.faults.strikes import Strikes

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(1200)]


def foreign_commits_after_a_kill(siege: Siege) -> list[str]:
    """A process is killed after its commit, and another writer commits more often than a look back may be long."""
    burst = Burst("hand", "info", 25, "silver.events", "after")
    return _struck(siege, replace(_at("silver.events", "table.committed"), burst=burst))


def lone_jvm_kill(siege: Siege) -> list[str]:
    """`lakesmith run` loses its JVM in the middle of a batch."""
    siege.jvm, jvm = None, siege.jvm
    struck = Strikes(siege, Writers(), _no_engine).carry_out(
        replace(_at("silver.events", "batch.pinned"), weapon="own-jvm")
    )
    assert struck.killed
    siege.jvm = jvm
    return [*struck.broken, *siege.judge(), *siege.settle()]


def rerun(siege: Siege) -> list[str]:
    """What landed is run once more."""
    return siege.settle()


def gold_in_flight(siege: Siege) -> list[str]:
    """A process is killed in gold; only one of the inputs has something new."""
    while siege.has_new(siege.layout.streams[1]) or not siege.has_new(siege.layout.streams[0]):
        assert siege.settle() == []
        siege.land()
    return _struck(siege, _at("gold.totals", "lease.taken"))


def _at(table: str, place: str) -> Aim:
    return Aim(do="run", weapon="place", details={}, table=table, place=place, about=table)


def _struck(siege: Siege, aim: Aim) -> list[str]:
    struck = Strikes(siege, Writers(), _no_engine).carry_out(aim)
    assert struck.killed
    return [*struck.broken, *siege.judge(), *siege.settle()]


def _no_engine() -> bool:
    raise AssertionError("nothing here kills the JVM of the test run")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A lake, what happens to it, and which promises are then broken."""

    layout: str
    attack: Callable[[Siege], list[str]]
    promises: str
    seed: int = 7


DIMENSIONS = {
    "few commits": Dimension("append", foreign_commits_after_a_kill, "AER"),
    "jvm death escapes": Dimension("append", lone_jvm_kill, "EA"),
    "null is a value": Dimension("scd2:required", rerun, "ER"),
    "plain names": Dimension("append@odd", rerun, "R", seed=13),
    "one input": Dimension("append+append>totals", gold_in_flight, "R"),
}


@pytest.mark.parametrize("bug", DIMENSIONS)
def test_a_planted_bug_is_found_in_its_dimension(tmp_path: Path, oracle: Oracle, jvm: Jvm, bug: str) -> None:
    dimension = DIMENSIONS[bug]
    for planted in (None, bug):
        siege = Siege(tmp_path / (planted or "sound"), dimension.layout, dimension.seed, oracle, jvm, planted)
        siege.land()
        broken = siege.settle()
        for _ in range(3):
            siege.land()
        broken += dimension.attack(siege)
        if planted is None:
            assert broken == []
        else:
            assert {each[0] for each in broken} & set(dimension.promises), broken
