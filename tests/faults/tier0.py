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
from collections.abc import Callable
from time import process_time

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from tests.faults.small_lake import Bridge, without_spark
from tests.faults.world import DEFINITIONS, MOST_ALIVE, TABLES, Stepped, World

_ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from((1, 2, 3, 4, -1, -3, -9, 101))), min_size=1, max_size=3
)
_WHICH = st.integers(0, MOST_ALIVE - 1)
_KINDS = st.sampled_from(("run",) * 5 + ("approve", "replay", "discard", "refresh"))
_HOSTS = st.sampled_from(("here", "here", "there"))
_TABLES = st.sampled_from(TABLES)

_BRIDGE = Bridge()


class Machine(RuleBasedStateMachine):
    """What may happen; the world says what has to hold."""

    outcomes: Counter[str] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.world = World(_BRIDGE)

    @rule(rows=_ROWS)
    def land(self, rows: list[tuple[int, int]]) -> None:
        self.world.land(rows)

    @rule(kind=_KINDS, host=_HOSTS, steps=st.integers(0, 40))
    def start(self, kind: str, host: str, steps: int) -> None:
        if len(self.world.alive) < MOST_ALIVE:
            self.world.advance(self.world.start(kind, host), steps)

    @precondition(lambda self: self.world.working)
    @rule(which=_WHICH, steps=st.integers(1, 24))
    def advance(self, which: int, steps: int) -> None:
        working = self.world.working
        self.world.advance(working[which % len(working)], steps)

    @precondition(lambda self: self.world.working)
    @rule(which=_WHICH)
    def finish(self, which: int) -> None:
        working = self.world.working
        self.world.finish(working[which % len(working)])

    @precondition(lambda self: self.world.alive)
    @rule(which=_WHICH)
    def kill(self, which: int) -> None:
        alive = self.world.alive
        self.world.kill(alive[which % len(alive)])

    @precondition(lambda self: self.world.alive)
    @rule(which=_WHICH)
    def stop_or_go_on(self, which: int) -> None:
        alive = self.world.alive
        self.world.stop(alive[which % len(alive)])

    @rule(seconds=st.sampled_from((5.0, 40.0, 61.0)))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(seconds=st.sampled_from((-86400.0, -45.0, 86400.0)))
    def jump(self, seconds: float) -> None:
        self.world.jump(seconds)

    @rule(operation=st.sampled_from(("read", "list", "write", "write", "remove", "commit", "commit")), effect=st.booleans())
    def fail(self, operation: str, effect: bool) -> None:
        self.world.fail(operation, effect and operation in ("write", "commit"))

    @rule(table=_TABLES, back=st.integers(0, 4))
    def restore(self, table: object, back: int) -> None:
        self.world.restore(table, back)  # type: ignore[arg-type]  # strategies of tables are not typed

    @rule(table=_TABLES, clean=st.booleans())
    def change_log(self, table: object, clean: bool) -> None:
        (self.world.clean_log if clean else self.world.optimize)(table)  # type: ignore[arg-type]

    @rule(definition=st.sampled_from(DEFINITIONS))
    def define(self, definition: object) -> None:
        self.world.define(definition)  # type: ignore[arg-type]

    @rule(which=st.integers(0, 30))
    def spoil_or_mend(self, which: int) -> None:
        if self.world.spoilt:
            self.world.mend()
        else:
            self.world.spoil(which)

    def teardown(self) -> None:
        try:
            self.world.settle_down()
        finally:
            for process in self.world.alive:
                self.world.kill(process)
            Machine.outcomes += self.world.outcomes


def explore(steps: int, seed: int, *, examples: int = 100_000, length: int = 40, shrink: bool = True) -> int:
    """Let the machine take so many steps, or so many examples; returns how many steps it took."""
    before = Stepped.steps
    given = settings(
        max_examples=200,
        stateful_step_count=length,
        deadline=None,
        database=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    worlds = Stepped.worlds
    with without_spark(_BRIDGE):
        while Stepped.steps - before < steps and Stepped.worlds - worlds < examples:
            Machine._hypothesis_internal_use_seed = seed  # type: ignore[attr-defined]  # as `hypothesis.seed` sets it
            run_state_machine_as_test(Machine, settings=given)  # type: ignore[no-untyped-call]
            seed += 1
    return Stepped.steps - before


def main(tell: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = process_time()
    taken = explore(asked.steps, asked.seed)
    tell(f"{taken:,} steps in {Stepped.worlds:,} lakes, seed {asked.seed}, {process_time() - began:.0f} s of CPU")
    tell(f"errors that were met and followed: {dict(Machine.outcomes.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
