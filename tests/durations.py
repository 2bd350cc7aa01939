"""Records how long each test file takes, prints the sum per folder, and fails a test that is too slow for every run.

`--record-durations` writes the sums to `tests/durations.json`. A test may take 20 seconds unless `SLOW` gives a reason
or it is marked `verify`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

LIMIT = 20.0

SLOW: Mapping[str, str] = {}
"""Tests that may take longer, by the start of their id, with the reason."""

_FILE = Path(__file__).with_suffix(".json")
_SECONDS: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write the seconds of each file to {_FILE.name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    may_be_slow = item.get_closest_marker("verify") is not None or item.nodeid.startswith(tuple(SLOW))
    if report.when == "call" and report.passed and call.duration > LIMIT and not may_be_slow:
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} took {call.duration:.1f} s; a test of every run may take {LIMIT:.0f} s. Make it faster, "
            "mark it `verify`, or give the reason in tests/durations.py"
        )
    return report


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
