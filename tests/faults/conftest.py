"""Fixtures for fault injection.

Tests that mount disks need root. Other users run them as root of a namespace, without rights outside of it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.attach import Jvm
from tests.faults.attacked_lake import AttackedLake, Oracle
from tests.faults.disks import is_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AttackLake = Callable[..., AttackedLake]


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    oracle_process = Oracle()
    yield oracle_process
    oracle_process.close()


@pytest.fixture(scope="session")
def jvm(shared_spark: SparkSession) -> Jvm:
    """The Spark of the test run, which test processes borrow."""
    return Jvm.of(shared_spark)


@pytest.fixture
def attack_lake(tmp_path: Path, oracle: Oracle, jvm: Jvm) -> AttackLake:
    """Create a lake for fault injection."""

    def make(flow: str, *, seed: int = 7, plant: str | None = None) -> AttackedLake:
        return AttackedLake(tmp_path / (plant or "sound").replace(" ", "-") / "lake", flow, seed, oracle, jvm, plant)

    return make


class InNamespace(pytest.Item):
    """A test that runs in its own process, as root of a namespace."""

    def runtest(self) -> None:
        command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", self.nodeid]
        answer = subprocess.run(command, cwd=self.config.rootpath, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout[-5000:] + answer.stderr[-2000:]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if is_root():
        return
    for at, item in enumerate(items):
        if item.parent is not None and item.get_closest_marker("mounts") is not None:
            items[at] = moved = InNamespace.from_parent(item.parent, name=item.name)
            moved.own_markers.extend(item.iter_markers())
