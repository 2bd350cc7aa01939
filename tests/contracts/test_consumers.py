from __future__ import annotations

import pytest
from tests.contracts.contracts import ORDERS
from tests.plan.lakes import bronze, made, python

from lakesmith.contracts import Readers
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
def test_columns_are_followed_as_far_as_they_go_even_when_the_first_is_gone(schema: tuple[str, ...] | None) -> None:
    readers = Readers(Graph.of(TABLES), TABLES, {ORDERS: schema} if schema else {})
    assert readers.of(ORDERS, ["amount"], ["id", "amount", "day"]) == (
        "gold.best.most",
        "gold.large",
        "gold.model",
        "gold.sales.total",
    )


def test_a_change_of_no_column_hits_nobody() -> None:
    assert Readers(Graph.of(TABLES), TABLES, {}).of(ORDERS, [], ["id"]) == ()
