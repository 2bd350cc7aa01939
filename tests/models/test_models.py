"""Properties of the models over any history, and of the histories."""

from __future__ import annotations

import random
import re
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models.cases import KEY, LOADS, Load
from tests.models.changes import kind
from tests.models.differences import first_difference
from tests.models.histories import BATCHES, History, expected, histories, pack, some_histories
from tests.models.loads import KeyTwice, rejected
from tests.models.rows import Row

# A history needs many small draws, and the machine can be busy, so examples have no deadline.
brief = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LEDGERS = [load for load in LOADS.values() if "_entry" in load.adds]
INTERVALS = [load for load in LOADS.values() if "valid_from" in load.adds]
MINDS_REPEATS = {"append", "replace", "replace_partitions", "keyed"}
"""The loads for which a repeated row differs from a single one."""


def loads(*chosen: Load) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("load", chosen or LOADS.values(), ids=lambda load: load.name)


def bag(rows: list[Row]) -> Counter[Any]:
    return Counter(tuple(sorted(row.items())) for row in rows)


def given_rows(some: list[History]) -> list[Row]:
    return [row for batch in pack(some) for row in batch]


@loads()
@brief
@given(data=st.data())
def test_the_order_of_the_rows_does_not_matter(load: Load, data: st.DataObject) -> None:
    rows = given_rows(data.draw(some_histories(load)))
    shuffled = data.draw(st.permutations(rows))
    assert bag(load.model(shuffled)) == bag(load.model(rows))


@loads(*(load for load in LOADS.values() if load.name not in MINDS_REPEATS))
@brief
@given(data=st.data())
def test_repeated_rows_do_not_matter(load: Load, data: st.DataObject) -> None:
    rows = given_rows(data.draw(some_histories(load)))
    again = data.draw(st.lists(st.sampled_from(rows))) if rows else []
    assert bag(load.model(rows + again)) == bag(load.model(rows))


@loads()
def test_neither_order_nor_repeats_matter_over_many_histories(load: Load) -> None:
    rows = given_rows(histories(load, 2, 300))
    shuffled = rows if load.name in MINDS_REPEATS else rows * 2
    shuffled = random.Random(2).sample(shuffled, len(shuffled))
    assert bag(load.model(shuffled)) == bag(load.model(rows))


@loads(*(load for load in LOADS.values() if load.name in MINDS_REPEATS))
def test_repeated_rows_matter_for_other_loads(load: Load) -> None:
    rows = given_rows(histories(load, 1, 50, truncates=0))
    if load.name == "keyed":
        with pytest.raises(KeyTwice):
            load.model(rows * 2)
    else:
        assert bag(load.model(rows * 2)) != bag(load.model(rows))


@loads(*LEDGERS)
def test_the_sum_of_a_key_in_a_ledger_is_the_amount_of_its_current_row(load: Load) -> None:
    """Each stored row has one reversal, except the current row, if there is one."""
    sums: dict[Any, Decimal] = {}
    unreversed: dict[Any, Counter[Decimal]] = {}
    for row in load.model(given_rows(histories(load, 5, 300))):
        at, amount = (row["history"], row["id"]), row["amount"] or Decimal(0)
        sums[at] = sums.get(at, Decimal(0)) + amount
        left = unreversed.setdefault(at, Counter())
        if row["_entry"] == "reversal":
            left[-amount] -= 1
        else:
            left[amount] += 1
    for at, left in unreversed.items():
        current = [amount for amount, times in left.items() if times]
        assert [left[amount] for amount in current] in ([], [1])
        assert sums[at] == sum(current)


@loads(*LEDGERS)
@brief
@given(data=st.data())
def test_repeated_rows_do_not_change_the_sums(load: Load, data: st.DataObject) -> None:
    rows = given_rows(data.draw(some_histories(load)))

    def total(rows: list[Row]) -> Decimal:
        return sum((row["amount"] or Decimal(0) for row in load.model(rows)), Decimal(0))

    assert total(rows * 2) == total(rows)


