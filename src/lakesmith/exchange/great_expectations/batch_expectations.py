"""Convert expectations on a whole batch: aggregates, row counts and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from lakesmith.declare import TableName
from lakesmith.exchange.great_expectations.expectation import (
    Convert,
    Converted,
    ConvertedCheck,
    Expectation,
    comparisons,
    count_check,
    inclusive_bounds,
    whole_bounds,
)
from lakesmith.exchange.great_expectations.row_conditions import NotConvertible, sql_literal
from lakesmith.exchange.great_expectations.row_expectations import values_in_set


def contains_set(expectation: Expectation) -> Converted:
    each = [f"count_if({expectation.sql()} = {sql_literal(value)}) > 0" for value in expectation.values()]
    yield f"{expectation.column()}_contains", {"expect": " AND ".join(each)}


def equals_set(expectation: Expectation) -> Converted:
    yield from values_in_set(expectation)
    yield from contains_set(expectation)


def most_common(expectation: Expectation) -> Converted:
    values = ", ".join(map(sql_literal, expectation.values()))
    expectation.notes.append("of several equally frequent values, only one is checked")
    yield f"{expectation.column()}_most_common", {"expect": f"mode({expectation.sql()}) IN ({values})"}


def aggregate_between(name: str, function: str, key: str | None = None, at: Decimal | None = None) -> Convert:
    """Return a converter for bounds of an aggregate. `key` is the check that has it, if any; `at` is a quantile."""
    return lambda expectation: [_aggregate_check(expectation, name, function, expectation.bounds(), key, at)]


def _aggregate_check(
    expectation: Expectation,
    name: str,
    function: str,
    bounds: list[tuple[str, object]],
    key: str | None,
    at: Decimal | None,
) -> ConvertedCheck:
    inclusive = inclusive_bounds(bounds)
    rule: dict[str, object] = {"expect": comparisons(function.format(expectation.sql()), bounds)}
    if key and inclusive and not any(isinstance(value, str | bool) for _, value in bounds):
        quantile = {"at": at} if at is not None else {}
        rule = {key: {"column": expectation.column(), **quantile, **inclusive}}
    return f"{expectation.column()}_{name}", rule


def quantiles_between(expectation: Expectation) -> Converted:
    quantile_ranges = expectation.kwargs.get("quantile_ranges")
    quantile_ranges = quantile_ranges if isinstance(quantile_ranges, Mapping) else {}
    quantiles, ranges = quantile_ranges.get("quantiles"), quantile_ranges.get("value_ranges")
    if not isinstance(quantiles, Sequence) or not isinstance(ranges, Sequence) or len(quantiles) != len(ranges):
        raise NotConvertible("its quantile_ranges lack quantiles and value_ranges")
    if expectation.kwargs.get("allow_relative_error"):
        expectation.notes.append("allow_relative_error was ignored")
    for at, bound in zip(quantiles, ranges, strict=True):
        if not isinstance(bound, Sequence) or len(bound) != 2:
            raise NotConvertible(f"{bound} is not a range of values")
        low, high = bound
        if low is None and high is None:
            continue
        bounds = Expectation(type=expectation.type, kwargs={"min_value": low, "max_value": high}).bounds()
        if at in (0, 1):
            yield _aggregate_check(expectation, "quantile", "max({})" if at else "min({})", bounds, None, None)
        elif isinstance(at, Decimal) and Decimal("0.000001") <= at < 1 and at == round(at, 6):
            yield _aggregate_check(expectation, "quantile", f"percentile({{}}, {at})", bounds, "quantile", at)
        else:
            raise NotConvertible(f"{at} is not a quantile")


def distinct_count(expectation: Expectation) -> Converted:
    column, bounds = expectation.column(), whole_bounds(expectation.bounds())
    body = {"column": column, "exact": True}
    yield count_check(f"{column}_distinct", "distinct", body, bounds, f"count(DISTINCT {expectation.sql()})")


def share_between(counted: str, whole: str, name: str) -> Convert:
    """Return a converter for a share of rows, written without division because there may be no rows."""

    def convert(expectation: Expectation) -> Converted:
        column = expectation.sql()
        each = [
            f"{counted.format(column)} {sign} {sql_literal(value)} * {whole.format(column)}"
            for sign, value in expectation.bounds()
        ]
        yield f"{expectation.column()}_{name}", {"expect": " AND ".join(each)}

    return convert


def row_count_between(expectation: Expectation) -> Converted:
    yield count_check("row_count", "row_count", {}, whole_bounds(expectation.bounds()), "count(*)")


def row_count_of_table(expectation: Expectation) -> Converted:
    other = TableName.parse(str(expectation.kwargs.get("other_table_name")))
    if other is None:
        raise NotConvertible("the other table is not named as layer.table; a check `reconcile` compares with an input")
    expectation.notes.append("the rows of each batch are compared with the input rows of the batch")
    yield "row_count_of_input", {"reconcile": {"table": str(other), "own": "count(*)"}}


def column_exists(expectation: Expectation) -> Converted:
    if expectation.kwargs.get("column_index") is not None:
        expectation.notes.append("column_index was ignored: the position of a column is not checked")
    yield "columns_exist", {"schema": {"columns": [expectation.column()]}}


def columns_in_order(expectation: Expectation) -> Converted:
    yield "columns_in_order", {"schema": {"columns": expectation.columns(), "exact": True}}


def columns_in_set(expectation: Expectation) -> Converted:
    columns = expectation.columns("column_set")
    if expectation.kwargs.get("exact_match", True) is not False:
        expectation.notes.append("this check allows further columns; `contract: strict` does not")
    yield "columns_exist", {"schema": {"columns": columns}}
