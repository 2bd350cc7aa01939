"""One test's own warehouse: its inputs are laid there as tables, and its table is run as any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakesmith.declare import LakeDeclaration, Merge, SqlQuery, Table, TableName
from lakesmith.declare.tests import Batch, Row, TableTest
from lakesmith.errors import LakesmithError, raise_all
from lakesmith.formats import Delta
from lakesmith.ledger.batches import Batches, flow
from lakesmith.plan.graph import Graph
from lakesmith.plan.planner import make_plan
from lakesmith.plan.steps import LakeFacts
from lakesmith.plan.tests import read_by
from lakesmith.ports import TableFacts, Upsert, Write
from lakesmith.reports import Event
from lakesmith.run.execute import Executor
from lakesmith.run.trial.frames import frame
from lakesmith.run.trial.looks import looks_like
from lakesmith.spark.types import parse_columns
from lakesmith.sqlproof.query import read_query
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FLOW = "lakesmith.test"
_FOLLOWED: dict[str, str | None] = {"delta.enableChangeDataFeed": "true"}


@dataclass(slots=True, kw_only=True)
class Bench:
    """What one test is carried out with."""

    lake: LakeDeclaration
    """With the warehouse of this test alone."""
    graph: Graph
    stored: Mapping[TableName, TableFacts]
    """The tables that the lake has, which know types that nobody has declared."""
    test: TableTest
    session: SparkSession
    own: SparkSession
    """For what is given and compared: settings of the table's runs do not reach it."""
    warehouse: Warehouse = field(init=False)
    format: Delta = field(init=False)
    _columns: dict[TableName, StructType] = field(init=False, default_factory=dict)
    _writes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.warehouse = Warehouse(self.lake.environment.warehouse)
        self.format = Delta()

    @property
    def table(self) -> Table:
        return self.lake.tables[self.test.table]

    def run_all(self) -> LakesmithError | None:
        """Give every batch and run the table after each; the error that one ended with, which is then the last.

        Rows of the table itself are put into the table that its query makes of inputs without rows. Its bookmark is
        then before the batch that is given, which is so followed as it would be in a lake that runs every day.
        """
        test, inputs = self.test, read_by(self.table, self.graph)
        held = test.given.get(test.table)
        batches = [{name: rows for name, rows in test.given.items() if name != test.table}, *test.then]
        if held is not None:
            self._give(dict.fromkeys(inputs, ()))
            # Nothing can be judged yet, and a gate would not let a table without rows come to be.
            problem = self._run(replace(self.table, checks=()))
            if problem is not None:
                return problem
            self._append(self.test.table, held)
        else:
            batches[0] = {**dict.fromkeys(inputs, ()), **batches[0]}
        error = None
        for batch in batches:
            if error is not None:
                return error
            self._give(batch)
            error = self._run(self.table)
        return error

    def rows(self, location: str) -> DataFrame | None:
        """The rows of a table as they are now."""
        facts = self.format.facts(location, "")
        return self.format.read(self.own, location, facts.version) if facts else None

    def _give(self, batch: Batch) -> None:
        for name, rows in batch.items():
            self._append(name, rows)

    def _append(self, name: TableName, rows: Sequence[Row]) -> None:
        location, load = self.warehouse.table(name), self.lake.tables[name].load
        facts = self.format.facts(location, "")
        if facts is not None and not rows:
            return
        given = frame(self.own, rows, self._types(name, facts))
        self._writes += 1
        write = Write(flow=_FLOW, sequence=self._writes, note=f"given {self._writes}")
        if name == self.test.table:
            self.format.append(given, location, write)
        elif facts is not None and isinstance(load, Merge):
            # A table that holds one row a key does so in a test too.
            self.format.merge(Upsert(rows=given, key=load.key, newer="true"), location, write)
        else:
            # Nobody else writes here and nothing has to be fenced: without a job of Spark a test takes half the time.
            from deltalake import write_deltalake

            write_deltalake(location, _with_nulls(given.toArrow()), mode="append", configuration=_FOLLOWED)

    def _types(self, name: TableName, facts: TableFacts | None) -> StructType:
        """The columns of a table: as they are declared, else as the lake holds them, else as values look."""
        if facts is not None:
            return parse_columns(self.own, {column.name: column.type for column in facts.columns})
        table = self.lake.tables[name]
        stored = {column.name: column.type for column in self.stored[name].columns} if name in self.stored else {}
        declared = {column.name: column.type for column in table.columns if column.type}
        known = {column.lower(): type for column, type in (stored | declared).items()}
        batches = (self.test.given, *self.test.then)
        rows = [row for batch in batches for row in batch.get(name, ())]
        named = (column for row in rows for column in row.values)
        spelt: dict[str, str] = {}
        for column in (*stored, *(column.name for column in table.columns), *named, *sorted(self._read(name))):
            spelt.setdefault(column.lower(), column)
        types = {}
        for low, column in spelt.items():
            values = [value for row in rows for given, value in row.values.items() if given.lower() == low]
            types[column] = known.get(low) or looks_like(values)
        return parse_columns(self.own, types)

    def _read(self, name: TableName) -> frozenset[str]:
        """The columns of an input that the query names."""
        query = self.table.origin
        return read_query(query).reads.get(name, frozenset()) if isinstance(query, SqlQuery) else frozenset()

    def _run(self, table: Table) -> LakesmithError | None:
        lake = replace(self.lake, tables={**self.lake.tables, table.name: replace(table, enabled=True)})
        plan = make_plan(lake, self.graph, self._facts(), selected=frozenset((table.name,)))
        raise_all(plan.problems)
        executor = Executor(
            lake,
            self.warehouse,
            {},
            self.format,
            run_id=f"test-{self._writes}",
            on_event=_silent,
            check_history=lambda _, __: {},  # every test is the first batch that there ever was
            session=self.session,
        )
        executor.execute(plan, 1)
        return executor.errors[0] if executor.errors else None

    def _facts(self) -> LakeFacts:
        tables, name = {}, self.test.table
        for each in (*read_by(self.table, self.graph), name):
            if facts := self.format.facts(self.warehouse.table(each), flow(each)):
                tables[each] = facts
        batches = Batches(self.warehouse.storage, name)
        progress = batches.progress(tables.get(name), lambda: self.format.commits(self.warehouse.table(name)))
        return LakeFacts(tables=tables, progress={name: progress})


def _with_nulls(rows: pa.Table) -> pa.Table:
    """That a value is there in every row of a batch is no promise for the next one."""
    import pyarrow as pa

    return rows.cast(pa.schema([column.with_nullable(True) for column in rows.schema]))


def _silent(event: Event) -> None:
    """Nobody is listening: a test tells of its end alone."""
