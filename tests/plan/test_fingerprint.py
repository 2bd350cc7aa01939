"""The changes that count for a table's definition."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from tests.plan.lakes import bronze, column, made, python

from lakesmith.declare import (
    Append,
    Changes,
    Check,
    Files,
    Load,
    Merge,
    Replace,
    ReplacePartitions,
    Scd2,
    Snapshot,
    Table,
)
from lakesmith.declare.checks import RowSql
from lakesmith.errors import Place
from lakesmith.plan.fingerprint import checks_changed, definition, rebuild_part, rebuild_reason

TABLE = made(
    "silver.x",
    "SELECT id, amount FROM bronze.orders",
    Merge(key=("id",), order_by=("ts",)),
    columns=(column("id", type="bigint", required=True), column("amount", type="double", check="amount > 0")),
    checks=(Check(name="a", rule=RowSql(condition="id > 0"), on_fail="quarantine", declared_at=Place("silver/x.sql")),),
)


def with_text(text: str) -> Table:
    return made("silver.x", text, TABLE.load, columns=TABLE.columns, checks=TABLE.checks)


def test_layout_and_comments_do_not_change_a_definition() -> None:
    other = with_text("SELECT id, -- the key\n  amount\nFROM /* as it arrived */ bronze.orders ;")
    assert definition(other) == definition(TABLE)


@pytest.mark.parametrize(
    "changed",
    [
        {"description": "other"},
        {"owner": "other"},
        {"tags": ("x",)},
        {"freshness": 3.0},
        {"declared_at": Place("elsewhere.sql", 9)},
        {"columns": tuple(replace(each, description="x", tags=("pii",)) for each in TABLE.columns)},
        {"columns": TABLE.columns[::-1]},
        {
            "checks": (
                *TABLE.checks,
                Check(name="w", rule=RowSql(condition="id > 9"), on_fail="warn", declared_at=Place("x")),
            )
        },
    ],
)
def test_descriptions_do_not_change_a_definition(changed: dict[str, object]) -> None:
    assert definition(replace(TABLE, **changed)) == definition(TABLE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (with_text("SELECT id, amount + 1 AS amount FROM bronze.orders"), "query"),
        (with_text("SELECT id, 'a  b' AS amount FROM bronze.orders"), "query"),
        (replace(TABLE, load=Replace()), "load or column types"),
        (replace(TABLE, load=Merge(key=("id", "b"), order_by=("ts",))), "load or column types"),
        (replace(TABLE, columns=(column("id", type="string", required=True),)), "load or column types"),
    ],
)
def test_changes_that_make_rows_wrong_need_a_rebuild(other: Table, what: str) -> None:
    assert rebuild_reason(definition(TABLE), other) == what
    assert rebuild_part(other) != rebuild_part(TABLE)


@pytest.mark.parametrize(
    "other",
    [
        replace(TABLE, contract="strict"),
        replace(TABLE, checks=()),
        replace(TABLE, columns=(TABLE.columns[0], replace(TABLE.columns[1], check="amount > 1"))),
        replace(TABLE, columns=(TABLE.columns[0], replace(TABLE.columns[1], required=True))),
    ],
)
def test_changes_of_checks_need_no_rebuild(other: Table) -> None:
    assert rebuild_reason(definition(TABLE), other) is None
    assert checks_changed(definition(TABLE), other)
    assert not checks_changed(definition(TABLE), TABLE)


def test_spaces_inside_a_string_change_a_definition() -> None:
    one, two = with_text("SELECT 'a b' AS x FROM bronze.o"), with_text("SELECT 'a  b' AS x FROM bronze.o")
    assert definition(one) != definition(two)


def test_python_code_changes_a_definition_and_comments_do_not() -> None:
    first = python("silver.x", ["bronze.a"], source="def make(a):\n    return a\n")
    same = python("silver.x", ["bronze.a"], source="    def make(a):\n        # all of it\n        return (a)\n")
    other = python("silver.x", ["bronze.a"], source="def make(a):\n    return a.limit(1)\n")
    assert definition(first) == definition(same)
    assert rebuild_reason(definition(first), other) == "query"


def test_another_input_for_a_parameter_changes_the_query() -> None:
    recorded = definition(python("silver.x", ["bronze.a"]))
    assert rebuild_reason(recorded, python("silver.x", ["bronze.b"])) == "query"


def test_the_reading_options_of_files_change_a_definition_and_their_folder_does_not() -> None:
    table = bronze("x", origin=Files(files="a/*.csv", format="csv"))
    assert definition(replace(table, origin=Files(files="b/*.csv", format="csv"))) == definition(table)
    other = replace(table, origin=Files(files="a/*.csv", format="csv", delimiter=";"))
    assert definition(other) != definition(table)


def test_same_as_does_not_change_a_definition() -> None:
    one = replace(TABLE, load=ReplacePartitions(by="id"))
    two = replace(TABLE, load=ReplacePartitions(by="id", same_as="bronze.orders.id"))
    assert definition(one) == definition(two)


OTHERS: list[tuple[Load, dict[str, object]]] = [
    (
        Append(dedup=("id",), by="ts", within=86400.0),
        {"dedup": ("b",), "by": "b", "within": 172800.0},
    ),
    (
        Merge(key=("id",), order_by=("ts",)),
        {"key": ("b",), "order_by": (), "delete": "gone", "soft_delete": "is_gone", "update": ("b",)},
    ),
    (
        Scd2(key=("id",), order_by=("ts",)),
        {"key": ("b",), "order_by": ("ts", "b"), "delete": "gone", "track": ("b",), "ignore": ("b",)},
    ),
    (
        Changes(key=("id",), order_by=("ts",), op="op"),
        {"key": ("b",), "order_by": ("b",), "op": "b", "amounts": ("b",), "previous_key": {"id": "b"}},
    ),
    (
        Snapshot(key=("id",), taken="ts"),
        {"key": ("b",), "taken": "b", "into": "scd2", "track": ("b",), "ignore": ("b",)},
    ),
]


@pytest.mark.parametrize(("load", "changed"), OTHERS)
def test_every_option_of_a_load_needs_a_rebuild(load: Load, changed: dict[str, object]) -> None:
    assert {field.name for field in fields(load)} - {"max_shrink"} == set(changed)
    recorded = {definition(replace(TABLE, load=load))}
    for name, value in changed.items():
        other = replace(TABLE, load=replace(load, **{name: value}))  # type: ignore[arg-type]
        assert rebuild_reason(definition(replace(TABLE, load=load)), other) == "load or column types", name
        recorded.add(definition(other))
    assert len(recorded) == len(changed) + 1


@pytest.mark.parametrize(
    ("load", "recorded"),
    [
        (Append(), "14c472c459dd4034"),
        (Replace(), "3ea12b9a2b97062b"),
        (ReplacePartitions(by="id"), "0f01f125e19ac24e"),
        (Merge(key=("id",), order_by=("ts",)), "1a5eabafc8c39602"),
    ],
)
def test_fingerprints_of_existing_tables_do_not_change(load: Load, recorded: str) -> None:
    assert rebuild_part(made("silver.x", "SELECT id, ts FROM bronze.orders", load)).partition(".")[2] == recorded
