"""The converter of each expectation type, and the reason for types without one."""

from __future__ import annotations

from collections.abc import Mapping

from lakesmith.exchange.great_expectations.batch_expectations import (
    aggregate_between,
    column_exists,
    columns_in_order,
    columns_in_set,
    contains_set,
    distinct_count,
    equals_set,
    keyed_aggregate,
    median_between,
    most_common,
    quantiles_between,
    row_count_between,
    row_count_equals,
    row_count_of_table,
    share_between,
)
from lakesmith.exchange.great_expectations.expectation import Convert
from lakesmith.exchange.great_expectations.row_expectations import (
    all_null,
    between,
    compare_pair,
    different_columns,
    length_equals,
    lengths_between,
    matches_patterns,
    matches_regex,
    not_in_set,
    pair_in_set,
    parseable_json,
    parseable_time,
    required,
    strftime_format,
    sum_of_columns,
    unexpected_rows,
    unique,
    unique_columns,
    values_in_set,
)

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
    "expect_column_values_to_not_be_null": required,
    "expect_column_values_to_be_null": all_null,
    "expect_column_values_to_be_unique": unique,
    "expect_compound_columns_to_be_unique": unique_columns,
    "expect_column_values_to_be_in_set": values_in_set,
    "expect_column_values_to_not_be_in_set": not_in_set,
    "expect_column_distinct_values_to_be_in_set": values_in_set,
    "expect_column_distinct_values_to_contain_set": contains_set,
    "expect_column_distinct_values_to_equal_set": equals_set,
    "expect_column_most_common_value_to_be_in_set": most_common,
    "expect_column_values_to_be_between": between,
    "expect_column_value_lengths_to_be_between": lengths_between,
    "expect_column_value_lengths_to_equal": length_equals,
    "expect_column_values_to_match_regex": matches_regex,
    "expect_column_values_to_match_regex_list": matches_patterns("regex_list", "RLIKE"),
    "expect_column_values_to_not_match_regex": matches_patterns("regex", "RLIKE", negated=True),
    "expect_column_values_to_not_match_regex_list": matches_patterns("regex_list", "RLIKE", negated=True),
    "expect_column_values_to_match_like_pattern": matches_patterns("like_pattern", "LIKE"),
    "expect_column_values_to_match_like_pattern_list": matches_patterns("like_pattern_list", "LIKE"),
    "expect_column_values_to_not_match_like_pattern": matches_patterns("like_pattern", "LIKE", negated=True),
    "expect_column_values_to_not_match_like_pattern_list": matches_patterns("like_pattern_list", "LIKE", negated=True),
    "expect_column_values_to_be_dateutil_parseable": parseable_time,
    "expect_column_values_to_match_strftime_format": strftime_format,
    "expect_column_values_to_be_json_parseable": parseable_json,
    "expect_column_min_to_be_between": aggregate_between("min({})", "min"),
    "expect_column_max_to_be_between": aggregate_between("max({})", "max"),
    "expect_column_stdev_to_be_between": aggregate_between("stddev_samp({})", "stdev"),
    "expect_column_mean_to_be_between": keyed_aggregate("mean", "avg({})"),
    "expect_column_sum_to_be_between": keyed_aggregate("sum", "sum({})"),
    "expect_column_median_to_be_between": median_between,
    "expect_column_quantile_values_to_be_between": quantiles_between,
    "expect_column_unique_value_count_to_be_between": distinct_count,
    "expect_column_proportion_of_unique_values_to_be_between": share_between(
        "count(DISTINCT {})", "count({})", "unique_part"
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": share_between("count({})", "count(*)", "filled_part"),
    "expect_column_to_exist": column_exists,
    "expect_table_columns_to_match_ordered_list": columns_in_order,
    "expect_table_columns_to_match_set": columns_in_set,
    "expect_table_row_count_to_be_between": row_count_between,
    "expect_table_row_count_to_equal": row_count_equals,
    "expect_table_row_count_to_equal_other_table": row_count_of_table,
    "expect_column_pair_values_a_to_be_greater_than_b": compare_pair(
        lambda expectation: ">=" if expectation.kwargs.get("or_equal") else ">", "over"
    ),
    "expect_column_pair_values_to_be_equal": compare_pair(lambda _: "=", "equals"),
    "expect_column_pair_values_to_be_in_set": pair_in_set,
    "expect_multicolumn_sum_to_equal": sum_of_columns,
    "expect_select_column_values_to_be_unique_within_record": different_columns,
    "expect_multicolumn_values_to_be_unique": different_columns,
    "unexpected_rows_expectation": unexpected_rows,
}
