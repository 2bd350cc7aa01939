from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesmith.declare import Table, TableName
from lakesmith.declare.checks import (
    BatchSql,
    Bounds,
    Check,
    CheckRule,
    Distinct,
    In,
    Length,
    Limit,
    NullRate,
    Pattern,
    Range,
    Reconcile,
    Required,
    RowCount,
    RowSql,
    SchemaIs,
    Unique,
    sql_named,
)
from lakesmith.errors import DeclarationError
from lakesmith.exchange import ImportRequest, ImportResult, import_contract
from lakesmith.load import load_lake

ORDERS = TableName("bronze", "orders")


def suite(*expectations: dict[str, Any], old: bool = False) -> str:
    name = "expectation_suite_name" if old else "name"
    return json.dumps({name: "orders", "expectations": expectations, "meta": {"great_expectations_version": "1.2"}})


def expectation(kind: str, **kwargs: object) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "meta": {}}


def loaded(text: str) -> Table:
    """Return bronze.orders with this text in its declaration."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bronze").mkdir()
        (Path(folder) / "lakesmith.yml").write_text("name: shop\n")
        (Path(folder) / "bronze/orders.yml").write_text(f"source: {{files: o/*.json}}\n{text}", encoding="utf-8")
        return load_lake(folder).tables[ORDERS]


def imported(text: str) -> ImportResult:
    return import_contract(text, ImportRequest(file="suite.json", layer=ORDERS.layer, name=ORDERS.name))


def read(*expectations: dict[str, Any]) -> tuple[Table, tuple[str, ...]]:
    found = imported(suite(*expectations))
    return loaded(found.text), found.warnings


def check(kind: str, **kwargs: object) -> Check:
    """Return the only check of a converted expectation."""
    table, _ = read(expectation(kind, **kwargs))
    (found,) = table.checks
    return found


def left_out(kind: str, **kwargs: object) -> str:
    """Return the only warning for an expectation that is not converted."""
    table, (warning,) = read(expectation(kind, **kwargs))
    assert (table.checks, table.columns) == ((), ())
    assert f"expectation 1, {kind}" in warning
    return warning


A = {"column": "a"}
AB = {"column_A": "a", "column_B": "b"}
CONVERTED: dict[str, tuple[Mapping[str, object], tuple[CheckRule, ...]]] = {
    "expect_column_values_to_be_null": (A, (RowSql(condition="`a` IS NULL"),)),
    "expect_compound_columns_to_be_unique": ({"column_list": ["a", "b"]}, (Unique(columns=("a", "b")),)),
    "expect_column_values_to_be_in_set": (
        {**A, "value_set": ["x", 1, 2.5, True, None]},
        (In(column="a", values=("x", 1, Decimal("2.5"), True)),),
    ),
    "expect_column_values_to_not_be_in_set": (
        {**A, "value_set": ["it's", 2]},
        (RowSql(condition="`a` NOT IN ('it\\'s', 2)"),),
    ),
    "expect_column_distinct_values_to_be_in_set": ({**A, "value_set": ["x"]}, (In(column="a", values=("x",)),)),
    "expect_column_distinct_values_to_contain_set": (
        {**A, "value_set": ["x", 2]},
        (BatchSql(condition="count_if(`a` = 'x') > 0 AND count_if(`a` = 2) > 0"),),
    ),
    "expect_column_distinct_values_to_equal_set": (
        {**A, "value_set": ["x"]},
        (In(column="a", values=("x",)), BatchSql(condition="count_if(`a` = 'x') > 0")),
    ),
    "expect_column_most_common_value_to_be_in_set": (
        {**A, "value_set": ["x", "y"], "ties_okay": True},
        (BatchSql(condition="mode(`a`) IN ('x', 'y')"),),
    ),
    "expect_column_values_to_be_between": (
        {**A, "min_value": 0, "max_value": 12.5},
        (Range(column="a", min=0, max=Decimal("12.5")),),
    ),
    "expect_column_value_lengths_to_be_between": (
        {**A, "min_value": 1, "max_value": 9, "strict_max": True},
        (Length(column="a", min=1, max=8),),
    ),
    "expect_column_value_lengths_to_equal": ({**A, "value": 3}, (Length(column="a", min=3, max=3),)),
    "expect_column_values_to_match_regex": ({**A, "regex": r"^\d+$"}, (Pattern(column="a", matches=r"^\d+$"),)),
    "expect_column_values_to_match_regex_list": (
        {**A, "regex_list": ["^x", r"\d$"], "match_on": "all"},
        (RowSql(condition=r"`a` RLIKE '^x' AND `a` RLIKE '\\d$'"),),
    ),
    "expect_column_values_to_not_match_regex": ({**A, "regex": "x"}, (RowSql(condition="NOT (`a` RLIKE 'x')"),)),
    "expect_column_values_to_not_match_regex_list": (
        {**A, "regex_list": ["x", "y"]},
        (RowSql(condition="NOT (`a` RLIKE 'x' OR `a` RLIKE 'y')"),),
    ),
    "expect_column_values_to_match_like_pattern": ({**A, "like_pattern": "x%"}, (RowSql(condition="`a` LIKE 'x%'"),)),
    "expect_column_values_to_match_like_pattern_list": (
        {**A, "like_pattern_list": ["x%", "_y"]},
        (RowSql(condition="`a` LIKE 'x%' OR `a` LIKE '_y'"),),
    ),
    "expect_column_values_to_not_match_like_pattern": (
        {**A, "like_pattern": "x%"},
        (RowSql(condition="NOT (`a` LIKE 'x%')"),),
    ),
    "expect_column_values_to_not_match_like_pattern_list": (
        {**A, "like_pattern_list": ["x%", "y"]},
        (RowSql(condition="NOT (`a` LIKE 'x%' OR `a` LIKE 'y')"),),
    ),
    "expect_column_values_to_be_dateutil_parseable": (
        A,
        (RowSql(condition="`a` IS NULL OR try_cast(`a` AS timestamp) IS NOT NULL"),),
    ),
    "expect_column_values_to_match_strftime_format": (
        {**A, "strftime_format": "%Y-%m-%dT%H:%M"},
        (RowSql(condition="`a` IS NULL OR try_to_timestamp(`a`, 'yyyy-MM-dd\\'T\\'HH:mm') IS NOT NULL"),),
    ),
    "expect_column_values_to_be_json_parseable": (
        A,
        (RowSql(condition="`a` IS NULL OR trim(`a`) = 'null' OR get_json_object(`a`, '$') IS NOT NULL"),),
    ),
    "expect_column_min_to_be_between": (
        {**A, "min_value": 0, "max_value": 5, "strict_max": True},
        (BatchSql(condition="min(`a`) >= 0 AND min(`a`) < 5"),),
    ),
    "expect_column_max_to_be_between": ({**A, "max_value": 5}, (BatchSql(condition="max(`a`) <= 5"),)),
    "expect_column_stdev_to_be_between": ({**A, "min_value": 1}, (BatchSql(condition="stddev_samp(`a`) >= 1"),)),
    "expect_column_mean_to_be_between": (
        {**A, "min_value": 1, "max_value": 2.5},
        (Bounds(of="mean", column="a", min=1, max=Decimal("2.5")),),
    ),
    "expect_column_sum_to_be_between": ({**A, "max_value": 9}, (Bounds(of="sum", column="a", max=9),)),
    "expect_column_median_to_be_between": (
        {**A, "min_value": 1},
        (Bounds(of="quantile", column="a", at=Decimal("0.5"), min=1),),
    ),
    "expect_column_quantile_values_to_be_between": (
        {
            **A,
            "quantile_ranges": {
                "quantiles": [0.0, 0.25, 0.5, 1],
                "value_ranges": [[0, None], [1, 2], [None, None], [None, 9]],
            },
        },
        (
            BatchSql(condition="min(`a`) >= 0"),
            Bounds(of="quantile", column="a", at=Decimal("0.25"), min=1, max=2),
            BatchSql(condition="max(`a`) <= 9"),
        ),
    ),
    "expect_column_unique_value_count_to_be_between": (
        {**A, "min_value": 2, "max_value": 9, "strict_min": True},
        (Distinct(column="a", min=3, max=9, exact=True),),
    ),
    "expect_column_proportion_of_unique_values_to_be_between": (
        {**A, "min_value": 0.9, "max_value": 1},
        (BatchSql(condition="count(DISTINCT `a`) >= 0.9 * count(`a`) AND count(DISTINCT `a`) <= 1 * count(`a`)"),),
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": (
        {**A, "min_value": 0.9},
        (BatchSql(condition="count(`a`) >= 0.9 * count(*)"),),
    ),
    "expect_column_to_exist": (A, (SchemaIs(columns=("a",)),)),
    "expect_table_columns_to_match_ordered_list": (
        {"column_list": ["a", "b"]},
        (SchemaIs(columns=("a", "b"), exact=True),),
    ),
    "expect_table_columns_to_match_set": (
        {"column_set": ["a", "b"], "exact_match": False},
        (SchemaIs(columns=("a", "b")),),
    ),
    "expect_table_row_count_to_be_between": ({"min_value": 0, "max_value": 10}, (RowCount(max=10),)),
    "expect_table_row_count_to_equal": ({"value": 10}, (RowCount(min=10, max=10),)),
    "expect_table_row_count_to_equal_other_table": (
        {"other_table_name": "bronze.raw"},
        (Reconcile(table=TableName("bronze", "raw"), own="count(*)", theirs="count(*)"),),
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        {**AB, "or_equal": True},
        (RowSql(condition="(`a` IS NULL) = (`b` IS NULL) AND `a` >= `b`"),),
    ),
    "expect_column_pair_values_to_be_equal": (
        {**AB, "ignore_row_if": "either_value_is_missing"},
        (RowSql(condition="`a` = `b`"),),
    ),
    "expect_column_pair_values_to_be_in_set": (
        {**AB, "value_pairs_set": [["x", 1], ["y", None]], "ignore_row_if": "never"},
        (RowSql(condition="(`a` <=> 'x' AND `b` <=> 1) OR (`a` <=> 'y' AND `b` <=> NULL)"),),
    ),
    "expect_multicolumn_sum_to_equal": (
        {"column_list": ["a", "b"], "sum_total": 100},
        (RowSql(condition="coalesce(`a` + `b` = 100, `a` IS NULL AND `b` IS NULL)"),),
    ),
    "expect_select_column_values_to_be_unique_within_record": (
        {"column_list": ["a", "b", "c"]},
        (RowSql(condition="`a` <> `b` AND `a` <> `c` AND `b` <> `c`"),),
    ),
    "expect_multicolumn_values_to_be_unique": ({"column_list": ["a", "b"]}, (RowSql(condition="`a` <> `b`"),)),
    "unexpected_rows_expectation": (
        {"unexpected_rows_query": "SELECT * FROM {batch} WHERE a < 0 OR b IS NULL"},
        (RowSql(condition="NOT (a < 0 OR b IS NULL)"),),
    ),
}
"""By expectation, its arguments and the resulting rules."""
PROMISED: dict[str, Mapping[str, object]] = {
    "expect_column_values_to_not_be_null": A,
    "expect_column_values_to_be_unique": A,
    "expect_column_values_to_be_of_type": {**A, "type_": "LongType"},
    "expect_column_values_to_be_in_type_list": {**A, "type_list": ["int64", "int32"]},
}
"""The keys that are written at the column."""
WITHOUT = (
    "expect_column_bootstrapped_ks_test_p_value_to_be_greater_than",
    "expect_column_chisquare_test_p_value_to_be_greater_than",
    "expect_column_kl_divergence_to_be_less_than",
    "expect_column_pair_cramers_phi_value_to_be_less_than",
    "expect_column_parameterized_distribution_ks_test_p_value_to_be_greater_than",
    "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_be_decreasing",
    "expect_column_values_to_be_increasing",
    "expect_column_values_to_match_json_schema",
    "expect_query_results_to_match_comparison",
    "expect_table_column_count_to_be_between",
    "expect_table_column_count_to_equal",
)
CORE = [
    "expect_column_bootstrapped_ks_test_p_value_to_be_greater_than",
    "expect_column_chisquare_test_p_value_to_be_greater_than",
    "expect_column_distinct_values_to_be_in_set",
    "expect_column_distinct_values_to_contain_set",
    "expect_column_distinct_values_to_equal_set",
    "expect_column_kl_divergence_to_be_less_than",
    "expect_column_max_to_be_between",
    "expect_column_mean_to_be_between",
    "expect_column_median_to_be_between",
    "expect_column_min_to_be_between",
    "expect_column_most_common_value_to_be_in_set",
    "expect_column_pair_cramers_phi_value_to_be_less_than",
    "expect_column_pair_values_a_to_be_greater_than_b",
    "expect_column_pair_values_to_be_equal",
    "expect_column_pair_values_to_be_in_set",
    "expect_column_parameterized_distribution_ks_test_p_value_to_be_greater_than",
    "expect_column_proportion_of_non_null_values_to_be_between",
    "expect_column_proportion_of_unique_values_to_be_between",
    "expect_column_quantile_values_to_be_between",
    "expect_column_stdev_to_be_between",
    "expect_column_sum_to_be_between",
    "expect_column_to_exist",
    "expect_column_unique_value_count_to_be_between",
    "expect_column_value_lengths_to_be_between",
    "expect_column_value_lengths_to_equal",
    "expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_be_between",
    "expect_column_values_to_be_dateutil_parseable",
    "expect_column_values_to_be_decreasing",
    "expect_column_values_to_be_in_set",
    "expect_column_values_to_be_in_type_list",
    "expect_column_values_to_be_increasing",
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_be_null",
    "expect_column_values_to_be_of_type",
    "expect_column_values_to_be_unique",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_like_pattern",
    "expect_column_values_to_match_like_pattern_list",
    "expect_column_values_to_match_regex",
    "expect_column_values_to_match_regex_list",
    "expect_column_values_to_match_strftime_format",
    "expect_column_values_to_not_be_in_set",
    "expect_column_values_to_not_be_null",
    "expect_column_values_to_not_match_like_pattern",
    "expect_column_values_to_not_match_like_pattern_list",
    "expect_column_values_to_not_match_regex",
    "expect_column_values_to_not_match_regex_list",
    "expect_compound_columns_to_be_unique",
    "expect_multicolumn_sum_to_equal",
    "expect_multicolumn_values_to_be_unique",
    "expect_query_results_to_match_comparison",
    "expect_select_column_values_to_be_unique_within_record",
    "expect_table_column_count_to_be_between",
    "expect_table_column_count_to_equal",
    "expect_table_columns_to_match_ordered_list",
    "expect_table_columns_to_match_set",
    "expect_table_row_count_to_be_between",
    "expect_table_row_count_to_equal",
    "expect_table_row_count_to_equal_other_table",
    "unexpected_rows_expectation",
]
"""Every core expectation of Great Expectations, 0.18 to 1.x."""


def test_every_core_expectation_is_converted_or_reported() -> None:
    assert sorted([*CONVERTED, *PROMISED, *WITHOUT]) == sorted(CORE)


@pytest.mark.parametrize("kind", CONVERTED)
def test_an_expectation_becomes_checks(kind: str) -> None:
    kwargs, rules = CONVERTED[kind]
    table, _ = read(expectation(kind, **kwargs))
    assert tuple(each.rule for each in table.checks) == rules


@pytest.mark.parametrize("kind", CONVERTED)
def test_the_sql_of_a_check_is_spark_sql(kind: str) -> None:
    for rule in CONVERTED[kind][1]:
        for sql in sql_named(rule):
            sqlglot.parse_one(sql, dialect="spark")


@pytest.mark.parametrize("kind", WITHOUT)
def test_an_expectation_without_equivalent_is_reported_with_a_reason(kind: str) -> None:
    assert "was not converted: " in left_out(kind, **A)


def test_an_expectation_outside_the_core_is_reported() -> None:
    assert "not an expectation of Great Expectations itself" in left_out("expect_column_values_to_be_valid_iban", **A)


def test_promises_of_a_column_are_written_at_the_column() -> None:
    table, warnings = read(*(expectation(kind, **kwargs) for kind, kwargs in PROMISED.items()))
    (column,) = table.columns
    assert (column.name, column.type, column.required, column.unique) == ("a", "bigint", True, True)
    assert (table.checks, warnings) == ((), ())


@pytest.mark.parametrize(
    ("given", "type"),
    [
        ("StringType", "string"),
        ("VARCHAR(20)", "string"),
        ("DecimalType(12,2)", "decimal(12,2)"),
        ("NUMERIC(10, 0)", "decimal(10,0)"),
        ("datetime64[ns]", "timestamp"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("float64", "double"),
        ("BooleanType()", "boolean"),
        ("DATE", "date"),
    ],
)
def test_type_names_of_many_tools_are_understood(given: str, type: str) -> None:
    table, _ = read(expectation("expect_column_values_to_be_of_type", column="a", type_=given))
    assert table.columns[0].type == type


@pytest.mark.parametrize("given", [["GEOGRAPHY"], ["str", "int"], ["decimal(99,2)"]])
def test_several_types_without_a_common_one_are_reported(given: list[str]) -> None:
    assert "no one Spark SQL type" in left_out("expect_column_values_to_be_in_type_list", column="a", type_list=given)


def test_a_second_type_of_a_column_is_reported() -> None:
    kind = "expect_column_values_to_be_of_type"
    table, warnings = read(expectation(kind, column="a", type_="str"), expectation(kind, column="A", type_="int"))
    assert [(column.name, column.type) for column in table.columns] == [("a", "string")]
    assert "another type already" in warnings[0]


def test_suites_of_0_x_are_converted() -> None:
    old = {"expectation_type": "expect_column_values_to_be_between", "kwargs": {"column": "a", "max_value": 5}}
    assert loaded(imported(suite(old, old=True)).text).checks[0].rule == Range(column="a", max=5)


@pytest.mark.parametrize(
    ("severity", "on_fail"), [("critical", "fail"), ("warning", "warn"), ("info", "warn"), (None, "quarantine")]
)
@pytest.mark.parametrize("place", ["top", "meta"])
def test_the_severity_becomes_on_fail(severity: str | None, on_fail: str, place: str) -> None:
    made = expectation("expect_column_values_to_be_between", column="a", max_value=5)
    given_severity = {"severity": severity} if severity else {}
    table, _ = read({**made, **given_severity} if place == "top" else {**made, "meta": given_severity})
    assert table.checks[0].on_fail == on_fail


def test_a_severity_turns_a_column_promise_into_a_check() -> None:
    made = expectation("expect_column_values_to_not_be_null", column="a")
    table, _ = read({**made, "severity": "warning"})
    assert [(each.rule, each.on_fail) for each in table.checks] == [(Required(columns=("a",)), "warn")]


def test_mostly_tolerates_a_share_of_rows_and_rejects_the_batch_above_it() -> None:
    found = check("expect_column_values_to_be_between", column="a", max_value=5, mostly=0.95)
    assert (found.on_fail, found.fail_above) == ("warn", Limit(share=0.05))


def test_mostly_not_null_becomes_a_null_rate() -> None:
    found = check("expect_column_values_to_not_be_null", column="a", mostly=0.975)
    assert (found.rule, found.on_fail, found.fail_above) == (NullRate(column="a", max=0.025), "fail", None)


def test_mostly_with_a_warning_is_reported_as_ignored() -> None:
    made = expectation("expect_column_values_to_be_between", column="a", max_value=5, mostly=0.9)
    table, warnings = read({**made, "severity": "warning"})
    assert (table.checks[0].on_fail, table.checks[0].fail_above) == ("warn", None)
    assert "mostly 0.9 was ignored" in warnings[0]


def test_a_description_or_notes_become_the_description() -> None:
    made = expectation("expect_column_values_to_be_between", column="a", max_value=5)
    one, _ = read({**made, "description": "no more than ${five}: really"})
    two, _ = read({**made, "meta": {"notes": {"format": "markdown", "content": ["first", "second"]}}})
    assert one.checks[0].description == "no more than ${five}: really"
    assert two.checks[0].description == "first second"


@pytest.mark.parametrize(
    ("parser", "written", "where"),
    [
        ("great_expectations__experimental__", 'col("b") > 5', "`b` > 5"),
        ("great_expectations", "col('b') == 'x y'", "`b` = 'x y'"),
        ("great_expectations", 'col("b").notnull()', "`b` IS NOT NULL"),
        (None, 'col("b") <= date("2026-01-01")', "`b` <= DATE '2026-01-01'"),
        ("spark", "b > 5 AND c IN ('x')", "b > 5 AND c IN ('x')"),
        ("pandas", "b > 5", "`b` > 5"),
        ("pandas", "b == 'x' & c < 2.5", "(`b` = 'x') AND (`c` < 2.5)"),
        ("pandas", "`b` in ['x', 'y'] or c >= -1", "(`b` IN ('x', 'y')) OR (`c` >= -1)"),
        ("pandas", "0 < b <= 5", "(0 < `b`) AND (`b` <= 5)"),
        ("pandas", "b != 'x'", "NOT (`b` <=> 'x')"),
        ("pandas", "not b > 5", "NOT (coalesce(`b` > 5, false))"),
        ("pandas", "b not in [1]", "NOT coalesce(`b` IN (1), false)"),
        ("pandas", "b.notnull() and ~c.isin([1, 2])", "(`b` IS NOT NULL) AND (NOT (coalesce(`c` IN (1, 2), false)))"),
        ("pandas", "b + c * 2 > d", "(`b` + (`c` * 2)) > `d`"),
        (
            None,
            {"type": "comparison", "column": {"name": "b"}, "operator": "!=", "parameter": "x"},
            "`b` <> 'x'",
        ),
        (
            None,
            {
                "type": "or",
                "conditions": [
                    {"type": "nullity", "column": {"name": "b"}, "is_null": True},
                    {"type": "comparison", "column": {"name": "c"}, "operator": "NOT_IN", "parameter": [1, 2]},
                ],
            },
            "(`b` IS NULL) OR (`c` NOT IN (1, 2))",
        ),
        (
            None,
            {
                "type": "column_comparison",
                "column": {"name": "b"},
                "operator": ">=",
                "other_column": {"name": "c"},
            },
            "`b` >= `c`",
        ),
        ("pandas", {"type": "pass_through", "pass_through_filter": "b == 1"}, "`b` = 1"),
    ],
)
def test_a_row_condition_restricts_the_rows(parser: str | None, written: object, where: str) -> None:
    found = check(
        "expect_column_values_to_be_between", column="a", max_value=5, row_condition=written, condition_parser=parser
    )
    assert (found.rule, found.where) == (Range(column="a", max=5), where)
    sqlglot.parse_one(where, dialect="spark")


@pytest.mark.parametrize(
    ("parser", "written"),
    [
        ("pandas", "b.str.contains('x')"),
        ("pandas", "b == @limit"),
        ("pandas", "__import__('os').system('x')"),
        ("pandas", "b >"),
        ("pandas", "b / c > 1"),
        ("pandas", "`b c` > 1"),
        ("spark", "b >"),
        ("spark", "SELECT 1"),
        ("spark", "b IN (SELECT x FROM y)"),
        ("spark", "count(*) > 1"),
        ("great_expectations", 'col("b") > 5 and col("c") > 5'),
        ("sql", "b > 5"),
        (None, {"type": "comparison", "column": {"name": "b"}, "operator": "LIKE", "parameter": "x"}),
        (None, {"type": "and", "conditions": []}),
    ],
)
def test_an_expectation_with_an_untranslatable_row_condition_is_not_converted(
    parser: str | None, written: object
) -> None:
    kwargs = {"column": "a", "max_value": 5, "row_condition": written, "condition_parser": parser}
    assert "condition" in left_out("expect_column_values_to_be_between", **kwargs)


@pytest.mark.parametrize(
    ("kind", "kwargs", "why"),
    [
        ("expect_column_values_to_match_regex", {**A, "regex": ["a", "b"]}, "more than one regex"),
        ("expect_column_values_to_be_between", {**A}, "no bounds"),
        ("expect_column_values_to_be_between", {**A, "min_value": 5, "max_value": 1}, "no value can pass it"),
        ("expect_column_values_to_be_between", {**A, "max_value": {"$PARAMETER": "x"}}, "parameter"),
        ("expect_column_values_to_be_between", {**A, "max_value": [5]}, "is not a plain value"),
        ("expect_column_values_to_be_between", {"column": "a b", "max_value": 5}, "not a column's name"),
        ("expect_column_values_to_be_in_set", {**A, "value_set": []}, "empty"),
        ("expect_column_values_to_be_in_set", {**A, "value_set": [{}]}, "is not a plain value"),
        ("expect_column_values_to_match_regex", {**A, "regex": "(x)?(?(1)y|z)"}, "Java cannot read"),
        ("expect_column_values_to_match_regex", {**A, "regex": "[[a]"}, "Java cannot read"),
        ("expect_column_values_to_match_strftime_format", {**A, "strftime_format": "%c"}, "Spark cannot parse"),
        ("expect_column_value_lengths_to_be_between", {**A, "min_value": 0}, "every number passes"),
        ("expect_column_values_to_be_null", {**A, "mostly": 0}, "not a share between 0 and 1"),
        ("expect_table_row_count_to_equal_other_table", {"other_table_name": "raw"}, "layer.table"),
        ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT a FROM {batch} GROUP BY a"}, "is not SELECT"),
        ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT * FROM other WHERE a < 0"}, "is not SELECT"),
    ],
)
def test_an_expectation_with_unsupported_arguments_is_not_converted(
    kind: str, kwargs: dict[str, object], why: str
) -> None:
    assert why in left_out(kind, **kwargs)


@pytest.mark.parametrize(
    ("kind", "kwargs", "rule"),
    [
        (
            "expect_column_values_to_be_between",
            {**A, "min_value": 0, "strict_min": True, "max_value": 1},
            RowSql(condition="`a` > 0 AND `a` <= 1"),
        ),
        ("expect_column_values_to_be_between", {**A, "min_value": "2026-01-01"}, Range(column="a", min="2026-01-01")),
        (
            "expect_column_mean_to_be_between",
            {**A, "min_value": 0, "strict_min": True},
            BatchSql(condition="avg(`a`) > 0"),
        ),
        ("expect_table_row_count_to_be_between", {"min_value": 2.5, "max_value": 9.5}, RowCount(min=3, max=9)),
        ("expect_table_row_count_to_equal", {"value": 0}, BatchSql(condition="count(*) <= 0")),
        ("expect_column_value_lengths_to_equal", {**A, "value": 0}, RowSql(condition="char_length(`a`) <= 0")),
        (
            "expect_column_values_to_match_regex",
            {**A, "regex": r"(?P<year>\d{4})-x{,3}\Z"},
            Pattern(column="a", matches=r"(?<year>\d{4})-x{0,3}\z"),
        ),
        (
            "expect_column_values_to_match_regex_list",
            {**A, "regex_list": ["x", "y"]},
            RowSql(condition="`a` RLIKE 'x' OR `a` RLIKE 'y'"),
        ),
        (
            "expect_column_pair_values_a_to_be_greater_than_b",
            {**AB, "ignore_row_if": "never"},
            RowSql(condition="coalesce(`a` > `b`, false)"),
        ),
        (
            "expect_column_pair_values_to_be_in_set",
            {**AB, "value_pairs_set": [["x", 1]]},
            RowSql(condition="(`a` IS NULL AND `b` IS NULL) OR (`a` <=> 'x' AND `b` <=> 1)"),
        ),
    ],
)
def test_arguments_decide_the_form_of_a_check(kind: str, kwargs: dict[str, object], rule: CheckRule) -> None:
    assert check(kind, **kwargs).rule == rule


@pytest.mark.parametrize(
    ("kind", "kwargs", "note"),
    [
        ("expect_table_columns_to_match_set", {"column_set": ["a"]}, "contract: strict"),
        ("expect_column_to_exist", {**A, "column_index": 2}, "column_index was ignored"),
        ("expect_column_values_to_be_dateutil_parseable", A, "fewer time formats"),
        (
            "expect_compound_columns_to_be_unique",
            {"column_list": ["a", "b"], "ignore_row_if": "never"},
            "are not compared",
        ),
    ],
)
def test_a_check_that_differs_slightly_is_reported(kind: str, kwargs: dict[str, object], note: str) -> None:
    table, (warning,) = read(expectation(kind, **kwargs))
    assert table.checks
    assert note in warning


def test_expected_columns_become_one_check_and_names_are_unique() -> None:
    kind = "expect_column_values_to_be_between"
    table, _ = read(
        expectation("expect_column_to_exist", column="a"),
        expectation("expect_column_to_exist", column="b"),
        expectation(kind, column="a", max_value=5),
        expectation(kind, column="a", min_value=1),
        expectation(kind, column="A", min_value=2),
        expectation(kind, column="a", max_value=5),
    )
    assert [each.name for each in table.checks] == ["columns_exist", "a_range", "a_range_2", "A_range_3"]
    assert table.checks[0].rule == SchemaIs(columns=("a", "b"))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"expectations": []}',
        '{"name": "x", "expectations": 5}',
        '{"name": "x", "version": "1.0.0"}',
        '{"name": "x", "expectations": [1.0e99999999999999999999]}',
    ],
)
def test_a_text_that_is_not_a_suite_is_an_error_with_a_hint(text: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        imported(text)
    assert raised.value.code in ("bad-document", "unknown-document")
    assert raised.value.hint


def test_an_empty_suite_becomes_an_empty_declaration() -> None:
    text = "# From the suite orders of Great Expectations, for bronze.orders.\n"
    assert imported(suite()) == ImportResult(text=text, file="bronze/orders.yml", complete=False)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)
_KEYS = [
    "column",
    "column_A",
    "column_B",
    "column_list",
    "column_set",
    "value_set",
    "min_value",
    "max_value",
    "strict_min",
    "strict_max",
    "mostly",
    "regex",
    "regex_list",
    "like_pattern",
    "like_pattern_list",
    "value",
    "type_",
    "type_list",
    "strftime_format",
    "quantile_ranges",
    "sum_total",
    "value_pairs_set",
    "row_condition",
    "condition_parser",
    "ignore_row_if",
    "unexpected_rows_query",
    "other_table_name",
    "match_on",
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(CORE),
                "kwargs": st.dictionaries(st.sampled_from(_KEYS), _ANY, max_size=6).map(
                    lambda drawn: {"column": "a", "column_A": "a", "column_B": "b", **drawn}
                ),
            },
            optional={"severity": st.sampled_from(["critical", "info", "x"]), "meta": _ANY, "description": _ANY},
        ),
        max_size=4,
    )
)
def test_any_suite_becomes_a_valid_declaration_without_losses(expectations: list[dict[str, Any]]) -> None:
    found = imported(json.dumps({"name": "x", "expectations": expectations}))
    table = loaded(found.text)
    warnings = " ".join(found.warnings)
    for number, each in enumerate(expectations, start=1):
        converted = f"# {each['type']}\n" in found.text or (each["type"] in PROMISED and table.columns)
        assert converted or f"expectation {number}, {each['type']}" in warnings
