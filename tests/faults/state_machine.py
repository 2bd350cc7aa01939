"""The state machine: events in any order never lose or duplicate a row.

    python -m tests.faults.state_machine --steps 1000000 --seed 5

A step is one event: a file lands, a process runs to its next pause, is killed or suspended, time passes, or an
operation fails. The promises are checked after each step. A failure is reported with the fewest steps that lead to it,
and the same seed repeats it.
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
from tests.faults.simulation import DEFINITIONS, MOST_ALIVE, Simulation, Stepped
from tests.faults.small_lake import TABLES, Bridge, without_spark

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
"""Numbers of commits that another writer makes at once."""
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
    "corrupt": 1,
}
"""The events and their relative frequencies."""

_BRIDGE = Bridge()
_LAKES = 50
"""The number of lakes for one seed."""
Plant = Callable[[pytest.MonkeyPatch], None]


class Machine(RuleBasedStateMachine):
    """Draws the events; the simulation checks the promises.

    One rule draws all events as bytes. With one rule for each event, Hypothesis would leave some out and prefer small
    numbers, and then little happens in a lake.
    """

    outcomes: ClassVar[Counter[str]] = Counter()
    happened: ClassVar[Counter[str]] = Counter()
    """The events in all lakes so far, by kind."""
    actions: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation(_BRIDGE)

    @rule(draw=st.binary(min_size=8, max_size=8))
    def happens(self, draw: bytes) -> None:
        try:
            self._happens(self.actions[draw[0] % len(self.actions)], *draw[1:])
        except Exception as error:
            error.add_note("\n".join(self.simulation.events))
            raise

    def _happens(self, action: str, a: int, b: int, c: int, *more: int) -> None:
        simulation = self.simulation
        working, alive = simulation.working, simulation.alive
        room = len(alive) < MOST_ALIVE
        table = (*TABLES, TABLES[0])[a % 4]
        match action:
            case "land":
                simulation.land([(each % 5, _VALUES[each % len(_VALUES)]) for each in (a, b, c)[: 1 + more[0] % 3]])
            case "start" if room:
                simulation.advance(simulation.start(_KINDS[a % len(_KINDS)], _HOSTS[b % len(_HOSTS)]), c % 64)
            case "advance" if working:
                simulation.advance(working[a % len(working)], 1 + b % 24)
            case "finish" if working:
                simulation.finish(working[a % len(working)])
            case "kill" if alive:
                simulation.kill(alive[a % len(alive)])
            case "kill":
                # Most runs end before the next event.
                process = simulation.start(_KINDS[a % len(_KINDS)], _HOSTS[b % len(_HOSTS)])
                simulation.advance(process, c % 32)
                if process.alive:
                    simulation.kill(process)
            case "stop" if alive:
                simulation.stop(alive[a % len(alive)])
            case "overtake" if working and room:
                process = working[a % len(working)]
                other = simulation.overtake(process, _PLACES[more[1] % len(_PLACES)], 1 + b % 60)
                if c % 2 and other.alive:
                    simulation.kill(other)
                simulation.advance(process, 1 + more[0] % 24)
            case "wait":
                simulation.wait(_WAITS[a % len(_WAITS)])
            case "jump":
                simulation.jump(_JUMPS[a % len(_JUMPS)])
            case "fail":
                simulation.fail(*_FAILURES[a % len(_FAILURES)])
            case "restore":
                simulation.restore(table, b % 5)
            case "optimize":
                simulation.optimize(table)
            case "foreign":
                beside = (
                    simulation.warehouse.table,
                    simulation.warehouse.quarantine,
                    simulation.warehouse.quarantine_decisions,
                )
                simulation.foreign(beside[b % 3](table).url, _FOREIGN[c % len(_FOREIGN)], more[0])
            case "clean_log":
                simulation.clean_log(table)
            case "define":
                simulation.define(DEFINITIONS[a % len(DEFINITIONS)])
            case "corrupt" if simulation.corrupted:
                simulation.repair()
            case "corrupt":
                simulation.corrupt(a)

    def teardown(self) -> None:
        Machine.happened += Counter(map(_kind, self.simulation.events))
        try:
            self.simulation.recover_and_check()
        except Exception as error:
            error.add_note("\n".join(self.simulation.events))
            raise
        finally:
            for process in self.simulation.alive:
                self.simulation.kill(process)
            Machine.outcomes += self.simulation.outcomes


def _kind(event: str) -> str:
    """Return the kind of an event."""
    first, *rest = event.split()
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
    """Run the machine for this number of steps or lakes, and return the events by kind. With `plant`, the product has a
    bug."""
    Machine.actions = tuple(name for name, times in often.items() for _ in range(times))
    options = settings(
        max_examples=min(lakes or _LAKES, _LAKES),
        stateful_step_count=80,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    steps_before, lakes_before = Stepped.steps, Stepped.simulations
    Machine.happened.clear()
    with without_spark(_BRIDGE) as patch:
        if plant:
            plant(patch)
        while Stepped.steps - steps_before < steps and (lakes is None or Stepped.simulations - lakes_before < lakes):
            Machine._hypothesis_internal_use_seed = seed  # as `hypothesis.seed` sets it
            run_state_machine_as_test(Machine, settings=options)
            seed += 1
    return Machine.happened


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = process_time()
    happened = explore(options.steps, options.seed, shrink=True)
    summary = f"{happened.total():,} steps in {Stepped.simulations:,} lakes, and {Stepped.quiet:,} without faults"
    sys.stdout.write(f"{summary}; seed {options.seed}, {process_time() - began:.0f} s of CPU\n")
    sys.stdout.write(f"errors: {dict(Machine.outcomes.most_common())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
