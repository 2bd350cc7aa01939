"""Plans of faults, drawn from a seed: which command runs, what is killed where, and which other writer commits."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tests.faults.attacked_lake import AttackedLake
from tests.faults.command import CLOSING
from tests.faults.flows import FLOWS, SHAPES
from tests.faults.lake_process import LakeCommand
from tests.faults.layouts import gold_of
from tests.faults.other_writers import Burst, draw_burst

Weapon = Literal["place", "moment", "jvm", "both", "own", "own-jvm", "twin"]
"""What is killed: the process at a failpoint (`place`) or at a moment; the JVM that it borrows; both; a process with
its own Spark (`own`); only the JVM of such a process; the process while a second one works on the lake."""
# Starting and warming a new JVM costs as much as three kills without it.
WEAPONS: Mapping[Weapon, int] = {"place": 53, "moment": 16, "jvm": 4, "both": 4, "own": 2, "own-jvm": 7, "twin": 10}
SPARE_THE_JVM: Mapping[Weapon, int] = {weapon: WEAPONS[weapon] for weapon in ("place", "moment", "twin")}
_LAYERS = {"bronze": 20, "silver": 40, "gold": 44}
"""Weights of the layers. Bronze runs first, so a kill there rarely misses; a kill at gold misses more often."""
_STEP = ("lease.taken", "batch.pinned", "table.committing", "table.committed", "batch.finishing", "batch.done")
_IN_LAYER = {
    "bronze": (*_STEP, "quarantine.committed", "lease.released"),
    "silver": (*_STEP, "quarantine.committed", "batch.staged", "batch.staged", "deleted_keys.stored", "lease.released"),
    "gold": (*_STEP, "table.committed", "log.linked"),
}
_OF_COMMAND: dict[LakeCommand, tuple[str, ...]] = {
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
    "deleted_keys.stored",
    "feature.enabled",
    "log.linked",
    "log.checkpointing",
)
"""Failpoints that a run reaches only in some tables, or when it recovers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """What is killed, where, and what else happens."""

    do: LakeCommand
    weapon: Weapon
    details: Mapping[str, Any]
    """The table and the version of the command."""
    table: str
    """The target table."""
    place: str | None = None
    about: str = ""
    nth: int = 1
    after: str | None = None
    """The moment counts from when this table's lease is taken; None counts from the start."""
    moment: float = 0.0
    burst: Burst | None = None
    """Commits of another writer."""
    continues: bool = False
    """Whether the process continues after it was stopped at its failpoint, instead of being killed."""

    @property
    def action(self) -> Literal["kill", "stop", "jvm"]:
        if self.weapon == "own-jvm":
            return "jvm"
        return "stop" if self.burst is not None and self.burst.when == "while stopped" else "kill"

    def __str__(self) -> str:
        at = f"{self.place} {self.about} {self.nth}" if self.place else f"{self.after or 'start'} + {self.moment:.1f} s"
        return f"{self.do}: {self.weapon} {at}{f'; foreign: {self.burst}' if self.burst else ''}"


def draw_layout(choose: random.Random, flows: Sequence[str] = tuple(FLOWS)) -> str:
    """Draw a lake."""
    many = choose.choices((1, 2, 3), (45, 40, 15))[0]
    loads = [choose.choice(flows) for _ in range(many)]
    shapes = [choose.choices(SHAPES, (4, 2, 2, 2))[0] for _ in loads]
    can = gold_of(loads)
    gold = choose.sample(can, min(choose.choice((1, 1, 2, 3)), len(can)))
    streams = "+".join(
        load if shape == "plain" else f"{load}:{shape}" for load, shape in zip(loads, shapes, strict=True)
    )
    return f"{streams}>{','.join(gold)}{'@odd' if choose.random() < 0.35 else ''}"


def draw_commands(choose: random.Random, *, grouped: bool) -> list[LakeCommand]:
    """Draw the commands on a lake besides runs: decisions about rejected rows, or maintenance."""
    commands: list[LakeCommand] = ["run", "run", "run", "run", "run"]
    match choose.randrange(4):
        case 0 | 1:
            commands += [] if grouped else ["replay", "discard", "vacuum"]
        case 2:
            # Not both: a table cannot be restored to inputs that a vacuum has deleted.
            commands += ["compact", choose.choice(("vacuum", "restore", "rollback"))]
        case 3:
            decisions: list[LakeCommand] = [] if grouped else ["replay", "discard"]
            commands += ["rollback", "rollback", *choose.choice((decisions, ["vacuum"], ["compact"]))]
    return commands


