"""Overlapping intervals and gaps are found before a history is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from lakesmith.columns import BROKEN_INTERVALS
from lakesmith.declare.loads import Scd2
from lakesmith.spark.loads.history import _DELETED, _assert_gapless

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ([(1, 3, False), (3, None, False)], True),
        ([(1, 3, True), (5, None, False)], True),
        ([(1, 3, False), (5, None, False)], False),
        ([(1, 4, False), (3, None, False)], False),
        ([(1, None, False), (3, None, False)], False),
        ([(1, 4, True), (3, None, False)], False),
        ([(3, 3, False)], False),
    ],
)
def test_overlaps_and_gaps_are_errors(
    spark: SparkSession, rows: list[tuple[int, int | None, bool]], right: bool
) -> None:
    columns = f"id int, valid_from int, valid_to int, {_DELETED} boolean"
    made = spark.createDataFrame([(1, *row) for row in rows], columns)
    proved = _assert_gapless(Scd2(key=("id",), order_by=("at",)), made)
    if right:
        assert proved.count() == len(rows)
    else:
        with pytest.raises(PySparkException, match=BROKEN_INTERVALS):
            proved.collect()
