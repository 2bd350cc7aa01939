"""The commands of the README work in order and show the documented output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.markdown import ROOT, Block, blocks, missing_lines

from lakesmith.cli import COMMANDS, EXIT_CODES

README = ROOT / "README.md"


MARK = "=== the next block ==="


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Create a folder with a shell that finds `lakesmith`."""
    command = tmp_path / "bin" / "lakesmith"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakesmith "$@"\n')
    command.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    return Shell(folder=folder, path=f"{command.parent}:{os.environ['PATH']}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A folder with a shell."""

    folder: Path
    path: str

    def typed(self, *scripts: str) -> list[str]:
        """Run the blocks in one shell, and return the output of each."""
        done = subprocess.run(
            ["bash", "-euc", f"\necho '{MARK}'\n".join(scripts)],
            cwd=self.folder,
            env={**os.environ, "PATH": self.path, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split(MARK)


def session() -> list[tuple[str, str]]:
    """Return the commands in order, each with its documented output."""
    found = blocks(README)
    following: list[Block | None] = [*found[1:], None]
    return [
        (block.text, after.text if after and after.language == "text" else "")
        for block, after in zip(found, following, strict=True)
        if block.language == "bash"
    ]


def test_the_quick_start_runs_init_plan_run_status_query_and_quarantine() -> None:
    commands = "".join(command for command, _ in session())
    assert re.findall(r"^lakesmith (\w+)", commands, re.MULTILINE) == [
        *("init", "plan", "run", "status", "query", "run", "quarantine"),
    ]


def test_the_commands_before_the_first_run_work_without_java(shell: Shell) -> None:
    command, shown = session()[0]
    (found,) = shell.typed(command)
    assert missing_lines(shown, found) == []


@pytest.mark.spark
def test_all_commands_work_in_order_with_the_documented_output(shell: Shell) -> None:
    commands, shown = zip(*session(), strict=True)
    for expected, found in zip(shown, shell.typed(*commands), strict=True):
        assert missing_lines(expected, found) == [], found


def test_the_python_snippet_runs_in_the_lake(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.typed("lakesmith init shop")
    monkeypatch.chdir(shell.folder)
    (script,) = [block for block in blocks(README) if block.language == "python" and block.file is None]
    exec(compile(script.text, f"README.md:{script.line}", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0] == "bronze.orders missing None"


def test_every_named_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (README, ROOT / "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert named - targets == set(), page.name


def test_the_exit_codes_match_the_help() -> None:
    documented = set(re.findall(r"^  (\d+) ", EXIT_CODES, re.MULTILINE))
    listed = set(re.findall(r"^\| (\d+) \|", README.read_text(), re.MULTILINE))
    assert listed == documented


def test_every_named_command_exists() -> None:
    named = set(re.findall(r"\blakesmith ([a-z]+)", "\n".join(re.findall(r"`[^`\n]+`", README.read_text()))))
    assert {"profile", "approve", "contract"} <= named
    assert named - set(COMMANDS) == set()
