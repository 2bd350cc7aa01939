"""Records how long each test file takes and prints the sum per folder.

`--record-durations` writes the seconds of each file to `tests/durations.json`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

_FILE = Path(__file__).with_suffix(".json")
_SECONDS: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write the seconds of each file to {_FILE.name}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _SECONDS[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    folders: defaultdict[str, float] = defaultdict(float)
    for file, seconds in _SECONDS.items():
        folders[str(Path(file).parent)] += seconds
    if sum(folders.values()) > 60:
        terminalreporter.section("seconds per folder")
        for folder, seconds in sorted(folders.items(), key=lambda found: -found[1]):
            terminalreporter.line(f"{seconds:8.1f}  {folder}")
    if config.getoption("--record-durations"):
        known: dict[str, float] = json.loads(_FILE.read_text()) if _FILE.exists() else {}
        known |= {file: round(seconds, 1) for file, seconds in _SECONDS.items()}
        there = {file: seconds for file, seconds in sorted(known.items()) if (_FILE.parent.parent / file).exists()}
        _FILE.write_text(json.dumps(there, indent=1) + "\n")
