from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from lakesmith.cli.output import Grid, PlainPage, is_terminal

if TYPE_CHECKING:
    from tests.cli.conftest import FakeLake, Invoke

ESCAPE = "\x1b["


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_neither_colour_nor_lines(invoke: Invoke, lake: FakeLake) -> None:
    shown = invoke("status").stdout
    assert ESCAPE not in shown
    assert "─" not in shown


def test_force_color_prints_like_a_terminal(invoke: Invoke, lake: FakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = invoke("status").stdout
    assert ESCAPE in shown
    assert "─" in shown


def test_no_color_removes_colour_and_keeps_lines(
    invoke: Invoke, lake: FakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = invoke("status").stdout
    assert "─" in shown
    assert f"{ESCAPE}31" not in shown
    assert f"{ESCAPE}1;31" not in shown


@pytest.mark.parametrize("command", ["plan", "run", "lineage", "doctor", "validate", "history"])
def test_every_command_prints_to_a_terminal(
    command: str, invoke: Invoke, lake: FakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = invoke(command)
    assert result.exit_code == 0, result.stderr
    assert result.stdout


def test_a_dumb_terminal_is_treated_as_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert is_terminal(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_terminal(Terminal())
    assert not is_terminal(io.StringIO())


def test_square_brackets_in_data_are_not_markup(
    invoke: Invoke, lake: FakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    lake.raises = None
    lake.findings = (lake.findings[0].__class__(subject="java", ok=True, found="[red]17[/red] :smile:"),)
    assert "[red]17[/red] :smile:" in invoke("doctor").stdout


def test_wide_letters_keep_the_columns_aligned() -> None:
    stream = io.StringIO()
    PlainPage(stream).grid(Grid(titles=("name", "n"), rows=(("日本", "1"), ("ab", "2"))))
    assert stream.getvalue().splitlines() == ["name  n", "日本  1", "ab    2"]


def test_rich_is_not_loaded_for_a_pipe(invoke: Invoke, lake: FakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    assert invoke("run").exit_code == 0
    assert "rich" not in sys.modules
