from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import lakesmith
from lakesmith.cli import COMMANDS, SHARED_MODULES, app
from lakesmith.cli.call import Call
from lakesmith.errors import (
    DeclarationError,
    InfrastructureError,
    LakesmithError,
    Place,
    Problems,
    UsageError,
)

if TYPE_CHECKING:
    from tests.cli.conftest import FakeLake, Invoke, Parsed

READ_COMMANDS = ("validate", "plan", "status", "history", "query", "profile", "lineage", "contract", "doctor")
ARGUMENTS = {
    "query": ("SELECT 1",),
    "profile": ("silver.orders",),
    "contract": ("diff",),
    "completion": ("bash",),
}


def test_help_lists_every_command_and_the_exit_codes(invoke: Invoke) -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for name, text in COMMANDS.items():
        assert f"{name} " in result.stdout
        assert text in result.stdout
    for code in ("0", "1", "2", "4", "70", "130"):
        assert f"\n    {code:<3}  " in result.stdout.partition("Exit codes:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_starts_with_its_line_in_the_list(name: str, invoke: Invoke) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    assert command.name == name
    assert inspect.cleandoc(command.help or "").partition("\n")[0] == COMMANDS[name]
    assert invoke(name, "--help").exit_code == 0


def test_each_module_of_commands_has_commands() -> None:
    folder = Path(inspect.getfile(importlib.import_module("lakesmith.cli.commands"))).parent
    assert {file.stem for file in folder.glob("*.py")} - {"__init__"} == {
        SHARED_MODULES.get(name, name) for name in COMMANDS
    }


def test_the_version_is_that_of_the_package(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"lakesmith {lakesmith.__version__}\n"


def test_an_unknown_command_gets_the_most_similar_one(invoke: Invoke) -> None:
    result = invoke("statsu")
    assert result.exit_code == 2
    assert "did you mean 'status'?" in result.stderr


def test_an_unknown_option_is_a_usage_error(invoke: Invoke) -> None:
    assert invoke("status", "--frobnicate").exit_code == 2


@pytest.mark.parametrize("order", ["before", "after", "both"])
def test_the_lake_s_options_work_before_and_after_the_command(order: str, invoke: Invoke, lake: FakeLake) -> None:
    before = ("--lake", "a", "--env", "prod", "--var", "x=1")
    after = ("-C", "b", "-e", "test", "--var", "y=2=3")
    arguments = {
        "before": (*before, "status"),
        "after": ("status", *after),
        "both": (*before, "status", *after),
    }
    expected = {
        "before": Call(folder="a", environment="prod", variables={"x": "1"}),
        "after": Call(folder="b", environment="test", variables={"y": "2=3"}),
        "both": Call(folder="b", environment="test", variables={"x": "1", "y": "2=3"}),
    }
    assert invoke(*arguments[order]).exit_code == 0
    assert lake.call == expected[order]


def test_the_lake_s_options_work_anywhere_around_a_subcommand(invoke: Invoke, lake: FakeLake) -> None:
    for arguments in (
        ("-C", "a", "contract", "diff"),
        ("contract", "-C", "a", "diff"),
        ("contract", "diff", "-C", "a"),
    ):
        assert invoke(*arguments).exit_code == 0
        assert lake.call == Call(folder="a")


def test_a_variable_without_a_value_is_a_usage_error(invoke: Invoke, lake: FakeLake) -> None:
    result = invoke("status", "--var", "x")
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.stderr


def test_the_lake_is_found_from_a_folder_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakesmith.yml").write_text("name: shop\n")
    (tmp_path / "silver" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "silver" / "deep")
    assert Call().lake_folder() == tmp_path


@pytest.mark.parametrize("named", ["shop", "shop/lakesmith.yml"])
def test_a_lake_may_be_named_by_its_folder_or_its_file(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "lakesmith.yml").write_text("name: shop\n")
    assert Call(folder=named).lake_folder() == Path("shop")


@pytest.mark.parametrize("arguments", [("status",), ("status", "--lake", "nowhere")])
def test_no_lake_is_an_error_that_names_init(
    arguments: tuple[str, ...], invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "[no-lake]" in result.stderr
    assert "lakesmith init" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("name", [*READ_COMMANDS, "run"])
@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("a-code", "what", hint="do this"), 2), (InfrastructureError("b-code", "what"), 4)],
)
def test_an_error_is_shown_on_stderr_with_its_exit_code(
    name: str, error: LakesmithError, code: int, invoke: Invoke, lake: FakeLake
) -> None:
    lake.raises = error
    result = invoke(name, *ARGUMENTS.get(name, ()))
    assert result.exit_code == code
    assert str(error) in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", [*READ_COMMANDS, "run"])
def test_with_json_the_errors_are_json_on_stdout(name: str, invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    first = DeclarationError("unknown-key", "no such key", at=Place("silver/a.sql", 3), hint="h")
    lake.raises = Problems([first, InfrastructureError("down", "gone")])
    result = invoke(name, *ARGUMENTS.get(name, ()), "--json")
    assert result.exit_code == 4
    errors = parsed(result)["errors"]
    assert [error["code"] for error in errors] == ["unknown-key", "down"]
    assert errors[0]["file"] == "silver/a.sql"
    assert errors[0]["line"] == 3


def test_all_problems_are_listed(invoke: Invoke, lake: FakeLake) -> None:
    lake.raises = Problems([UsageError(f"code-{number}", "what") for number in range(30)])
    result = invoke("validate")
    assert all(f"[code-{number}]" in result.stderr for number in range(30))


def test_any_other_exception_is_reported_as_a_bug(invoke: Invoke, lake: FakeLake) -> None:
    lake.raises = ZeroDivisionError("oh")
    result = invoke("status")
    assert result.exit_code == 70
    assert "this is a bug in Lakesmith: ZeroDivisionError: oh; please report it" in result.stderr
    assert "Traceback" in result.stderr


def test_a_bug_is_json_too(invoke: Invoke, lake: FakeLake, parsed: Parsed) -> None:
    lake.raises = ZeroDivisionError("oh")
    result = invoke("status", "--json")
    assert result.exit_code == 70
    assert parsed(result)["errors"][0]["code"] == "bug"


def test_an_interruption_says_that_nothing_is_lost(invoke: Invoke, lake: FakeLake) -> None:
    lake.raises = KeyboardInterrupt()
    result = invoke("run")
    assert result.exit_code == 130
    assert "interrupted; nothing is lost, run again to continue" in result.stderr


def test_only_listed_commands_exist(invoke: Invoke) -> None:
    assert app.list_commands(app.make_context("lakesmith", ["status"], resilient_parsing=True)) == list(COMMANDS)
