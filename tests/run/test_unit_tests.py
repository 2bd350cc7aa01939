"""Unit tests of users run in the real engine, and fail for other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakesmith.errors import DeclarationError
from lakesmith.reports import UnitTestReport, UnitTestResult

if TYPE_CHECKING:
    from tests.run.lakes import Written

pytestmark = pytest.mark.spark

TABLES = {
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\ncolumns: {id: bigint, at: timestamp}\n",
    "bronze/codes.yml": "source: {files: landing/codes/*.json}\ncontract: strict\ncolumns: {code: string, size: int}\n",
    "silver/orders.sql": (
        "/* lakesmith\n"
        "load: {merge: {key: id, order_by: at}}\n"
        "columns:\n"
        "  id: {type: bigint, required: true}\n"
        "  amount: {type: 'decimal(12,2)', check: amount >= 0}\n"
        "*/\n"
        "SELECT id, amount, upper(currency) AS currency, at FROM bronze.orders\n"
    ),
    "silver/states.sql": (
        "/* lakesmith\nload: {scd2: {key: id, order_by: at}}\n*/\nSELECT id, currency, at FROM bronze.orders\n"
    ),
    "gold/sales.sql": (
        "/* lakesmith\nload: {merge: {key: currency}}\n*/\n"
        "SELECT currency, count(*) AS orders, sum(amount) AS amount FROM silver.orders GROUP BY currency\n"
    ),
    "gold/sizes.sql": "SELECT CAST(code AS int) AS code, size / 3 AS part FROM bronze.codes\n",
    "gold/shapes.py": (
        "import lakesmith as lake\n\n\n"
        "@lake.gold()\n"
        "def shapes(orders=lake.ref('silver.orders')):\n"
        "    from pyspark.sql import functions as F\n\n"
        "    return orders.groupBy('currency').agg(F.sort_array(F.collect_list('id')).alias('ids'))\n"
    ),
}


@pytest.fixture(scope="module")
def results(module_lake: Written) -> dict[str, UnitTestResult]:
    """One run of many unit tests; each test reads its own result."""
    module_lake.declare(TABLES | TESTS)
    report: UnitTestReport = module_lake.lake().test(session=module_lake.spark)
    return {result.name: result for result in report.results}


TESTS = {
    "silver/orders.test.yml": """\
latest_wins:
  description: of two rows with one key the later one stays
  given:
    bronze.orders:
      - {id: 1, amount: "5.00", currency: eur, at: "2026-01-01 10:00:00"}
      - {id: 1, amount: "6.00", currency: eur, at: "2026-01-01 11:00:00"}
      - {id: 2, amount: -1, at: "2026-01-01T11:00:00Z"}
  expect:
    - {id: 1, amount: 6, currency: EUR, at: "2026-01-01T12:00:00+01:00"}
  quarantine:
    - {id: 2, amount: "-1.00", rules: [amount.check]}
late_row:
  given: {bronze.orders: [{id: 1, amount: 6, currency: eur, at: 2026-01-02}]}
  then:
    - bronze.orders: [{id: 1, amount: 5, currency: eur, at: 2026-01-01}]
    - bronze.orders: [{id: 3, amount: 7, currency: usd, at: 2026-01-01}]
  expect: [{id: 3, amount: 7}, {id: 1, amount: 6}]
table_there:
  given:
    silver.orders:
      - {id: 1, amount: 6, currency: EUR, at: 2026-01-02}
      - {id: 2, amount: 8, currency: EUR, at: 2026-01-02}
    bronze.orders:
      - {id: 1, amount: 5, currency: eur, at: 2026-01-01}
      - {id: 2, amount: 9, currency: usd, at: 2026-01-03}
  expect:
    - {id: 1, amount: 6, currency: EUR}
    - {id: 2, amount: 9, currency: USD}
other_value:
  given: {bronze.orders: in.csv}
  expect: [{id: 1, amount: 7}, {id: 9}]
exactly_is_all_columns:
  exactly: true
  given: {bronze.orders: in.csv}
  expect: [{id: 1, amount: 6}]
other_rules:
  given: {bronze.orders: [{id: 2, amount: -1, at: 2026-01-01}]}
  quarantine: [{id: 2, rules: [amount.required]}]
nothing_rejected:
  given: {bronze.orders: [{id: 2, amount: -1, at: 2026-01-01}]}
  quarantine: []
misspelt_value:
  given:
    bronze.orders:
      - {id: 2}
      - {id: two}
  expect: []
""",
    "silver/in.csv": "id,amount,currency,at\n1,6,eur,2026-01-01\n",
    "tests/histories.yml": """\
states:
  table: silver.states
  given: {bronze.orders: [{id: 1, currency: EUR, at: 2026-01-01}]}
  then: [{bronze.orders: [{id: 1, currency: USD, at: 2026-01-05}]}]
  expect:
    - {id: 1, currency: EUR, valid_from: 2026-01-01, valid_to: 2026-01-05, is_current: false}
    - {id: 1, currency: USD, valid_from: 2026-01-05, valid_to: ~, is_current: true}
""",
    "tests/gold.yml": """\
keys_again:
  table: gold.sales
  given: {silver.orders: [{id: 1, amount: 5, currency: EUR}, {id: 2, amount: 1, currency: EUR}]}
  then: [{silver.orders: [{id: 2, amount: 3, currency: USD}]}]
  expect: [{currency: EUR, orders: 1, amount: 5}, {currency: USD, orders: 1, amount: 3}]
