"""Records how long each test file takes, prints the sum and the budget of each folder, and fails for a slow test.

`--record-durations` writes the seconds of each file, per pass of the suite, to `tests/durations.json`.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_FILE = Path(__file__).with_suffix(".json")
SLOWEST_SECONDS = 20.0
"""The most that one test, or its setup, may take in `make test`."""
SLOW_TESTS: dict[str, str] = {
    "tests/docs/test_readme.py::test_all_commands_work_in_order_with_the_documented_output": (
        "each command of the README starts Python, and two of them a JVM, as they do for a newcomer"
    ),
    "tests/run/test_any_order.py::test_a_sample_of_loads_matches_its_models_after_every_batch": (
        "it stands for the loads: each takes several runs of several tables"
    ),
    "tests/run/test_maintenance.py::test_a_vacuum_deletes_unused_files_and_leftovers_of_killed_runs": (
        "it vacuums all tables of a lake, each in Spark jobs of Delta"
    ),
    "tests/spark/test_connect.py::test_an_incremental_build_reads_the_changed_rows_only": (
        "a client in a process of its own runs a lake twice"
    ),
    "tests/spark/test_secrets.py::test_no_secret_is_visible_in_command_line_environment_ui_log_or_file": (
        "it needs a JVM of its own, with a UI and an event log, and four commands"
    ),
}
"""By test, without parameters, the reason why it takes longer."""
SHARED_SECONDS = "shared_seconds"
_SPARE = 1.5
"""The budget of a folder is its recorded seconds times this factor, because machines differ."""


class Durations:
    """The seconds of the tests of one session."""

    def __init__(self, verify: bool, recorded: dict[str, float]) -> None:
        self._verify = verify
        self._recorded = recorded
        self.files: defaultdict[str, float] = defaultdict(float)
        self.tests: dict[str, float] = {}
        self.setups: dict[str, float] = {}
        """By test, its fixtures without those of the session, such as Spark and servers."""
        self._shared = 0.0
        self._depth = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope != "session" or self._depth:
            return (yield)
        self._depth += 1
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self._depth -= 1
            self._shared += time.monotonic() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "setup":
            # The process that runs the test sends this with its report.
            setattr(report, SHARED_SECONDS, self._shared)
            self._shared = 0.0
        return report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.files[report.nodeid.partition("::")[0]] += report.duration
        if report.when == "call":
            self.tests[report.nodeid] = report.duration
        if report.when == "setup":
            self.setups[report.nodeid] = report.duration - getattr(report, SHARED_SECONDS, 0.0)

    def slowness(self) -> float:
        """Return the factor by which this machine is slower than the recorded durations; at least 1."""
        known = [file for file in self.files if file in self._recorded]
        before = sum(self._recorded[file] for file in known)
        # A few tests say little about the machine's speed.
        return max(1.0, sum(self.files[file] for file in known) / before) if before > 60 else 1.0

    def too_slow(self) -> list[str]:
        """Return the tests that take longer than the limit, with their seconds. A slower machine has a higher limit."""
        if self._verify:
            return []
        limit = SLOWEST_SECONDS * self.slowness()
        return [
            f"{what}{test} took {seconds:.1f} s"
            for what, taken in (("", self.tests), ("the setup of ", self.setups))
            for test, seconds in taken.items()
            if seconds > limit and test.partition("[")[0] not in SLOW_TESTS
        ]

    def folders(self) -> list[tuple[str, float, float]]:
        """Return each folder with its seconds and budget, slowest first."""
        seconds: defaultdict[str, float] = defaultdict(float)
        budgets: defaultdict[str, float] = defaultdict(float)
        for file, taken in self.files.items():
            folder = str(Path(file).parent)
            seconds[folder] += taken
            budgets[folder] += self._recorded.get(file, taken) * _SPARE
        return sorted(((folder, seconds[folder], budgets[folder]) for folder in seconds), key=lambda row: -row[1])

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders = self.folders()
        if sum(seconds for _, seconds, _ in folders) > 60:
            terminalreporter.section("seconds per folder")
            terminalreporter.line(" seconds   budget")
            for folder, seconds, budget in folders:
                terminalreporter.line(f"{seconds:8.1f} {budget:8.1f}  {folder}{'  OVER' if seconds > budget else ''}")
        for line in self.too_slow():
            terminalreporter.line(
                f"{line}, more than {SLOWEST_SECONDS:g} s: make it faster, mark it `verify`, or give a reason in "
                "tests/durations.py",
                red=True,
            )

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        is_worker = hasattr(session.config, "workerinput")
        if not is_worker and self.too_slow() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write the seconds of each file to {_FILE.name}")


def pytest_configure(config: pytest.Config) -> None:
    durations = Durations(_pass_of(config) == "verify", _recorded().get(_pass_of(config), {}))
    config.pluginmanager.register(durations, "lakesmith-durations")


def pytest_unconfigure(config: pytest.Config) -> None:
    durations = config.pluginmanager.getplugin("lakesmith-durations")
    if durations is None or not config.getoption("--record-durations") or hasattr(config, "workerinput"):
        return
    recorded, name = _recorded(), _pass_of(config)
    files = {**recorded.get(name, {}), **{file: round(seconds, 1) for file, seconds in durations.files.items()}}
    recorded[name] = {file: files[file] for file in sorted(files) if (_FILE.parent.parent / file).exists()}
    _FILE.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


def _pass_of(config: pytest.Config) -> str:
    """Return the pass of the suite, by its marker expression."""
    marks = str(config.getoption("markexpr"))
    if marks == "verify":
        return "verify"
    return "spark" if marks.startswith("(spark") else "pure"


def _recorded() -> dict[str, dict[str, float]]:
    """The recorded seconds by pass and file."""
    recorded: dict[str, dict[str, float]] = json.loads(_FILE.read_text()) if _FILE.exists() else {}
    return recorded
