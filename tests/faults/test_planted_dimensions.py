"""A planted bug in each dimension of chaos is found; without it, nothing is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.faults.attach import Jvm
from tests.faults.attacked_lake import AttackedLake, Oracle
from tests.faults.fault_injection import FaultInjector
from tests.faults.fault_plans import FaultPlan
from tests.faults.other_writers import Burst, Writers

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(1200)]


def foreign_commits_after_a_kill(lake: AttackedLake) -> list[str]:
    """Kill a process after its commit, then let another writer make more commits than a bounded search reads."""
    burst = Burst("hand", "info", 25, "silver.events", "after")
    return _inject(lake, replace(_at("silver.events", "table.committed"), burst=burst))


def lone_jvm_kill(lake: AttackedLake) -> list[str]:
    """Kill the JVM of `lakesmith run` in the middle of a batch."""
    lake.jvm, jvm = None, lake.jvm
    result = FaultInjector(lake, Writers(), _no_engine).carry_out(
        replace(_at("silver.events", "batch.pinned"), weapon="own-jvm")
    )
    assert result.killed
    lake.jvm = jvm
    return [*result.broken, *lake.check(), *lake.run_to_completion()]


def rerun(lake: AttackedLake) -> list[str]:
    """Run the landed files."""
    return lake.run_to_completion()


def gold_in_flight(lake: AttackedLake) -> list[str]:
    """Kill a process in gold while only one of its inputs has new rows."""
    while lake.has_new(lake.layout.streams[1]) or not lake.has_new(lake.layout.streams[0]):
        assert lake.run_to_completion() == []
        lake.land()
    return _inject(lake, _at("gold.totals", "lease.taken"))


def _at(table: str, place: str) -> FaultPlan:
    return FaultPlan(do="run", weapon="place", details={}, table=table, place=place, about=table)


def _inject(lake: AttackedLake, plan: FaultPlan) -> list[str]:
    result = FaultInjector(lake, Writers(), _no_engine).carry_out(plan)
    assert result.killed
    return [*result.broken, *lake.check(), *lake.run_to_completion()]


def _no_engine() -> bool:
    raise AssertionError("nothing here kills the JVM of the test run")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A lake, an attack on it, and the promises that the bug breaks."""

    layout: str
    attack: Callable[[AttackedLake], list[str]]
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
        lake = AttackedLake(tmp_path / (planted or "sound"), dimension.layout, dimension.seed, oracle, jvm, planted)
        lake.land()
        broken = lake.run_to_completion()
        for _ in range(3):
            lake.land()
        broken += dimension.attack(lake)
        if planted is None:
            assert broken == []
        else:
            assert {each[0] for each in broken} & set(dimension.promises), broken
