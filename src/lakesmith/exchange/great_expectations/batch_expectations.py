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
    yield ConvertedCheck(name=f"{expectation.column()}_contains", rule={"expect": " AND ".join(each)}, on_rows=False)


def equals_set(expectation: Expectation) -> Converted:
    yield from values_in_set(expectation)
    yield from contains_set(expectation)


def most_common(expectation: Expectation) -> Converted:
    values = ", ".join(map(sql_literal, expectation.values()))
    expectation.notes.append("of several equally frequent values, only one is checked")
    rule = {"expect": f"mode({expectation.sql()}) IN ({values})"}
    yield ConvertedCheck(name=f"{expectation.column()}_most_common", rule=rule, on_rows=False)


def aggregate_between(function: str, name: str) -> Convert:
    """Return a converter for an aggregate without a check key of its own."""

    def convert(expectation: Expectation) -> Converted:
        sql = comparisons(function.format(expectation.sql()), expectation.bounds())
        yield ConvertedCheck(name=f"{expectation.column()}_{name}", rule={"expect": sql}, on_rows=False)

    return convert


def keyed_aggregate(key: str, function: str) -> Convert:
    """Return a converter for `sum` and `mean`, which have check keys of their own."""

    def convert(expectation: Expectation) -> Converted:
        bounds = expectation.bounds()
        yield _aggregate_check(expectation, f"{expectation.column()}_{key}", key, {}, function, bounds)

    return convert


def _aggregate_check(
    expectation: Expectation,
    name: str,
    key: str,
    more: Mapping[str, object],
    function: str,
    bounds: list[tuple[str, object]],
) -> ConvertedCheck:
    inclusive = inclusive_bounds(bounds)
    numbers = not any(isinstance(value, str | bool) for _, value in bounds)
    rule: dict[str, object] = {key: {"column": expectation.column(), **more, **(inclusive or {})}}
    if not inclusive or not numbers:
        rule = {"expect": comparisons(function.format(expectation.sql()), bounds)}
    return ConvertedCheck(name=name, rule=rule, on_rows=False)


def median_between(expectation: Expectation) -> Converted:
    more = {"at": Decimal("0.5")}
    yield _aggregate_check(
        expectation, f"{expectation.column()}_median", "quantile", more, "percentile({}, 0.5)", expectation.bounds()
    )


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
        name = f"{expectation.column()}_quantile"
        if at in (0, 1):
            sql = comparisons(f"{'max' if at else 'min'}({expectation.sql()})", bounds)
            yield ConvertedCheck(name=name, rule={"expect": sql}, on_rows=False)
        elif isinstance(at, Decimal) and Decimal("0.000001") <= at < 1 and at == round(at, 6):
            yield _aggregate_check(expectation, name, "quantile", {"at": at}, f"percentile({{}}, {at})", bounds)
        else:
            raise NotConvertible(f"{at} is not a quantile")


def distinct_count(expectation: Expectation) -> Converted:
    column, bounds = expectation.column(), whole_bounds(expectation.bounds())
    check = count_check(
        f"{column}_distinct", "distinct", {"column": column}, bounds, f"count(DISTINCT {expectation.sql()})"
    )
    exact = {key: {**body, "exact": True} if isinstance(body, Mapping) else body for key, body in check.rule.items()}
    yield ConvertedCheck(name=check.name, rule=exact, on_rows=False)


def share_between(counted: str, whole: str, name: str) -> Convert:
    """Return a converter for a share of rows, written without division because there may be no rows."""

    def convert(expectation: Expectation) -> Converted:
        column = expectation.sql()
        comparisons = [
            f"{counted.format(column)} {sign} {sql_literal(value)} * {whole.format(column)}"
            for sign, value in expectation.bounds()
        ]
        yield ConvertedCheck(
            name=f"{expectation.column()}_{name}", rule={"expect": " AND ".join(comparisons)}, on_rows=False
        )

    return convert


def row_count_between(expectation: Expectation) -> Converted:
    yield count_check("row_count", "row_count", {}, whole_bounds(expectation.bounds()), "count(*)")


def row_count_equals(expectation: Expectation) -> Converted:
    value = expectation.kwargs.get("value")
    same = {"min_value": value, "max_value": value}
    yield from row_count_between(Expectation(type=expectation.type, kwargs=same))


def row_count_of_table(expectation: Expectation) -> Converted:
    other = TableName.parse(str(expectation.kwargs.get("other_table_name")))
    if other is None:
        raise NotConvertible("the other table is not named as layer.table; a check `reconcile` compares with an input")
    expectation.notes.append("the rows of each batch are compared with the input rows of the batch")
    yield ConvertedCheck(
        name="row_count_of_input", rule={"reconcile": {"table": str(other), "own": "count(*)"}}, on_rows=False
    )


def column_exists(expectation: Expectation) -> Converted:
    if expectation.kwargs.get("column_index") is not None:
        expectation.notes.append("column_index was ignored: the position of a column is not checked")
    yield ConvertedCheck(name="columns_exist", rule={"schema": {"columns": [expectation.column()]}}, on_rows=False)


def columns_in_order(expectation: Expectation) -> Converted:
    body = {"columns": expectation.columns(), "exact": True}
    yield ConvertedCheck(name="columns_in_order", rule={"schema": body}, on_rows=False)


def columns_in_set(expectation: Expectation) -> Converted:
    columns = expectation.columns("column_set")
    if expectation.kwargs.get("exact_match", True) is not False:
        expectation.notes.append("this check allows further columns; `contract: strict` does not")
    yield ConvertedCheck(name="columns_exist", rule={"schema": {"columns": columns}}, on_rows=False)
