"""The types to which a column can be widened in place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.plan.lakes import facts, file, lake, made, named
from tests.plan.test_planner import ORDERS, of, plan, problem

from lakesmith.declare import Append, Column, Table
from lakesmith.declare.contract import Contract
from lakesmith.declare.spark_type import parse_type
from lakesmith.errors import Place
from lakesmith.plan.explain import describe
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.graph import Graph
from lakesmith.plan.planner import make_plan
from lakesmith.plan.steps import Build, Ingest, LakeFacts, Position, Progress, Widen
from lakesmith.plan.widening import widens
from lakesmith.ports import ColumnFact

SILVER = made("silver.orders", "SELECT id FROM bronze.orders", Append())


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("tinyint", "smallint"),
        ("int", "bigint"),
        ("float", "double"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(13,5)"),
        ("int", "decimal(10,0)"),
        ("bigint", "decimal(22,2)"),
        ("struct<a:int,b:array<smallint>>", "struct<a:bigint,b:array<int>>"),
        ("map<int,float>", "map<bigint,double>"),
        ("struct<`int`:int>", "struct<`int`:bigint>"),
    ],
)
def test_a_type_can_widen_to_one_that_holds_every_value(stored: str, wanted: str) -> None:
    assert widens(parse_type(stored), parse_type(wanted))
    assert not widens(parse_type(wanted), parse_type(stored))


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("int", "int"),
        ("int", "double"),
        ("bigint", "decimal(19,0)"),
        ("int", "decimal(9,0)"),
        ("decimal(10,2)", "decimal(12,5)"),
        ("decimal(10,2)", "decimal(12,1)"),
        ("decimal(10,2)", "double"),
        ("date", "timestamp"),
        ("timestamp_ntz", "timestamp"),
        ("bigint", "string"),
        ("struct<a:int>", "struct<a:int,b:int>"),
        ("struct<int:int>", "struct<bigint:int>"),
        ("array<int>", "bigint"),
    ],
)
def test_no_other_type_can_widen(stored: str, wanted: str) -> None:
    assert not widens(parse_type(stored), parse_type(wanted))


def declared(type: str, contract: Contract = "additive") -> Table:
    column = Column(name="ID", type=type, declared_at=Place("bronze/orders.yml", 3))
    return replace(ORDERS, columns=(column,), contract=contract)


@pytest.mark.parametrize("contract", ["additive", "strict"])
def test_a_column_declared_wider_is_widened_before_rows_are_written(contract: Contract) -> None:
    new = file("a.json")
    table = declared("decimal(20,0)", contract)
    found = of(plan(table, there={"bronze.orders": facts()}, landing={"bronze.orders": (new,)}), "bronze.orders")
    reason = "ID is declared wider (bigint → decimal(20,0))"
    assert (found.status, found.reason) == ("changed", f"{reason}; 1 new file, 1.0 kB")
    widen, ingest = found.steps
    assert widen == Widen(table=named("bronze.orders"), columns=(ColumnFact("ID", "decimal(20,0)"),), reason=reason)
    assert isinstance(ingest, Ingest)
    assert describe(widen) == "widen ID to decimal(20,0)"


def test_a_column_declared_wider_is_widened_without_new_rows() -> None:
    found = of(plan(declared("decimal(20,0)"), there={"bronze.orders": facts()}), "bronze.orders")
    assert [type(step) for step in found.steps] == [Widen]


def test_a_narrower_type_is_rejected_and_open_tables_ignore_types() -> None:
    assert problem(plan(declared("int"), there={"bronze.orders": facts()})).code == "type-changed"
    assert of(plan(declared("decimal(20,0)", "open"), there={"bronze.orders": facts()}), "bronze.orders").steps == ()


def test_tables_built_from_a_widened_table_get_a_full_build() -> None:
    seen = Progress(
        head=1, definition=definition(SILVER), positions={"bronze.orders": Position(table_id="one", version=0)}
    )
    there = {"bronze.orders": facts(), "silver.orders": facts()}
    found = of(plan(declared("decimal(20,0)"), SILVER, there=there, progress={"silver.orders": seen}), "silver.orders")
    (build,) = found.steps
    assert isinstance(build, Build)
    assert build.mode == "full"
    assert build.cost_reason == "column types in bronze.orders changed (ID), so types of this table may change too"


def test_readers_of_a_widened_table_are_computed_from_all_rows() -> None:
    seen = Progress(
        head=1, definition=definition(SILVER), positions={"bronze.orders": Position(table_id="one", version=3)}
    )
    there = {"bronze.orders": facts(version=5), "silver.orders": facts()}
    modes = []
    for retyped in ({}, {(named("bronze.orders"), 3): ("id",)}, {(named("bronze.orders"), 2): ("id",)}):
        world = LakeFacts(
            tables={named(name): each for name, each in there.items()},
            progress={named("silver.orders"): seen},
            landing={named("bronze.orders"): ()},
            widened_columns=retyped,
        )
        declaration = lake(ORDERS, SILVER)
        graph = Graph.of(declaration.tables)
        made_plan = make_plan(declaration, graph, world, selected=frozenset(declaration.tables))
        modes += [step.mode for step in made_plan.steps if isinstance(step, Build)]
    assert modes == ["changes", "full", "changes"]
