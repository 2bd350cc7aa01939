"""One episode of chaos, without a bug and with a planted one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.attach import Jvm
from tests.faults.chaos import Chaos
from tests.faults.tally import Tally

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED = 329949
"""The seed of an episode with two runs: one is killed after its rows, then another writer commits; one before them."""


def play_episode(folder: Path, jvm: Jvm, plant: str | None = None) -> Tally:
    chaos = Chaos(SEED, folder, lent=jvm, layout="append:nulls>totals", acts=2, plant=plant)
    try:
        chaos.episode(0)
    finally:
        chaos.close()
    return chaos.tally


def test_an_episode_kills_processes_and_breaks_no_promise(tmp_path: Path, jvm: Jvm) -> None:
    tally = play_episode(tmp_path, jvm)
    assert tally.broken == []
    assert dict(tally.by_place) == {"quarantine.committed": 1, "batch.staged": 1}
    assert dict(tally.by_layer) == {"silver": 2}
    assert dict(tally.foreign) == {"hand info after": 5}


@pytest.mark.verify
def test_the_same_episode_finds_a_planted_bug_and_preserves_the_lake(tmp_path: Path, jvm: Jvm) -> None:
    tally = play_episode(tmp_path, jvm, plant="bookmark first")
    assert tally.kills == 2
    # Rows are missing, or already the version that a run acknowledged.
    assert any("R silver.events" in each or "A batch 2 of silver.events" in each for _, each in tally.broken)
    assert all(number == 0 and f"lake: {tmp_path / 'episode-0'}" in each for number, each in tally.broken)
    assert (tmp_path / "episode-0/lakesmith.yml").exists()
