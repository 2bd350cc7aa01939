from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contracts.contracts import ORDERS
from tests.plan.lakes import bronze, made, python

from lakesmith.contracts import Consumers
from lakesmith.declare import Check, Table
from lakesmith.declare.checks import References
from lakesmith.errors import Place
from lakesmith.plan.graph import Graph

TABLES = {
    table.name: table
    for table in (
        bronze("orders"),
        made("silver.orders", "SELECT id, amount, day FROM bronze.orders"),
        made("gold.sales", "SELECT day, sum(amount) AS total FROM silver.orders GROUP BY day"),
        made("gold.best", "SELECT max(total) AS most FROM gold.sales"),
        made("gold.large", "SELECT id FROM silver.orders WHERE amount > 100"),
        made("gold.days", "SELECT DISTINCT day FROM silver.orders"),
        python("gold.model", ["silver.orders"]),
    )
}


@pytest.mark.parametrize("schema", [("id", "amount", "day"), ("id", "day"), None])
def test_columns_are_followed_at_any_distance_even_from_a_removed_one(schema: tuple[str, ...] | None) -> None:
    readers = Consumers(Graph.of(TABLES), TABLES, {ORDERS: schema} if schema else {})
    assert readers.of(ORDERS, ["amount"], ["id", "amount", "day"]) == (
        "gold.best.most",
        "gold.large",
        "gold.model",
        "gold.sales.total",
    )


def test_a_change_without_columns_has_no_consumers() -> None:
    assert Consumers(Graph.of(TABLES), TABLES, {}).of(ORDERS, [], ["id"]) == ()


def readers(*more: Table) -> Consumers:
    tables = {**TABLES, **{table.name: table for table in more}}
    return Consumers(Graph.of(tables), tables, {})


def test_readers_of_a_python_table_are_consumers_of_its_input_columns() -> None:
    found = readers(
        made("gold.scores", "SELECT score FROM gold.model"),
        made("gold.top", "SELECT max(score) AS top FROM gold.scores"),
    ).of(ORDERS, ["amount"], ["amount"])
    assert {"gold.model", "gold.scores", "gold.top"} <= set(found)


def test_a_python_table_that_reads_a_derived_column_is_a_consumer() -> None:
    assert "gold.report" in readers(python("gold.report", ["gold.best"])).of(ORDERS, ["amount"], ["amount"])
    assert "gold.report" not in readers(python("gold.report", ["gold.days"])).of(ORDERS, ["amount"], ["amount"])


def test_a_filter_on_a_derived_column_is_a_consumer() -> None:
    found = readers(made("gold.good", "SELECT day FROM gold.sales WHERE total > 9")).of(ORDERS, ["amount"], ["amount"])
    assert "gold.good" in found


def test_a_check_that_references_a_column_is_a_consumer() -> None:
    rule = References(columns=("order_id",), table=ORDERS, key=("ID",))
    check = Check(name="known_order", rule=rule, on_fail="warn", declared_at=Place("gold/items.sql", 3))
    items = replace(made("gold.items", "SELECT order_id FROM bronze.orders"), checks=(check,))
    assert "gold.items (check known_order)" in readers(items).of(ORDERS, ["id"], ["id"])
    assert "gold.items (check known_order)" not in readers(items).of(ORDERS, ["day"], ["day"])
