"""Batches of maintenance and restores: the position always matches the rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.ledger.completed import NAME, START, done, facts

from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import EMPTY, Batches, version_left_by
from lakesmith.ledger.content import BatchContent, ChangedRows, FullBuild, NewFiles, RestoredVersion, VacuumFence
from lakesmith.plan.steps import Position, Rollback
from lakesmith.ports import MAINTENANCE_NOTE, CommitFact, FileFact
from lakesmith.store import LocalStore


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    return Batches(LocalStore(tmp_path), NAME)


def batch(sequence: int, content: BatchContent | None = None, *, parent: int | None = None) -> Batch:
    return Batch(
        sequence=sequence,
        attempt=0,
        parent=sequence - 1 if parent is None else parent,
        run_id=f"run-{sequence}",
        pinned_at=1,
        definition="d",
        content=content or NewFiles(files=(FileFact(f"f{sequence}", 1, 1),)),
        inputs={"bronze.orders": Position(table_id="t", version=sequence)},
    )


def finish(batches: Batches, made: Batch, version: int) -> Batch:
    pinned = batches.pin(made)
    batches.finish(done(pinned, version))
    return pinned


def commit(at: int, note: str | None = None, operation: str = "WRITE", **parameters: str) -> CommitFact:
    return CommitFact(
        version=at,
        committed_at=START + timedelta(minutes=at),
        operation=operation,
        parameters=parameters,
        metrics={},
        note=note,
    )


def unread_log() -> list[CommitFact]:
    raise AssertionError("the log was asked")


def test_a_vacuum_keeps_the_position_and_has_a_maintenance_note(batches: Batches) -> None:
    finish(batches, batch(1), 0)
    fence = replace(batch(2, VacuumFence()), inputs={"bronze.orders": Position(table_id="t", version=9)})
    assert finish(batches, fence, 1).note.startswith(MAINTENANCE_NOTE)
    progress = batches.progress(facts(1, 2, maintenance_commits=1), unread_log)
    assert (progress.head, progress.unfinished) == (2, None)
    assert set(progress.ingested) == {"f1"}
    assert progress.positions["bronze.orders"].version == 9
    assert batches.base_batch(2, unread_log) == 1


def test_maintenance_versions_are_not_searched_in_the_log(batches: Batches) -> None:
    finish(batches, batch(1), 0)
    assert batches.progress(facts(3, 1, maintenance_commits=3), unread_log).head == 1


def test_a_restored_table_has_its_earlier_position_and_marks_replaced_rows(batches: Batches) -> None:
    for number in (1, 2, 3):
        finish(batches, batch(number), number - 1)
    back = batch(4, RestoredVersion(rollback=Rollback(version=0, head=3)), parent=1)
    finish(batches, back, 3)
    progress = batches.progress(facts(3, 4), unread_log)
    assert set(progress.ingested) == {"f1"}
    assert progress.rewritten == 3
    finish(batches, batch(5, VacuumFence()), 4)
    assert batches.progress(facts(4, 5, maintenance_commits=1), unread_log).rewritten == 3
    assert set(batches.ancestors(5, unread_log)) == {5, 4, 1}
    finish(batches, batch(6), 5)
    after = batches.progress(facts(5, 6), unread_log)
    assert (set(after.ingested), after.rewritten) == ({"f1", "f6"}, None)


def test_the_newest_extract_is_correct_after_maintenance_and_a_rollback(batches: Batches) -> None:
    def extract(number: int, date: str) -> None:
        pinned = batches.pin(batch(number, ChangedRows()))
        batches.finish(replace(done(pinned, number - 1), newest_extract=date))

    extract(1, "monday")
    extract(2, "tuesday")
    finish(batches, batch(3, VacuumFence()), 2)
    assert batches.progress(facts(2, 3, maintenance_commits=1), unread_log).newest_extract == "tuesday"
    finish(batches, batch(4, RestoredVersion(rollback=Rollback(version=0, head=3)), parent=1), 3)
    assert batches.progress(facts(3, 4), unread_log).newest_extract == "monday"
    interrupted = batches.pin(batch(5, ChangedRows()))
    log = [commit(4, interrupted.note)]
    assert batches.progress(facts(4, 5), lambda: log).newest_extract is None


def test_a_restored_table_keeps_its_position_after_a_vacuum_until_new_rows(batches: Batches) -> None:
    made = [finish(batches, batch(number), number - 1) for number in (1, 2)]
    back = batch(3, RestoredVersion(rollback=Rollback(version=0, head=2)), parent=1)
    made.append(finish(batches, back, 2))
    made += [finish(batches, batch(number, VacuumFence()), number - 1) for number in (4, 5)]
    made.append(finish(batches, batch(6), 5))
    log = [commit(version, each.note) for version, each in enumerate(made)]
    now = {2: facts(2, 3), 3: facts(3, 4, maintenance_commits=1), 4: facts(4, 5, maintenance_commits=2), 5: facts(5, 6)}
    at = {newest: batches.has_rows_of(found, 0, lambda: log[::-1]) for newest, found in now.items()}
    assert at == {2: True, 3: True, 4: True, 5: False}
    assert not batches.has_rows_of(now[4], 1, lambda: log[::-1])


def test_a_vacuum_does_not_hide_a_rollback(batches: Batches) -> None:
    for number in range(1, 6):
        finish(batches, batch(number), number - 1)
    log = [commit(5, operation="RESTORE", version="2"), *(commit(version) for version in range(4, -1, -1))]
    rolled_back = batches.progress(facts(5, 5), lambda: log)
    assert (rolled_back.head, rolled_back.base_batch) == (3, 3)
    for number in (6, 7):  # also for two in sequence
        fence = finish(batches, batch(number, VacuumFence(), parent=rolled_back.base_batch), number)
        rolled_back = batches.progress(facts(number, number, maintenance_commits=number - 5), unread_log)
        assert (rolled_back.head, rolled_back.base_batch, fence.follows_rollback) == (number, 3, True)
        assert set(rolled_back.ingested) == {"f1", "f2", "f3"}
    after = finish(batches, batch(8, parent=rolled_back.base_batch), 8)
    assert after.follows_rollback
    progress = batches.progress(facts(8, 8), unread_log)
    assert (progress.base_batch, set(progress.ingested)) == (8, {"f1", "f2", "f3", "f8"})


def test_the_position_of_an_earlier_version_is_known(batches: Batches) -> None:
    for number in (1, 2, 3):
        finish(batches, batch(number), number * 2)
    commits = [commit(version) for version in range(7, -1, -1)]
    assert [batches.progress_at(version, 3, commits).head for version in (7, 6, 5, 3, 1)] == [3, 3, 2, 1, 0]


def test_a_table_can_be_restored_past_a_rebuild_and_a_foreign_restore_recomputes_it(batches: Batches) -> None:
    made = [finish(batches, batch(number), number - 1) for number in (1, 2)]
    made.append(finish(batches, batch(3, VacuumFence()), 2))
    made.append(finish(batches, batch(4, FullBuild(), parent=0), 3))
    made.append(finish(batches, batch(5), 4))
    log = [commit(version, each.note) for version, each in enumerate(made)][::-1]
    assert [batches.progress_at(version, 5, log).head for version in (4, 3, 2, 1, 0)] == [5, 4, 3, 2, 1]
    assert set(batches.progress_at(1, 5, log).ingested) == {"f1", "f2"}
    # The rebuild replaced the rejected rows of the first batches, and a foreign rollback does not restore them.
    rolled_back = [commit(5, operation="RESTORE", version="1"), *log]
    assert batches.progress(facts(5, 5), lambda: rolled_back).head == 0
    assert batches.progress_at(5, 5, rolled_back).head == 2


def test_a_later_pinned_batch_is_detected(batches: Batches) -> None:
    finish(batches, batch(1), 0)
    batches.pin(batch(2, VacuumFence()))
    batches.pin(batch(2))
    assert not batches.has_later_batch(2)
    batches.pin(batch(3))
    assert batches.has_later_batch(2)


def note(number: int) -> str:
    return f"lakesmith batch {number}.1 run r"


@pytest.mark.parametrize(
    ("own", "numbers", "version"),
    [
        ({1, 2}, [1, 2], None),
        ({1}, [1, 2], 0),
        ({1, 2}, [1, 2, None], None),
        ({1}, [1, None, 2, 3], 0),
        ({1, 4}, [1, 2, 4], None),
        ({1}, [2, 3], EMPTY),
        ({1}, [None, 2], 0),
        ({1}, [], None),
    ],
)
def test_the_quarantine_version_of_a_batch_is_its_last_commit(
    own: set[int], numbers: list[int | None], version: int | None
) -> None:
    commits = [commit(at, note(number) if number else None) for at, number in enumerate(numbers)]
    assert version_left_by(own, commits[::-1]) == version