def draw(attacked: AttackedLake, do: LakeCommand, weapon: Weapon, choose: random.Random, *, spark: bool) -> FaultPlan:
    """Draw one plan. With `spark`, another Spark may commit too."""
    table = _target(attacked, do, choose)
    plan = FaultPlan(do=do, weapon=weapon, details=_details(attacked, do, table, choose), table=table)
    if weapon == "place" or (weapon == "own-jvm" and choose.random() < 0.5):
        plan = _at_place(plan, choose)
    elif weapon == "own-jvm" and choose.random() < 0.3:
        plan = replace(plan, place=CLOSING)
    elif choose.random() < 0.2:
        plan = replace(plan, moment=choose.uniform(0.3, 8.0 if weapon in ("own", "own-jvm") else 2.0))
    else:
        plan = replace(plan, after=table, moment=choose.uniform(0.0, 1.2))
    return _with_foreign(attacked, plan, choose, spark=spark) if choose.random() < 0.4 else plan


def _target(attacked: AttackedLake, do: LakeCommand, choose: random.Random) -> str:
    """Draw the target table: the layer first, so that kills are spread over the layers."""
    lake = attacked.layout
    if do in ("replay", "discard"):
        return lake.streams[0].silver
    tables = {layer: lake.in_layer(layer) for layer in _LAYERS}
    if do == "run":
        fresh = {layer: [name for name in names if _has_work(attacked, name)] for layer, names in tables.items()}
        tables = fresh if any(fresh.values()) else tables
    layers = {layer: names for layer, names in tables.items() if names}
    layer = choose.choices(list(layers), weights=[_LAYERS[each] for each in layers])[0]
    return choose.choice(layers[layer])


def _has_work(attacked: AttackedLake, table: str) -> bool:
    return any(map(attacked.has_new, attacked.layout.streams_of(table)))


def _details(attacked: AttackedLake, do: LakeCommand, table: str, choose: random.Random) -> dict[str, Any]:
    """Draw the table and version of a command; for a rollback, how many releases it goes back."""
    if do == "rollback":
        return {"version": choose.choice((0, 1, 1, 2, 3))}
    if do not in ("compact", "vacuum", "restore"):
        return {}
    log = attacked.warehouse / table.replace(".", "/") / "_delta_log"
    # Between an append of another writer and its delete, the table held rows that the oracle does not know.
    between = {each.version for each in attacked.foreign if each.table == table and each.between}
    versions = [each for each in range(len(list(log.glob("*.json")))) if each not in between]
    return {"table": table, "version": versions[int(choose.random() * len(versions))] if versions else 0}


def _at_place(plan: FaultPlan, choose: random.Random) -> FaultPlan:
    chance = choose.random()
    if chance < 0.06:
        place = choose.choice(_LEDGER)
        about = choose.choice(("", "system.runs", "system.releases")) if place == "ledger.appended" else ""
        return replace(plan, place=place, about=about)
    if plan.do != "run":
        return replace(plan, place=choose.choice(_OF_COMMAND[plan.do]), about=plan.table)
    often = _IN_LAYER[plan.table.partition(".")[0]]
    return replace(plan, place=choose.choice(often if chance < 0.92 else _RARE), about=plan.table)


def _with_foreign(attacked: AttackedLake, plan: FaultPlan, choose: random.Random, *, spark: bool) -> FaultPlan:
    """Add another writer: before the process starts, after its kill, while it is stopped, or beside it."""
    at_place = plan.weapon == "place"
    moments = ["before", "beside", *(["after", "after", "while stopped", "while stopped"] if at_place else ["after"])]
    when = choose.choice(moments)
    table = plan.table if choose.random() < 0.7 else choose.choice(attacked.layout.tables)
    if choose.random() < 0.1:
        table = f"quarantine.{table}"
    # The borrowed JVM may still commit the work of a killed driver, unless the kill was at a failpoint.
    quiet = when in ("before", "while stopped") or (when == "after" and at_place)
    burst = draw_burst(choose, table, when, spark=spark and quiet and not attacked.may_commit)
    return replace(plan, burst=burst, continues=when == "while stopped" and choose.random() < 0.5)


def layer_of(places: Sequence[tuple[str, str]]) -> str:
    """Return the layer that a process worked in last, by the failpoints that it reached."""
    for place, about in reversed(places):
        if place.startswith("ledger."):
            return "ledger"
        if place == CLOSING:
            return "closing"
        if found := re.search(r"\b(bronze|silver|gold)\b", about):
            return found[1]
    return "start"
