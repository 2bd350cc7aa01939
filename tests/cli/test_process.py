"""The command as a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakesmith.cli import COMMANDS, SHARED_MODULES


def lakesmith(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lakesmith", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    made = lakesmith("init", "shop", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    return tmp_path / "shop"


def test_the_process_has_the_exit_code(shop: Path) -> None:
    assert lakesmith("validate", folder=shop).returncode == 0
    assert lakesmith("validate", "--lake", "nowhere", folder=shop).returncode == 2


def test_an_error_is_one_message_without_a_traceback(shop: Path) -> None:
    (shop / "lakesmith.yml").write_text("nmae: shop\n")
    result = lakesmith("status", folder=shop)
    assert result.returncode == 2
    assert "lakesmith.yml:1" in result.stderr
    assert "Traceback" not in result.stderr


def test_no_color_reaches_a_forced_terminal(shop: Path) -> None:
    coloured = lakesmith("status", folder=shop, FORCE_COLOR="1", TERM="xterm-256color")
    plain = lakesmith("status", folder=shop, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color")
    assert "\x1b[33m" in coloured.stdout
    assert "\x1b[33m" not in plain.stdout


def test_a_narrow_encoding_is_supported(shop: Path) -> None:
    result = lakesmith("status", folder=shop, PYTHONIOENCODING="ascii")
    assert result.returncode == 0, result.stderr


def loaded_by(arguments: list[str], folder: Path) -> set[str]:
    """Return the modules that a command has loaded."""
    code = (
        "import sys, json\n"
        "from lakesmith.cli import app\n"
        "try: app.main(args=json.loads(sys.argv[1]))\n"
        "finally: print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("command", ["validate", "plan", "status", "history", "lineage"])
def test_planning_loads_neither_spark_nor_a_query_engine(command: str, shop: Path) -> None:
    assert loaded_by([command], shop).isdisjoint({"pyspark", "py4j", "duckdb", "rich", "pandas"})


def test_a_query_loads_no_spark(shop: Path) -> None:
    assert loaded_by(["query", "SELECT 1"], shop).isdisjoint({"pyspark", "py4j", "rich", "pandas"})


def test_help_loads_no_command_and_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by(["--help"], tmp_path)
    assert loaded.isdisjoint({f"lakesmith.cli.commands.{SHARED_MODULES.get(name, name)}" for name in COMMANDS})
    assert loaded.isdisjoint({"lakesmith.lake", "rich", "yaml", "sqlglot", "deltalake", "duckdb", "pyarrow"})


def test_a_reader_that_closes_the_pipe_is_no_error(shop: Path) -> None:
    command = f"{sys.executable} -m lakesmith query 'FROM range(300000)' --format csv"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"],
        cwd=shop,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["range", "141"]
    assert done.stderr == ""


INTERRUPTED_RUN = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background has it ignored
from lakesmith.cli import app
from lakesmith.cli.call import Call

class Slow:
    def run(self, *select, on_event, **options):
        print("running", flush=True)
        time.sleep(30)

Call.open = lambda self: Slow()
app.main(args=["run"])
"""


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_a_run_with_a_message(number: signal.Signals, code: int, word: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert f"{word}; nothing is lost, run again to continue" in stderr
    assert "Traceback" not in stderr
