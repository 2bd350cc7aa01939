"""The Python spelling only writes down: what, and where."""

from __future__ import annotations

import lakesmith as lake
from lakesmith.declare.python import Ref, collecting


def test_decorating_gives_the_function_back() -> None:
    def sales() -> int:
        return 5

    assert lake.gold()(sales) is sales


def test_tables_are_noted_while_somebody_collects() -> None:
    with collecting() as tables:
        lake.bronze("orders", source=lake.files("a.json"))
    lake.bronze("later")
    assert [(table.layer, table.name) for table in tables] == [("bronze", "orders")]


def test_values_know_the_line_they_were_written_on() -> None:
    first = lake.column("a")
    second = lake.column("a")
    assert first == second
    assert second.at.line == first.at.line + 1
    assert first.at.file == __file__


def test_a_reference_names_its_table() -> None:
    reference = lake.ref("silver.orders")
    assert isinstance(reference, Ref)
    assert reference.table == "silver.orders"


def test_the_three_layers_are_one_function() -> None:
    assert {maker.func for maker in (lake.bronze, lake.silver, lake.gold)} == {lake.table}
