"""The rows of a batch from a database, computed without a connection."""

from __future__ import annotations

import pytest

from lakesmith.ports import Slice
from lakesmith.sources.jdbc import Kind, Watermark, literal, new_rows, partition_conditions

INSTANT = "2024-01-01 12:00:00.123456+00:00"


def test_a_plan_has_the_start_of_a_read_and_the_run_its_end() -> None:
    reached: dict[str, int | str] = {"watermark": INSTANT, "overlapping": 1}
    assert new_rows({}) == Slice(since={}, until={})
    assert new_rows(reached) == Slice(since=reached, until={})


def test_rows_without_a_watermark_belong_to_every_slice() -> None:
    mark = Watermark(column='"n"', kind="number")
    assert mark.condition("5", "9") == '("n" IS NULL OR (NOT "n" IS NULL AND "n" <= 9 AND "n" >= 5))'
    assert mark.condition("", "") == '"n" IS NULL'


def test_an_incomparable_value_is_treated_like_a_missing_one() -> None:
    mark = Watermark(column='"n"', kind="number", fits='abs("n") < 1e9')
    assert mark.newer("5") == 'NOT ("n" IS NULL OR NOT (abs("n") < 1e9)) AND "n" > 5'


@pytest.mark.parametrize(
    ("kind", "since", "overlap", "first"),
    [
        ("number", "100", 0.0, "100"),
        ("number", "100", 10.0, "90"),
        ("number", "12345678901234567890.5", 0.25, "12345678901234567890.25"),
        ("date", "2024-03-01", 1.0, "2024-02-29"),
        ("date", "2024-03-01", 86_400.0, "2024-02-29"),
        ("moment", "2024-01-01 00:00:00.123456", 60.0, "2023-12-31 23:59:00.123456"),
        ("instant", INSTANT, 0.5, "2024-01-01 11:59:59.623456+00:00"),
        ("text", "b'7", 0.0, "b'7"),
    ],
)
def test_an_overlap_has_the_unit_of_its_column(kind: Kind, since: str, overlap: float, first: str) -> None:
    assert Watermark(column="c", kind=kind, overlap=overlap).first_reread(since) == first


@pytest.mark.parametrize(
    ("kind", "value", "sql"),
    [
        ("number", "7", "7"),
        ("date", "2024-02-29", "{d '2024-02-29'}"),
        ("moment", "2024-01-01 12:00:00.12", "{ts '2024-01-01 12:00:00.120000'}"),
        ("instant", INSTANT, "CAST('2024-01-01 12:00:00.123456+00:00' AS TIMESTAMP WITH TIME ZONE)"),
        ("text", "it's", "'it''s'"),
    ],
)
def test_a_value_is_written_with_all_digits(kind: Kind, value: str, sql: str) -> None:
    assert literal(kind, value) == sql


def test_a_time_with_more_digits_than_stored_is_within_its_slice() -> None:
    mark = Watermark(column="c", kind="moment")
    assert "c < {ts '2024-01-01 12:00:00.123457'}" in mark.condition("", "2024-01-01 12:00:00.123456")
    assert mark.newer("2024-01-01 12:00:00.123456").endswith("c >= {ts '2024-01-01 12:00:00.123457'}")


def test_a_read_is_split_so_that_every_row_matches_one_condition() -> None:
    assert partition_conditions("c", "number", "0", "100", 4) == [
        "c < 25 OR c IS NULL",
        "c >= 25 AND c < 50",
        "c >= 50 AND c < 75",
        "c >= 75",
    ]
    assert partition_conditions("c", "date", "2024-01-01", "2024-01-03", 2) == [
        "c < {d '2024-01-02'} OR c IS NULL",
        "c >= {d '2024-01-02'}",
    ]


def test_a_column_with_one_value_is_not_split_into_overlapping_parts() -> None:
    assert partition_conditions("c", "number", "7", "7", 4) == ["c < 7 OR c IS NULL", "c >= 7"]
