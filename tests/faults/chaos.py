"""Kills a lake's processes at random, for as long as it is told to: `make chaos KILLS=1000 SEED=1`.

An episode is a fresh lake of one to three streams with gold tables over them, and a few acts: files land, a process
begins something, another writer may commit beside it, and the process, the JVM or both are killed, at a named place or
at any moment. After each act the oracle looks at the files; after some of them, and at the end, the lake is run until a
run ends well, and must hold what it would hold had nothing happened. What happens in an episode is drawn from the seed
and the episode's number alone.
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

from tests.faults.aims import SPARE_THE_JVM, WEAPONS, Aim, draw, draw_deeds, draw_layout
from tests.faults.attach import Engine, Jvm
from tests.faults.other_writers import Writers
from tests.faults.siege import Oracle, Siege
from tests.faults.strikes import Strikes, Struck, killed
from tests.faults.tally import Tally, say
from tests.faults.victim import Deed

_ACTS = 6
_EPISODES_A_JVM = 25


class Chaos:
    """Episodes, one after the other, on one JVM until it is killed; one that is lent stays alive."""

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
        """One lake, from its first file to its end."""
        choose = random.Random(f"{self._seed}/{number}")
        layout = draw_layout(choose)
        layout = self._layout or layout
        folder = self._folder / f"episode-{number}"
        siege = Siege(folder, layout, choose.randrange(1 << 30), self._oracle, plant=self._plant)
        self._episodes += 1
        if self._episodes % _EPISODES_A_JVM == 0:
            self._end_engine()
        deeds = draw_deeds(choose, grouped=siege.layout.streams[0].flow.grouped)
        broken: list[str] = []
        siege.land()
        for act in range(self._acts):
            # Each act draws from a seed of its own: what it finds depends on how fast the acts before it were.
            choose = random.Random(f"{self._seed}/{number}/{act}")
            broken = self._act(siege, choose, deeds, f"episode {number} act {act} {layout}")
            if broken:
                break
        else:
            broken = self._settle(siege, f"episode {number} settles")
        self.tally.episodes += 1
        if broken:
            self.tally.broken += [(number, f"{layout}: {each}; lake: {folder}") for each in broken]
        else:
            shutil.rmtree(folder)

    def _act(self, siege: Siege, choose: random.Random, deeds: Sequence[Deed], name: str) -> list[str]:
        do = choose.choice(deeds)
        weapon = choose.choices(list(self._weapons), weights=list(self._weapons.values()))[0]
        if weapon == "own-jvm":
            do = "run"
        for _ in range(choose.choice((1, 1, 1, 2)) if siege.landed == siege.acknowledged else choose.choice((0, 1, 1))):
            siege.land()
        if do != "run":
            broken = self._settle(siege, f"{name} settles before {do}")
            if broken:
                return broken
        siege.jvm = self._jvm() if weapon not in ("own", "own-jvm") else None
        aim = draw(siege, do, weapon, choose, spark=self._lent is None)
        struck = Strikes(siege, self._writers, self._kill_engine).carry_out(aim)
        broken = [*struck.broken, *siege.judge()]
        self._count(aim, struck, broken, name)
        if not broken and choose.random() < 0.3:
            broken = self._settle(siege, f"{name} settles")
        return broken

    def _count(self, aim: Aim, struck: Struck, broken: list[str], name: str) -> None:
        tally = self.tally
        tally.judged(broken)
        if aim.burst is not None:
            tally.foreign[f"{aim.burst.writer} {aim.burst.kind} {aim.burst.when}"] += struck.foreign
        if struck.killed:
            # The process and its JVM, killed together, count as one.
            tally.kills += 1
            tally.by_layer[struck.layer] += 1
            tally.by_place[aim.place or f"after {struck.place}"] += 1
            tally.by_kind[aim.weapon] += 1
            tally.by_deed[aim.do] += 1
            self._tell(f"{name} {aim} [{struck.layer}]", broken)
            return
        tally.missed += not aim.goes_on
        if broken or aim.goes_on:
            self._tell(f"{name} {aim} (not killed)", broken)

    def _settle(self, siege: Siege, name: str) -> list[str]:
        siege.jvm = self._jvm()
        broken = siege.settle()
        siege.may_commit = False
        self.tally.judged(broken)
        self._tell(name, broken)
        return broken

    def _jvm(self) -> Jvm:
        if self._lent is not None:
            return self._lent
        if self._engine is None:
            self._engine = Engine()
        return self._engine.jvm

    def _kill_engine(self) -> bool:
        """Kill the JVM that processes borrow; whether there was one."""
        struck = self._engine is not None and killed(self._engine.jvm.process)
        self._end_engine()
        return struck

    def _end_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _tell(self, what: str, broken: Sequence[str]) -> None:
        verdict = "ok" if not broken else f"BROKEN {'; '.join(broken)}"
        before, self._said = self._said, time.monotonic()
        say(f"{self.tally.kills:>5} kills {self._said - before:>5.1f} s  {what}: {verdict}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="the number of one episode")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first episode")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="begin no episode after so many")
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