no_rows:
  table: gold.sales
  expect: []
in_python:
  table: gold.shapes
  given: {silver.orders: [{id: 2, currency: EUR}, {id: 1, currency: EUR}]}
  expect: [{currency: EUR, ids: [1, 2]}]
in_python_other:
  table: gold.shapes
  given: {silver.orders: [{id: 2, currency: EUR}]}
  expect: [{currency: EUR, ids: [1, 2]}]
bad_cast:
  table: gold.sizes
  given: {bronze.codes: [{code: x}]}
  fails: query-raised
bad_cast_unexpected:
  table: gold.sizes
  given: {bronze.codes: [{code: x}]}
  expect: []
ends_well:
  table: gold.sizes
  given: {bronze.codes: [{code: "1", size: 1}]}
  expect: [{code: 1, part: 0.333333333333333}]
should_have_failed:
  table: gold.sizes
  given: {bronze.codes: [{code: "1"}]}
  fails: gate-failed
""",
}

GOOD = (
    "latest_wins",
    "late_row",
    "table_there",
    "states",
    "keys_again",
    "no_rows",
    "in_python",
    "bad_cast",
    "ends_well",
)


def test_tests_of_every_load_pass_with_the_expected_rows(results: dict[str, UnitTestResult]) -> None:
    differences = {
        name: (results[name].error, results[name].differences) for name in GOOD if results[name].outcome != "passed"
    }
    assert differences == {}


def test_tests_with_other_rows_fail(results: dict[str, UnitTestResult]) -> None:
    assert {name for name, result in results.items() if result.outcome == "passed"} == set(GOOD)


def test_a_different_row_is_shown_beside_the_expected_one(
    results: dict[str, UnitTestResult],
) -> None:
    changed, missing = results["other_value"].differences
    assert (changed.expected, changed.found) == ({"id": "1", "amount": "7.00"}, {"id": "1", "amount": "6.00"})
    assert (missing.expected, missing.found) == ({"id": "9"}, None)


def test_exactly_compares_unnamed_columns_too(results: dict[str, UnitTestResult]) -> None:
    (difference,) = results["exactly_is_all_columns"].differences
    assert difference.expected is not None
    assert difference.found is not None
    assert (difference.expected["currency"], difference.found["currency"]) == (None, "EUR")


def test_rejected_rows_are_compared_with_their_rules(results: dict[str, UnitTestResult]) -> None:
    (difference,) = results["other_rules"].differences
    assert (difference.of, difference.found) == ("quarantine", {"id": "2", "rules": "amount.check"})
    (more,) = results["nothing_rejected"].differences
    assert (more.of, more.expected) == ("quarantine", None)


def test_nested_values_are_compared(results: dict[str, UnitTestResult]) -> None:
    (difference,) = results["in_python_other"].differences
    assert (difference.expected, difference.found) == (
        {"currency": "EUR", "ids": "[1, 2]"},
        {"currency": "EUR", "ids": "[2]"},
    )


def test_a_value_that_does_not_fit_its_type_is_an_error_with_its_place(results: dict[str, UnitTestResult]) -> None:
    result = results["misspelt_value"]
    assert result.error is not None
    assert (result.outcome, result.error.code) == ("error", "bad-value")
    assert str(result.error.at) == "silver/orders.test.yml:46"


def test_an_unexpected_error_of_the_run_fails_the_test(results: dict[str, UnitTestResult]) -> None:
    result = results["bad_cast_unexpected"]
    assert result.error is not None
    assert (result.outcome, result.error.code) == ("failed", "query-raised")
    well = results["should_have_failed"]
    assert well.error is not None
    assert (well.outcome, well.error.code) == ("failed", "test-failed")


def test_the_lake_s_own_warehouse_is_not_touched(results: dict[str, UnitTestResult], module_lake: Written) -> None:
    assert results
    assert not (module_lake.folder / ".lakesmith").exists()


def test_empty_reports_every_query_and_condition_that_spark_rejects(
    written: Written, capfd: pytest.CaptureFixture[str]
) -> None:
    written.declare(TABLES)
    written.declare(
        {
            "bronze/unknown.yml": "source: {files: landing/unknown/*.json}\n",
            "silver/waits.sql": "SELECT a FROM bronze.unknown\n",
            "silver/broken.sql": (
                "/* lakesmith\ncolumns: {id: {check: id}}\n*/\nSELECT id,\n  array(at) + 1 AS two\nFROM bronze.orders\n"
            ),
            "gold/after.sql": "SELECT two FROM silver.broken\n",
            "silver/unfit.sql": (
                "/* lakesmith\ncolumns:\n  id:\n    check: id\n*/\nSELECT id, valid_to FROM silver.states\n"
            ),
        }
    )
    report = written.lake().test_empty(session=written.spark)
    assert [(error.table, str(error.at), error.code) for error in report.errors] == [
        ("silver.broken", "silver/broken.sql:5", "query-rejected"),
        ("silver.unfit", "silver/unfit.sql:4", "query-rejected"),
    ]
    assert all(isinstance(error, DeclarationError) for error in report.errors)
    assert "AnalysisException" not in capfd.readouterr().err
    assert set(report.skipped) == {"bronze.unknown", "silver.waits", "gold.after"}
    assert report.assumed == {"bronze.orders": ("amount", "currency")}
    assert {"silver.orders", "silver.states", "gold.sales", "gold.shapes"} < set(report.checked)
    assert not (written.folder / ".lakesmith").exists()
