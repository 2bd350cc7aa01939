"""A batch of few rows is collected as it is, in one Spark job; other batches are left to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakesmith.quality import Rules
from lakesmith.spark.batch_counts import FEW_ROWS, collect_few

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NO_RULES = Rules(rows=(), batch=())
EVERY_TYPE = """
    SELECT id, CAST(id AS tinyint) AS a, CAST(id AS smallint) AS b, CAST(id AS int) AS c, id % 2 = 0 AS d,
        CAST('NaN' AS double) AS e, CAST('-0.0' AS float) AS f, CAST('-1e19' AS decimal(38, 18)) AS g,
        DATE'+12345-01-01' AS h, DATE'-0044-03-15' AS i, TIMESTAMP'9999-12-31 23:59:59.999999' AS j,
        TIMESTAMP'0001-01-01 00:00:00' AS k, TIMESTAMP_NTZ'2026-03-29 02:30:00' AS l, binary('\\0x') AS m, '' AS n,
        array(TIMESTAMP'2026-03-29 01:30:00', NULL) AS o, map('k', named_struct('a b', TIMESTAMP_NTZ'1900-01-01')) AS p,
        named_struct('Ünï', CAST(NULL AS bigint), 'empty', CAST(array() AS array<int>)) AS q,
        CAST(NULL AS map<string, date>) AS r
    FROM range(3)
"""


def jobs(spark: SparkSession) -> int:
    return int(spark._jsc.sc().dagScheduler().numTotalJobs())


def values(rows: DataFrame) -> list[str]:
    return sorted(rows.selectExpr("CAST(struct(*) AS string) AS row").toArrow()["row"].to_pylist())


def test_rows_of_every_type_are_collected_as_they_are(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    rows = spark.sql(EVERY_TYPE)
    before = jobs(spark)
    found = collect_few(rows, NO_RULES)
    assert found is not None
    assert jobs(spark) - before == 1
    few, counts = found
    assert counts.rows_in == 3
    assert few.schema == rows.schema
    assert values(few) == values(rows)


@pytest.mark.parametrize(
    "column",
    [
        "INTERVAL '1' DAY",
        "NULL",
        "'a' COLLATE UNICODE_CI",
        "parse_json('1')",
        "array(NULL)",
        "named_struct('a', 1, 'a', 2)",
    ],
)
def test_types_that_arrow_changes_are_left_to_spark(spark: SparkSession, column: str) -> None:
    assert collect_few(spark.sql(f"SELECT {column} AS value"), NO_RULES) is None


def test_many_rows_are_left_to_spark(spark: SparkSession) -> None:
    assert collect_few(spark.range(0, FEW_ROWS, 1, 2), NO_RULES) is not None
    assert collect_few(spark.range(0, FEW_ROWS + 1, 1, 2), NO_RULES) is None
