"""Checks as SQL text."""

from __future__ import annotations

from lakesmith.declare import Check, Column, Merge, SqlQuery, Table, TableName
from lakesmith.errors import Place
from lakesmith.quality import rules_of
from lakesmith.quality.rules import Expectation, literal, quoted

HERE = Place("silver/orders.sql", 3)


def table(*, columns: tuple[Column, ...] = (), checks: tuple[Check, ...] = ()) -> Table:
    return Table(
        name=TableName("silver", "orders"),
        origin=SqlQuery(text="SELECT 1", declared_at=HERE),
        load=Merge(key=("id",), order_by=("at",)),
        columns=columns,
        checks=checks,
        declared_at=HERE,
    )


def test_a_key_is_required_without_being_declared_so() -> None:
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


def test_only_a_rule_that_fails_the_batch_is_a_gate() -> None:
    warn = Check(name="a", where="x > 1", on_fail="warn", declared_at=HERE)
    fail = Check(name="b", expect="count(*) > 0", on_fail="fail", declared_at=HERE)
    assert not rules_of(table(checks=(warn,))).gate
    assert rules_of(table(checks=(fail,))).gate


def test_a_warning_does_not_send_a_row_to_quarantine() -> None:
    warn = Check(name="a", where="x > 1", on_fail="warn", declared_at=HERE)
    assert rules_of(table(checks=(warn,))).refused() == ("arrays_overlap(_lakesmith_failed, array('id.required'))")


def test_the_aggregates_of_an_expectation_are_found() -> None:
    rule = Expectation(name="a", condition="count(*) > 0 AND max(x) < 3 * count(*)", severity="fail", declared_at=HERE)
    assert rule.aggregates() == ("COUNT(*)", "MAX(x)")


def test_names_and_texts_cannot_break_out_of_their_quotes() -> None:
    assert literal("it's \\ here") == "'it\\'s \\\\ here'"
    assert quoted("a`b") == "`a``b`"
