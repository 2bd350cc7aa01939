"""Lakes with odd or foreign commits in their logs. No JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.faults.foreign import ODD, cleaned_by_others, commits_by_others, set_commit_info
from tests.faults.prebuilt_lake import PrebuiltLake, build_lake

from lakesmith.lake import Lake
from lakesmith.reports import Version
from lakesmith.store import folder_at


@pytest.fixture(scope="module")
def four_batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_lake(tmp_path_factory.mktemp("four") / "shop").folder


@pytest.fixture
def made(four_batches: Path, tmp_path: Path) -> PrebuiltLake:
    return PrebuiltLake(shutil.copytree(four_batches, tmp_path / "shop"))


@pytest.mark.parametrize("info", ODD.values(), ids=ODD)
@pytest.mark.parametrize("version", [0, 2, 3])
def test_every_query_works_with_any_commit_info(made: PrebuiltLake, version: int, info: object) -> None:
    set_commit_info(made.table, version, info)
    assert made.ids() == [1, 2, 3, 4]
    [bronze, silver] = made.lake().status()
    assert (bronze.rows, bronze.version, silver.state) == (4, 3, "missing")
    history = [each for each in made.lake().history("bronze.orders") if isinstance(each, Version)]
    assert [(each.version, each.run_id) for each in history] == [
        (number, None if number == version else "run") for number in (3, 2, 1, 0)
    ]
    plan = made.lake().plan()
    assert [str(step.table) for step in plan.steps] == ["silver.orders"]
    assert made.lake().query("SELECT count(*) FROM bronze.orders", at=["bronze.orders=1"]).rows == ((2,),)
    assert [str(step.table) for step in made.lake().plan_restore("bronze.orders", 1).steps] == ["bronze.orders"]


def test_a_table_without_commit_info_is_adopted_and_read(made: PrebuiltLake, tmp_path: Path) -> None:
    for version in range(4):
        set_commit_info(made.table, version, None)
    folder = tmp_path / "other"
    for name, text in {
        "lakesmith.yml": "name: other\n",
        "bronze/orders.yml": f"source: {{adopt: {made.table}}}\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    other = Lake.open(folder)
    other.adopt("bronze.orders")
    assert other.query("SELECT count(*) FROM bronze.orders").rows == ((4,),)
    [status] = other.status()
    assert (status.rows, status.version) == (4, 3)
    assert len(other.history("bronze.orders")) == 4


def test_a_commit_of_others_is_not_shown_as_a_run(made: PrebuiltLake) -> None:
    commits_by_others(made.table, 1)
    set_commit_info(made.table, 4, {"userMetadata": "backup run 7", "operation": "WRITE"})
    newest = made.lake().history("bronze.orders", limit=1)[0]
    assert isinstance(newest, Version)
    assert newest.run_id is None


@pytest.mark.parametrize("others", [25, 130])
def test_an_interrupted_batch_is_found_after_commits_of_others(made: PrebuiltLake, others: int) -> None:
    made.ingest(5, finish=False)
    commits_by_others(made.table, others)
    plan = made.lake().plan()
    assert next((type(step).__name__, str(step.table)) for step in plan.steps) == ("Finish", "bronze.orders")


def test_the_last_of_two_attempts_of_a_run_counts_as_committed_after_a_log_cleanup(made: PrebuiltLake) -> None:
    first = made.batches.pinned(4, 1)
    last = made.batches.pin(first)
    made.batch("00000004.done").unlink()
    cleaned_by_others(made.table)
    facts = made.lake()._lake.format.facts(folder_at(str(made.table)), "lakesmith.bronze.orders")
    progress = made.batches.progress(facts, lambda: made.lake()._lake.format.commits(folder_at(str(made.table))))
    assert progress.unfinished == 4
    assert (
        made.batches.committed(4, lambda: made.lake()._lake.format.commits(folder_at(str(made.table)))).attempt
        == last.attempt
    )


def test_attempts_of_several_runs_are_not_guessed_and_the_hint_names_the_next_step(made: PrebuiltLake) -> None:
    other = made.batch("00000004.02")
    other.write_text(json.dumps({**json.loads(made.batch("00000004.01").read_text()), "attempt": 2, "run_id": "b"}))
    record = json.loads(other.read_text())
    record.pop("checksum", None)
    other.write_text(json.dumps(record))
    made.batch("00000004.done").unlink()
    cleaned_by_others(made.table)
    plan = made.lake().plan()
    [error] = plan.problems
    assert error.code == "batch-unknown"
    assert "_run_id" in str(error.hint)
    assert "00000004.02.json" in str(error.hint)
    other.unlink()
    assert next(type(step).__name__ for step in made.lake().plan().steps) == "Finish"


def test_a_rollback_by_delta_rs_to_a_time_finds_the_version_of_that_time(made: PrebuiltLake) -> None:
    from datetime import UTC, datetime

    opened = DeltaTable(str(made.table))
    opened.restore(datetime.fromtimestamp(made.commit(1).stat().st_mtime + 0.001, UTC))
    assert len(made.ids()) < 4
    facts = made.lake()._lake.format.facts(folder_at(str(made.table)), "lakesmith.bronze.orders")
    commits = list(made.lake()._lake.format.commits(folder_at(str(made.table))))
    assert made.batches.progress(facts, lambda: commits).head == len(made.ids())


@pytest.mark.parametrize("version", ["9", "²", "-1", "x"])
def test_a_rollback_to_an_impossible_version_is_an_error_with_a_next_step(made: PrebuiltLake, version: str) -> None:
    commits_by_others(made.table, 1)
    set_commit_info(made.table, 4, {"operation": "RESTORE", "operationParameters": {"version": version}})
    [error] = made.lake().plan().problems
    assert error.code == "restore-unclear"
    DeltaTable(str(made.table)).restore(2)
    assert not made.lake().plan().problems
