"""What the planner proves on the text of a query must hold for rows, on Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.plan.lakes import named, sql
from tests.plan.queries import ROWWISE, TRACED

from lakesmith.sqlproof.binding import bind
from lakesmith.sqlproof.functions import AGGREGATES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ORDERS = """
SELECT id, id % 3 AS k, id * 7 % 5 AS x, id % 2 AS a, CAST(id AS STRING) AS name, id * 1.5 AS amount,
  CASE WHEN id % 4 > 0 THEN 'a' END AS status,
  timestampadd(HOUR, id * 9, TIMESTAMP '2026-01-30 00:00:00') AS ts,
  CASE WHEN id <> 5 THEN date_add(DATE '2026-01-30', id % 4) END AS day,
  date_add(DATE '2026-01-30', id % 4) AS b, date_add(DATE '2026-02-01', id % 2) AS c,
  date_add(DATE '2026-01-30', id % 3) AS `order day`, id AS `count`, id AS current_date,
  transform(sequence(0, id % 3), i -> named_struct('price', i)) AS items,
  named_struct('zip', CAST(id % 2 AS STRING), 'city', 'x') AS address
FROM (SELECT CAST(id AS INT) AS id FROM range(12))
"""
CUSTOMERS = "SELECT * FROM VALUES (0, 'zero'), (1, 'one'), (1, 'uno'), (7, 'seven') AS c(k, name)"


def answer(spark: SparkSession, text: str, orders: DataFrame) -> Counter[str]:
    """Return the rows of the query as text, with `orders` as the only orders."""
    orders.createOrReplaceTempView("orders_view")
    spark.sql(CUSTOMERS).createOrReplaceTempView("customers_view")
    views = dict.fromkeys((named("bronze.orders"), named("silver.orders")), "orders_view")
    found = spark.sql(bind(sql(text), {**views, named("silver.c"): "customers_view"}))
    return Counter(str(row) for row in found.collect())


@pytest.mark.parametrize("text", ROWWISE)
def test_a_rowwise_query_over_two_halves_equals_the_query_over_all_rows(spark: SparkSession, text: str) -> None:
    orders = spark.sql(ORDERS)
    halves = [answer(spark, text, orders.where(half)) for half in ("id < 5", "id >= 5")]
    assert halves[0] + halves[1] == answer(spark, text, orders)


@pytest.mark.parametrize(("text", "expression"), TRACED)
def test_partitions_recomputed_in_two_parts_equal_a_full_build(spark: SparkSession, text: str, expression: str) -> None:
    orders = spark.sql(ORDERS)
    if "AS day" in text:
        orders = orders.drop("day")  # otherwise GROUP BY day would mean this column, and Spark rejects the query
    values = sorted({str(value) for (value,) in orders.selectExpr(f"CAST({expression} AS STRING)").collect()})
    assert len(values) > 1
    some = ", ".join(f"'{value}'" for value in values[::2])
    touched = f"coalesce(CAST({expression} AS STRING), 'None') IN ({some})"
    parts = [answer(spark, text, orders.where(part)) for part in (touched, f"NOT {touched}")]
    assert parts[0] + parts[1] == answer(spark, text, orders)
    assert all(parts)


def test_the_list_of_aggregates_has_all_of_spark_s(spark: SparkSession) -> None:
    missed = []
    for (function,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        description = "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION `{function}`").collect())
        kind = description.partition("Class: ")[2].partition("\n")[0]
        if (".aggregate." in kind or kind.endswith("Agg")) and function not in AGGREGATES:
            missed.append(function)
    assert missed == []
