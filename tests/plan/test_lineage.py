"""The lineage of rows and columns."""

from __future__ import annotations

import pytest
from tests.plan.lakes import bronze, by_name, columns, made, named, python, sql

from lakesmith.declare import Scd2
from lakesmith.plan.graph import Graph
from lakesmith.plan.lineage import lineage
from lakesmith.reports import Edge
from lakesmith.sqlproof.query import column_origins

TABLES = by_name(
    bronze("orders"),
    bronze("customers"),
    made("silver.orders", "SELECT id, upper(mail) AS email FROM bronze.orders"),
    python("silver.customers", ["bronze.customers"]),
    made("gold.all", "SELECT o.*, c.name FROM silver.orders o JOIN silver.customers c ON o.id = c.id"),
)
GRAPH = Graph.of(TABLES)


def test_a_table_is_shown_with_its_upstream_and_downstream_tables() -> None:
    found = lineage(GRAPH, TABLES, named("silver.orders"), {})
    assert found.table == "silver.orders"
    assert found.nodes == ("bronze.orders", "silver.orders", "gold.all")
    assert found.edges == (
        Edge(source="bronze.orders", target="silver.orders"),
        Edge(source="silver.orders", target="gold.all"),
    )
    assert found.sources == {"bronze.orders": "landing/orders/*.json"}


def test_without_a_name_the_whole_lake_is_shown() -> None:
    found = lineage(GRAPH, TABLES, None, {})
    assert found.table is None
    assert found.nodes == tuple(str(name) for name in GRAPH.order)
    assert Edge(source="bronze.customers", target="silver.customers") in found.edges
    assert set(found.sources) == {"bronze.orders", "bronze.customers"}


def test_columns_are_traced_through_sql_without_a_schema() -> None:
    assert lineage(GRAPH, TABLES, None, {}).columns == (
        Edge(source="bronze.orders.id", target="silver.orders.id"),
        Edge(source="bronze.orders.mail", target="silver.orders.email"),
        Edge(source="silver.orders.id", target="gold.all.id"),
        Edge(source="silver.orders.email", target="gold.all.email"),
        Edge(source="silver.customers.name", target="gold.all.name"),
    )


def test_columns_of_tables_that_are_not_shown_are_omitted() -> None:
    found = lineage(GRAPH, TABLES, named("silver.customers"), {}).columns
    assert found == (Edge(source="silver.customers.name", target="gold.all.name"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a + b AS c FROM bronze.x", {"c": {"bronze.x.a", "bronze.x.b"}}),
        ("SELECT 1 AS one FROM bronze.x", {"one": set()}),
        (
            "SELECT a, b FROM bronze.x UNION ALL SELECT c, d FROM bronze.y",
            {"a": {"bronze.x.a", "bronze.y.c"}, "b": {"bronze.x.b", "bronze.y.d"}},
        ),
        (
            "WITH q AS (SELECT a AS k, max(b) AS m FROM bronze.x GROUP BY a) SELECT k, m FROM q",
            {"k": {"bronze.x.a"}, "m": {"bronze.x.b"}},
        ),
        ("WITH q(k) AS (SELECT a FROM bronze.x) SELECT k FROM q", {"k": {"bronze.x.a"}}),
        (
            "SELECT id, k FROM silver.s JOIN silver.t ON id = tid",
            {"id": {"silver.s.id"}, "k": {"silver.t.k"}},
        ),
        (
            "SELECT * FROM silver.s JOIN silver.t USING (id)",
            {"id": {"silver.s.id"}, "tid": {"silver.t.tid"}, "k": {"silver.t.k"}},
        ),
        ("SELECT nope FROM bronze.x JOIN bronze.y ON true", {}),
        ("SELECT * FROM bronze.x", {}),
        ("SELECT t.item FROM bronze.x LATERAL VIEW explode(items) t AS item", {"item": {"bronze.x.items"}}),
        (
            "SELECT a * 2 AS twice, twice + b AS c FROM bronze.x",
            {"twice": {"bronze.x.a"}, "c": {"bronze.x.a", "bronze.x.b"}},
        ),
        ("SELECT (SELECT max(y.m) FROM bronze.y) AS m FROM bronze.x", {"m": {"bronze.y.m"}}),
        ("SELECT x.address.city FROM bronze.x", {"city": {"bronze.x.address"}}),
    ],
)
def test_a_result_column_is_traced_to_table_columns(text: str, expected: dict[str, set[str]]) -> None:
    known = columns(silver_s=["id"], silver_t=["id", "tid", "k"] if "USING" in text else ["tid", "k"])
    found = column_origins(sql(text), known)
    assert {name: {f"{table}.{column}" for table, column in origins} for name, origins in found.items()} == expected


def test_columns_added_by_a_load_are_traced() -> None:
    tables = by_name(
        bronze("orders"),
        made("silver.history", "SELECT id, ts FROM bronze.orders", Scd2(key=("id",), order_by=("ts",))),
        made("gold.now", "SELECT * FROM silver.history"),
    )
    found = lineage(Graph.of(tables), tables, None, {}).columns
    assert Edge(source="silver.history.valid_to", target="gold.now.valid_to") in found
    assert [edge for edge in found if edge.target == "silver.history.valid_to"] == []
