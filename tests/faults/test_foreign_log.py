"""A lake whose tables have logs that say little of themselves, or that others have written on in. No JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.faults.foreign import ODD, cleaned_by_others, commits_by_others, says
from tests.faults.made import Made, made_lake

from lakesmith.lake import Lake
from lakesmith.reports import Version


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_lake(tmp_path_factory.mktemp("four") / "shop").folder


@pytest.fixture
def made(four: Path, tmp_path: Path) -> Made:
    return Made(shutil.copytree(four, tmp_path / "shop"))


@pytest.mark.parametrize("info", ODD.values(), ids=ODD)
@pytest.mark.parametrize("version", [0, 2, 3])
def test_every_question_is_answered_whatever_a_commit_says_of_itself(made: Made, version: int, info: object) -> None:
    says(made.table, version, info)
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


def test_a_table_whose_log_says_nothing_is_adopted_and_read(made: Made, tmp_path: Path) -> None:
    for version in range(4):
        says(made.table, version, None)
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


def test_a_commit_of_others_does_not_pass_for_a_run(made: Made) -> None:
    commits_by_others(made.table, 1)
    says(made.table, 4, {"userMetadata": "backup run 7", "operation": "WRITE"})
    newest = made.lake().history("bronze.orders", limit=1)[0]
    assert isinstance(newest, Version)
    assert newest.run_id is None


@pytest.mark.parametrize("others", [25, 130])
def test_a_batch_that_was_interrupted_is_known_behind_the_commits_of_others(made: Made, others: int) -> None:
    made.take_in(5, finish=False)
    commits_by_others(made.table, others)
    plan = made.lake().plan()
    assert next((type(step).__name__, str(step.table)) for step in plan.steps) == ("Finish", "bronze.orders")


def test_of_two_attempts_of_one_run_the_last_was_committed_though_the_log_is_cleaned_up(made: Made) -> None:
    first = made.batches.pinned(4, 1)
    last = made.batches.pin(first)
    made.batch("00000004.done").unlink()
    cleaned_by_others(made.table)
    facts = made.lake()._lake.format.facts(str(made.table), "lakesmith.bronze.orders")
    progress = made.batches.progress(facts, lambda: made.lake()._lake.format.commits(str(made.table)))
    assert progress.unfinished == 4
    assert made.batches.committed(4, lambda: made.lake()._lake.format.commits(str(made.table))).attempt == last.attempt


def test_attempts_of_several_runs_are_not_guessed_at_and_the_hint_names_the_way_out(made: Made) -> None:
    other = made.batch("00000004.02")
    other.write_text(json.dumps({**json.loads(made.batch("00000004.01").read_text()), "attempt": 2, "run_id": "b"}))
    told = json.loads(other.read_text())
    told.pop("checksum", None)
    other.write_text(json.dumps(told))
    made.batch("00000004.done").unlink()
    cleaned_by_others(made.table)
    plan = made.lake().plan()
    [error] = plan.problems
    assert error.code == "batch-unknown"
    assert "_run_id" in str(error.hint)
    assert "00000004.02.json" in str(error.hint)
    other.unlink()
    assert next(type(step).__name__ for step in made.lake().plan().steps) == "Finish"


def test_a_rollback_by_delta_rs_to_a_time_finds_the_version_of_that_time(made: Made) -> None:
    from datetime import UTC, datetime

    opened = DeltaTable(str(made.table))
    opened.restore(datetime.fromtimestamp(made.commit(1).stat().st_mtime + 0.001, UTC))
    assert len(made.ids()) < 4
    facts = made.lake()._lake.format.facts(str(made.table), "lakesmith.bronze.orders")
    commits = list(made.lake()._lake.format.commits(str(made.table)))
    assert made.batches.progress(facts, lambda: commits).head == len(made.ids())


@pytest.mark.parametrize("version", ["9", "²", "-1", "x"])
def test_a_rollback_to_a_version_that_cannot_be_is_an_error_with_a_next_step(made: Made, version: str) -> None:
    commits_by_others(made.table, 1)
    says(made.table, 4, {"operation": "RESTORE", "operationParameters": {"version": version}})
    [error] = made.lake().plan().problems
    assert error.code == "restore-unclear"
    DeltaTable(str(made.table)).restore(2)
    assert not made.lake().plan().problems
