"""The state machine: whatever happens in whatever order, nothing is lost and nothing is doubled.

    python -m tests.faults.tier0 --steps 1000000 --seed 5

A step is one thing that happens: a file lands, a process comes from one place to the next, is killed or suspended, time
passes, an operation fails. After each of them all that must hold is checked; a failure is told with the fewest steps
that lead to it, and the same seed leads to it again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from time import process_time
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from tests.faults.small_lake import TABLES, Bridge, without_spark
from tests.faults.world import DEFINITIONS, MOST_ALIVE, Stepped, World

_VALUES = (1, -1, 2, -3, 3, -9, 4, 5, 6, -2, 7, 101)
_KINDS = ("run",) * 6 + ("approve", "replay", "discard", "refresh")
_HOSTS = ("here", "here", "there")
_WAITS = (5.0, 40.0, 61.0)
_JUMPS = (-45.0, -86400.0, 86400.0)
_FAILURES = (
    ("write", True),
    ("write", False),
    ("commit", True),
    ("commit", False),
    ("read", False),
    ("list", False),
    ("remove", False),
)
_FOREIGN = (1, 2, 5, 25, 120)
"""So many commits another writer makes at once."""
_PLACES = ("lease.taken", "batch.pinned", "table.committing", "table.committed", "quarantine.committed")
OFTEN: Mapping[str, int] = {
    "land": 6,
    "start": 8,
    "advance": 6,
    "finish": 1,
    "kill": 5,
    "stop": 1,
    "overtake": 3,
    "wait": 1,
    "jump": 1,
    "fail": 3,
    "restore": 3,
    "optimize": 1,
    "foreign": 3,
    "clean_log": 1,
    "define": 1,
    "spoil": 1,
}
"""What may happen, and how much more often than other things."""

_BRIDGE = Bridge()
_LAKES = 50
"""So many lakes are met with one seed."""
Plant = Callable[[pytest.MonkeyPatch], None]


class Machine(RuleBasedStateMachine):
    """What may happen; the world says what has to hold.

    One rule draws from all of it, as bytes: a lake that is spared of some rules, or in which small numbers come more
    often, is one in which nothing moves.
    """

    outcomes: ClassVar[Counter[str]] = Counter()
    happened: ClassVar[Counter[str]] = Counter()
    """What came to pass under attack in the lakes that were met, as each of them told it."""
    actions: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.world = World(_BRIDGE)

    @rule(what=st.binary(min_size=8, max_size=8))
    def happens(self, what: bytes) -> None:
        try:
            self._happens(self.actions[what[0] % len(self.actions)], *what[1:])
        except Exception as error:
            error.add_note("\n".join(self.world.told))
            raise

    def _happens(self, action: str, a: int, b: int, c: int, *more: int) -> None:
        world = self.world
        working, alive = world.working, world.alive
        room = len(alive) < MOST_ALIVE
        table = (*TABLES, TABLES[0])[a % 4]
        match action:
            case "land":
                world.land([(each % 5, _VALUES[each % len(_VALUES)]) for each in (a, b, c)[: 1 + more[0] % 3]])
            case "start" if room:
                world.advance(world.start(_KINDS[a % len(_KINDS)], _HOSTS[b % len(_HOSTS)]), c % 64)
            case "advance" if working:
                world.advance(working[a % len(working)], 1 + b % 24)
            case "finish" if working:
                world.finish(working[a % len(working)])
            case "kill" if alive:
                world.kill(alive[a % len(alive)])
            case "kill":
                # Most runs have come to their end before anything else happens.
                process = world.start(_KINDS[a % len(_KINDS)], _HOSTS[b % len(_HOSTS)])
                world.advance(process, c % 32)
                if process.alive:
                    world.kill(process)
            case "stop" if alive:
                world.stop(alive[a % len(alive)])
            case "overtake" if working and room:
                process = working[a % len(working)]
                other = world.overtake(process, _PLACES[more[1] % len(_PLACES)], 1 + b % 60)
                if c % 2 and other.alive:
                    world.kill(other)
                world.advance(process, 1 + more[0] % 24)
            case "wait":
                world.wait(_WAITS[a % len(_WAITS)])
            case "jump":
                world.jump(_JUMPS[a % len(_JUMPS)])
            case "fail":
                world.fail(*_FAILURES[a % len(_FAILURES)])
            case "restore":
                world.restore(table, b % 5)
            case "optimize":
                world.optimize(table)
            case "foreign":
                beside = (world.warehouse.table, world.warehouse.quarantine, world.warehouse.quarantine_decisions)
                world.foreign(beside[b % 3](table), _FOREIGN[c % len(_FOREIGN)], more[0])
            case "clean_log":
                world.clean_log(table)
            case "define":
                world.define(DEFINITIONS[a % len(DEFINITIONS)])
            case "spoil" if world.spoilt:
                world.mend()
            case "spoil":
                world.spoil(a)

    def teardown(self) -> None:
        Machine.happened += Counter(map(_kind, self.world.told))
        try:
            self.world.settle_down()
        except Exception as error:
            error.add_note("\n".join(self.world.told))
            raise
        finally:
            for process in self.world.alive:
                self.world.kill(process)
            Machine.outcomes += self.world.outcomes


def _kind(told: str) -> str:
    """What sort of thing happened."""
    first, *rest = told.split()
    return "advance" if first.isdigit() else "go on" if rest[:1] == ["on"] else first


def explore(
    steps: int,
    seed: int,
    *,
    lakes: int | None = None,
    often: Mapping[str, int] = OFTEN,
    shrink: bool = False,
    plant: Plant | None = None,
) -> Counter[str]:
    """Let the machine take so many steps under attack, or meet so many lakes; returns what happened. With `plant`, the
    product has a bug."""
    Machine.actions = tuple(name for name, times in often.items() for _ in range(times))
    given = settings(
        max_examples=min(lakes or _LAKES, _LAKES),
        stateful_step_count=80,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    before, met = Stepped.steps, Stepped.worlds
    Machine.happened.clear()
    with without_spark(_BRIDGE) as patch:
        if plant:
            plant(patch)
        while Stepped.steps - before < steps and (lakes is None or Stepped.worlds - met < lakes):
            Machine._hypothesis_internal_use_seed = seed  # as `hypothesis.seed` sets it
            run_state_machine_as_test(Machine, settings=given)
            seed += 1
    return Machine.happened


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = process_time()
    happened = explore(asked.steps, asked.seed, shrink=True)
    told = f"{happened.total():,} steps in {Stepped.worlds:,} lakes, and {Stepped.quiet:,} until these were at rest"
    sys.stdout.write(f"{told}; seed {asked.seed}, {process_time() - began:.0f} s of CPU\n")
    sys.stdout.write(f"errors that were met: {dict(Machine.outcomes.most_common())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
