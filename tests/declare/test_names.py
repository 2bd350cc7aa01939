"""Names are safe as a folder, an SQL name and a URL."""

from __future__ import annotations

import pytest

from lakesmith.declare import TableName, is_identifier
from lakesmith.declare.names import is_table_identifier


@pytest.mark.parametrize("text", ["orders", "a1", "daily_sales_2026"])
def test_plain_words_are_valid_table_names(text: str) -> None:
    assert is_table_identifier(text)


@pytest.mark.parametrize("text", ["", "Orders", "1a", "_a", "a-b", "a.b", "a b", "a`", "a'", "é", "a\n", "a" * 64])
def test_other_texts_are_invalid_table_names(text: str) -> None:
    assert not is_table_identifier(text)


@pytest.mark.parametrize("text", ["", "a.b", "a b", 'a"b', "a`b", "a'b", "a;b", "😀", "1a", "a\n", "a" * 256])
def test_column_names_have_no_quotes_dots_spaces_or_symbols(text: str) -> None:
    assert not is_identifier(text)


def test_a_table_is_named_by_layer_and_name() -> None:
    assert TableName.parse("silver.orders") == TableName("silver", "orders")
    assert str(TableName("silver", "orders")) == "silver.orders"


@pytest.mark.parametrize("text", ["orders", "sliver.orders", "silver.", "silver.a.b", "silver.A", ".orders"])
def test_other_texts_are_not_table_references(text: str) -> None:
    assert TableName.parse(text) is None
