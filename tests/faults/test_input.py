"""Large, odd or changing input: each row is in one place, once, and the row counts add up.

tests/run/test_any_order.py compares duplicate, late and unordered rows with models. tests/run/test_bronze.py and
tests/run/test_files.py test poison rows, and schemas that change within a batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.lakes import assert_typed
from tests.marks import first_only
from tests.peaks import forget_peak, peak
from tests.run.lakes import Cut, Written

from lakesmith import failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TINY = (2_000, 10_000)
MEMORY = 96 << 20
"""The maximum bytes that the driver may need for a run of these files."""
ROWS = 40
NUMBERED: list[dict[str, object]] = [{"id": number} for number in range(ROWS)]
DICE = (
    "/* lakesmith\n"
    "load: append\n"
    "checks:\n"
    "  lucky: {where: 'place <= 20', on_fail: quarantine}\n"
    "*/\n"
    "SELECT id, row_number() OVER (ORDER BY rand()) AS place FROM bronze.orders\n"
)
"""A query that rejects half of its rows, other ones each time."""


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Written]:
    lake = Written(tmp_path / "shop", spark)
    lake.declare({"lakesmith.yml": "name: shop\n", "bronze/orders.yml": "source: {files: landing/*.json}\n"})
    yield lake
    failpoints.watch(None)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tiny", first_only(TINY))
def test_thousands_of_tiny_files_are_ingested_with_matching_row_counts_and_little_memory(
    lake: Written, tiny: int
) -> None:
    damaged = tiny // 1000
    for number in range(tiny):
        text = f'{{"id": {number}}}\n' if number % 1000 else '{"id": tru\n'
        (lake.folder / f"landing/{number:05}.json").parent.mkdir(exist_ok=True)
        (lake.folder / f"landing/{number:05}.json").write_text(text)
    few = Written(lake.folder.with_name("few"), lake.spark)
    few.declare({"lakesmith.yml": "name: few\n", "bronze/orders.yml": "source: {files: landing/*.json}\n"})
    few.land("1.json", {"id": 1})
    few.run()  # do not count the memory of any run
    before = forget_peak(os.getpid())
    step = lake.run()["bronze.orders"]
    assert peak(os.getpid()) - before < MEMORY
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (tiny, tiny - damaged, damaged)
    assert lake.rows("SELECT count(*), count(DISTINCT id) FROM bronze.orders") == [(tiny - damaged, tiny - damaged)]
    assert lake.rows("SELECT count(*), sum(rows_in) FROM system.files") == [(tiny, tiny)]
    assert lake.run() == {}


def test_files_of_one_batch_with_different_columns_and_repeated_rows_lose_no_row(lake: Written) -> None:
    lake.land("1.json", {"id": 1}, {"id": 2, "note": "a"}, {"id": 1})
    lake.land("2.json", {"id": 3, "amount": 4}, '{"id": 4, "am', {"id": "five"}, {"amount": 1.5, "id": 6})
    lake.land("0.json", {"id": 7, "note": {"deep": True}})
    step = lake.run()["bronze.orders"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (8, 7, 1)
    found = lake.rows("SELECT count(*), count(_rescued) + count(id) >= 7 FROM bronze.orders")
    assert found == [(7, True)]
    assert lake.run() == {}


def test_a_nondeterministic_query_puts_each_row_in_one_place(lake: Written) -> None:
    lake.declare({"silver/dice.sql": DICE})
    lake.land("1.json", *NUMBERED)
    step = lake.run()["silver.dice"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (ROWS, 20, 20)
    assert _places(lake) == [(id, 1) for id in range(ROWS)]


def test_a_nondeterministic_query_is_not_run_again_for_its_rejected_rows(lake: Written) -> None:
    lake.declare({"silver/dice.sql": DICE})
    lake.land("1.json", *NUMBERED)

    def cut(place: str, about: str) -> None:
        if (place, about) == ("table.committed", "silver.dice"):
            raise Cut

    failpoints.watch(cut)
    with pytest.raises(Cut):
        lake.run()
    failpoints.watch(None)
    lake.run(ok=False)
    [error] = lake.reports[-1].errors
    assert_typed(error, "row-count-mismatch")
    assert "rand()" in error.what
    assert lake.rows("SELECT count(*) FROM silver.dice") == [(20,)]
    lake.run("silver.dice", full_refresh=True)
    assert _places(lake) == [(id, 1) for id in range(ROWS)]


def _places(lake: Written) -> list[tuple[object, ...]]:
    """Return the number of places of each row."""
    return lake.rows(
        "SELECT id, count(*) FROM (SELECT id FROM silver.dice UNION ALL "
        "SELECT CAST(json_extract_string(raw, '$.id') AS BIGINT) FROM quarantine.silver_dice) GROUP BY id ORDER BY id"
    )
