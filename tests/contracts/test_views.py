from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

import pytest
from tests.contracts.contracts import ORDERS, TODAY, column, declared, previous_version, published, terms

from lakesmith.contracts import PublishedContract, earlier_versions
from lakesmith.contracts.views import view_clashes, view_problems
from lakesmith.declare import Table, TableName
from lakesmith.declare.contract import Previous
from lakesmith.errors import DeclarationError, Place, UsageError
from lakesmith.ports import View, ViewColumn

A, B = column("a", "int"), column("b", "decimal(10,2)", currency="EUR")
OLD = (published("2.0.0", column("a", "bigint")), published("1.1.0", A, B), published("1.0.0", A))


def table(*previous: Previous, now: Sequence[object] = (column("a", "bigint"),)) -> Table:
    return declared(*now, terms=terms("2", previous=previous))  # type: ignore[arg-type]


def find(name: str, *previous: Previous) -> View:
    (view,) = earlier_versions([name], {ORDERS: table(*previous)}, lambda: {str(ORDERS): OLD}, TODAY).values()
    return view


def wrong(
    *previous: Previous, now: Sequence[object] = (A,), columns: Sequence[str] | None = None
) -> list[DeclarationError]:
    return list(view_problems(table(*previous, now=now), OLD, columns, TODAY))


def _never() -> dict[str, Sequence[PublishedContract]]:
    raise AssertionError("nobody needs what was published")


@pytest.mark.parametrize("name", ["silver.orders_v1", "SILVER.Orders_V1"])
def test_a_view_has_the_columns_of_the_newest_version_of_its_major_version(name: str) -> None:
    assert find(name, previous_version(1, b="a * 2")) == View(
        table="silver.orders",
        columns=(ViewColumn(name="a", type="int"), ViewColumn(name="b", sql="a * 2", type="decimal(10,2)")),
    )


def test_names_that_are_not_earlier_versions_are_ignored() -> None:
    declared_tables = {ORDERS: table(), TableName("silver", "orders_v9"): table()}
    names = ["silver.orders", "silver.orders_v9", "silver.others_v1", "system.runs", "orders_v1"]
    assert earlier_versions(names, declared_tables, _never, TODAY) == {}


def test_a_view_can_be_read_on_its_last_day_and_not_after() -> None:
    assert find("silver.orders_v1", previous_version(1, TODAY))
    with pytest.raises(UsageError) as gone:
        find("silver.orders_v1", previous_version(1, TODAY - timedelta(days=1)))
    assert (gone.value.code, gone.value.what) == ("version-gone", "silver.orders_v1 was available until 2026-11-14")
    assert gone.value.hint == ("read silver.orders, which is version 2.0.0; or change the date in silver/orders.sql:2")


def test_a_version_that_is_not_listed_or_was_never_published_is_unknown() -> None:
    for previous in ((), (previous_version(2),), (previous_version(3),)):
        with pytest.raises(UsageError) as unknown:
            find("silver.orders_v3", *previous)
        assert unknown.value.code == "unknown-version"


def test_a_removed_column_needs_sql() -> None:
    (error,) = wrong(previous_version(1))
    assert (error.code, error.at) == ("previous-unreadable", Place("silver/orders.sql", 2))
    assert error.what == "version 1 of silver.orders has the column 'b', which the table no longer has"
    assert error.hint == 'give SQL over the current columns: previous: {"1": {columns: {b: "SQL"}}}'
    assert wrong(previous_version(1, b="a * 2")) == []


def test_an_undeclared_column_of_the_table_is_sufficient() -> None:
    assert wrong(previous_version(1), columns=("a", "B")) == []


def test_a_column_with_another_meaning_needs_sql_too() -> None:
    dollars = replace(B, currency="USD")
    (error,) = wrong(previous_version(1), now=(A, dollars))
    assert error.what == "version 1 of silver.orders has the column 'b', which has another meaning now"
    assert wrong(previous_version(1, b="b * 0.9"), now=(A, dollars)) == []


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"b": "a", "c": "a"}, "has no column 'c'"),
        ({"b": "a +* 2"}, "cannot be read: the SQL of 'b'"),
        ({"b": "amuont"}, "makes 'b' from 'amuont', which silver.orders does not have"),
    ],
)
def test_invalid_sql_of_an_earlier_version_is_found_early(columns: dict[str, str], what: str) -> None:
    (error,) = wrong(replace(previous_version(1), columns=columns))
    assert error.code == "previous-unreadable"
    assert what in error.what


def test_expired_and_unrecorded_versions_are_not_checked() -> None:
    assert wrong(previous_version(1, date(2026, 1, 1))) == []
    assert wrong(previous_version(5)) == []


def test_no_table_can_have_the_name_of_another_table_s_view() -> None:
    taken = TableName("silver", "orders_v1")
    tables = {
        ORDERS: table(previous_version(1)),
        taken: replace(table(), name=taken, declared_at=Place("silver/orders_v1.sql")),
    }
    (error,) = view_clashes(tables)
    assert (error.code, error.at, error.table) == ("duplicate-table", Place("silver/orders_v1.sql"), "silver.orders_v1")
    assert view_clashes({**tables, ORDERS: table()}) == []
