"""Pinned batches and the position of a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.formats.test_shared_store import SharedStore
from tests.ledger.completed import NAME, START, done, facts

from lakesmith.errors import DataError
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import SUMMARY_INTERVAL, Batches
from lakesmith.ledger.content import ChangedRows, NewFiles
from lakesmith.ledger.held import HeldBatches
from lakesmith.plan.steps import ListingBookmark, Position, Progress
from lakesmith.ports import CommitFact, FileFact
from lakesmith.store import LocalStore


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    return Batches(LocalStore(tmp_path), NAME)


def batch(sequence: int, *, parent: int | None = None, files: tuple[FileFact, ...] = (), version: int = 0) -> Batch:
    return Batch(
        sequence=sequence,
        attempt=0,
        parent=sequence - 1 if parent is None else parent,
        run_id=f"run-{sequence}",
        pinned_at=1,
        definition="d",
        content=NewFiles(files=files) if files else ChangedRows(),
        inputs={"bronze.orders": Position(table_id="t", version=version)},
    )


def commit(at: int, operation: str, note: str | None = None, **parameters: str) -> CommitFact:
    return CommitFact(
        version=at,
        committed_at=START + timedelta(minutes=at),
        operation=operation,
        parameters=parameters,
        metrics={},
        note=note,
    )


def test_a_new_table_has_no_progress(batches: Batches) -> None:
    assert batches.progress(None, lambda: ()).head == 0


def test_attempts_at_a_batch_are_numbered(batches: Batches) -> None:
    assert [batches.pin(batch(7)).attempt for _ in range(3)] == [1, 2, 3]


def test_a_finished_batch_is_the_head_with_its_positions(batches: Batches) -> None:
    pinned = batches.pin(batch(1, version=5))
    batches.finish(done(pinned, version=0))
    progress = batches.progress(facts(0, 1), lambda: ())
    assert (progress.head, progress.unfinished) == (1, None)
    assert progress.positions == {"bronze.orders": Position(table_id="t", version=5)}


def test_a_committed_batch_without_a_completion_record_is_unfinished(batches: Batches) -> None:
    batches.pin(batch(1))
    assert batches.progress(facts(0, 1), lambda: ()).unfinished == 1


def test_a_pinned_batch_that_was_never_committed_does_not_count(batches: Batches) -> None:
    first = batches.pin(batch(1, version=1))
    batches.finish(done(first, 0))
    batches.pin(batch(2, version=9))
    assert batches.progress(facts(0, 1), lambda: ()).positions["bronze.orders"].version == 1


def test_the_attempt_in_the_log_counts(batches: Batches) -> None:
    batches.pin(batch(1, version=1))
    second = batches.pin(batch(1, version=2))
    commits = [commit(0, "WRITE", second.note)]
    assert batches.progress(facts(0, 1), lambda: commits).positions["bronze.orders"].version == 2


def test_the_files_of_all_batches_up_to_the_head_are_ingested(batches: Batches) -> None:
    for number in (1, 2, 3):
        pinned = batches.pin(batch(number, files=(FileFact(f"f{number}", 1, 1),)))
        batches.finish(done(pinned, number - 1))
    assert set(batches.progress(facts(2, 3), lambda: ()).ingested) == {"f1", "f2", "f3"}


def test_after_a_rollback_the_position_matches_the_rows(
    batches: Batches,
) -> None:
    for number in (1, 2, 3):
        pinned = batches.pin(batch(number, version=number * 10, files=(FileFact(f"f{number}", 1, 1),)))
        batches.finish(done(pinned, number - 1))
    commits = [commit(3, "RESTORE", version="0"), *(commit(v, "WRITE") for v in (2, 1, 0))]
    progress = batches.progress(facts(3, 3), lambda: commits)
    assert progress.head == 1
    assert progress.positions["bronze.orders"].version == 10
    assert set(progress.ingested) == {"f1"}


def test_a_rollback_past_an_interrupted_batch_is_detected_before_completing_it(batches: Batches) -> None:
    for number in (1, 2):
        pinned = batches.pin(batch(number, files=(FileFact(f"f{number}", 1, 1),)))
        batches.finish(done(pinned, number - 1))
    interrupted = batches.pin(batch(3, files=(FileFact("f3", 1, 1),)))
    log = [
        commit(3, "RESTORE", version="0"),
        commit(2, "WRITE", interrupted.note),
        commit(1, "WRITE"),
        commit(0, "WRITE"),
    ]
    progress = batches.progress(facts(3, 3), lambda: log)
    assert (progress.head, progress.unfinished, set(progress.ingested)) == (1, 3, {"f1"})


def test_the_definition_of_an_interrupted_batch_is_known_after_a_rollback(batches: Batches) -> None:
    batches.finish(done(batches.pin(replace(batch(1), definition="old")), 0))
    interrupted = batches.pin(replace(batch(2), definition="new"))
    log = [commit(2, "RESTORE", version="0"), commit(1, "WRITE", interrupted.note), commit(0, "WRITE")]
    progress = batches.progress(facts(2, 2), lambda: log)
    assert (progress.definition, progress.unfinished_definition) == ("old", "new")


def test_a_batch_follows_a_rollback_if_its_parent_is_not_the_previous_batch(batches: Batches) -> None:
    assert batch(5, parent=2).follows_rollback
    assert not batch(5, parent=4).follows_rollback
    assert not batch(5, parent=0).follows_rollback


@pytest.mark.parametrize("text", ["{broken", "{}", "[]"])
def test_a_corrupt_held_batch_is_an_error_with_a_next_step(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "_lakesmith/held/silver.orders"
    folder.mkdir(parents=True)
    (folder / "batch.json").write_text(text)
    with pytest.raises(DataError) as caught:
        HeldBatches(LocalStore(tmp_path)).get("silver.orders")
    assert (caught.value.code, caught.value.table) == ("batch-unreadable", "silver.orders")
    assert caught.value.hint


def test_batches_after_a_rollback_continue_the_restored_one(batches: Batches) -> None:
    for number in (1, 2):
        pinned = batches.pin(batch(number, files=(FileFact(f"f{number}", 1, 1),)))
        batches.finish(done(pinned, number - 1))
    again = batches.pin(batch(3, parent=1, files=(FileFact("f2", 1, 2),)))
    batches.finish(done(again, 3))
    taken = batches.progress(facts(3, 3), lambda: ()).ingested
    assert {path: file.modified for path, file in taken.items()} == {"f1": 1, "f2": 2}


def test_a_rollback_to_a_time_finds_the_version_of_that_time(batches: Batches) -> None:
    for number in (1, 2):
        batches.finish(done(batches.pin(batch(number)), number - 1))
    when = f"{START + timedelta(seconds=30):%Y-%m-%d %H:%M:%S}"  # as Delta records the text of the user
    commits = [commit(2, "RESTORE", timestamp=when), commit(1, "WRITE"), commit(0, "WRITE")]
    assert batches.progress(facts(2, 2), lambda: commits).head == 1


def test_maintenance_by_others_does_not_move_the_position(batches: Batches) -> None:
    for number in (1, 2):
        batches.finish(done(batches.pin(batch(number)), number - 1))
    commits = [commit(2, "OPTIMIZE"), commit(1, "WRITE"), commit(0, "WRITE")]
    assert batches.progress(facts(2, 2), lambda: commits).head == 2


def test_the_position_survives_a_log_cleanup(batches: Batches) -> None:
    for number in (1, 2):
        batches.finish(done(batches.pin(batch(number, version=number)), number - 1))
    only_newest = [commit(40, "OPTIMIZE")]
    assert batches.progress(facts(40, 2), lambda: only_newest).positions["bronze.orders"].version == 2


def test_a_batch_without_its_record_is_an_error_with_a_next_step(batches: Batches) -> None:
    with pytest.raises(DataError) as caught:
        batches.progress(facts(0, 4), lambda: ())
    assert caught.value.code == "batch-unknown"
    assert "--full-refresh" in str(caught.value.hint)


def test_finishing_twice_keeps_the_first_record(batches: Batches) -> None:
    first = done(batches.pin(batch(1)), 0)
    batches.finish(first)
    batches.finish(replace(first, rows_in=99))
    assert batches.done(1) == first


def test_a_rollback_to_an_unreadable_time_is_an_error(batches: Batches) -> None:
    batches.finish(done(batches.pin(batch(1)), 0))
    commits = [commit(1, "RESTORE", timestamp="yesterday"), commit(0, "WRITE")]
    with pytest.raises(DataError) as caught:
        batches.progress(facts(1, 1), lambda: commits)
    assert caught.value.code == "restore-unclear"


def test_sequence_numbers_continue_after_a_dropped_table(batches: Batches) -> None:
    for number in (1, 2):
        batches.finish(done(batches.pin(batch(number)), number - 1))
    batches.pin(batch(3))
    assert batches.highest_sequence() == 2


def test_the_hundredth_attempt_is_found_again(batches: Batches) -> None:
    for _ in range(99):
        batches.pin(batch(1, version=1))
    last = batches.pin(batch(1, version=2))
    assert last.attempt == 100
    commits = [commit(0, "WRITE", last.note)]
    assert batches.progress(facts(0, 1), lambda: commits).positions["bronze.orders"].version == 2


@pytest.mark.parametrize("text", ["{broken", "{}", "[]"])
def test_a_corrupt_batch_is_an_error_of_its_table(batches: Batches, tmp_path: Path, text: str) -> None:
    batches.finish(done(batches.pin(batch(1)), 0))
    (tmp_path / "_lakesmith/batches/silver.orders/00000001.01.json").write_text(text)
    with pytest.raises(DataError) as caught:
        batches.progress(facts(0, 1), lambda: ())
    assert (caught.value.code, caught.value.table) == ("batch-unreadable", "silver.orders")


def test_pinned_attempts_in_an_object_store_are_read_once(tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    for number in (1, 2, 3):
        pinned = Batches(store, NAME).pin(batch(number, files=(FileFact(f"f{number}", number, 1),)))
        Batches(store, NAME).finish(done(pinned, number))
    progress = Batches(store, NAME).progress(facts(3, 3), tuple)
    store.requests.clear()
    assert Batches(store, NAME).progress(facts(3, 3), tuple) == progress
    # Three completed batches, the one that would come next, and three summaries that do not exist.
    assert store.requests == {"read": 7}


def test_ingested_files_are_summarized_regularly(batches: Batches, tmp_path: Path) -> None:
    progress = Progress()
    for number in range(1, 2 * SUMMARY_INTERVAL + 2):
        pinned = batches.pin(batch(number, files=(FileFact(f"f{number}", number, 1),)))
        batches.finish(done(pinned, number))
        batches.summarize_ingested(done(pinned, number), pinned.files, progress)
        progress = batches.progress(facts(number, number), tuple)
    assert sorted(progress.ingested) == sorted(f"f{number}" for number in range(1, 2 * SUMMARY_INTERVAL + 2))
    assert progress.ingested["f3"] == FileFact("f3", 3, 1)
    original = sorted(path.name for path in (tmp_path / "_lakesmith/ingested/silver.orders").iterdir())
    assert original == [f"{SUMMARY_INTERVAL:08}.01.json", f"{2 * SUMMARY_INTERVAL:08}.01.json"]
    # Summarized batches are not read one by one.
    (tmp_path / "_lakesmith/batches/silver.orders/00000003.01.json").unlink()
    assert "f3" in batches.progress(facts(number, number), tuple).ingested


def test_ordered_files_are_read_only_when_needed(batches: Batches, tmp_path: Path) -> None:
    seen = ListingBookmark(pattern="/landing/*", day="2026-01-01", upto="b", greatest="b")
    for number, name in enumerate(("a", "b"), start=1):
        pinned = batches.pin(replace(batch(number), content=NewFiles(files=(FileFact(name, number, 1),), seen=seen)))
        batches.finish(done(pinned, number))
    first = tmp_path / "_lakesmith/batches/silver.orders/00000001.01.json"
    original = first.read_text()
    first.write_text("{broken")
    progress = batches.progress(facts(2, 2), tuple)
    assert progress.seen == seen
    assert "c" not in progress.ingested
    with pytest.raises(DataError):
        progress.ingested.get("a")
    first.write_text(original)
    assert dict(progress.ingested) == {"a": FileFact("a", 1, 1), "b": FileFact("b", 2, 1)}


def test_a_rolled_back_table_is_listed_from_its_earlier_bookmark(batches: Batches) -> None:
    for number, name in enumerate(("a", "b"), start=1):
        seen = ListingBookmark(pattern="/landing/*", day="2026-01-01", upto=name, greatest=name)
        pinned = batches.pin(replace(batch(number), content=NewFiles(files=(FileFact(name, 1, 1),), seen=seen)))
        batches.finish(done(pinned, number))
    log = [
        CommitFact(version=3, committed_at=START, operation="RESTORE", parameters={"version": "1"}, metrics={}),
        *(CommitFact(version=n, committed_at=START, operation="WRITE", parameters={}, metrics={}) for n in (2, 1)),
    ]
    progress = batches.progress(facts(3, 2), lambda: log)
    assert (progress.seen and progress.seen.upto, sorted(progress.ingested)) == ("a", ["a"])


def test_a_rolled_back_table_ignores_later_summaries(batches: Batches) -> None:
    pins = [batches.pin(batch(number, files=(FileFact(f"f{number}", 1, 1),))) for number in (1, 2, 3)]
    for number, pinned in enumerate(pins, start=1):
        batches.finish(done(pinned, number))
    batches.write_summary(3, 1, {f"f{number}": FileFact(f"f{number}", 1, 1) for number in (1, 2, 3)})
    log = [
        CommitFact(version=4, committed_at=START, operation="RESTORE", parameters={"version": "1"}, metrics={}),
        *(CommitFact(version=n, committed_at=START, operation="WRITE", parameters={}, metrics={}) for n in (3, 2, 1)),
    ]
    assert sorted(batches.progress(facts(4, 3), lambda: log).ingested) == ["f1"]
