"""Convert expectations on single rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from lakesmith.exchange.great_expectations.expectation import (
    Convert,
    Converted,
    Expectation,
    comparisons,
    count_check,
    inclusive_bounds,
    percent_text,
    required_share,
    whole_bounds,
)
from lakesmith.exchange.great_expectations.patterns import java_regex, spark_format
from lakesmith.exchange.great_expectations.row_conditions import NotConvertible, sql_literal
from lakesmith.exchange.plain_select import plain_select
from lakesmith.sql import literal, quoted


def required(expectation: Expectation) -> Converted:
    column, share = expectation.column(), required_share(expectation)
    if share is None:
        yield f"{column}_required", {"required": [column]}
    else:
        yield f"{column}_null_rate", {"null_rate": {"column": column, "max": percent_text(1 - share)}}


def row_sql(name: str, condition: str, note: str | None = None) -> Convert:
    """Return a converter to an SQL condition on one column."""

    def convert(expectation: Expectation) -> Converted:
        expectation.notes.extend([note] if note else [])
        yield f"{expectation.column()}_{name}", {"sql": condition.format(expectation.sql())}

    return convert


def unique(expectation: Expectation) -> Converted:
    yield f"{expectation.column()}_unique", {"unique": expectation.column()}


def unique_columns(expectation: Expectation) -> Converted:
    columns = expectation.columns()
    if expectation.kwargs.get("ignore_row_if", "any_value_is_missing") != "any_value_is_missing":
        expectation.notes.append("rows with NULL in one of the columns are not compared")
    yield f"{'_'.join(columns)[:200]}_unique", {"unique": columns}


def values_in_set(expectation: Expectation) -> Converted:
    yield f"{expectation.column()}_in", {"in": {"column": expectation.column(), "values": expectation.values()}}


def not_in_set(expectation: Expectation) -> Converted:
    values = ", ".join(map(sql_literal, expectation.values()))
    yield f"{expectation.column()}_not_in", {"sql": f"{expectation.sql()} NOT IN ({values})"}


def between(expectation: Expectation) -> Converted:
    bounds, column = expectation.bounds(), expectation.column()
    if inclusive := inclusive_bounds(bounds):
        yield f"{column}_range", {"range": {"column": column, **inclusive}}
    else:
        yield f"{column}_range", {"sql": comparisons(expectation.sql(), bounds)}


def lengths_between(expectation: Expectation) -> Converted:
    body, sql = {"column": expectation.column()}, f"char_length({expectation.sql()})"
    yield count_check(f"{expectation.column()}_length", "length", body, whole_bounds(expectation.bounds()), sql)


def matches_regex(expectation: Expectation) -> Converted:
    body = {"column": expectation.column(), "matches": _java_pattern(expectation.text("regex"))}
    yield f"{expectation.column()}_pattern", {"pattern": body}


def _java_pattern(pattern: str) -> str:
    java = java_regex(pattern)
    if java is None:
        raise NotConvertible(f"Java cannot read the regular expression {pattern}")
    return java


def matches_patterns(key: str, operator: str, *, negated: bool = False) -> Convert:
    """Return a converter to a check that any, all or none of several patterns match."""
    name = ("not_" if negated else "") + ("like" if operator == "LIKE" else "pattern")

    def convert(expectation: Expectation) -> Converted:
        patterns = [_java_pattern(pattern) if operator == "RLIKE" else pattern for pattern in expectation.texts(key)]
        joined = " AND " if expectation.kwargs.get("match_on") == "all" and not negated else " OR "
        sql = joined.join(f"{expectation.sql()} {operator} {literal(pattern)}" for pattern in patterns)
        yield f"{expectation.column()}_{name}", {"sql": f"NOT ({sql})" if negated else sql}

    return convert


def strftime_format(expectation: Expectation) -> Converted:
    written = expectation.text("strftime_format")
    pattern = spark_format(written)
    if pattern is None:
        raise NotConvertible(f"Spark cannot parse the format {written}")
    sql = f"{expectation.sql()} IS NULL OR try_to_timestamp({expectation.sql()}, {literal(pattern)}) IS NOT NULL"
    yield f"{expectation.column()}_format", {"sql": sql}


def compare_pair(operator: Callable[[Expectation], str], name: str) -> Convert:
    def convert(expectation: Expectation) -> Converted:
        a, b = expectation.sql("column_A"), expectation.sql("column_B")
        sql = f"{a} {operator(expectation)} {b}"
        match expectation.kwargs.get("ignore_row_if") or "both_values_are_missing":
            case "both_values_are_missing":
                sql = f"({a} IS NULL) = ({b} IS NULL) AND {sql}"
            case "never":
                sql = f"coalesce({sql}, false)"
        yield f"{expectation.column('column_A')}_{name}_{expectation.column('column_B')}", {"sql": sql}

    return convert


def pair_in_set(expectation: Expectation) -> Converted:
    a, b = expectation.sql("column_A"), expectation.sql("column_B")
    pairs = expectation.kwargs.get("value_pairs_set")
    if not isinstance(pairs, Sequence) or not pairs or any(not isinstance(p, list) or len(p) != 2 for p in pairs):
        raise NotConvertible("its value_pairs_set has no pairs")
    each = [f"({a} <=> {_value_or_null(first)} AND {b} <=> {_value_or_null(second)})" for first, second in pairs]
    ignored = {
        "both_values_are_missing": [f"({a} IS NULL AND {b} IS NULL)"],
        "either_value_is_missing": [f"{a} IS NULL", f"{b} IS NULL"],
    }
    first = ignored.get(expectation.kwargs.get("ignore_row_if") or "both_values_are_missing", [])
    yield f"{expectation.column('column_A')}_{expectation.column('column_B')}_in", {"sql": " OR ".join([*first, *each])}


def _value_or_null(value: object) -> str:
    return "NULL" if value is None else sql_literal(value)


def sum_of_columns(expectation: Expectation) -> Converted:
    columns = expectation.columns()
    names = [quoted(column) for column in columns]
    total = expectation.kwargs.get("sum_total")
    if isinstance(total, str | bool) or not isinstance(total, int | Decimal):
        raise NotConvertible("it has no sum_total")
    sql = f"{' + '.join(names)} = {sql_literal(total)}"
    match expectation.kwargs.get("ignore_row_if") or "all_values_are_missing":
        case "all_values_are_missing":
            sql = f"coalesce({sql}, {' AND '.join(f'{name} IS NULL' for name in names)})"
        case "never":
            sql = f"coalesce({sql}, false)"
    yield f"{'_'.join(columns)[:200]}_sum", {"sql": sql}


def different_columns(expectation: Expectation) -> Converted:
    columns = expectation.columns()
    names = [quoted(column) for column in columns]
    each = [f"{a} <> {b}" for number, a in enumerate(names) for b in names[number + 1 :]]
    if not each:
        raise NotConvertible("a single column has nothing to differ from")
    yield f"{'_'.join(columns)[:200]}_differ", {"sql": " AND ".join(each)}


def unexpected_rows(expectation: Expectation) -> Converted:
    """Convert `SELECT * FROM {batch} WHERE …`: rows that match the condition fail."""
    from sqlglot import exp

    select = plain_select(expectation.text("unexpected_rows_query").replace("{batch}", "batch__"))
    table, where = (select.find(exp.Table), select.args.get("where")) if select else (None, None)
    if table is None or table.name != "batch__" or where is None:
        raise NotConvertible("its query is not SELECT … FROM {batch} WHERE …")
    yield "unexpected_rows", {"sql": f"NOT ({where.this.sql(dialect='spark')})"}
