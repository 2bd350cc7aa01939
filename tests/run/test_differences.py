"""Rows are compared as multisets; what differs is told row by row."""

from __future__ import annotations

import pytest

from lakesmith.declare.tests import Value, Word
from lakesmith.errors import Place
from lakesmith.reports import RowDifference
from lakesmith.run.trial.differences import differences
from lakesmith.run.trial.looks import looks_like

Row = dict[str, str | None]


def told(expected: list[Row], found: list[Row], *key: str) -> list[tuple[Row | None, Row | None]]:
    return [(each.expected, each.found) for each in differences(expected, found, key)]


def test_the_order_of_rows_does_not_matter() -> None:
    assert told([{"a": "1"}, {"a": None}], [{"a": None}, {"a": "1"}]) == []


def test_a_row_that_comes_twice_is_expected_twice() -> None:
    assert told([{"a": "1"}], [{"a": "1"}, {"a": "1"}]) == [(None, {"a": "1"})]
    assert told([{"a": "1"}, {"a": "1"}], [{"a": "1"}]) == [({"a": "1"}, None)]


def test_only_the_columns_that_a_row_names_are_compared() -> None:
    assert told([{"a": "1"}], [{"a": "1", "b": "2"}]) == []


def test_a_row_that_says_less_gives_way_to_one_that_says_more() -> None:
    found: list[Row] = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]
    assert told([{"a": "1"}, {"a": "1", "b": "1"}], found) == []


def test_rows_that_could_take_each_other_s_place_are_both_placed() -> None:
    found: list[Row] = [{"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "c": "2"}]
    assert told([{"a": "1", "b": "1"}, {"a": "1", "c": "1"}], [*found]) != []
    assert told([{"a": "1", "c": "2"}, {"b": "1", "a": "1"}, {"a": "1"}], [*found, {"a": "1"}]) == []


def test_rows_of_one_key_stand_together_however_they_differ() -> None:
    assert told([{"id": "1", "a": "x", "b": "y"}], [{"id": "1", "a": "p", "b": "q"}], "id") == [
        ({"id": "1", "a": "x", "b": "y"}, {"id": "1", "a": "p", "b": "q"})
    ]
    assert len(told([{"id": "1", "a": "x"}], [{"id": "2", "a": "x"}], "id")) == 2


def test_without_a_key_rows_stand_together_that_are_mostly_equal() -> None:
    assert told([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "2", "c": "4"}]) == [
        ({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2", "c": "4"})
    ]
    assert len(told([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "5", "c": "4"}])) == 2


def test_a_row_that_nobody_expects_is_shown_with_the_columns_that_are_compared() -> None:
    (difference,) = differences([{"a": "1"}], [{"a": "1", "b": "1"}, {"a": "2", "b": "2"}])
    assert difference == RowDifference(of="table", expected=None, found={"a": "2"})


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ("1 2", "bigint"),
        ("1 2.5", "double"),
        ("1 x", "string"),
        ("true False", "boolean"),
        ("2026-01-01", "date"),
        ("2026-01-01 2026-01-01T10:00:00Z", "timestamp"),
        ("123456789012345678901", "decimal(38,0)"),
        ("", "string"),
    ],
)
def test_a_plain_value_is_of_the_type_that_it_looks_like(values: str, type: str) -> None:
    assert looks_like(Word(text, True, Place("t")) for text in values.split()) == type


def test_quoted_numbers_are_texts_and_lists_and_maps_have_types_too() -> None:
    quoted: Value = Word("5", False, Place("t"))
    plain: Value = Word("5", True, Place("t"))
    assert looks_like([quoted, None]) == "string"
    assert looks_like([(plain, None), ()]) == "array<bigint>"
    assert looks_like([{"a": plain}, {"b": quoted}]) == "struct<`a`:bigint, `b`:string>"
