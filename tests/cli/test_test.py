"""The output of `lakesmith test`: the result of each test and the different rows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from lakesmith.errors import DataError, DeclarationError, InfrastructureError, LakesmithError, Place
from lakesmith.reports import EmptyReport, RowDifference, UnitTestReport, UnitTestResult

if TYPE_CHECKING:
    from tests.cli.conftest import FakeLake, Invoke, Parsed

CHANGED = RowDifference(of="table", expected={"id": "1", "amount": "6.00"}, found={"id": "1", "amount": None})
MISSING = RowDifference(of="table", expected={"id": "2", "amount": "1\x1b[31m"}, found=None)
MORE = RowDifference(of="quarantine", expected=None, found={"id": "3", "rules": "amount.check"})


def result(
    name: str,
    outcome: Literal["passed", "failed", "error"] = "passed",
    *differences: RowDifference,
    table: str = "silver.orders",
    error: LakesmithError | None = None,
) -> UnitTestResult:
    return UnitTestResult(
        table=table,
        name=name,
        file="silver/orders.test.yml",
        line=7,
        description="the later one stays",
        outcome=outcome,
        seconds=1.5,
        differences=differences,
        error=error,
    )


def report(*results: UnitTestResult, untested: tuple[str, ...] = ()) -> UnitTestReport:
    return UnitTestReport(results=results, untested=untested, seconds=3.0)


def test_the_selection_and_the_name_filter_are_passed_to_the_lake(lake: FakeLake, invoke: Invoke) -> None:
    assert invoke("test", "silver.orders", "-s", "tag:daily", "--exclude", "gold.*", "-k", "late").exit_code == 0
    assert lake.called == {
        "method": "test",
        "select": ("silver.orders", "tag:daily"),
        "exclude": ("gold.*",),
        "name": "late",
    }


def test_tests_that_pass_are_counted_with_the_tables_that_have_none(lake: FakeLake, invoke: Invoke) -> None:
    lake.trials = report(result("a"), result("b"), untested=("gold.sales", "gold.sizes"))
    answer = invoke("test")
    assert answer.exit_code == 0
    assert answer.stdout == (
        "passed  silver.orders  a  1.5 s\n"
        "passed  silver.orders  b  1.5 s\n"
        "in 3.0 s: 2 tests, 2 passed; 2 tables have none: gold.sales, gold.sizes\n"
    )


def test_different_rows_are_shown_with_their_different_cells(lake: FakeLake, invoke: Invoke) -> None:
    lake.trials = report(result("a", "failed", CHANGED, MISSING, MORE))
    answer = invoke("test")
    assert answer.exit_code == 1
    assert answer.stdout == (
        "failed  silver.orders  a  1.5 s\n"
        "        silver/orders.test.yml:7  the later one stays\n"
        "        rows: - expected  + found\n"
        "        - id: 1  [amount: 6.00]\n"
        "        + id: 1  [amount: NULL]\n"
        "        - id: 2  amount: 1\\x1b[31m\n"
        "        quarantine: - expected  + found\n"
        "        + id: 3  rules: amount.check\n"
        "in 3.0 s: 1 test, 0 passed, 1 failed\n"
    )


def test_missing_rows_are_red_and_extra_rows_green_unless_colour_is_off(
    lake: FakeLake, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.trials = report(result("a", "failed", MISSING, MORE))
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = invoke("test").stdout
    assert "\x1b[1;31mid: 2" in coloured
    assert "\x1b[32mid: 3" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in invoke("test").stdout


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (DataError("gate-failed", "too few"), "failed", 1),
        (DeclarationError("query-rejected", "no such column"), "failed", 1),
        (DeclarationError("bad-value", "not a number", at=Place("t.yml", 3)), "error", 2),
        (InfrastructureError("spark-failed", "no"), "error", 4),
    ],
)
def test_the_exit_code_distinguishes_failed_from_invalid_tests(
    error: LakesmithError, outcome: Literal["failed", "error"], code: int, lake: FakeLake, invoke: Invoke
) -> None:
    lake.trials = report(result("a"), result("b", outcome, error=error))
    answer = invoke("test")
    assert answer.exit_code == code
    assert f"[{error.code}]" in answer.stdout


def test_the_json_has_every_test(lake: FakeLake, invoke: Invoke, parsed: Parsed) -> None:
    lake.trials = report(result("a", "failed", CHANGED), untested=("gold.sales",))
    shown = parsed(invoke("test", "--json"))
    assert shown["untested"] == ["gold.sales"]
    assert shown["tests"][0]["differences"] == [
        {"of": "table", "expected": {"id": "1", "amount": "6.00"}, "found": {"id": "1", "amount": None}}
    ]


def test_junit_has_a_suite_a_table_and_the_reason_of_each_failure(
    lake: FakeLake, invoke: Invoke, tmp_path: Path
) -> None:
    wrong = DeclarationError("bad-value", "id: 'x' is not a bigint", at=Place("tests/gold.yml", 3))
    lake.trials = report(
        result("a"), result("b", "failed", CHANGED, MISSING), result("c", "error", table="gold.sales", error=wrong)
    )
    file = tmp_path / "made" / "junit.xml"
    assert invoke("test", "--junit", str(file)).exit_code == 2
    suites = ET.parse(file).getroot()
    assert (suites.tag, suites.attrib["tests"], suites.attrib["failures"], suites.attrib["errors"]) == (
        "testsuites",
        "3",
        "1",
        "1",
    )
    silver, gold = suites.findall("testsuite")
    assert (silver.attrib["name"], silver.attrib["time"], gold.attrib["name"]) == (
        "silver.orders",
        "3.000",
        "gold.sales",
    )
    passed, failed = silver.findall("testcase")
    assert list(passed) == []
    assert (failed.attrib["classname"], failed.attrib["name"]) == ("silver.orders", "b")
    assert failed.findtext("failure") == ("- id: 1, amount: 6.00\n+ id: 1, amount: NULL\n- id: 2, amount: 1\\x1b[31m")
    error = gold.find("testcase/error")
    assert error is not None
    assert (error.attrib["type"], error.attrib["message"]) == ("bad-value", "id: 'x' is not a bigint")


def test_a_junit_file_that_cannot_be_written_is_reported(lake: FakeLake, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = invoke("test", "--junit", str(tmp_path / "file" / "junit.xml"))
    assert (answer.exit_code, "[not-writable]" in answer.stderr) == (2, True)


def test_empty_lists_what_was_analysed_and_what_was_not(lake: FakeLake, invoke: Invoke, parsed: Parsed) -> None:
    lake.empty = EmptyReport(
        checked=("silver.orders",),
        skipped={"bronze.x": "it declares no columns and holds nothing yet"},
        assumed={"bronze.orders": ("note",)},
        errors=(DeclarationError("query-rejected", "no such column", at=Place("gold/sales.sql", 4)),),
        seconds=2.0,
    )
    answer = invoke("test", "--empty", "silver.*")
    assert (answer.exit_code, lake.called["method"], lake.called["select"]) == (2, "test_empty", ("silver.*",))
    assert answer.stdout == (
        "ok       silver.orders\n"
        "skipped  bronze.x: it declares no columns and holds nothing yet\n"
        "assumed  bronze.orders: note, of any type: neither declared nor stored\n"
        "1 table on zero rows, 1 error, 1 skipped\n"
    )
    assert "gold/sales.sql:4: no such column [query-rejected]" in answer.stderr
    shown = parsed(invoke("test", "--empty", "--json"))
    assert shown["errors"][0]["line"] == 4


def test_empty_ignores_tests(lake: FakeLake, invoke: Invoke) -> None:
    assert invoke("test", "--empty", "-k", "a").exit_code == 2
