"""Checks as SQL text."""

from __future__ import annotations

import pytest

from lakesmith.declare import (
    Append,
    Changes,
    Check,
    Column,
    Load,
    Merge,
    Replace,
    Scd2,
    Snapshot,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.declare.checks import BatchSql, RowSql
from lakesmith.declare.loads import OPS
from lakesmith.errors import Place
from lakesmith.quality import rules_of
from lakesmith.quality.measures import aggregates
from lakesmith.quality.rules import operation_sql
from lakesmith.sql import literal, quoted

HERE = Place("silver/orders.sql", 3)


MERGE = Merge(key=("id",), order_by=("at",))


def table(*, columns: tuple[Column, ...] = (), checks: tuple[Check, ...] = (), load: Load = MERGE) -> Table:
    return Table(
        name=TableName("silver", "orders"),
        origin=SqlQuery(text="SELECT 1", declared_at=HERE),
        load=load,
        columns=columns,
        checks=checks,
        declared_at=HERE,
    )


def test_a_key_is_required_implicitly() -> None:
    assert [rule.name for rule in rules_of(table()).rows] == ["id.required"]


def test_the_rules_of_a_column_are_named_after_it() -> None:
    column = Column(name="amount", type="int", required=True, check="amount > 0", declared_at=HERE)
    rules = rules_of(table(columns=(column,)), casts={"amount": "before"})
    assert [rule.name for rule in rules.rows] == [
        "amount.type",
        "amount.required",
        "id.required",
        "amount.check",
    ]


def test_only_a_failing_rule_is_a_gate() -> None:
    warn = Check(name="a", rule=RowSql(condition="x > 1"), on_fail="warn", declared_at=HERE)
    fail = Check(name="b", rule=BatchSql(condition="count(*) > 0"), on_fail="fail", declared_at=HERE)
    assert not rules_of(table(checks=(warn,))).gate
    assert rules_of(table(checks=(fail,))).gate


def test_a_warning_does_not_send_a_row_to_quarantine() -> None:
    warn = Check(name="a", rule=RowSql(condition="x > 1"), on_fail="warn", declared_at=HERE)
    assert rules_of(table(checks=(warn,))).quarantined() == "(_lakesmith_failed_0 & 1L) <> 0"


def test_the_aggregates_of_an_expectation_are_found() -> None:
    assert list(aggregates("count(*) > 0 AND max(x) < 3 * count(*)")) == ["COUNT(*)", "MAX(x)"]


def test_names_and_texts_are_quoted_safely() -> None:
    assert literal("it's \\ here") == "'it\\'s \\\\ here'"
    assert quoted("a`b") == "`a``b`"


@pytest.mark.parametrize(
    ("load", "names"),
    [
        (Append(), []),
        (Replace(), []),
        (Append(dedup=("id",), by="at"), ["id.required"]),
        (Merge(key=("id", "n")), ["id.required", "n.required"]),
        (Scd2(key=("id",), order_by=("at", "n")), ["id.required", "at.required"]),
        (Scd2(key=("id", "at"), order_by=("at",)), ["id.required", "at.required"]),
        (Snapshot(key=("id",), taken="day"), ["id.required", "day.required"]),
        (Changes(key=("id",), order_by=("at", "n"), op="op"), ["id.required", "at.required", "op.known"]),
    ],
)
def test_a_row_needs_the_key_and_order_columns_of_its_load(load: Load, names: list[str]) -> None:
    rules = rules_of(table(load=load)).rows
    assert [rule.name for rule in rules] == names
    assert {rule.severity for rule in rules} <= {"quarantine"}


def test_the_reason_names_the_role_of_the_column() -> None:
    reasons = [rule.reason for rule in rules_of(table(load=Scd2(key=("id",), order_by=("at",)))).rows]
    assert reasons == [
        "id is NULL, but it is the table's key",
        "at is NULL, but it orders the rows",
    ]


def test_a_truncate_needs_only_its_time() -> None:
    stream = Changes(key=("id",), order_by=("at",), op="op")
    amount = Column(name="amount", required=True, declared_at=HERE)
    conditions = {rule.name: rule.condition for rule in rules_of(table(load=stream, columns=(amount,))).rows}
    exempt = f" OR coalesce({operation_sql(stream)} = 'truncate', false)"
    assert conditions["id.required"] == "`id` IS NOT NULL" + exempt
    assert conditions["amount.required"] == "`amount` IS NOT NULL" + exempt
    assert conditions["at.required"] == "`at` IS NOT NULL"


def test_corrections_need_amounts() -> None:
    plain = operation_sql(Changes(key=("id",), order_by=("at",), op="op"))
    ledger = operation_sql(Changes(key=("id",), order_by=("at",), op="op", amounts=("n",)))
    assert [word for word in OPS if literal(word) not in plain] == ["CORRECTION", "REVERSAL"]
    assert [word for word in OPS if literal(word) not in ledger] == []


def test_a_unique_or_key_column_has_its_own_rule() -> None:
    columns = tuple(Column(name=name, key=True, declared_at=HERE) for name in ("a", "b"))
    columns = (*columns, Column(name="email", unique=True, declared_at=HERE))
    rules = rules_of(table(columns=columns, load=Append()))
    assert [rule.name for rule in rules.rows] == ["a.required", "b.required", "email.unique", "key.unique"]
    assert [rule.flag_rule and rule.flag_rule.columns for rule in rules.flags] == [("email",), ("a", "b")]  # type: ignore[union-attr]


def test_the_key_of_a_load_needs_no_unique_rule() -> None:
    key = Column(name="id", key=True, declared_at=HERE)
    assert [rule.name for rule in rules_of(table(columns=(key,), load=MERGE)).rows] == ["id.required"]


def test_rules_beyond_sixty_have_a_second_number() -> None:
    checks = tuple(Check(name=f"c{n}", rule=RowSql(condition="x"), on_fail="warn", declared_at=HERE) for n in range(70))
    rules = rules_of(table(checks=checks, load=Append()))
    assert list(rules.failed()) == ["_lakesmith_failed_0", "_lakesmith_failed_1"]
    assert rules.breaks(rules.rows[60]) == "(_lakesmith_failed_1 & 1L) <> 0"
    assert rules.has_bit((0, 1), 60)
    assert not rules.has_bit((1, 0), 60)
