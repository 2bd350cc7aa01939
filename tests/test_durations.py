"""The suite fails when a test of `make test` takes too long."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from tests import durations
from tests.durations import Durations

When = Literal["setup", "call"]


def report(test: str, seconds: float, when: When = "call", shared: float = 0.0) -> pytest.TestReport:
    found = pytest.TestReport(test, (test, None, ""), {}, "passed", None, when, duration=seconds)
    setattr(found, durations.SHARED_SECONDS, shared)
    return found


def measured(seconds: float, *, verify: bool = False, before: float = 0.0) -> Durations:
    found = Durations(verify, {"tests/test_a.py": before} if before else {})
    found.pytest_runtest_logreport(report("tests/test_a.py::test_slow[1]", seconds))
    return found


def test_a_test_over_the_limit_is_named() -> None:
    assert measured(19.9).too_slow() == []
    assert measured(20.1).too_slow() == ["tests/test_a.py::test_slow[1] took 20.1 s"]


def test_a_setup_over_the_limit_is_named_but_the_start_of_spark_does_not_count() -> None:
    found = Durations(False, {})
    found.pytest_runtest_logreport(report("tests/test_a.py::test_one", 30.0, "setup", shared=11.0))
    assert found.too_slow() == []
    found.pytest_runtest_logreport(report("tests/test_a.py::test_two", 30.0, "setup", shared=9.0))
    assert found.too_slow() == ["the setup of tests/test_a.py::test_two took 21.0 s"]


@pytest.mark.parametrize("test", durations.SLOW_TESTS)
def test_every_test_with_a_reason_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text()


def test_a_test_with_a_reason_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(durations.SLOW_TESTS, "tests/test_a.py::test_slow", "it waits")
    assert measured(20.1).too_slow() == []


def test_long_tests_belong_in_verify() -> None:
    assert measured(300.0, verify=True).too_slow() == []


def test_the_limit_grows_on_a_machine_that_is_slower_than_the_recorded_one() -> None:
    assert measured(150.0, before=100.0).too_slow() != []
    found = measured(25.0, before=70.0)
    found.pytest_runtest_logreport(report("tests/test_a.py::test_other", 100.0))
    assert found.slowness() == pytest.approx(125 / 70)
    assert found.too_slow() == ["tests/test_a.py::test_other took 100.0 s"]


def test_a_folder_over_its_budget_is_marked() -> None:
    assert measured(10.0, before=10.0).folders() == [("tests", 10.0, 15.0)]
