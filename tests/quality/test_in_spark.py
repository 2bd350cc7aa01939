"""Proposed and imported checks have the same meaning in Spark as their originals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.exchange.test_great_expectations import CONVERTED

from lakesmith.declare.checks import BatchSql, RowSql
from lakesmith.quality.text_patterns import TEXT_PATTERNS
from lakesmith.sql import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = (
    "9b2e4f7a-0000-4000-8000-00000000000A",
    "2026-01-31",
    "2026-13-01",
    "2026-01-31T10:00:00.5Z",
    "a.b@example.com",
    "a@b",
    "s3://bucket/key?x",
    "255.1.2.3",
    "256.1.2.3",
    "+4930123456",
    "0017",
    "-12.50",
    "d41d8cd98f00b204e9800998ecf8427e",
    "EUR",
    "AB-1",
    "",
    "two words",
    "zwölf",
)


@pytest.mark.spark
def test_every_text_pattern_means_the_same_in_java_and_python(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "a string")
    (found,) = frame.selectExpr(
        *(f"collect_list(CASE WHEN a RLIKE {literal(form.matches)} THEN a END)" for form in TEXT_PATTERNS)
    ).collect()
    for form, fitting in zip(TEXT_PATTERNS, found, strict=True):
        assert sorted(fitting) == sorted(text for text in TEXTS if form.fits(text)), form.name


@pytest.mark.spark
def test_spark_takes_the_sql_of_every_imported_check(spark: SparkSession) -> None:
    texts = spark.createDataFrame([], "a string, b string, c string")
    numbers = spark.createDataFrame([], "a int, b int, c int")
    for kind, (_, rules) in CONVERTED.items():
        for rule in rules:
            if isinstance(rule, RowSql | BatchSql):
                empty = numbers if kind == "expect_multicolumn_sum_to_equal" else texts
                (found,) = empty.selectExpr(rule.condition).schema
                assert found.dataType.simpleString() == "boolean", kind


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "fine", "broken"),
    [
        ("expect_column_values_to_match_strftime_format", ["2026-01-31T23:59", None], ["2026-01-31", "x"]),
        ("expect_column_values_to_be_json_parseable", ['{"x": [1]}', "null", "5", None], ["{", "x y"]),
        ("expect_column_values_to_be_dateutil_parseable", ["2026-01-31", "2026-01-31 10:00", None], ["x"]),
        ("expect_column_values_to_not_match_regex", ["abc", None], ["axc"]),
    ],
)
def test_an_imported_check_rejects_the_rows_of_its_expectation(
    spark: SparkSession, kind: str, fine: list[str | None], broken: list[str]
) -> None:
    (rule,) = CONVERTED[kind][1]
    assert isinstance(rule, RowSql)
    frame = spark.createDataFrame([(text,) for text in (*fine, *broken)], "a string")
    rejected = [row["a"] for row in frame.where(f"NOT coalesce(({rule.condition}), true)").collect()]
    assert rejected == broken
