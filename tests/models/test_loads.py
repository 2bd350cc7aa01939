"""The properties of the models of all loads except `changes`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.models.loads import KeyTwice, append, dedup, keyed, merge, rejected, scd2, snapshot
from tests.models.rows import Row

KTV = ["k", "t", "v"]
MERGE: dict[str, Any] = {"columns": KTV, "key": ["k"], "order_by": ["t"]}
SCD2 = {**MERGE, "delete": lambda row: None if row["v"] is None else row["v"] == "D"}
SNAPSHOT: dict[str, Any] = {"columns": KTV, "key": ["k"], "taken": "t"}
MINUTE = timedelta(minutes=1)


def rows(*given: Sequence[Any], columns: Sequence[str] = KTV) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row in given]


def cells(table: Sequence[Row], *columns: str) -> list[tuple[Any, ...]]:
    """Return the table as sorted tuples."""
    return sorted((tuple(row[column] for column in columns or row) for row in table), key=str)


def moment(hour: int, minute: int, second: float = 0, year: int = 2026) -> datetime:
    return datetime(year, 1, 1, hour, minute, tzinfo=UTC) + timedelta(seconds=second)


# append


def test_append_keeps_duplicate_rows() -> None:
    given = rows((1, 1, "a"), (1, 1, "a"), (None, None, None))
    assert cells(append(given)) == cells(given)


def first(*given: Sequence[Any], within: timedelta | None = None) -> list[tuple[Any, ...]]:
    return cells(dedup(rows(*given), columns=KTV, key=["k"], by="t", within=within))


def test_dedup_keeps_the_first_row_of_a_key_and_the_least_of_a_tie() -> None:
    assert first((1, 5, "a"), (1, 3, "c"), (1, 3, "b"), (2, 9, "x")) == [(1, 3, "b"), (2, 9, "x")]


def test_dedup_compares_the_time_before_the_other_columns() -> None:
    columns = ["k", "v", "t"]
    given = rows((1, "a", 2), (1, "b", 1), columns=columns)
    assert cells(dedup(given, columns=columns, key=["k"], by="t")) == [(1, "b", 1)]


def test_dedup_sorts_a_missing_time_first() -> None:
    assert first((1, 5, "a"), (1, None, "z")) == [(1, None, "z")]


def test_dedup_ignores_rows_without_a_key() -> None:
    assert first((None, 5, "a")) == []


def test_dedup_within_keeps_one_row_for_each_aligned_window() -> None:
    a, b, c = (1, moment(9, 59, 59), "a"), (1, moment(10, 0), "b"), (1, moment(10, 59, 59.999999), "c")
    assert first(a, b, c, within=60 * MINUTE) == cells(rows(a, b))


def test_dedup_within_aligns_windows_of_any_length_to_1970() -> None:
    # 2026-01-01 is day 20454 since 1970, a multiple of 7: a week window starts there, on a Thursday.
    assert first((1, moment(0, 0, -1), "a"), (1, moment(0, 0), "b"), within=timedelta(days=7)) == [
        (1, moment(0, 0, -1), "a"),
        (1, moment(0, 0), "b"),
    ]


def test_dedup_within_floors_before_1970_too() -> None:
    early, start = moment(0, 0, -1, year=1970), moment(0, 0, year=1970)
    assert len(first((1, early, "a"), (1, start, "b"), within=60 * MINUTE)) == 2
    assert len(first((1, early - 59 * MINUTE, "a"), (1, early, "b"), within=60 * MINUTE)) == 1


def test_dedup_within_gives_a_missing_time_its_own_window() -> None:
    assert len(first((1, None, "a"), (1, None, "b"), (1, moment(0, 0, year=1970), "c"), within=60 * MINUTE)) == 2


# merge


def test_keyed_accepts_one_row_for_each_key() -> None:
    assert cells(keyed(rows((1, 1, "a"), (2, 1, "b"), (None, 1, "c"), (None, 1, "d")), key=["k"])) == [
        (1, 1, "a"),
        (2, 1, "b"),
    ]


@pytest.mark.parametrize("other", [(1, 2, "b"), (1, 1, "a")])
def test_keyed_rejects_a_second_row_of_a_key_even_an_equal_one(other: tuple[Any, ...]) -> None:
    with pytest.raises(KeyTwice):
        keyed(rows((1, 1, "a"), other), key=["k"])


def merged(*given: Sequence[Any], **options: Any) -> list[tuple[Any, ...]]:
    return cells(merge(rows(*given), **{**SCD2, **options}))


def test_merge_keeps_the_greatest_row_by_order_then_content() -> None:
    assert merged((1, 2, "a"), (1, 3, "b"), (1, 3, "c"), (1, None, "z"), (2, None, "y")) == [
        (1, 3, "c"),
        (2, None, "y"),
    ]


def test_merge_sorts_null_content_first_and_text_by_code_point() -> None:
    assert merged((1, 1, None), (1, 1, "")) == [(1, 1, "")]
    assert merged((1, 1, "～"), (1, 1, "😀")) == [(1, 1, "😀")]
    assert merged((1, 1, "a"), (1, 1, "B")) == [(1, 1, "a")]


def test_merge_compares_order_columns_in_order() -> None:
    columns = ["k", "t", "s", "v"]
    given = rows((1, 2, 1, "a"), (1, 1, 9, "b"), (1, 2, None, "c"), columns=columns)
    assert cells(merge(given, columns=columns, key=["k"], order_by=["t", "s"])) == [(1, 2, 1, "a")]


def test_merge_compares_the_order_before_the_other_columns() -> None:
    columns = ["k", "v", "t"]
    given = rows((1, "b", 1), (1, "a", 2), columns=columns)
    assert cells(merge(given, columns=columns, key=["k"], order_by=["t"])) == [(1, "a", 2)]


def test_merge_ignores_rows_without_a_key() -> None:
    assert merged((None, 1, "a")) == []


def test_older_rows_do_not_restore_a_deleted_key() -> None:
    assert merged((1, 2, "D"), (1, 1, "a")) == []
    assert merged((1, 2, "D"), (1, 1, "a"), (1, 3, "b")) == [(1, 3, "b")]


def test_a_delete_wins_over_a_row_of_the_same_order() -> None:
    assert merged((1, 2, "D"), (1, 2, "zzz")) == []


def test_a_condition_that_is_null_deletes_nothing() -> None:
    assert merged((1, 2, None)) == [(1, 2, None)]


def test_a_soft_delete_stores_the_row_with_a_mark() -> None:
    assert merged((1, 2, "D"), (1, 1, "a"), (2, 1, None), soft_delete="gone") == [
        (1, 2, "D", True),
        (2, 1, None, False),
    ]


KTVW = ["k", "t", "v", "w"]


def updated(*given: Sequence[Any]) -> list[tuple[Any, ...]]:
    options = {**SCD2, "columns": KTVW, "update": ["v"]}
    return cells(merge(rows(*given, columns=KTVW), **options))


def test_update_uses_named_columns_of_the_last_row_and_others_of_the_first() -> None:
    assert updated((1, 2, "b", "second"), (1, 1, "a", "first"), (1, 3, "c", "third")) == [(1, 3, "c", "first")]
    assert updated((1, 1, "a", "x"), (1, 1, "b", "w")) == [(1, 1, "b", "x")]


def test_update_ignores_rows_before_the_last_delete() -> None:
    given = [(1, 1, "a", "first"), (1, 2, "D", "gone"), (1, 3, "b", "again"), (1, 4, "c", "later")]
    assert updated(*given) == [(1, 4, "c", "again")]
    assert updated(*given, (1, 5, "D", "gone")) == []
    assert updated(*given, (1, 3, "D", "gone")) == [(1, 4, "c", "later")]


# scd2

HISTORY = ("k", "v", "valid_from", "valid_to", "is_current")


def intervals(*given: Sequence[Any], **options: Any) -> list[tuple[Any, ...]]:
    return cells(scd2(rows(*given), **{**SCD2, **options}), *HISTORY)


def test_scd2_opens_an_interval_for_each_change_and_closes_the_previous_one() -> None:
    assert intervals((1, 3, "b"), (1, 1, "a"), (2, 7, "a")) == [
        (1, "a", 1, 3, False),
        (1, "b", 3, None, True),
        (2, "a", 7, None, True),
    ]


def test_scd2_continues_an_interval_without_changes_and_null_equals_null() -> None:
    assert intervals((1, 1, None), (1, 2, None), (1, 3, "a")) == [(1, "a", 3, None, True), (1, None, 1, 3, False)]


def test_scd2_splits_an_interval_at_a_late_row() -> None:
    assert intervals((1, 1, "a"), (1, 3, "a"), (1, 2, "b")) == [
        (1, "a", 1, 2, False),
        (1, "a", 3, None, True),
        (1, "b", 2, 3, False),
    ]


def test_scd2_uses_the_greatest_row_of_a_time() -> None:
    assert intervals((1, 1, "a"), (1, 1, "b"), (1, 1, None)) == [(1, "b", 1, None, True)]
    assert intervals((1, 1, "a"), (1, 1, "D")) == []


def test_scd2_breaks_ties_of_time_by_the_other_order_columns() -> None:
    columns = ["k", "t", "s", "v"]
    given = rows((1, 1, 2, "a"), (1, 1, 1, "b"), (1, 2, 0, "a"), columns=columns)
    found = scd2(given, columns=columns, key=["k"], order_by=["t", "s"])
    assert cells(found) == [(1, 2, 0, "a", 1, None, True)]


def test_scd2_closes_an_interval_at_a_delete_and_opens_one_after() -> None:
    assert intervals((1, 1, "a"), (1, 2, "D"), (1, 3, "D"), (1, 4, "a")) == [
        (1, "a", 1, 2, False),
        (1, "a", 4, None, True),
    ]
    assert intervals((1, 1, "D")) == []


def test_scd2_ignores_rows_without_key_or_time() -> None:
    assert intervals((None, 1, "a"), (1, None, "a")) == []


@pytest.mark.parametrize("options", [{"track": ["v"]}, {"ignore": ["w"]}])
def test_scd2_keeps_the_last_values_of_untracked_columns(options: dict[str, Any]) -> None:
    given = rows((1, 1, "a", "x"), (1, 2, "a", "y"), (1, 3, "b", "z"), columns=KTVW)
    assert cells(scd2(given, **{**SCD2, "columns": KTVW, **options})) == [
        (1, 2, "a", "y", 1, 3, False),
        (1, 3, "b", "z", 3, None, True),
    ]


def test_scd2_tracks_all_columns_except_key_and_order_by_default() -> None:
    given = rows((1, 1, "a", "x"), (1, 2, "a", "y"), columns=KTVW)
    assert len(scd2(given, **{**SCD2, "columns": KTVW})) == 2


# snapshot

EXTRACTS = [(1, 10, "a"), (2, 10, "b"), (1, 20, "a"), (3, 20, "c"), (1, 30, "x"), (2, 30, "b")]


def test_snapshot_compares_only_the_columns_of_the_table() -> None:
    given = [{**row, "came": number} for number, row in enumerate(rows((1, 10, "a"), (1, 20, "a")))]
    assert cells(snapshot(given, into="merge", **SNAPSHOT), *KTV) == [(1, 10, "a")]


def test_snapshot_into_merge_has_the_newest_extract() -> None:
    assert cells(snapshot(rows(*EXTRACTS), into="merge", **SNAPSHOT)) == [(1, 30, "x"), (2, 30, "b")]


def test_snapshot_into_scd2_closes_a_missing_key_at_the_next_extract() -> None:
    assert cells(snapshot(rows(*EXTRACTS), into="scd2", **SNAPSHOT), *HISTORY) == [
        (1, "a", 10, 30, False),
        (1, "x", 30, None, True),
        (2, "b", 10, 20, False),
        (2, "b", 30, None, True),
        (3, "c", 20, 30, False),
    ]


def test_snapshot_into_scd2_tracks_the_declared_columns() -> None:
    given = rows((1, 10, "a", "x"), (1, 20, "b", "x"), columns=KTVW)
    options = {**SNAPSHOT, "columns": KTVW, "into": "scd2"}
    assert cells(snapshot(given, **options, ignore=["v"])) == [(1, 20, "b", "x", 10, None, True)]
    assert len(snapshot(given, **options, track=["v"])) == 2


def test_snapshot_uses_the_greatest_row_of_a_key() -> None:
    assert cells(snapshot(rows((1, 1, "a"), (1, 1, "b"), (1, 1, None)), into="merge", **SNAPSHOT)) == [(1, 1, "b")]


def test_rows_without_key_or_time_are_not_an_extract() -> None:
    assert cells(snapshot(rows((1, 1, "a"), (None, 2, "b"), (2, None, "c")), into="merge", **SNAPSHOT)) == [(1, 1, "a")]


def shrunk(limit: str, *sizes: int) -> list[Any]:
    """Return the numbers of the rejected extracts of these sizes. Each key occurs twice."""
    given = rows(*((k, t, v) for t, size in enumerate(sizes) for k in range(size) for v in "ab"))
    return rejected(given, max_shrink=limit, **SNAPSHOT)


def test_an_extract_that_shrank_beyond_the_limit_is_rejected() -> None:
    assert shrunk("0.2", 10, 8) == []
    assert shrunk("0.2", 10, 7) == [1]
    assert shrunk("0.2", 10, 20, 15) == [2]


def test_the_limit_is_exact() -> None:
    assert shrunk("0.7", 10, 3) == []
    assert 3 < (1 - 0.7) * 10, "or the limit could be a float"


def test_the_next_extract_is_not_compared_with_a_rejected_one() -> None:
    assert shrunk("0.2", 10, 7, 7, 8, 7) == [1, 2]
