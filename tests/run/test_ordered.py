"""Ordered file names: listed from the last one on, and in full once a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pytest
from tests.run.lakes import Written

from lakesmith.lake import facts
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches
from lakesmith.ports import FileFact
from lakesmith.store import LocalStore
from lakesmith.store.skipped import Skip

pytestmark = pytest.mark.spark

ORDERED = 'source: {files: "landing/*/*.json", listing: ordered}\ncolumns: {id: bigint}\n'
Clock = Callable[[str], None]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock with a fixed day."""

    def set_day(day: str) -> None:
        monkeypatch.setattr(facts, "today", lambda: date.fromisoformat(day))

    set_day("2026-01-05")
    return set_day


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return the names after which listings of the landing zone started."""
    seen_starts: list[str | None] = []
    real = LocalStore.find

    def noting(
        self: LocalStore,
        pattern: str,
        known: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Skip | None = None,
    ) -> object:
        seen_starts.append(after)
        return real(self, pattern, known, after, on_skipped)

    monkeypatch.setattr(LocalStore, "find", noting)
    return seen_starts


def ids(written: Written) -> list[object]:
    return [row[0] for row in written.rows("SELECT id FROM bronze.orders ORDER BY id")]


def test_a_late_file_with_an_earlier_name_is_found_by_the_next_day_s_full_listing(
    written: Written, on: Clock, starts: list[str | None]
) -> None:
    written.declare({"bronze/orders.yml": ORDERED})
    written.land("day=2026-01-04/b.json", {"id": 1})
    written.run()
    written.land("day=2026-01-04/a.json", {"id": 2})
    assert written.run() == {}
    written.land("day=2026-01-05/a.json", {"id": 3})
    written.run()
    assert ids(written) == [1, 3]
    last = "landing/day=2026-01-04/b.json"
    # Twice if something was found.
    assert starts == [None, None, last, last, last]
    on("2026-01-06")
    assert written.run()["bronze.orders"].rows_written == 1
    assert ids(written) == [1, 2, 3]
    assert starts[5:] == [None]
    # From the late file on, because an interrupted run may have missed others; then from the last one.
    written.land("day=2026-01-06/a.json", {"id": 4})
    written.run()
    assert written.run() == {}
    late, last = "landing/day=2026-01-04/a.json", "landing/day=2026-01-06/a.json"
    assert (ids(written), starts[6:]) == ([1, 2, 3, 4], [late, late, last])


def test_a_postponed_file_is_retried_on_the_same_day(
    written: Written, on: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.declare({"bronze/orders.yml": ORDERED})
    written.land("day=1/a.json", {"id": 1})
    written.run()
    lost = written.land("day=1/b.json", {"id": 2})
    written.land("day=1/c.json", {"id": 3})
    aside = written.folder / "aside.json"
    pin = Batches.pin

    def pin_then_lose(batches: Batches, batch: Batch) -> Batch:
        if lost.exists():
            lost.rename(aside)
        return pin(batches, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "pin", pin_then_lose)
        written.run(ok=False)
    assert [error.code for error in written.reports[-1].errors] == ["file-gone"]
    assert ids(written) == [1, 3]
    aside.rename(lost)
    written.run()
    assert ids(written) == [1, 2, 3]


def test_a_rolled_back_table_ingests_its_files_again(written: Written, on: Clock) -> None:
    written.declare({"bronze/orders.yml": ORDERED})
    for number in (1, 2, 3):
        written.land(f"day={number}/a.json", {"id": number})
        written.run()
    table: Path = written.folder / ".lakesmith/warehouse/bronze/orders"
    written.spark.sql(f"RESTORE delta.`{table}` TO VERSION AS OF 0").collect()
    assert ids(written) == [1]
    written.run()
    assert ids(written) == [1, 2, 3]


def test_a_table_listed_in_full_continues_in_order_without_a_gap(
    written: Written, on: Clock, starts: list[str | None]
) -> None:
    written.declare({"bronze/orders.yml": ORDERED.replace(", listing: ordered", "")})
    written.land("day=2/a.json", {"id": 2})
    written.run()
    written.land("day=1/a.json", {"id": 1})
    written.declare({"bronze/orders.yml": ORDERED.replace("ordered", "ordered, max_files: 1, archive: _done")})
    written.land("day=3/a.json", {"id": 3})
    assert written.run()["bronze.orders"].reason == "1 new file, 10 B"
    assert ids(written) == [1, 2, 3]
    done = sorted(path.parent.name for path in written.folder.glob("landing/_done/*/*"))
    assert done == ["day=1", "day=2", "day=3"]
    starts.clear()
    assert written.run() == {}
    assert starts == ["landing/day=3/a.json"]
