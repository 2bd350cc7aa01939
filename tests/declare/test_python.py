"""Python declarations only record the options and their place."""

from __future__ import annotations

import lakesmith as lake
from lakesmith.declare.python import Ref, collecting


def test_the_decorator_returns_the_function() -> None:
    def sales() -> int:
        return 5

    assert lake.gold()(sales) is sales


def test_tables_are_registered_only_while_collecting() -> None:
    with collecting() as tables:
        lake.bronze("orders", source=lake.files("a.json"))
    lake.bronze("later")
    assert [(table.layer, table.name) for table in tables] == [("bronze", "orders")]


def test_values_have_the_line_of_their_declaration() -> None:
    first = lake.column("a")
    second = lake.column("a")
    assert first == second
    assert second.at.line == first.at.line + 1
    assert first.at.file == __file__


def test_a_reference_names_its_table() -> None:
    reference = lake.ref("silver.orders")
    assert isinstance(reference, Ref)
    assert reference.table == "silver.orders"


def test_all_layers_share_one_function() -> None:
    assert {maker.func for maker in (lake.bronze, lake.silver, lake.gold)} == {lake.table}