@loads(*INTERVALS)
@brief
@given(data=st.data())
def test_intervals_do_not_overlap_and_only_the_last_is_open(load: Load, data: st.DataObject) -> None:
    table = load.model(given_rows(data.draw(some_histories(load))))
    by_key: dict[Any, list[Row]] = {}
    for row in table:
        by_key.setdefault(tuple(row[column] for column in KEY), []).append(row)
    for mine in by_key.values():
        mine.sort(key=lambda row: row["valid_from"])
        for row, after in pairwise(mine):
            assert row["valid_from"] < row["valid_to"] <= after["valid_from"]
        assert all(row["is_current"] == (row["valid_to"] is None) for row in mine)


@loads(*INTERVALS)
@brief
@given(data=st.data())
def test_the_current_rows_of_scd2_are_those_of_merge(load: Load, data: st.DataObject) -> None:
    some = data.draw(some_histories(load))
    twin = LOADS["snapshot_merge" if "taken" in load.columns else "merge_delete"]
    rows = [row for row in given_rows(some) if "taken" in row or row["at"] is not None]
    current = [{c: row[c] for c in load.columns} for row in load.model(rows) if row["is_current"]]
    assert bag(current) == bag(twin.model(rows))


@brief
@given(some_histories(LOADS["snapshot_merge"]))
def test_snapshot_into_merge_has_the_keys_and_rows_of_the_newest_extract(some: list[History]) -> None:
    rows = [row for row in given_rows(some) if None not in (row["id"], row["taken"])]
    newest = [row for row in rows if row["taken"] == max(row["taken"] for row in rows)]
    table = LOADS["snapshot_merge"].model(given_rows(some))
    assert {(row["history"], row["id"]) for row in table} == {(row["history"], row["id"]) for row in newest}
    taken = {row["taken"] for row in newest}
    assert all({**row, "taken": at} in newest for row in table for at in taken)


@brief
@given(some_histories(LOADS["snapshot_merge"]))
def test_no_extract_is_rejected_without_a_limit(some: list[History]) -> None:
    load = LOADS["snapshot_merge"]
    assert rejected(given_rows(some), columns=list(load.columns), key=KEY, taken="taken", max_shrink="1") == []


# the histories


@loads()
def test_the_same_seed_gives_the_same_histories(load: Load) -> None:
    assert histories(load, 7, 20) == histories(load, 7, 20)
    assert histories(load, 7, 20) != histories(load, 8, 20)


@loads()
def test_histories_have_all_their_properties(load: Load) -> None:
    some = histories(load, 1, 300)
    counts = {len(history.batches) for history in some}
    assert counts == set(range(1, BATCHES + 1))
    assert any(not batch for history in some for batch in history.batches)
    repeats = [h for h in some if any(b and h.batches.count(b) > 1 for b in h.batches)]
    assert bool(repeats) == load.repeats
    rows = given_rows(some)
    assert all(list(row) == list(load.columns) for row in rows)
    assert any(row["id"] is None for row in rows)
    for column in load.columns:
        assert len({row[column] for row in rows}) > 1, column
    truncates = [row for row in rows if "op" in row and kind(row, "op", ()) == "truncate"]
    assert len(truncates) >= 2 if load.truncates else not truncates


@loads()
def test_every_prefix_of_batches_has_a_table(load: Load) -> None:
    some = histories(load, 1, 100)
    tables = [expected(load, some, upto) for upto in range(len(pack(some)))]
    assert all(list(row) == load.table_columns for table in tables for row in table)
    assert all(tables)


@loads()
def test_the_first_history_that_differs_is_reported(load: Load) -> None:
    some = histories(load, 3, 40)
    last = len(pack(some)) - 1
    table = expected(load, some, last)
    random.Random(0).shuffle(table)
    assert first_difference(load, some, last, [{**row, "_hidden": 1} for row in table]) is None
    ids = sorted({row["history"] for row in table})
    broken = [row for row in table if row["history"] not in (ids[1], ids[3])]
    difference = first_difference(load, some, last, broken)
    assert difference is not None
    assert difference.splitlines()[0] == f"{load.name}: 2 of 40 histories differ after batch {last}; history {ids[1]}:"
    assert re.search("0 not [1-9]: ", difference)
    assert "unknown histories: [None]" in str(
        first_difference(load, some, last, [*table, {**table[0], "history": None}])
    )


def test_a_moment_without_a_zone_is_utc() -> None:
    load = LOADS["scd2"]
    some = histories(load, 3, 10)
    table = [{**row, "at": row["at"].replace(tzinfo=None)} for row in expected(load, some, 4)]
    assert first_difference(load, some, 4, table) is None
