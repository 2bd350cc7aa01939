"""The properties of the model of `changes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.models.changes import KINDS, changes

COLUMNS = ["k", "t", "op", "v"]
LEDGER: dict[str, Any] = {"amounts": ["v"]}


def left(*given: Sequence[Any], columns: Sequence[str] = COLUMNS, **options: Any) -> list[tuple[Any, ...]]:
    rows = [dict(zip(columns, row, strict=True)) for row in given]
    table = changes(rows, columns=columns, **{"key": ["k"], "order_by": ["t"], "op": "op", **options})
    return sorted((tuple(row.values()) for row in table), key=str)


@pytest.mark.parametrize("op", [op for op, kind in KINDS.items() if kind in ("insert", "update")])
def test_each_insert_or_update_op_makes_its_row_current(op: str) -> None:
    assert left((1, 2, op, 7), (1, 1, "I", 5)) == [(1, 2, op, 7)]
    assert left((1, 2, op.lower(), 7)) == [(1, 2, op.lower(), 7)]


@pytest.mark.parametrize("op", ["D", "DELETE", "delete", "Delete"])
def test_each_delete_op_removes_the_current_row(op: str) -> None:
    assert left((1, 2, op, 7), (1, 1, "I", 5)) == []
    assert left((1, 2, op, 7), (1, 1, "I", 5), (1, 3, "U", 6)) == [(1, 3, "U", 6)]


@pytest.mark.parametrize("op", ["X", "", None, " I", "CORRECTION", "REVERSAL"])
def test_an_unknown_op_or_a_correction_without_amounts_does_nothing(op: str | None) -> None:
    assert left((1, 2, op, 7), (1, 1, "I", 5)) == [(1, 1, "I", 5)]


def test_rows_without_key_or_order_do_nothing() -> None:
    assert left((None, 1, "I", 5), (1, None, "I", 5), (None, None, "T", None), (2, 1, "I", 5)) == [(2, 1, "I", 5)]


def test_a_tie_is_won_by_a_delete_or_else_the_greatest_content() -> None:
    assert left((1, 1, "I", 5), (1, 1, "I", 6), (1, 1, "I", None)) == [(1, 1, "I", 6)]
    assert left((1, 1, "D", 5), (1, 1, "U", 6)) == []


@pytest.mark.parametrize("op", ["T", "TRUNCATE", "truncate"])
def test_a_truncate_deletes_all_earlier_keys_and_none_at_its_own_order(op: str) -> None:
    given = [(1, 1, "I", 1), (2, 2, "I", 2), (3, 3, "I", 3), (None, 2, op, None)]
    assert left(*given) == [(2, 2, "I", 2), (3, 3, "I", 3)]


def test_a_truncate_is_ordered_by_all_order_columns() -> None:
    columns = ["k", "t", "s", "op"]
    given = [(1, 1, 1, "I"), (2, 1, 2, "I"), (3, 1, 3, "I"), (None, 1, 2, "T")]
    assert left(*given, columns=columns, order_by=["t", "s"]) == [(2, 1, 2, "I"), (3, 1, 3, "I")]


def test_the_key_of_a_truncate_is_ignored() -> None:
    assert left((1, 1, "I", 1), (2, 1, "I", 2), (1, 2, "T", 9)) == []


# corrections and reversals


def test_a_correction_reverses_the_corrected_row() -> None:
    assert left((1, 1, "I", 5), (1, 2, "CORRECTION", 7), **LEDGER) == [
        (1, 1, "I", 5, "entry"),
        (1, 2, "CORRECTION", 7, "correction"),
        (1, 2, "I", -5, "reversal"),
    ]


def test_a_correction_without_a_row_is_an_insert() -> None:
    assert left((1, 2, "correction", 7), **LEDGER) == [(1, 2, "correction", 7, "correction")]


def test_a_correction_can_be_corrected() -> None:
    assert left((1, 1, "I", 5), (1, 2, "CORRECTION", 7), (1, 3, "CORRECTION", 8), **LEDGER) == [
        (1, 1, "I", 5, "entry"),
        (1, 2, "CORRECTION", 7, "correction"),
        (1, 2, "I", -5, "reversal"),
        (1, 3, "CORRECTION", -7, "reversal"),
        (1, 3, "CORRECTION", 8, "correction"),
    ]


def test_a_reversal_leaves_no_current_row() -> None:
    reversed_once = [(1, 1, "I", 5, "entry"), (1, 2, "I", -5, "reversal")]
    assert left((1, 1, "I", 5), (1, 2, "REVERSAL", 99), **LEDGER) == reversed_once
    assert left((1, 1, "I", 5), (1, 2, "REVERSAL", 99), (1, 3, "REVERSAL", 98), **LEDGER) == reversed_once


def test_a_reversal_without_a_row_does_nothing() -> None:
    assert left((1, 2, "REVERSAL", 5), **LEDGER) == []
    assert left((1, 2, "REVERSAL", 5), (1, 3, "I", 6), **LEDGER) == [(1, 3, "I", 6, "entry")]


def test_an_update_or_delete_replaces_only_the_current_row() -> None:
    stays = [(1, 1, "I", 5, "entry"), (1, 2, "I", -5, "reversal")]
    given = [(1, 1, "I", 5), (1, 2, "CORRECTION", 7)]
    assert left(*given, (1, 3, "D", None), **LEDGER) == stays
    assert left(*given, (None, 3, "T", None), **LEDGER) == stays
    assert left(*given, (1, 3, "U", 8), **LEDGER) == [*stays, (1, 3, "U", 8, "entry")]


def test_a_reversal_has_the_order_columns_of_its_cause_and_negated_amounts() -> None:
    columns = ["k", "t", "s", "op", "v", "w", "x"]
    found = left(
        (1, 1, 4, "I", 5, None, 3),
        (1, 2, None, "REVERSAL", 0, 0, 0),
        columns=columns,
        order_by=["t", "s"],
        amounts=["v", "w"],
    )
    assert found == [(1, 1, 4, "I", 5, None, 3, "entry"), (1, 2, None, "I", -5, None, 3, "reversal")]


def test_a_duplicate_correction_counts_once() -> None:
    once = left((1, 1, "I", 5), (1, 2, "CORRECTION", 7), **LEDGER)
    assert left((1, 1, "I", 5), *[(1, 2, "CORRECTION", 7)] * 2, **LEDGER) == once


@pytest.mark.parametrize("op", ["I", "C", "U"])
def test_a_correction_of_the_same_order_follows_its_row(op: str) -> None:
    assert len(left((1, 1, op, 5), (1, 1, "CORRECTION", 7), **LEDGER)) == 3


# moves of a key

MOVES: dict[str, Any] = {"columns": ["k", "was", "t", "op"], "previous_key": {"k": "was"}}


def test_a_row_with_another_previous_key_deletes_that_key() -> None:
    assert left((1, None, 1, "I"), (2, 1, 2, "U"), **MOVES) == [(2, 1, 2, "U")]
    assert left((1, None, 3, "I"), (2, 1, 2, "U"), **MOVES) == [(1, None, 3, "I"), (2, 1, 2, "U")]


def test_a_previous_key_that_is_the_key_deletes_nothing() -> None:
    assert left((1, 1, 1, "U"), **MOVES) == [(1, 1, 1, "U")]


@pytest.mark.parametrize("op", ["I", "U", "D"])
def test_a_row_of_any_kind_deletes_its_previous_key(op: str) -> None:
    assert [row for row in left((1, None, 1, "I"), (2, 1, 2, op), **MOVES) if row[0] == 1] == []


@pytest.mark.parametrize("row", [(None, 1, 2, "U"), (2, 1, 2, "X"), (2, 1, None, "U"), (2, 1, 2, "REVERSAL")])
def test_a_rejected_row_moves_no_key(row: tuple[Any, ...]) -> None:
    assert left((1, None, 1, "I"), row, **MOVES) == [(1, None, 1, "I")]


def test_a_move_deletes_before_the_rows_of_the_same_order() -> None:
    assert left((1, None, 2, "I"), (2, 1, 2, "U"), **MOVES) == [(1, None, 2, "I"), (2, 1, 2, "U")]


def test_a_chain_of_moves_at_one_order_keeps_every_row() -> None:
    given = [(1, None, 1, "I"), (2, None, 1, "I"), (2, 1, 2, "U"), (3, 2, 2, "U")]
    assert left(*given, **MOVES) == [(2, 1, 2, "U"), (3, 2, 2, "U")]


def test_a_move_in_a_wider_key_keeps_the_other_columns() -> None:
    options: dict[str, Any] = {"columns": ["h", "k", "was", "t", "op"], "key": ["h", "k"], "previous_key": {"k": "was"}}
    given = [(7, 1, None, 1, "I"), (8, 1, None, 1, "I"), (7, 2, 1, 2, "U")]
    assert left(*given, **options) == [(7, 2, 1, 2, "U"), (8, 1, None, 1, "I")]


def test_a_move_needs_only_the_changed_key_columns() -> None:
    options: dict[str, Any] = {"columns": ["h", "k", "was_h", "was_k", "t", "op"], "key": ["h", "k"]}
    given = [(7, 1, None, None, 1, "I"), (8, 1, 7, None, 2, "U")]
    assert left(*given, **options, previous_key={"h": "was_h", "k": "was_k"}) == [(8, 1, 7, None, 2, "U")]
