"""What attacks on a lake need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.attach import Jvm
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
        return Siege(tmp_path / (plant or "sound").replace(" ", "-") / flow, flow, seed, oracle, jvm, plant)

    return make
