"""`lakesmith test`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from lakesmith.cli.call import Call, Command, Selection, selection
from lakesmith.cli.failures import Termination, show_errors
from lakesmith.cli.formatting import duration, plural
from lakesmith.cli.junit import write_junit
from lakesmith.cli.output import Cell, Page, Style, Styled, page, print_json
from lakesmith.errors import DataError, DeclarationError, InfrastructureError, UsageError
from lakesmith.reports import EmptyReport, Event, RowDifference, SparkStarting, UnitTestReport, UnitTestResult

Row = Mapping[str, str | None] | None
_OUTCOMES: dict[str, Style] = {"passed": "good", "failed": "bad", "error": "bad"}


@click.command("test", cls=Command)
@selection
@click.option("-k", "name", metavar="NAME", help="Only tests whose name contains NAME.")
@click.option("--empty", is_flag=True, help="Build all tables on zero rows, to check types and columns.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also write JUnit XML.")
def test(call: Call, selected: Selection, name: str | None, empty: bool, junit: Path | None) -> int:
    """Run unit tests for tables.

    Tests are in `<table>.test.yml` beside a declaration, or anywhere below `tests/`. They run on a local
    Spark in temporary warehouses. The lake's own tables are neither read nor written.
    """
    lake = call.open()
    if empty and (name or junit):
        raise UsageError(
            "conflicting-options", "--empty excludes -k and --junit", hint="it checks tables and runs no test"
        )
    if empty:
        with Termination():
            report_on_empty = lake.test_empty(**selected, on_event=_progress)
        return _show_empty(call, report_on_empty)
    out = page()

    def show_result(result: UnitTestResult) -> None:
        if not call.as_json:
            _show_result(out, result)

    with Termination():
        report = lake.test(**selected, name=name, on_event=_progress, on_result=show_result)
    if junit is not None:
        write_junit(report, junit)
    if call.as_json:
        print_json({"seconds": report.seconds, "tests": report.results, "untested": report.untested})
    else:
        _show_summary(out, report)
    return _exit_code(report)


def _progress(event: Event) -> None:
    if isinstance(event, SparkStarting):
        click.echo("starting Spark…", err=True)


def _exit_code(report: UnitTestReport) -> int:
    codes = [_code(result) for result in report.results if result.outcome != "passed"]
    return max(codes, default=0)


def _code(result: UnitTestResult) -> int:
    if result.outcome == "failed":
        return DataError.exit_code
    return result.error.exit_code if result.error else InfrastructureError.exit_code


def _show_result(out: Page, result: UnitTestResult) -> None:
    sign = Styled(f"{result.outcome:<6}", _OUTCOMES[result.outcome])
    out.line(
        sign, f"  {result.table}  ", Styled(result.name, "strong"), Styled(f"  {duration(result.seconds)}", "quiet")
    )
    if result.outcome != "passed":
        out.line("        ", Styled(f"{result.file}:{result.line}", "quiet"), f"  {result.description or ''}".rstrip())
    if result.error is not None:
        for line in str(result.error).split("\n"):
            out.line("        ", line)
    for of, title in (("table", "rows"), ("quarantine", "quarantine")):
        differences = [difference for difference in result.differences if difference.of == of]
        if differences:
            out.line(f"        {title}: ", Styled("- expected", "bad"), "  ", Styled("+ found", "good"))
        for difference in differences:
            _show_difference(out, difference)
    sys.stdout.flush()


def _show_difference(out: Page, difference: RowDifference) -> None:
    """Show a row in its colour. Of two versions of a row, highlight only the cells that differ."""
    expected, found = difference.expected, difference.found
    sides: tuple[tuple[str, Style, Row, Row], ...] = (("-", "bad", expected, found), ("+", "good", found, expected))
    for sign, style, row, other in sides:
        if row is None:
            continue
        cells: list[Cell] = [Styled(f"        {sign} ", style)]
        for number, (column, value) in enumerate(row.items()):
            text = f"{column}: {'NULL' if value is None else value}"
            cells.append("  " if number else "")
            if other is None:
                cells.append(Styled(text, style))
            elif other.get(column) == value:
                cells.append(Styled(text, "quiet"))
            else:
                cells.append(Styled(f"[{text}]", style))
        out.line(*cells)


def _show_summary(out: Page, report: UnitTestReport) -> None:
    parts = [plural(len(report.results), "test"), f"{report.count('passed')} passed"]
    if failed := report.count("failed"):
        parts.append(f"{failed} failed")
    if errors := report.count("error"):
        parts.append(f"{errors} with an error")
    summary = f"in {duration(report.seconds)}: {', '.join(parts)}"
    if untested := len(report.untested):
        have = "has" if untested == 1 else "have"
        summary += f"; {plural(untested, 'table')} {have} none: {', '.join(report.untested)}"
    out.line(Styled(summary, "bad" if _exit_code(report) else "good" if report.results else "warn"))


def _show_empty(call: Call, report: EmptyReport) -> int:
    if call.as_json:
        print_json(report)
    else:
        out = page()
        for table in report.checked:
            out.line(Styled("ok     ", "good"), f"  {table}")
        for table, why in report.skipped.items():
            out.line(Styled("skipped", "warn"), f"  {table}: {why}")
        for table, columns in report.assumed.items():
            out.line(
                Styled("assumed", "quiet"), f"  {table}: {', '.join(columns)}, of any type: neither declared nor stored"
            )
        summary = f"{plural(len(report.checked), 'table')} on zero rows, {plural(len(report.errors), 'error')}, "
        out.line(Styled(f"{summary}{len(report.skipped)} skipped", "bad" if report.errors else "good"))
        show_errors(report.errors)
    if any(error.exit_code == InfrastructureError.exit_code for error in report.errors):
        return InfrastructureError.exit_code
    return DeclarationError.exit_code if report.errors else 0
