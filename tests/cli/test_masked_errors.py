"""Errors show no secret in messages, hints, tracebacks, streams or system tables."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from lakesmith.cli import app
from lakesmith.errors import DataError
from lakesmith.lake import Lake
from lakesmith.run.step_result import StepResult

SECRET = "canary-0123456789-abcdef"
MASKED = "<env:CANARY>"
RAISING = "import os\nraise ValueError('denied: ' + os.environ['CANARY'])\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANARY", SECRET)
    for name, text in {
        "lakesmith.yml": "name: shop\nenvironments: {dev: {connections: {db: {url: x, password: 'env:CANARY'}}}}\n",
        "bronze/orders.yml": "source: {files: landing/*.json}\ncolumns: {id: bigint}\n",
        "landing/1.json": '{"id": 1}\n',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def called(folder: Path, *words: str) -> Result:
    result = CliRunner().invoke(app, ["--lake", str(folder), *words])
    assert SECRET[:8] not in result.output
    assert MASKED in result.output
    return result


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_failed_step_is_shown_and_recorded_without_secrets(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    def fail(*_: object) -> NoReturn:
        raise DataError("denied", f"{SECRET} was denied", hint=f"do not use {SECRET}")

    monkeypatch.setattr("lakesmith.run.execute.run_step", fail)
    assert called(folder, "run", *options).exit_code == 1
    [(error,)] = Lake.open(folder).query("SELECT error FROM system.steps").rows
    assert error == f"bronze.orders: {MASKED} was denied [denied]\n  hint: do not use {MASKED}"


def test_a_postponed_error_is_shown_without_secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = DataError("denied", f"{SECRET} was denied", hint=f"do not use {SECRET}")
    result = StepResult(mode="files", reason="", before=None, postponed=(error,))
    monkeypatch.setattr("lakesmith.run.execute.run_step", lambda *_: result)
    assert called(folder, "run").exit_code == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_traceback_of_a_bug_has_no_secrets(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    def fail(*_: object) -> NoReturn:
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            raise RuntimeError(f"{SECRET} was denied") from error

    monkeypatch.setattr("lakesmith.run.execute.run_step", fail)
    result = called(folder, "run", *options)
    assert result.exit_code == 70
    assert f"ValueError: {MASKED}\n" in result.output
    assert f"RuntimeError: {MASKED} was denied" in result.output


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_python_file_that_raises_while_it_loads_shows_no_secret(folder: Path, command: str) -> None:
    (folder / "bronze/raising.py").write_text(RAISING)
    assert called(folder, command).exit_code == 2


def test_a_problem_of_a_plan_shows_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise DataError("denied", f"{SECRET} was denied", hint=f"do not use {SECRET}")

    monkeypatch.setattr("lakesmith.lake.facts.read_progress", fail)
    for options in ([], ["--json"]):
        called(folder, "plan", *options)


def test_any_other_error_of_a_command_shows_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise DataError("denied", f"{SECRET} was denied", hint=f"do not use {SECRET}")

    monkeypatch.setattr("lakesmith.lake.planning.read_facts", fail)
    assert called(folder, "plan").exit_code == 1


@pytest.mark.parametrize("options", [[], ["--json"], ["--empty"], ["--empty", "--json"]])
def test_a_failed_unit_test_shows_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    def fail(*_: object) -> NoReturn:
        raise DataError("denied", f"{SECRET} was denied", hint=f"do not use {SECRET}")

    (folder / "silver").mkdir()
    (folder / "silver/orders.sql").write_text("SELECT id FROM bronze.orders\n")
    (folder / "silver/orders.test.yml").write_text("one: {given: {bronze.orders: [{id: 1}]}, expect: []}\n")
    for module in ("runner", "empty_tables"):
        monkeypatch.setattr(f"lakesmith.run.unit_tests.{module}.local_session", lambda *_: nullcontext())
        monkeypatch.setattr(f"lakesmith.run.unit_tests.{module}.isolated", lambda _: None)
    monkeypatch.setattr("lakesmith.run.unit_tests.runner.UnitTestWarehouse.run_all", fail)
    monkeypatch.setattr("lakesmith.run.unit_tests.empty_tables._EmptyTables._empty_frame", lambda *_: None)
    monkeypatch.setattr("lakesmith.run.unit_tests.empty_tables._EmptyTables._analyse", fail)
    assert called(folder, "test", *options).exit_code in (1, 2)
