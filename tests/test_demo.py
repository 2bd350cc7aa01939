"""The first command of a newcomer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.spark


@pytest.mark.verify
def test_make_demo_prints_the_results_of_both_days() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ended = subprocess.run(["make", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for expected in ("== Day 2", "new columns: bronze.orders: channel", "In quarantine", "2026-11-02  USD", "Try next"):
        assert expected in ended.stdout
