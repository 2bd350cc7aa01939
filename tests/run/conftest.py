"""Lakes for tests, run on the shared Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.run.lakes import ORDERS, Written, place

from lakesmith.jvm.session import isolated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ON_S3 = {
    "test_loads": ("test_only_the_touched_partitions_are_recomputed", "test_an_append_adds_each_new_row_once"),
    "test_quarantine": ("test_discarded_rows_stay_discarded_in_a_rebuild_and_are_counted",),
    "test_gates": ("test_a_held_batch_can_be_queried_and_approved_with_a_reason",),
    "test_releases": ("test_a_lake_is_rolled_back_to_a_release_and_the_next_run_updates_it",),
    "test_maintenance": (
        "test_compacted_tables_have_the_same_rows_in_fewer_files_and_nothing_is_recomputed",
        "test_a_vacuum_deletes_unused_files_and_leftovers_of_killed_runs",
    ),
    "test_crashes": (),
    "test_backfill": (),
    "test_deleted_keys": (),
}
"""The modules whose tests also run with a warehouse on S3: those named here in `make test`, all in `make verify`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    if module not in ON_S3:
        return
    chosen = metafunc.function.__name__ in ON_S3[module]
    marks = [pytest.mark.servers, *([] if chosen else [pytest.mark.verify])]
    metafunc.fixturenames.append("warehouse_place")
    metafunc.parametrize("warehouse_place", ["disk", pytest.param("s3", marks=marks)], indirect=True)


@pytest.fixture
def warehouse_place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the warehouses of this test on S3, if that is its parameter."""
    place.server = request.getfixturevalue("s3") if request.param == "s3" else None
    yield
    place.server = None


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
