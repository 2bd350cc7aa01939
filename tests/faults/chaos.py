"""Kills a lake's processes at random, for as long as it is told to: `make chaos KILLS=1000 SEED=1`.

An episode is a fresh lake with one load, and a few acts: files land, a process begins something, and the process, the
JVM or both are killed, at a named place or at any moment. After each act the oracle looks at the files; after some of
them, and at the end, the lake is run until a run ends well, and must hold what it would hold had nothing happened.
What happens in an episode is drawn from the seed and the episode's number alone.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tests.faults.attach import Engine, Jvm
from tests.faults.flows import FLOWS
from tests.faults.siege import PATIENCE, Oracle, Siege, untyped
from tests.faults.victim import Deed, Order, answer_of, start

from lakesmith.failpoints import PLACES

Weapon = Literal["place", "moment", "jvm", "both", "own", "twin"]
# A JVM that has to be started and warmed again costs as much as three kills without it.
_WEAPONS: dict[Weapon, int] = {"place": 54, "moment": 22, "jvm": 5, "both": 5, "own": 2, "twin": 12}
_SPARES_THE_JVM: dict[Weapon, int] = {weapon: _WEAPONS[weapon] for weapon in ("place", "moment", "twin")}
_OFTEN = (
    "lease.taken",
    "batch.pinned",
    "table.committing",
    "table.committed",
    "quarantine.committed",
    "batch.finishing",
    "batch.done",
    "lease.released",
    "ledger.recording",
    "ledger.appended",
)
"""Places that nearly every process comes to."""
_ACTS = 6
_EPISODES_A_JVM = 25


@dataclass
class Tally:
    """What happened so far."""

    kills: int = 0
    episodes: int = 0
    by: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, str]] = field(default_factory=list)
    """The episode, and what went wrong in it."""


class Chaos:
    """Episodes, one after the other, on one JVM until it is killed; one that is lent stays alive."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        lent: Jvm | None = None,
        flows: Sequence[str] = tuple(FLOWS),
        acts: int = _ACTS,
        plant: str | None = None,
    ) -> None:
        self._seed = seed
        self._folder = folder
        self._lent = lent
        self._weapons = _WEAPONS if lent is None else _SPARES_THE_JVM
        self._flows = flows
        self._acts = acts
        self._plant = plant
        self._oracle = Oracle()
        self._engine: Engine | None = None
        self._episodes = 0
        self.tally = Tally()

    def close(self) -> None:
        self._oracle.close()
        if self._engine is not None:
            self._engine.close()

    def episode(self, number: int) -> None:
        """One lake, from its first file to its end."""
        choose = random.Random(f"{self._seed}/{number}")
        flow = choose.choice(self._flows)
        folder = self._folder / f"episode-{number}"
        siege = Siege(folder, flow, choose.randrange(1 << 30), self._oracle, plant=self._plant)
        self._episodes += 1
        if self._episodes % _EPISODES_A_JVM == 0:
            self._renew()
        deeds = _deeds(flow, choose)
        broken: list[str] = []
        siege.land()
        for act in range(self._acts):
            broken = self._act(siege, choose, deeds, f"episode {number} act {act} {flow}")
            if broken:
                break
        else:
            broken = self._settle(siege)
            self._tell(f"episode {number} settles", broken)
        self.tally.episodes += 1
        if broken:
            self.tally.broken += [(number, f"{flow}: {each}; lake: {folder}") for each in broken]
        else:
            shutil.rmtree(folder)

    def _act(self, siege: Siege, choose: random.Random, deeds: Sequence[Deed], name: str) -> list[str]:
        do = choose.choice(deeds)
        for _ in range(choose.choice((0, 1, 1, 1, 2))):
            siege.land()
        if do != "run":
            broken = self._settle(siege)
            if broken:
                return broken
        weapon = choose.choices(list(self._weapons), weights=list(self._weapons.values()))[0]
        siege.jvm = self._jvm() if weapon != "own" else None
        order = siege.order(do, **_details(siege, do, choose))
        if weapon == "place":
            about = choose.choice(("bronze.events", "silver.events", "silver.events"))
            place = choose.choice(_OFTEN if choose.random() < 0.8 else list(PLACES))
            if place == "ledger.appended":
                about = choose.choice(("", "system.runs", "system.releases", "system.releases"))
            elif place.startswith("ledger."):
                about = ""
            order = replace(order, place=place, about=about, nth=choose.choice((1, 1, 1, 2)) if not about else 1)
        moment = choose.uniform(2.0, 14.0) if weapon == "own" else choose.uniform(0.6, 5.0)
        told = (
            f"{name} {do}: {weapon} {f'{order.place} {order.about} {order.nth}' if order.place else f'{moment:.1f} s'}"
        )
        struck = self._strike(siege, order, weapon, moment)
        broken = [*struck.broken, *siege.judge()]
        if struck.killed:
            # The process and its JVM, killed together, count as one.
            self.tally.kills += 1
            at = order.about if order.about == "system.releases" else order.place or ""
            self.tally.by[f"{do}: {weapon} {at}".strip()] += 1
            self._tell(told, broken)
        elif broken:
            self._tell(f"{told} (not killed)", broken)
        if not broken and choose.random() < 0.3:
            broken = self._settle(siege)
            self._tell(f"{name} settles", broken)
        return broken

    def _strike(self, siege: Siege, order: Order, weapon: Weapon, moment: float) -> _Struck:
        siege.expect(order.do)
        process = start(order)
        assert process.pid is not None
        twin = None
        if weapon == "twin":
            beside = replace(order, answer=f"{order.answer}.twin", do="run")
            twin = (beside, start(beside))
        struck = False
        deadline = time.monotonic() + PATIENCE
        if weapon == "place":
            process.join(PATIENCE)
        else:
            process.join(moment)
            if weapon in ("jvm", "both") and process.is_alive() and self._engine is not None:
                struck = _killed(self._engine.jvm.process)
                self._engine.close()
                self._engine = None
            if weapon != "jvm" and process.is_alive():
                struck = _killed(process.pid, group=weapon == "own") or struck
            process.join(max(0.0, deadline - time.monotonic()))
        broken = []
        if process.is_alive():
            _killed(process.pid, group=True)
            process.join()
            broken.append(f"E {order.do} hung for {PATIENCE:.0f} s")
        answer = answer_of(order)
        if answer is None and not broken:
            struck = process.exitcode == -signal.SIGKILL
            broken += [] if struck else [f"E {order.do} died by itself: {process.exitcode}"]
        elif weapon != "jvm":
            struck = False
        if answer is not None:
            broken += untyped(answer)
            siege.heard(order.do, answer)
        if twin is not None:
            beside, other = twin
            other.join(PATIENCE)
            if other.is_alive() and other.pid is not None:
                _killed(other.pid)
                broken.append("E a twin hung")
            heard = answer_of(beside)
            broken += untyped(heard)
            siege.rolled_back = None
            if heard is not None:
                siege.heard("run", heard)
                if order.do not in ("run", "compact", "vacuum") and heard.run is not None:
                    siege.released.pop(heard.run, None)  # before the decision or after it: nobody knows
            if order.do in ("restore", "rollback"):
                siege.acknowledged = 0  # the table may have gone back after the twin had ended
        return _Struck(struck, broken)

    def _settle(self, siege: Siege) -> list[str]:
        siege.jvm = self._jvm()
        return siege.settle()

    def _jvm(self) -> Jvm:
        if self._lent is not None:
            return self._lent
        if self._engine is None:
            self._engine = Engine()
        return self._engine.jvm

    def _renew(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _tell(self, what: str, broken: Sequence[str]) -> None:
        verdict = "ok" if not broken else f"BROKEN {'; '.join(broken)}"
        say(f"{self.tally.kills:>5} kills  {what}: {verdict}")


@dataclass(frozen=True, slots=True)
class _Struck:
    killed: bool
    broken: list[str]


def _deeds(flow: str, choose: random.Random) -> list[Deed]:
    """What happens to a lake besides runs: decisions about refused rows, or upkeep."""
    deeds: list[Deed] = ["run", "run", "run", "run"]
    match choose.randrange(4):
        case 0 | 1:
            deeds += [] if FLOWS[flow].grouped else ["replay", "discard", "vacuum"]
        case 2:
            # Not both: whoever deletes the past of an input cannot take a table back to it.
            deeds += ["compact", choose.choice(("vacuum", "restore", "rollback"))]
        case 3:
            decisions: list[Deed] = [] if FLOWS[flow].grouped else ["replay", "discard"]
            deeds += ["rollback", "rollback", *choose.choice((decisions, ["vacuum"], ["compact"]))]
    return deeds


def _details(siege: Siege, do: Deed, choose: random.Random) -> dict[str, Any]:
    """Which table a deed is about, and which version; how many releases a rollback goes back."""
    if do == "rollback":
        return {"version": choose.choice((0, 1, 1, 2, 3))}
    if do not in ("compact", "vacuum", "restore"):
        return {}
    table = choose.choice(("bronze.events", "silver.events"))
    log = siege.folder / ".lakesmith" / "warehouse" / table.replace(".", "/") / "_delta_log"
    return {"table": table, "version": int(choose.random() * len(list(log.glob("*.json"))))}


def say(line: str) -> None:
    """Tell whoever watches, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _killed(process: int, *, group: bool = False) -> bool:
    """Kill a process, or its whole group; whether it was there."""
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL) if group else os.kill(process, signal.SIGKILL)
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="the number of one episode")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first episode")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="begin no episode after so many")
    options = parser.parse_args()
    say(f"seed {options.seed}")
    end = time.monotonic() + options.minutes * 60
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
        tally = chaos.tally
        ended = f"{tally.kills} kills in {tally.episodes} episodes, {len(tally.broken)} broken promises"
        say(f"seed {options.seed}: {ended}")
        for what, kills in tally.by.most_common():
            say(f"  {kills:>5} {what}")
        for number, each in tally.broken:
            say(f"  BROKEN {each}; again: make chaos SEED={options.seed} ONLY={number}")
    return 1 if chaos.tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
