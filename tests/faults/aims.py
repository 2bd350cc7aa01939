"""What an act of chaos is about, drawn from its seed: what begins, what is killed where, and who else writes."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tests.faults.command import CLOSING
from tests.faults.flows import FLOWS, SHAPES
from tests.faults.layouts import gold_of
from tests.faults.other_writers import Burst, drawn
from tests.faults.siege import Siege
from tests.faults.victim import Deed

Weapon = Literal["place", "moment", "jvm", "both", "own", "own-jvm", "twin"]
"""The process at a place or at a moment; the JVM that it borrows; both; a process with a Spark of its own, and all of
it; such a process's JVM alone; the process while a twin works on the same lake."""
# A JVM that has to be started and warmed again costs as much as three kills without it.
WEAPONS: Mapping[Weapon, int] = {"place": 53, "moment": 16, "jvm": 4, "both": 4, "own": 2, "own-jvm": 7, "twin": 10}
SPARE_THE_JVM: Mapping[Weapon, int] = {weapon: WEAPONS[weapon] for weapon in ("place", "moment", "twin")}
_LAYERS = {"bronze": 20, "silver": 40, "gold": 44}
"""Bronze comes first in every run, so a kill that is aimed at it rarely misses; those at gold do more often."""
_STEP = ("lease.taken", "batch.pinned", "table.committing", "table.committed", "batch.finishing", "batch.done")
_IN_LAYER = {
    "bronze": (*_STEP, "quarantine.committed", "lease.released"),
    "silver": (*_STEP, "quarantine.committed", "batch.staged", "files.moved", "deleted_keys.stored", "lease.released"),
    "gold": (*_STEP, "table.committed", "log.linked"),
}
_OF_DEED: dict[Deed, tuple[str, ...]] = {
    "replay": ("batch.pinned", "table.committing", "table.committed", "decisions.committed", "quarantine.committed"),
    "discard": ("batch.pinned", "table.committed", "decisions.committed", "quarantine.committed", "batch.done"),
    "compact": ("lease.taken", "files.compacted", "table.committed"),
    "vacuum": ("lease.taken", "batch.pinned", "table.fenced", "files.vacuumed", "batch.done"),
    "restore": ("batch.pinned", "table.committing", "table.committed", "table.fenced", "batch.finishing"),
    "rollback": ("lease.taken", "batch.pinned", "table.committing", "table.committed", "batch.done", "lease.released"),
}
_LEDGER = ("ledger.recording", "ledger.appended", "ledger.recorded")
_RARE = (
    "finish.started",
    "batch.staged",
    "files.moved",
    "deleted_keys.stored",
    "feature.enabled",
    "log.linked",
    "log.checkpointing",
)
"""Places that a run comes to in some tables, or when it recovers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is struck, where, and what else happens."""

    do: Deed
    weapon: Weapon
    details: Mapping[str, Any]
    """Which table the deed is about, and which version."""
    table: str
    """The table that is aimed at."""
    place: str | None = None
    about: str = ""
    nth: int = 1
    after: str | None = None
    """The table whose lease has to be taken before the moment is counted; None counts from the start."""
    moment: float = 0.0
    burst: Burst | None = None
    """Commits of another writer."""
    goes_on: bool = False
    """Whether the process is not killed at its place, but stopped while another writer commits."""

    @property
    def strike(self) -> Literal["kill", "stop", "jvm"]:
        if self.weapon == "own-jvm":
            return "jvm"
        return "stop" if self.burst is not None and self.burst.when == "while stopped" else "kill"

    def __str__(self) -> str:
        at = f"{self.place} {self.about} {self.nth}" if self.place else f"{self.after or 'start'} + {self.moment:.1f} s"
        return f"{self.do}: {self.weapon} {at}{f'; foreign: {self.burst}' if self.burst else ''}"


def draw_layout(choose: random.Random, flows: Sequence[str] = tuple(FLOWS)) -> str:
    """A lake."""
    many = choose.choices((1, 2, 3), (45, 40, 15))[0]
    loads = [choose.choice(flows) for _ in range(many)]
    shapes = [choose.choices(SHAPES, (4, 2, 2, 2))[0] for _ in loads]
    can = gold_of(loads)
    gold = choose.sample(can, min(choose.choice((1, 1, 2, 3)), len(can)))
    streams = "+".join(
        load if shape == "plain" else f"{load}:{shape}" for load, shape in zip(loads, shapes, strict=True)
    )
    return f"{streams}>{','.join(gold)}{'@odd' if choose.random() < 0.35 else ''}"


