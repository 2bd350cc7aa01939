"""What chaos draws: every dimension comes up, and kills are spread over the layers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

from tests.faults.aims import WEAPONS, Aim, draw, draw_layout, layer_of
from tests.faults.command import CLOSING
from tests.faults.flows import FLOWS, SHAPES
from tests.faults.layouts import layout
from tests.faults.siege import Oracle, Siege

ACTS = 400


def aims(tmp_path: Path) -> list[Aim]:
    """Runs in lakes of all kinds, each with new files."""
    drawn = []
    for number in range(ACTS):
        choose = random.Random(f"1/{number}")
        siege = Siege(tmp_path / str(number), draw_layout(choose), number, Mock(Oracle), landed=1)
        weapon = choose.choices(list(WEAPONS), weights=list(WEAPONS.values()))[0]
        drawn.append(draw(siege, "run", weapon, choose, spark=True))
    return drawn


def test_silver_and_gold_are_aimed_at_more_often_than_a_third_of_the_time(tmp_path: Path) -> None:
    layers = Counter(aim.table.partition(".")[0] for aim in aims(tmp_path))
    assert min(layers["silver"], layers["gold"]) > ACTS / 3
    assert layers["bronze"] > 0


def test_every_writer_commits_at_every_moment_that_it_may(tmp_path: Path) -> None:
    bursts = [aim.burst for aim in aims(tmp_path) if aim.burst is not None]
    assert {(each.writer, each.when) for each in bursts} == {
        *((writer, when) for writer in ("hand", "delta-rs") for when in ("before", "beside", "after", "while stopped")),
        *(("spark", when) for when in ("before", "after", "while stopped")),
    }
    assert any(each.count > 20 for each in bursts)


def test_another_spark_never_commits_where_a_killed_driver_may_have_left_a_commit_under_way(tmp_path: Path) -> None:
    for aim in aims(tmp_path):
        if aim.burst is not None and aim.burst.writer == "spark":
            assert aim.burst.when in ("before", "while stopped") or aim.weapon == "place"


def test_lone_jvms_are_killed_at_places_at_the_end_and_at_moments(tmp_path: Path) -> None:
    own = [aim for aim in aims(tmp_path) if aim.weapon == "own-jvm"]
    assert {(aim.place == CLOSING, aim.place is None) for aim in own} == {(True, False), (False, True), (False, False)}


def test_every_load_is_drawn_with_every_shape_of_nulls_and_with_odd_names() -> None:
    layouts = [draw_layout(random.Random(number)) for number in range(2000)]
    pairs = {(each.flow.name, each.flow.shape) for text in layouts for each in layout(text, 1).streams}
    assert pairs == {(name, shape) for name in FLOWS for shape in SHAPES}
    assert {len(layout(text, 1).streams) for text in layouts} == {1, 2, 3}
    assert {gold.name for text in layouts for gold in layout(text, 1).gold} == {"days", "keys", "totals", "pairs"}
    assert {text.endswith("@odd") for text in layouts} == {True, False}


def test_a_process_is_where_it_came_to_last() -> None:
    assert layer_of([]) == "start"
    assert layer_of([("lease.taken", "bronze.events"), ("feature.enabled", "/lake/silver/events")]) == "silver"
    assert layer_of([("batch.done", "gold.days"), ("ledger.appended", "system.runs")]) == "ledger"
