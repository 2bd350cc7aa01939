"""Writes a test report as JUnit XML, which most CI servers show."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from lakesmith.cli.output import clean
from lakesmith.errors import UsageError
from lakesmith.reports import RowDifference, UnitTestReport, UnitTestResult


def write_junit(report: UnitTestReport, path: Path) -> None:
    """Write one test suite for each table."""
    root = ET.Element("testsuites", _counts(report.results), name="lakesmith")
    for table in dict.fromkeys(result.table for result in report.results):
        own = tuple(result for result in report.results if result.table == table)
        suite = ET.SubElement(root, "testsuite", _counts(own), name=table)
        for result in own:
            _case(suite, result)
    ET.indent(root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        what = f"{error.filename or path}: {error.strerror}"
        raise UsageError("not-writable", what, hint="name another file") from None


def difference_lines(difference: RowDifference) -> Iterator[str]:
    """A difference as plain text."""
    for sign, row in (("-", difference.expected), ("+", difference.found)):
        if row is not None:
            yield f"{sign} " + ", ".join(f"{name}: {'NULL' if value is None else value}" for name, value in row.items())


def _counts(results: tuple[UnitTestResult, ...]) -> dict[str, str]:
    outcomes = [result.outcome for result in results]
    return {
        "tests": str(len(results)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _case(suite: ET.Element, result: UnitTestResult) -> None:
    attributes = {"name": result.name, "classname": result.table, "file": result.file, "line": str(result.line)}
    case = ET.SubElement(suite, "testcase", attributes, time=f"{result.seconds:.3f}")
    if result.outcome == "passed":
        return
    lines = [line for each in result.differences for line in difference_lines(each)]
    count = len(result.differences)
    message = result.error.what if result.error else f"{count} row{'s' if count > 1 else ''} not as expected"
    if result.error:
        lines.insert(0, str(result.error))
    tag = "failure" if result.outcome == "failed" else "error"
    # XML allows no control characters.
    code = result.error.code if result.error else "difference"
    element = ET.SubElement(case, tag, message=clean(message), type=code)
    element.text = "\n".join(clean(part) for line in lines for part in line.split("\n"))
