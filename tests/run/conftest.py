"""Lakes for tests, run on the shared Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.run.lakes import ORDERS, Written

from lakesmith.jvm.session import isolated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def written(tmp_path: Path, spark: SparkSession) -> Written:
    folder = tmp_path / "shop"
    lake = Written(folder, spark)
    lake.declare({"lakesmith.yml": "name: shop\n"})
    return lake


@pytest.fixture
def orders(written: Written) -> Written:
    """Bronze from files, silver by merge, gold by partitions."""
    written.declare(ORDERS)
    return written


@pytest.fixture(scope="module")
def module_lake(tmp_path_factory: pytest.TempPathFactory, shared_spark: SparkSession) -> Written:
    """A lake that all tests of a module query."""
    lake = Written(tmp_path_factory.mktemp("shared") / "shop", isolated(shared_spark))
    lake.declare({"lakesmith.yml": "name: shop\n"})
    return lake
