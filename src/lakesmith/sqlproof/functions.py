"""Spark's functions by kind, which decides whether a query can be built from changed rows."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = _words(
    "any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate "
    "approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg "
    "bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch "
    "covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg "
    "hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint "
    "kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max max_by mean median "
    "min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy "
    "regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg "
    "skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg "
    "theta_sketch_agg theta_union_agg try_avg try_sum var_pop var_samp variance"
)
"""Spark's aggregate functions. A test compares the list with Spark's own."""

CHANGING = _words(
    "curdate current_catalog current_database current_date current_schema current_time current_timestamp "
    "current_timezone current_user input_file_block_length input_file_block_start input_file_name "
    "java_method localtimestamp monotonically_increasing_id now python_worker_logs rand randn random "
    "randstr reflect session_user shuffle spark_partition_id try_reflect uniform user uuid version"
)
"""Spark's functions whose value their arguments do not determine."""

RANDOM = _words("rand randn random randstr shuffle uniform uuid")
"""Those of them whose values cannot be reproduced."""

BARE = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user"}
)
"""Those of them that may be written without parentheses."""

GENERATORS = _words(
    "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple "
    "variant_explode variant_explode_outer"
)
"""Spark's functions that make several rows from one."""
