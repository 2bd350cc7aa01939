"""Rows are compared as multisets; differences are reported by row."""

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


def test_a_duplicate_row_is_expected_twice() -> None:
    assert row_differences([{"a": "1"}], [{"a": "1"}, {"a": "1"}]) == [(None, {"a": "1"})]
    assert row_differences([{"a": "1"}, {"a": "1"}], [{"a": "1"}]) == [({"a": "1"}, None)]


def test_only_the_columns_that_a_row_names_are_compared() -> None:
    assert row_differences([{"a": "1"}], [{"a": "1", "b": "2"}]) == []


def test_a_row_with_fewer_columns_is_matched_after_one_with_more() -> None:
    found: list[Row] = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]
    assert row_differences([{"a": "1"}, {"a": "1", "b": "1"}], found) == []


def test_thousands_of_equal_rows_are_counted() -> None:
    row: Row = {"a": "1"}
    assert row_differences([row] * 3_001, [row] * 3_000) == [(row, None)]


def test_rows_are_matched_through_chains_of_alternatives() -> None:
    numbers = [str(number) for number in range(2_000)]
    found: list[Row] = [{"a": number, "b": str(int(number) + 1), "c": "1"} for number in numbers]
    by_left: list[Row] = [{"a": number} for number in numbers[1:]]
    assert row_differences([{"c": "1"}, *by_left], found) == []


@pytest.mark.parametrize("seed", range(40))
def test_the_maximum_number_of_rows_is_matched(seed: int) -> None:
    """Compared with a search over all assignments."""
    draw = random.Random(seed)
    found: list[Row] = [{name: draw.choice("12") for name in "abc"} for _ in range(5)]
    expected: list[Row] = [{name: draw.choice("12") for name in draw.sample("abc", 2)} for _ in range(5)]
    ways = itertools.permutations(found)
    best = max(sum(row.items() <= other.items() for row, other in zip(expected, way, strict=True)) for way in ways)
    assert sum(each.expected is not None for each in differences(expected, found)) == 5 - best


def test_interchangeable_rows_are_both_matched() -> None:
    found: list[Row] = [{"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "c": "2"}]
    assert row_differences([{"a": "1", "b": "1"}, {"a": "1", "c": "1"}], [*found]) != []
    assert row_differences([{"a": "1", "c": "2"}, {"b": "1", "a": "1"}, {"a": "1"}], [*found, {"a": "1"}]) == []


def test_rows_of_one_key_are_shown_together() -> None:
    assert row_differences([{"id": "1", "a": "x", "b": "y"}], [{"id": "1", "a": "p", "b": "q"}], "id") == [
        ({"id": "1", "a": "x", "b": "y"}, {"id": "1", "a": "p", "b": "q"})
    ]
    assert len(row_differences([{"id": "1", "a": "x"}], [{"id": "2", "a": "x"}], "id")) == 2


def test_without_a_key_similar_rows_are_shown_together() -> None:
    assert row_differences([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "2", "c": "4"}]) == [
        ({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2", "c": "4"})
    ]
    assert len(row_differences([{"a": "1", "b": "2", "c": "3"}], [{"a": "1", "b": "5", "c": "4"}])) == 2


def test_an_unexpected_row_is_shown_with_the_compared_columns() -> None:
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
def test_a_plain_value_has_its_inferred_type(values: str, type: str) -> None:
    assert infer_type(Word(text, True, Place("t")) for text in values.split()) == type


def test_quoted_numbers_are_texts_and_lists_and_maps_have_types_too() -> None:
    quoted: Value = Word("5", False, Place("t"))
    plain: Value = Word("5", True, Place("t"))
    assert infer_type([quoted, None]) == "string"
    assert infer_type([(plain, None), ()]) == "array<bigint>"
    assert infer_type([{"a": plain}, {"b": quoted}]) == "struct<`a`:bigint, `b`:string>"
