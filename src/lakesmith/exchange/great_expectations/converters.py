"""The converter of each expectation type, and the reason for types without one."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from lakesmith.exchange.great_expectations import batch_expectations as batch
from lakesmith.exchange.great_expectations import row_expectations as rows
from lakesmith.exchange.great_expectations.expectation import Convert, exactly

NOT_CONVERTED = {
    "expect_column_values_to_be_increasing": "the rows of a batch have no order",
    "expect_column_values_to_be_decreasing": "the rows of a batch have no order",
    "expect_column_values_to_match_json_schema": "write a check with `python`",
    "expect_column_value_z_scores_to_be_less_than": "a check `anomaly` or `drift` finds unusual values",
    "expect_column_kl_divergence_to_be_less_than": "a check `drift` compares with earlier batches",
    "expect_column_bootstrapped_ks_test_p_value_to_be_greater_than": "a check `drift` with `method: ks` is similar",
    "expect_column_parameterized_distribution_ks_test_p_value_to_be_greater_than": (
        "a check `drift` with `method: ks` is similar"
    ),
    "expect_column_chisquare_test_p_value_to_be_greater_than": "a check `drift` compares with earlier batches",
    "expect_column_pair_cramers_phi_value_to_be_less_than": "no check compares how two columns depend on each other",
    "expect_table_column_count_to_equal": "a check `schema` with `exact: true` names the columns",
    "expect_table_column_count_to_be_between": "a check `schema` with `exact: true` names the columns",
    "expect_query_results_to_match_comparison": "a check `reconcile` compares a total with an input's",
}
"""Expectations without a matching check, each with the reason or the alternative."""

CONVERTERS: Mapping[str, Convert] = {
    "expect_column_values_to_not_be_null": rows.required,
    "expect_column_values_to_be_null": rows.row_sql("empty", "{} IS NULL"),
    "expect_column_values_to_be_unique": rows.unique,
    "expect_compound_columns_to_be_unique": rows.unique_columns,
    "expect_column_values_to_be_in_set": rows.values_in_set,
    "expect_column_values_to_not_be_in_set": rows.not_in_set,
    "expect_column_distinct_values_to_be_in_set": rows.values_in_set,
    "expect_column_distinct_values_to_contain_set": batch.contains_set,
    "expect_column_distinct_values_to_equal_set": batch.equals_set,
    "expect_column_most_common_value_to_be_in_set": batch.most_common,
    "expect_column_values_to_be_between": rows.between,
    "expect_column_value_lengths_to_be_between": rows.lengths_between,
    "expect_column_value_lengths_to_equal": exactly(rows.lengths_between),
    "expect_column_values_to_match_regex": rows.matches_regex,
    "expect_column_values_to_match_regex_list": rows.matches_patterns("regex_list", "RLIKE"),
    "expect_column_values_to_not_match_regex": rows.matches_patterns("regex", "RLIKE", negated=True),
    "expect_column_values_to_not_match_regex_list": rows.matches_patterns("regex_list", "RLIKE", negated=True),
    "expect_column_values_to_match_like_pattern": rows.matches_patterns("like_pattern", "LIKE"),
    "expect_column_values_to_match_like_pattern_list": rows.matches_patterns("like_pattern_list", "LIKE"),
    "expect_column_values_to_not_match_like_pattern": rows.matches_patterns("like_pattern", "LIKE", negated=True),
    "expect_column_values_to_not_match_like_pattern_list": rows.matches_patterns(
        "like_pattern_list", "LIKE", negated=True
    ),
    "expect_column_values_to_be_dateutil_parseable": rows.row_sql(
        "time", "{0} IS NULL OR try_cast({0} AS timestamp) IS NOT NULL", "Spark reads fewer time formats than dateutil"
    ),
    "expect_column_values_to_match_strftime_format": rows.strftime_format,
    "expect_column_values_to_be_json_parseable": rows.row_sql(
        "json", "{0} IS NULL OR trim({0}) = 'null' OR get_json_object({0}, '$') IS NOT NULL"
    ),
    "expect_column_min_to_be_between": batch.aggregate_between("min", "min({})"),
    "expect_column_max_to_be_between": batch.aggregate_between("max", "max({})"),
    "expect_column_stdev_to_be_between": batch.aggregate_between("stdev", "stddev_samp({})"),
    "expect_column_mean_to_be_between": batch.aggregate_between("mean", "avg({})", "mean"),
    "expect_column_sum_to_be_between": batch.aggregate_between("sum", "sum({})", "sum"),
    "expect_column_median_to_be_between": batch.aggregate_between(
        "median", "percentile({}, 0.5)", "quantile", Decimal("0.5")
    ),
    "expect_column_quantile_values_to_be_between": batch.quantiles_between,
    "expect_column_unique_value_count_to_be_between": batch.distinct_count,
    "expect_column_proportion_of_unique_values_to_be_between": batch.share_between(
        "count(DISTINCT {})", "count({})", "unique_part"
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": batch.share_between(
        "count({})", "count(*)", "filled_part"
    ),
    "expect_column_to_exist": batch.column_exists,
    "expect_table_columns_to_match_ordered_list": batch.columns_in_order,
    "expect_table_columns_to_match_set": batch.columns_in_set,
    "expect_table_row_count_to_be_between": batch.row_count_between,
    "expect_table_row_count_to_equal": exactly(batch.row_count_between),
    "expect_table_row_count_to_equal_other_table": batch.row_count_of_table,
    "expect_column_pair_values_a_to_be_greater_than_b": rows.compare_pair(
        lambda expectation: ">=" if expectation.kwargs.get("or_equal") else ">", "over"
    ),
    "expect_column_pair_values_to_be_equal": rows.compare_pair(lambda _: "=", "equals"),
    "expect_column_pair_values_to_be_in_set": rows.pair_in_set,
    "expect_multicolumn_sum_to_equal": rows.sum_of_columns,
    "expect_select_column_values_to_be_unique_within_record": rows.different_columns,
    "expect_multicolumn_values_to_be_unique": rows.different_columns,
    "unexpected_rows_expectation": rows.unexpected_rows,
}
