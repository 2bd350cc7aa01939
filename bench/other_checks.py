"""The rules of `bench.checks` for other libraries."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES = ("id", "customer", "amount", "currency", "email", "at", "quantity", "score", "country", "paid")


def version(package: str) -> str:
    return metadata.version(package)


def great_expectations(rows: DataFrame) -> None:
    """Validate one suite of 40 expectations with counts only, the cheapest mode."""
    import great_expectations as gx
    from great_expectations import expectations as gxe

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = None
    batch = (
        context.data_sources.add_spark("spark")
        .add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("all")
        .get_batch({"dataframe": rows})
    )
    suite = gx.ExpectationSuite(name="rules")
    for expectation in _expectations(gxe):
        suite.add_expectation(expectation)
    result = batch.validate(suite, result_format="BOOLEAN_ONLY")
    broken = [each.expectation_config.type for each in result.results if not each.success]
    assert len(result.results) == 40
    assert not broken, broken


def _expectations(gxe: Any) -> list[Any]:
    bounds = gxe.ExpectColumnValuesToBeBetween
    lengths = gxe.ExpectColumnValueLengthsToBeBetween
    found = [gxe.ExpectColumnValuesToNotBeNull(column=name) for name in NAMES]
    found += [
        bounds(column="id", min_value=0),
        bounds(column="customer", min_value=0, max_value=100000),
        bounds(column="amount", min_value=0, max_value=1000),
        bounds(column="quantity", min_value=0, max_value=49),
        bounds(column="score", min_value=0, max_value=1),
        gxe.UnexpectedRowsExpectation(
            unexpected_rows_query="SELECT * FROM {batch} WHERE at < '2020-01-01' OR at > '2030-01-01'"
        ),
        gxe.ExpectColumnValuesToBeInSet(column="currency", value_set=["EUR", "USD", "GBP"]),
        gxe.ExpectColumnValuesToBeInSet(column="country", value_set=["DE", "FR", "US", "GB", "IT"]),
        lengths(column="email", min_value=5, max_value=40),
        lengths(column="currency", min_value=3, max_value=3),
        lengths(column="country", min_value=2, max_value=2),
        gxe.ExpectColumnValuesToMatchRegex(column="email", regex="^user[0-9]+@"),
    ]
    wrong = [
        "amount * quantity < 0",
        "customer >= id + 100000",
        "quantity >= 100",
        "score >= 2",
        "amount >= 5000",
        "email NOT LIKE '%@%'",
        "at <= timestamp'2000-01-01'",
        "id % 100 = -1",
    ]
    found += [gxe.UnexpectedRowsExpectation(unexpected_rows_query=f"SELECT * FROM {{batch}} WHERE {w}") for w in wrong]
    return [
        *found,
        gxe.ExpectTableRowCountToBeBetween(min_value=1),
        gxe.ExpectColumnValuesToNotBeNull(column="email", mostly=0.99),
        gxe.ExpectColumnValuesToNotBeNull(column="amount", mostly=0.99),
        gxe.ExpectColumnSumToBeBetween(column="amount", min_value=0),
        gxe.ExpectColumnMeanToBeBetween(column="amount", min_value=400, max_value=600),
        gxe.ExpectColumnMeanToBeBetween(column="score", min_value=0.4, max_value=0.6),
        gxe.ExpectColumnMedianToBeBetween(column="amount", min_value=400, max_value=600),
        gxe.ExpectColumnUniqueValueCountToBeBetween(column="country", min_value=4, max_value=6),
        gxe.ExpectColumnMaxToBeBetween(column="quantity", max_value=49),
        gxe.ExpectColumnMinToBeBetween(column="id", min_value=0),
    ]


def cuallee(rows: DataFrame) -> None:
    """Run one check with as many rules, with SQL for missing rule types and without quantiles: the library compares
    approximate quantiles for equality."""
    from cuallee import Check, CheckLevel

    check = Check(CheckLevel.WARNING, "rules")
    for name in NAMES:
        check.is_complete(name)
    for name, least, most in (
        ("id", 0, 1 << 60),
        ("customer", 0, 100000),
        ("amount", 0, 1000),
        ("quantity", 0, 49),
        ("score", 0, 1),
    ):
        check.is_between(name, (least, most))
    check.is_contained_in("currency", ("EUR", "USD", "GBP"))
    check.is_contained_in("country", ("DE", "FR", "US", "GB", "IT"))
    check.has_pattern("email", "^user[0-9]+@.*")
    for condition in (
        "at BETWEEN '2020-01-01' AND '2030-01-01'",
        "char_length(email) BETWEEN 5 AND 40",
        "char_length(currency) = 3",
        "char_length(country) = 2",
        "amount * quantity >= 0",
        "customer < id + 100000",
        "quantity < 100",
        "score < 2",
        "amount < 5000",
        "email LIKE '%@%'",
        "at > timestamp'2000-01-01'",
        "id % 100 <> -1",
    ):
        check.satisfies("id", condition)
    check.is_complete("email", 0.99)
    check.is_complete("amount", 0.99)
    check.has_sum("quantity", _sum_of("quantity", rows))
    check.has_min("id", 0)
    check.has_max("quantity", 49)
    check.has_cardinality("country", 5)
    check.is_greater_or_equal_than("score", 0)
    check.is_greater_or_equal_than("amount", 0)
    check.is_less_than("score", 2)
    check.has_min("quantity", 0)
    found = check.validate(rows).collect()
    assert len(found) == 40, len(found)
    broken = [(row.rule, row.column) for row in found if row.status != "PASS"]
    assert not broken, broken


def _sum_of(name: str, rows: DataFrame) -> float:
    count = rows.count()
    whole, rest = divmod(count, 50)
    assert name == "quantity"
    return float(whole * sum(range(50)) + sum(range(rest)))
