"""The execution of a plan: parallel and waiting steps. No Spark: the steps wait at a barrier."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakesmith.declare import Table
from lakesmith.formats import Delta
from lakesmith.lake import Lake
from lakesmith.plan.steps import Step
from lakesmith.run.context import RunContext
from lakesmith.run.execute import Executor
from lakesmith.run.step_result import StepResult
from lakesmith.store import LocalStore, Warehouse


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    files = {
        "lakesmith.yml": "name: shop\n",
        "bronze/a.yml": "source: {files: landing/a/*.json}\n",
        "bronze/b.yml": "source: {files: landing/b/*.json}\n",
        "silver/c.sql": "SELECT a.id FROM bronze.a AS a JOIN bronze.b AS b USING (id)\n",
        "landing/a/1.json": '{"id": 1}\n',
        "landing/b/1.json": '{"id": 1}\n',
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Lake.open(tmp_path)


def executed(lake: Lake, tmp_path: Path, jobs: int) -> Executor:
    executor = Executor(
        lake.declaration,
        Warehouse(lake.declaration.environment.warehouse),
        dict.fromkeys(lake.tables, (LocalStore(tmp_path), "landing/*.json")),
        Delta(),
        run_id="run",
        on_event=lambda _: None,
        check_history=lambda _, __: {},
    )
    executor.execute(lake.plan(), jobs)
    return executor


def test_independent_tables_run_in_parallel_and_others_wait(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2, timeout=20)
    ended: list[str] = []

    def run_step(run: RunContext, table: Table, step: Step) -> StepResult:
        if table.name.layer == "bronze":
            together.wait()
        else:
            assert sorted(ended) == ["bronze.a", "bronze.b"]
        ended.append(str(table.name))
        return StepResult(mode="files", reason="", before=None)

    monkeypatch.setattr("lakesmith.run.execute.run_step", run_step)
    assert executed(lake, tmp_path, jobs=2).errors == []
    assert ended[-1] == "silver.c"


def test_an_interruption_stops_the_run_and_waiting_tables_do_not_start(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def run_step(run: RunContext, table: Table, step: Step) -> StepResult:
        begun.append(str(table.name))
        raise KeyboardInterrupt

    monkeypatch.setattr("lakesmith.run.execute.run_step", run_step)
    with pytest.raises(KeyboardInterrupt):
        executed(lake, tmp_path, jobs=1)
    assert "silver.c" not in begun
