"""Kills a lake's processes at random: `make chaos KILLS=1000 SEED=1`.

An episode is a new lake of one to three streams with gold tables over them, and a few acts. In an act, files land, a
process starts a command, another writer may commit beside it, and the process, its JVM or both are killed, at a
failpoint or at any moment. After each act, the oracle checks the files. After some acts and at the end, runs repeat
until one succeeds, and then the lake must have the content that it would have without faults. An episode is drawn from
the seed and its number only.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.attach import Engine, Jvm
from tests.faults.attacked_lake import AttackedLake, Oracle
from tests.faults.fault_injection import FaultInjector, InjectionResult, killed
from tests.faults.fault_plans import SPARE_THE_JVM, WEAPONS, FaultPlan, draw, draw_commands, draw_layout
from tests.faults.lake_process import LakeCommand
from tests.faults.other_writers import Writers
from tests.faults.tally import Tally, say

_ACTS = 6
_EPISODES_A_JVM = 25


class Chaos:
    """Plays episodes one after the other, on one JVM until it is killed. A JVM that is lent stays alive."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        lent: Jvm | None = None,
        layout: str | None = None,
        acts: int = _ACTS,
        plant: str | None = None,
    ) -> None:
        self._seed = seed
        self._folder = folder
        self._lent = lent
        self._weapons = WEAPONS if lent is None else SPARE_THE_JVM
        self._layout = layout
        self._acts = acts
        self._plant = plant
        self._oracle = Oracle()
        self._writers = Writers()
        self._engine: Engine | None = None
        self._episodes = 0
        self._said = time.monotonic()
        self.tally = Tally()

    def close(self) -> None:
        self._oracle.close()
        self._writers.close()
        self._end_engine()

    def episode(self, number: int) -> None:
        """Play one episode."""
        choose = random.Random(f"{self._seed}/{number}")
        layout = draw_layout(choose)
        layout = self._layout or layout
        folder = self._folder / f"episode-{number}"
        lake = AttackedLake(folder, layout, choose.randrange(1 << 30), self._oracle, plant=self._plant)
        self._episodes += 1
        if self._episodes % _EPISODES_A_JVM == 0:
            self._end_engine()
        commands = draw_commands(choose, grouped=lake.layout.streams[0].flow.grouped)
        broken: list[str] = []
        lake.land()
        for act in range(self._acts):
            # Each act has its own seed, because what it draws depends on how fast the earlier acts were.
            choose = random.Random(f"{self._seed}/{number}/{act}")
            broken = self._act(lake, choose, commands, f"episode {number} act {act} {layout}")
            if broken:
                break
        else:
            broken = self._recover(lake, f"episode {number} recovers")
        self.tally.episodes += 1
        if broken:
            self.tally.broken += [(number, f"{layout}: {each}; lake: {folder}") for each in broken]
        else:
            # A zombie of a killed driver may still write files.
            shutil.rmtree(folder, ignore_errors=True)

    def _act(self, lake: AttackedLake, choose: random.Random, commands: Sequence[LakeCommand], name: str) -> list[str]:
        do = choose.choice(commands)
        weapon = choose.choices(list(self._weapons), weights=list(self._weapons.values()))[0]
        if weapon == "own-jvm":
            do = "run"
        for _ in range(choose.choice((1, 1, 1, 2)) if lake.landed == lake.acknowledged else choose.choice((0, 1, 1))):
            lake.land()
        if do != "run":
            broken = self._recover(lake, f"{name} recovers before {do}")
            if broken:
                return broken
        lake.jvm = self._jvm() if weapon not in ("own", "own-jvm") else None
        plan = draw(lake, do, weapon, choose, spark=self._lent is None)
        result = FaultInjector(lake, self._writers, self._kill_engine).carry_out(plan)
        broken = [*result.broken, *lake.check()]
        self._count(plan, result, broken, name)
        if not broken and choose.random() < 0.3:
            broken = self._recover(lake, f"{name} recovers")
        return broken

    def _count(self, plan: FaultPlan, result: InjectionResult, broken: list[str], name: str) -> None:
        tally = self.tally
        tally.count_verdict(broken)
        if plan.burst is not None:
            tally.foreign[f"{plan.burst.writer} {plan.burst.kind} {plan.burst.when}"] += result.foreign
        if result.killed:
            # A process and its JVM, killed together, count as one kill.
            tally.kills += 1
            tally.by_layer[result.layer] += 1
            tally.by_place[plan.place or f"after {result.place}"] += 1
            tally.by_kind[plan.weapon] += 1
            tally.by_command[plan.do] += 1
            self._report(f"{name} {plan} [{result.layer}]", broken)
            return
        tally.missed += not plan.continues
        if broken or plan.continues:
            self._report(f"{name} {plan} (not killed)", broken)

    def _recover(self, lake: AttackedLake, name: str) -> list[str]:
        lake.jvm = self._jvm()
        broken = lake.run_to_completion()
        lake.may_commit = False
        self.tally.count_verdict(broken)
        self._report(name, broken)
        return broken

    def _jvm(self) -> Jvm:
        if self._lent is not None:
            return self._lent
        if self._engine is None:
            self._engine = Engine()
        return self._engine.jvm

    def _kill_engine(self) -> bool:
        """Kill the JVM that processes borrow; return whether there was one."""
        was_killed = self._engine is not None and killed(self._engine.jvm.process)
        self._end_engine()
        return was_killed

    def _end_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _report(self, what: str, broken: Sequence[str]) -> None:
        verdict = "ok" if not broken else f"BROKEN {'; '.join(broken)}"
        before, self._said = self._said, time.monotonic()
        say(f"{self.tally.kills:>5} kills {self._said - before:>5.1f} s  {what}: {verdict}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="the number of one episode")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first episode")
    parser.add_argument(
        "--minutes", type=float, default=24 * 60.0, help="start no episode after this number of minutes"
    )
    options = parser.parse_args()
    say(f"seed {options.seed}")
    began = time.monotonic()
    end = began + options.minutes * 60
    folder = Path(tempfile.mkdtemp(prefix="lakesmith-chaos-"))
    chaos = Chaos(options.seed, folder)
    try:
        number = options.first if options.only is None else options.only
        while chaos.tally.kills < options.kills and time.monotonic() < end:
            chaos.episode(number)
            number += 1
            if options.only is not None:
                break
    finally:
        chaos.close()
        if not chaos.tally.broken:
            shutil.rmtree(folder, ignore_errors=True)
        for line in chaos.tally.summary(time.monotonic() - began):
            say(line)
        for number, each in chaos.tally.broken:
            say(f"  BROKEN {each}; again: make chaos SEED={options.seed} ONLY={number}")
    return 1 if chaos.tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
