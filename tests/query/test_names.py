import pytest

from lakesmith.errors import Problems, UsageError
from lakesmith.query import match_tables

KNOWN = ("bronze.orders", "silver.orders", "silver.customers", "system.runs")


def test_names_ignore_letter_case() -> None:
    assert match_tables({"Silver.ORDERS"}, KNOWN) == {"Silver.ORDERS": "silver.orders"}


def test_an_unknown_table_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError) as raised:
        match_tables({"silver.custmers"}, KNOWN)
    assert raised.value.code == "unknown-table"
    assert "did you mean 'silver.customers'?" in str(raised.value)


def test_a_name_without_its_layer_gets_all_tables_of_that_name() -> None:
    with pytest.raises(UsageError) as raised:
        match_tables({"orders"}, KNOWN)
    assert "bronze.orders or silver.orders" in str(raised.value)


def test_all_unknown_tables_are_reported_at_once() -> None:
    with pytest.raises(Problems) as raised:
        match_tables({"silver.a", "silver.b"}, KNOWN)
    assert [error.code for error in raised.value.errors] == ["unknown-table", "unknown-table"]
