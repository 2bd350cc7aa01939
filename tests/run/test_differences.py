"""Rows are compared as multisets; what differs is told row by row."""

from __future__ import annotations

import itertools
import random

import pytest

from lakesmith.declare.tests import Value, Word
from lakesmith.errors import Place
from lakesmith.reports import RowDifference
from lakesmith.run.unit_tests.differences import differences
from lakesmith.run.unit_tests.infer_types import infer_type

Row = dict[str, str | None]


def row_differences(expected: list[Row], found: list[Row], *key: str) -> list[tuple[Row | None, Row | None]]:
    return [(each.expected, each.found) for each in differences(expected, found, key)]


def test_the_order_of_rows_does_not_matter() -> None:
    assert row_differences([{"a": "1"}, {"a": None}], [{"a": None}, {"a": "1"}]) == []


def test_a_row_that_comes_twice_is_expected_twice() -> None:
    assert row_differences([{"a": "1"}], [{"a": "1"}, {"a": "1"}]) == [(None, {"a": "1"})]
    assert row_differences([{"a": "1"}, {"a": "1"}], [{"a": "1"}]) == [({"a": "1"}, None)]


def test_only_the_columns_that_a_row_names_are_compared() -> None:
    assert row_differences([{"a": "1"}], [{"a": "1", "b": "2"}]) == []


def test_a_row_that_says_less_gives_way_to_one_that_says_more() -> None:
    found: list[Row] = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]
    assert row_differences([{"a": "1"}, {"a": "1", "b": "1"}], found) == []


def test_thousands_of_rows_that_are_alike_are_counted() -> None:
    row: Row = {"a": "1"}
    assert row_differences([row] * 3_001, [row] * 3_000) == [(row, None)]


def test_a_row_moves_on_through_rows_that_give_way_to_each_other() -> None:
    numbers = [str(number) for number in range(2_000)]
    found: list[Row] = [{"a": number, "b": str(int(number) + 1), "c": "1"} for number in numbers]
    by_left: list[Row] = [{"a": number} for number in numbers[1:]]
    assert row_differences([{"c": "1"}, *by_left], found) == []


@pytest.mark.parametrize("seed", range(40))
def test_as_many_rows_are_placed_as_can_be(seed: int) -> None:
    """Counted by trying every way to place them."""
    draw = random.Random(seed)
    found: list[Row] = [{name: draw.choice("12") for name in "abc"} for _ in range(5)]
    expected: list[Row] = [{name: draw.choice("12") for name in draw.sample("abc", 2)} for _ in range(5)]
    ways = itertools.permutations(found)
    best = max(sum(row.items() <= other.items() for row, other in zip(expected, way, strict=True)) for way in ways)
    assert sum(each.expected is not None for each in differences(expected, found)) == 5 - best


def test_rows_that_could_take_each_other_s_place_are_both_placed() -> None:
    found: list[Row] = [{"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "c": "2"}]
    assert row_differences([{"a": "1", "b": "1"}, {"a": "1", "c": "1"}], [*found]) != []
    assert row_differences([{"a": "1", "c": "2"}, {"b": "1", "a": "1"}, {"a": "1"}], [*found, {"a": "1"}]) == []


def test_rows_of_one_key_stand_together_however_they_differ() -> None:
    assert row_differences([{"id": "1", "a": "x", "b": "y"}], [{"id": "1", "a": "p", "b": "q"}], "id") == [
        ({"id": "1", "a": "x", "b": "y"}, {"id": "1", "a": "p", "b": "q"})
    ]
    assert len(row_differences([{"id": "1", "a": "x"}], [{"id": "2", "a": "x"}], "id")) == 2


def test_without_a_key_rows_stand_together_that_are_mostly_equal() -> None:
    assert row_differences([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "2", "c": "4"}]) == [
        ({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2", "c": "4"})
    ]
    assert len(row_differences([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "5", "c": "4"}])) == 2


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
    assert infer_type(Word(text, True, Place("t")) for text in values.split()) == type


def test_quoted_numbers_are_texts_and_lists_and_maps_have_types_too() -> None:
    quoted: Value = Word("5", False, Place("t"))
    plain: Value = Word("5", True, Place("t"))
    assert infer_type([quoted, None]) == "string"
    assert infer_type([(plain, None), ()]) == "array<bigint>"
    assert infer_type([{"a": plain}, {"b": quoted}]) == "struct<`a`:bigint, `b`:string>"