def draw_deeds(choose: random.Random, *, grouped: bool) -> list[Deed]:
    """What happens to a lake besides runs: decisions about refused rows, or upkeep."""
    deeds: list[Deed] = ["run", "run", "run", "run", "run"]
    match choose.randrange(4):
        case 0 | 1:
            deeds += [] if grouped else ["replay", "discard", "vacuum"]
        case 2:
            # Not both: whoever deletes the past of an input cannot take a table back to it.
            deeds += ["compact", choose.choice(("vacuum", "restore", "rollback"))]
        case 3:
            decisions: list[Deed] = [] if grouped else ["replay", "discard"]
            deeds += ["rollback", "rollback", *choose.choice((decisions, ["vacuum"], ["compact"]))]
    return deeds


def draw(siege: Siege, do: Deed, weapon: Weapon, choose: random.Random, *, spark: bool) -> Aim:
    """What happens in an act. `spark`: another Spark may commit too."""
    table = _target(siege, do, choose)
    aim = Aim(do=do, weapon=weapon, details=_details(siege, do, table, choose), table=table)
    if weapon == "place" or (weapon == "own-jvm" and choose.random() < 0.5):
        aim = _at_place(aim, choose)
    elif weapon == "own-jvm" and choose.random() < 0.3:
        aim = replace(aim, place=CLOSING)
    elif choose.random() < 0.2:
        aim = replace(aim, moment=choose.uniform(0.3, 8.0 if weapon in ("own", "own-jvm") else 2.0))
    else:
        aim = replace(aim, after=table, moment=choose.uniform(0.0, 1.2))
    return _with_foreign(siege, aim, choose, spark=spark) if choose.random() < 0.4 else aim


def _target(siege: Siege, do: Deed, choose: random.Random) -> str:
    """The table to aim at: the layer first, so that kills are spread over the layers."""
    lake = siege.layout
    if do in ("replay", "discard"):
        return lake.streams[0].silver
    tables = {layer: lake.in_layer(layer) for layer in _LAYERS}
    if do == "run":
        fresh = {layer: [name for name in names if _has_work(siege, name)] for layer, names in tables.items()}
        tables = fresh if any(fresh.values()) else tables
    layers = {layer: names for layer, names in tables.items() if names}
    layer = choose.choices(list(layers), weights=[_LAYERS[each] for each in layers])[0]
    return choose.choice(layers[layer])


def _has_work(siege: Siege, table: str) -> bool:
    return any(map(siege.has_new, siege.layout.streams_of(table)))


def _details(siege: Siege, do: Deed, table: str, choose: random.Random) -> dict[str, Any]:
    """Which table a deed is about, and which version; how many releases a rollback goes back."""
    if do == "rollback":
        return {"version": choose.choice((0, 1, 1, 2, 3))}
    if do not in ("compact", "vacuum", "restore"):
        return {}
    log = siege.warehouse / table.replace(".", "/") / "_delta_log"
    # Between an append of another writer and its delete, the table held rows that the oracle does not know.
    between = {each.version for each in siege.foreign if each.table == table and each.between}
    versions = [each for each in range(len(list(log.glob("*.json")))) if each not in between]
    return {"table": table, "version": versions[int(choose.random() * len(versions))] if versions else 0}


def _at_place(aim: Aim, choose: random.Random) -> Aim:
    chance = choose.random()
    if chance < 0.06:
        place = choose.choice(_LEDGER)
        about = choose.choice(("", "system.runs", "system.releases")) if place == "ledger.appended" else ""
        return replace(aim, place=place, about=about)
    if aim.do != "run":
        return replace(aim, place=choose.choice(_OF_DEED[aim.do]), about=aim.table)
    often = _IN_LAYER[aim.table.partition(".")[0]]
    return replace(aim, place=choose.choice(often if chance < 0.92 else _RARE), about=aim.table)


def _with_foreign(siege: Siege, aim: Aim, choose: random.Random, *, spark: bool) -> Aim:
    """Another writer before the process begins, after it was killed, while it is stopped, or beside it."""
    at_place = aim.weapon == "place"
    moments = ["before", "beside", *(["after", "after", "while stopped", "while stopped"] if at_place else ["after"])]
    when = choose.choice(moments)
    table = aim.table if choose.random() < 0.7 else choose.choice(siege.layout.tables)
    if choose.random() < 0.1:
        table = f"quarantine.{table}"
    # What a killed driver began may still be committed by the JVM that it borrowed, unless it was killed at a place.
    quiet = when in ("before", "while stopped") or (when == "after" and at_place)
    burst = drawn(choose, table, when, spark=spark and quiet and not siege.may_commit)
    return replace(aim, burst=burst, goes_on=when == "while stopped" and choose.random() < 0.5)


def layer_of(places: Sequence[tuple[str, str]]) -> str:
    """The layer that a process worked in last, by the places that it came to."""
    for place, about in reversed(places):
        if place.startswith("ledger."):
            return "ledger"
        if place == CLOSING:
            return "closing"
        if found := re.search(r"\b(bronze|silver|gold)\b", about):
            return found[1]
    return "start"
