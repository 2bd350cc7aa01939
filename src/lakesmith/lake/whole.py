"""A lake: all that it can be asked and told, and what belongs to no other part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith.declare import Files
from lakesmith.errors import (
    UsageError,
    raise_all,
)
from lakesmith.lake.released import Released
from lakesmith.lake.words import silent
from lakesmith.load import load_tests
from lakesmith.plan.select import select as choose
from lakesmith.plan.tests import check_tests, chosen_tests, untested
from lakesmith.reports import (
    Adopted,
    EmptyReport,
    Event,
    TrialReport,
    TrialResult,
)
from lakesmith.storage import Landing, Sending, land

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake(Released):
    """A lake in one environment."""

    def test(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        name: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_result: Callable[[TrialResult], None] | None = None,
        session: SparkSession | None = None,
    ) -> TrialReport:
        """Carry out the tests of the selected tables, on a local Spark and in temporary warehouses.

        `name` is a part of the names of the tests that are meant. Tests that do not make sense are raised before any
        is carried out.
        """
        clock = monotonic()
        selected = choose(self.graph, self.tables, select, exclude)
        every = load_tests(self.declaration.path, self.tables)
        facts = self._facts(afar=False)
        raise_all(check_tests(every, self.tables, self.graph, self._schemas(facts)))
        self._check(facts)
        tests = chosen_tests(every, selected, name)
        from lakesmith.run.trial import try_tests

        tell, told = on_event or silent, on_result or silent
        results = try_tests(
            self.declaration, self.graph, facts.tables, tests, on_event=tell, on_result=told, session=session
        )
        without = untested(every, selected, self.tables)
        return TrialReport(results=results, untested=without, seconds=monotonic() - clock)

    def test_empty(
        self,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        *,
        on_event: Callable[[Event], None] | None = None,
        session: SparkSession | None = None,
    ) -> EmptyReport:
        """Let Spark analyse every query and every condition on tables without rows. Writes nothing."""
        selected = choose(self.graph, self.tables, select, exclude)
        facts = self._facts(afar=False)
        self._check(facts)
        from lakesmith.run.trial import try_empty

        tell = on_event or silent
        return try_empty(self.declaration, self.graph, facts.tables, selected, on_event=tell, session=session)

    def land(
        self,
        files: Sequence[str | Path],
        *,
        to: str,
        name: str | None = None,
        on_progress: Callable[[Sending], None] | None = None,
    ) -> Landing:
        """Put files where a bronze table takes them in, each whole or not at all."""
        table = self.tables[self._name(to)]
        if not isinstance(table.origin, Files):
            raise UsageError(
                "no-landing-zone",
                f"{to} takes no files in",
                table=to,
                hint="name a bronze table whose source is files",
            )
        storage, glob = self._landings[table.name]
        return land(storage, glob, files, table=to, name=name, on_progress=on_progress)

    def adopt(self, table: str) -> Adopted:
        """Make a folder of Parquet files the Delta table that a bronze table adopts: a log is written, no row moves."""
        name = self._name(table)
        location = self.tables[name].adopted
        if location is None:
            raise UsageError(
                "not-adopting",
                f"{name} does not adopt a table",
                hint=f"only a table whose source is adopt: PATH; see {self.tables[name].declared_at.file}",
            )
        if facts := self._table_facts(name):
            return Adopted(table=str(name), location=location, files=facts.files, rows=facts.rows, made=False)
        self._format.adopt(location)
        made = self._table_facts(name)
        assert made is not None
        return Adopted(table=str(name), location=location, files=made.files, rows=made.rows, made=True)
