"""Unit tests of tables, and a check of all queries on empty tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith.errors import raise_all
from lakesmith.lake.declarations import check_declarations, column_names
from lakesmith.lake.facts import read_facts
from lakesmith.lake.open_lake import OnEvent, OpenLake, ignore
from lakesmith.load import load_tests
from lakesmith.plan.select import select as choose
from lakesmith.plan.tests import check_tests, chosen_tests, untested
from lakesmith.reports import EmptyReport, UnitTestReport, UnitTestResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_tests(
    lake: OpenLake,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    name: str | None = None,
    on_event: OnEvent | None = None,
    on_result: Callable[[UnitTestResult], None] | None = None,
    session: SparkSession | None = None,
) -> UnitTestReport:
    """Run the unit tests of the selected tables on a local Spark, in temporary warehouses.

    `name` selects the tests whose name contains it. Invalid tests raise an error before any test runs.
    """
    clock = monotonic()
    selected = choose(lake.graph, lake.tables, select, exclude)
    every = load_tests(lake.declaration.path, lake.tables)
    facts = read_facts(lake, remote=False)
    raise_all(check_tests(every, lake.tables, lake.graph, column_names(lake, facts)))
    check_declarations(lake, facts)
    tests = chosen_tests(every, selected, name)
    from lakesmith.run.unit_tests import run_unit_tests

    results = run_unit_tests(
        lake.declaration,
        lake.graph,
        facts.tables,
        tests,
        on_event=on_event or ignore,
        on_result=on_result or ignore,
        session=session,
    )
    without = untested(every, selected, lake.tables)
    return UnitTestReport(results=results, untested=without, seconds=monotonic() - clock)


def check_on_empty_tables(
    lake: OpenLake,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    on_event: OnEvent | None = None,
    session: SparkSession | None = None,
) -> EmptyReport:
    """Let Spark analyse every query and condition on empty tables. Writes nothing."""
    selected = choose(lake.graph, lake.tables, select, exclude)
    facts = read_facts(lake, remote=False)
    check_declarations(lake, facts)
    from lakesmith.run.unit_tests import check_empty_tables

    return check_empty_tables(
        lake.declaration, lake.graph, facts.tables, selected, on_event=on_event or ignore, session=session
    )
