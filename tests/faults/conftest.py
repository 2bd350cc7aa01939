"""What attacks on a lake need.

Tests that mount disks need to be root: whoever is not becomes it in a namespace, where it means nothing outside.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.attach import Jvm
from tests.faults.disks import is_root
from tests.faults.siege import Oracle, Siege

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Besiege = Callable[..., Siege]


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    yield asked
    asked.close()


@pytest.fixture(scope="session")
def jvm(shared_spark: SparkSession) -> Jvm:
    """The Spark of the test run, for processes that come and go."""
    return Jvm.of(shared_spark)


@pytest.fixture
def besiege(tmp_path: Path, oracle: Oracle, jvm: Jvm) -> Besiege:
    """Makes a lake to attack."""

    def make(flow: str, *, seed: int = 7, plant: str | None = None) -> Siege:
        return Siege(tmp_path / (plant or "sound").replace(" ", "-") / "lake", flow, seed, oracle, jvm, plant)

    return make


class InNamespace(pytest.Item):
    """A test that a process of its own runs, as root of a namespace."""

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
