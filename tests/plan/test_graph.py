"""The graph of tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.lakes import bronze, by_name, made, named, python

from lakesmith.declare import Append, Changes, Load, Merge, ReplacePartitions, Scd2, Snapshot, Table, TableName
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems
from lakesmith.plan.graph import Graph

SHOP = by_name(
    made("gold.sales", "SELECT o.day FROM silver.orders o JOIN silver.customers c ON o.k = c.k"),
    made("silver.orders", "SELECT day, k FROM bronze.orders"),
    python("silver.customers", ["bronze.customers"]),
    bronze("orders"),
    bronze("customers"),
)


def problem(*tables: Table) -> LakesmithError:
    with pytest.raises(LakesmithError) as caught:
        Graph.of(by_name(*tables))
    return caught.value


def test_the_order_is_by_input_then_layer_then_name() -> None:
    assert [str(name) for name in Graph.of(SHOP).order] == [
        "bronze.customers",
        "bronze.orders",
        "silver.customers",
        "silver.orders",
        "gold.sales",
    ]


def test_inputs_are_in_order_of_appearance() -> None:
    graph = Graph.of(SHOP)
    assert graph.upstream(named("gold.sales")) == (named("silver.orders"), named("silver.customers"))
    assert graph.downstream(named("bronze.orders")) == (named("silver.orders"),)


def test_ancestors_and_descendants_stop_at_a_depth() -> None:
    graph = Graph.of(SHOP)
    sales, orders = named("gold.sales"), named("bronze.orders")
    assert graph.ancestors(sales) == frozenset(SHOP) - {sales}
    assert graph.ancestors(sales, 1) == {named("silver.orders"), named("silver.customers")}
    assert graph.ancestors(sales, 0) == frozenset()
    assert graph.descendants(orders) == {named("silver.orders"), sales}
    assert graph.descendants(orders, 1) == {named("silver.orders")}


def test_an_unknown_input_is_reported_with_its_line_and_the_nearest_name() -> None:
    error = problem(bronze("orders"), made("silver.x", "SELECT id\nFROM bronze.order"))
    assert (error.code, error.what) == ("unknown-table", "silver.x reads bronze.order, which is not declared")
    assert error.at == Place("silver/x.sql", 6)
    assert error.hint == "did you mean 'bronze.orders'?  tables: bronze.orders, silver.x"


def test_an_unknown_input_of_a_python_table_is_reported_where_it_is_declared() -> None:
    assert problem(python("silver.x", ["bronze.order"])).at == Place("silver/x.py", 7)


def test_a_cycle_is_printed_with_the_place_of_each_step() -> None:
    error = problem(
        made("silver.c", "SELECT id FROM silver.a"),
        made("silver.b", "SELECT id\nFROM silver.c"),
        made("silver.a", "SELECT id FROM silver.b"),
        made("gold.after", "SELECT id FROM silver.a"),
    )
    assert (error.code, error.at) == ("cycle", Place("silver/a.sql", 5))
    assert error.what == (
        "tables read each other in a cycle: silver.a → silver.b → silver.c → silver.a "
        "(at silver/a.sql:5, silver/b.sql:6, silver/c.sql:5)"
    )


def test_a_table_that_reads_itself_is_a_cycle() -> None:
    assert "silver.a → silver.a" in problem(made("silver.a", "SELECT id FROM silver.a")).what


def test_two_cycles_are_two_errors() -> None:
    error = problem(
        made("silver.a", "SELECT id FROM silver.b"),
        made("silver.b", "SELECT id FROM silver.a"),
        made("gold.c", "SELECT id FROM gold.c"),
    )
    assert isinstance(error, Problems)
    assert [each.code for each in error.errors] == ["cycle", "cycle"]


@pytest.mark.parametrize(
    "load",
    [
        None,
        Merge(key=("id",), order_by=("ts",)),
        ReplacePartitions(by="id"),
        Append(dedup=("id",)),
        Scd2(key=("id",), order_by=("ts",)),
        Changes(key=("id",), order_by=("ts",), op="id"),
        Snapshot(key=("id",), taken="ts"),
    ],
)
def test_append_rejects_an_input_whose_rows_change(load: Load | None) -> None:
    error = problem(
        bronze("orders"),
        made("silver.a", "SELECT id, ts FROM bronze.orders", load),
        made("silver.b", "SELECT id\nFROM silver.a", Append()),
    )
    assert (error.code, error.at) == ("append-needs-append-only", Place("silver/b.sql", 6))
    assert "merge" in (error.hint or "")


def test_append_reads_bronze_and_append_tables() -> None:
    tables = by_name(
        bronze("orders"),
        made("silver.a", "SELECT id FROM bronze.orders", Append()),
        made("silver.b", "SELECT id FROM silver.a", Append()),
    )
    assert len(Graph.of(tables).order) == 3


def test_append_with_dedup_accepts_inputs_whose_rows_change() -> None:
    tables = by_name(
        bronze("orders"),
        made("silver.a", "SELECT id FROM bronze.orders", Append(dedup=("id",))),
        made("silver.b", "SELECT id FROM silver.a", Append(dedup=("id",))),
    )
    assert len(Graph.of(tables).order) == 3


@pytest.mark.parametrize("same_as", ["silver.order.day", "bronze.orders.day", "day", "silver.orders"])
def test_same_as_must_name_a_column_of_an_input(same_as: str) -> None:
    load = ReplacePartitions(by="day", same_as=same_as)
    error = problem(*SHOP.values(), python("gold.x", ["silver.orders"], load))
    assert error.code == "unknown-table"
    assert "tables that it reads: silver.orders" in (error.hint or "")


def test_all_errors_are_reported_together() -> None:
    error = problem(
        made("silver.a", "SELECT id FROM orders"),
        made("silver.b", "SELECT id FROM bronze.nope"),
        made("silver.c", "SELECT id FROM"),
    )
    assert isinstance(error, Problems)
    assert sorted(each.code for each in error.errors) == ["sql-syntax", "unknown-table", "unknown-table"]


def test_a_name_without_a_layer_is_hinted_at_by_the_declared_table() -> None:
    error = problem(bronze("orders"), made("silver.a", "SELECT id FROM orders"))
    assert isinstance(error, DeclarationError)
    assert error.hint == "write bronze.orders"


@given(st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=12), st.randoms())
def test_the_order_is_topological_and_does_not_depend_on_the_order_of_files(
    reads: list[set[int]], random: object
) -> None:
    tables = [
        python(f"silver.t{at:02}", [f"silver.t{other:02}" for other in sorted(inputs) if other < at])
        for at, inputs in enumerate(reads)
    ]
    shuffled = list(tables)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis gives a random.Random
    graph = Graph.of(by_name(*shuffled))
    seen: set[TableName] = set()
    for name in graph.order:
        assert set(graph.upstream(name)) <= seen
        seen.add(name)
    assert seen == {table.name for table in tables}
    assert graph.order == Graph.of(by_name(*tables)).order


def test_a_disabled_table_stays_in_the_graph() -> None:
    orders = replace(SHOP[named("silver.orders")], enabled=False)
    assert named("silver.orders") in Graph.of({**SHOP, orders.name: orders}).order
