"""A run builds each table after its inputs and after the tables that its checks reference: cycles are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from tests.plan.lakes import bronze, by_name, made, named, python

from lakesmith.cli import app
from lakesmith.declare import Table, TableName
from lakesmith.declare.checks import Check, References, Unique
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems
from lakesmith.plan.graph import Graph


def checking(table: Table, *references: str, line: int = 3) -> Table:
    """The table with one `references` check for each of the other tables, on consecutive lines."""
    checks = tuple(
        Check(
            name=f"in_{other.replace('.', '_')}",
            rule=References(columns=("id",), table=named(other), key=("id",)),
            on_fail="quarantine",
            declared_at=Place(table.declared_at.file, line + number),
        )
        for number, other in enumerate(references)
    )
    return replace(table, checks=(*table.checks, *checks))


def errors_of(*tables: Table) -> tuple[LakesmithError, ...]:
    with pytest.raises(LakesmithError) as caught:
        Graph.of(by_name(*tables))
    return caught.value.errors if isinstance(caught.value, Problems) else (caught.value,)


ORDERS = made("silver.orders", "SELECT id FROM bronze.orders")
SALES = made("gold.daily_sales", "SELECT id\nFROM silver.orders")
MONTHS = made("gold.monthly_sales", "SELECT id FROM gold.daily_sales")


def test_a_check_that_references_a_downstream_table_is_rejected_with_the_cycle() -> None:
    (error,) = errors_of(bronze("orders"), checking(ORDERS, "gold.daily_sales"), SALES)
    assert isinstance(error, DeclarationError)
    assert (error.code, error.at, error.table) == ("cycle", Place("silver/orders.sql", 3), "silver.orders")
    assert error.what == (
        "no run order exists: silver.orders → gold.daily_sales → silver.orders "
        "(check in_gold_daily_sales of silver.orders at silver/orders.sql:3, "
        "input of gold.daily_sales at gold/daily_sales.sql:6)"
    )
    assert error.hint == (
        "let in_gold_daily_sales reference a table that is not built from silver.orders, "
        "or move it to a new table that reads silver.orders"
    )


def test_both_solutions_of_the_hint_are_accepted() -> None:
    checked = checking(made("silver.checked_orders", "SELECT id FROM silver.orders"), "gold.daily_sales")
    moved = Graph.of(by_name(bronze("orders"), ORDERS, SALES, checked)).order
    assert moved.index(checked.name) > moved.index(SALES.name)
    other = checking(ORDERS, "bronze.days")
    assert other.name in Graph.of(by_name(bronze("orders"), bronze("days"), other, SALES)).order


@pytest.mark.parametrize(
    ("tables", "cycle", "at"),
    [
        pytest.param(
            (bronze("orders"), checking(ORDERS, "gold.monthly_sales"), SALES, MONTHS),
            "silver.orders → gold.monthly_sales → gold.daily_sales → silver.orders",
            Place("silver/orders.sql", 3),
            id="two levels downstream",
        ),
        pytest.param(
            (checking(bronze("orders"), "silver.orders"), ORDERS),
            "bronze.orders → silver.orders → bronze.orders",
            Place("bronze/orders.yml", 3),
            id="a bronze table",
        ),
        pytest.param(
            (checking(bronze("a"), "bronze.b"), checking(bronze("b"), "bronze.a")),
            "bronze.a → bronze.b → bronze.a",
            Place("bronze/a.yml", 3),
            id="two checks",
        ),
        pytest.param(
            (
                bronze("orders"),
                checking(ORDERS, "bronze.returns"),
                checking(bronze("returns"), "gold.daily_sales"),
                SALES,
            ),
            "bronze.returns → gold.daily_sales → silver.orders → bronze.returns",
            Place("bronze/returns.yml", 3),
            id="two checks and an input",
        ),
        pytest.param(
            (
                bronze("orders"),
                ORDERS,
                checking(python("silver.days", ["silver.orders"]), "gold.x"),
                python("gold.x", ["silver.days"]),
            ),
            "silver.days → gold.x → silver.days",
            Place("silver/days.py", 3),
            id="Python tables",
        ),
    ],
)
def test_indirect_cycles_are_rejected_once_each(tables: tuple[Table, ...], cycle: str, at: Place) -> None:
    (error,) = errors_of(*tables)
    assert (error.code, error.at) == ("cycle", at)
    assert f"no run order exists: {cycle} (" in error.what


def test_every_check_that_closes_a_cycle_is_named() -> None:
    errors = errors_of(bronze("orders"), checking(ORDERS, "gold.daily_sales", "gold.monthly_sales"), SALES, MONTHS)
    assert [error.at for error in errors] == [Place("silver/orders.sql", 3), Place("silver/orders.sql", 4)]


def test_two_checks_on_one_edge_are_one_error_that_names_both() -> None:
    twice = checking(checking(ORDERS, "gold.daily_sales"), "gold.daily_sales", line=8)
    (error,) = errors_of(bronze("orders"), twice, SALES)
    assert "checks in_gold_daily_sales, in_gold_daily_sales of silver.orders at silver/orders.sql:3" in error.what


def test_a_cycle_of_inputs_and_a_cycle_with_a_check_are_both_named() -> None:
    errors = errors_of(
        python("silver.a", ["silver.b"]),
        python("silver.b", ["silver.a"]),
        bronze("orders"),
        checking(ORDERS, "gold.daily_sales"),
        SALES,
    )
    assert [error.what.partition(":")[0] for error in errors] == [
        "tables read each other in a cycle",
        "no run order exists",
    ]


def test_references_to_unrelated_and_upstream_tables_are_accepted() -> None:
    unique = Check(
        name="once",
        rule=Unique(columns=("id",), within="table"),
        on_fail="quarantine",
        declared_at=Place("silver/orders.sql", 3),
    )
    orders = checking(replace(ORDERS, checks=(unique,)), "bronze.orders", "silver.customers")
    customers = made("silver.customers", "SELECT id FROM bronze.orders")
    order = Graph.of(by_name(bronze("orders"), orders, customers)).order
    assert order == (named("bronze.orders"), customers.name, orders.name)


def can_all_be_built(needs: Mapping[TableName, set[TableName]]) -> bool:
    """Return whether an order exists in which each table has its inputs, by trying every order."""
    return any(
        all(needs[name] <= set(order[:place]) for place, name in enumerate(order)) for order in permutations(needs)
    )


Edges = list[tuple[set[int], set[int]]]


@given(st.lists(st.tuples(st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4))), min_size=1, max_size=5))
@example([(set(), {1}), ({0}, set())])
@example([(set(), {2}), ({0}, set()), ({1}, set())])
@example([(set(), {1}), (set(), {0})])
def test_a_graph_is_accepted_exactly_when_a_run_can_build_every_table(edges: Edges) -> None:
    names = [f"silver.t{at}" for at in range(len(edges))]
    tables, needs = [], {}
    for at, (inputs, references) in enumerate(edges):
        read = [names[other] for other in sorted(inputs) if other < len(names)]
        # A check that references its own table is an error of another kind.
        lookups = [names[other] for other in sorted(references) if other < len(names) and other != at]
        tables.append(checking(python(names[at], read), *lookups))
        needs[named(names[at])] = {named(name) for name in (*read, *lookups)}
    if can_all_be_built(needs):
        order = Graph.of(by_name(*tables)).order
        assert len(order) == len(needs)
        assert all(needs[name] <= set(order[:place]) for place, name in enumerate(order))
    else:
        assert {error.code for error in errors_of(*tables)} == {"cycle"}


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_no_command_accepts_a_lake_whose_check_references_a_downstream_table(command: str, tmp_path: Path) -> None:
    for file, text in {
        "lakesmith.yml": "name: shop\n",
        "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
        "silver/orders.sql": "/* lakesmith\nchecks:\n  known_day: {references: {columns: day, table: gold.days}}\n*/\n"
        "SELECT id, day FROM bronze.orders\n",
        "gold/days.sql": "SELECT day, count(*) AS orders FROM silver.orders GROUP BY day\n",
    }.items():
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    result = CliRunner().invoke(app, [command, "--lake", str(tmp_path)])
    assert result.exit_code == 2
    assert "silver/orders.sql:3: no run order exists: silver.orders → gold.days → silver.orders" in result.stderr
    assert "check known_day of silver.orders at silver/orders.sql:3" in result.stderr
