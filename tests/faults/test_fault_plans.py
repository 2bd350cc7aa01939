"""Chaos draws every dimension, and spreads kills over the layers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

from tests.faults.attacked_lake import AttackedLake, Oracle
from tests.faults.command import CLOSING
from tests.faults.fault_plans import WEAPONS, FaultPlan, draw, draw_layout, layer_of
from tests.faults.flows import FLOWS, SHAPES
from tests.faults.layouts import layout

ACTS = 400


def plans(tmp_path: Path) -> list[FaultPlan]:
    """Draw plans for runs on all kinds of lakes, each with new files."""
    drawn = []
    for number in range(ACTS):
        choose = random.Random(f"1/{number}")
        lake = AttackedLake(tmp_path / str(number), draw_layout(choose), number, Mock(Oracle), landed=1)
        weapon = choose.choices(list(WEAPONS), weights=list(WEAPONS.values()))[0]
        drawn.append(draw(lake, "run", weapon, choose, spark=True))
    return drawn


def test_more_than_a_third_of_kills_each_target_silver_and_gold(tmp_path: Path) -> None:
    layers = Counter(plan.table.partition(".")[0] for plan in plans(tmp_path))
    assert min(layers["silver"], layers["gold"]) > ACTS / 3
    assert layers["bronze"] > 0


def test_every_writer_commits_at_every_moment_allowed_for_it(tmp_path: Path) -> None:
    bursts = [plan.burst for plan in plans(tmp_path) if plan.burst is not None]
    assert {(each.writer, each.when) for each in bursts} == {
        *((writer, when) for writer in ("hand", "delta-rs") for when in ("before", "beside", "after", "while stopped")),
        *(("spark", when) for when in ("before", "after", "while stopped")),
    }
    assert any(each.count > 20 for each in bursts)


def test_another_spark_never_commits_while_a_killed_driver_s_job_may_commit(tmp_path: Path) -> None:
    for plan in plans(tmp_path):
        if plan.burst is not None and plan.burst.writer == "spark":
            assert plan.burst.when in ("before", "while stopped") or plan.weapon == "place"


def test_jvms_are_killed_at_failpoints_at_the_end_and_at_moments(tmp_path: Path) -> None:
    own = [plan for plan in plans(tmp_path) if plan.weapon == "own-jvm"]
    assert {(plan.place == CLOSING, plan.place is None) for plan in own} == {
        (True, False),
        (False, True),
        (False, False),
    }


def test_every_load_is_drawn_with_every_shape_of_nulls_and_with_odd_names() -> None:
    layouts = [draw_layout(random.Random(number)) for number in range(2000)]
    pairs = {(each.flow.name, each.flow.shape) for text in layouts for each in layout(text, 1).streams}
    assert pairs == {(name, shape) for name in FLOWS for shape in SHAPES}
    assert {len(layout(text, 1).streams) for text in layouts} == {1, 2, 3}
    assert {gold.name for text in layouts for gold in layout(text, 1).gold} == {"days", "keys", "totals", "pairs"}
    assert {text.endswith("@odd") for text in layouts} == {True, False}


def test_the_last_failpoint_decides_the_layer() -> None:
    assert layer_of([]) == "start"
    assert layer_of([("lease.taken", "bronze.events"), ("feature.enabled", "/lake/silver/events")]) == "silver"
    assert layer_of([("batch.done", "gold.days"), ("ledger.appended", "system.runs")]) == "ledger"
