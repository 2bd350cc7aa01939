"""The warehouse of one unit test: it holds the inputs as tables, and the tested table runs there as in a lake."""

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
from lakesmith.ports import TableFacts, TableFolder, Upsert, Write
from lakesmith.run.execute import Executor
from lakesmith.run.unit_tests.frames import create_frame
from lakesmith.run.unit_tests.infer_types import infer_type
from lakesmith.spark.types import parse_columns
from lakesmith.sqlproof.query import read_query
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FLOW = "lakesmith.test"
_FOLLOWED: dict[str, str | None] = {"delta.enableChangeDataFeed": "true"}


@dataclass(slots=True, kw_only=True)
class UnitTestWarehouse:
    """The warehouse of one unit test, with what the test runs on."""

    lake: LakeDeclaration
    """With the warehouse of this test."""
    graph: Graph
    stored: Mapping[TableName, TableFacts]
    """The tables of the lake, for column types that are not declared."""
    test: TableTest
    session: SparkSession
    own: SparkSession
    """For the rows of the test: settings of the table's runs do not apply to it."""
    warehouse: Warehouse = field(init=False)
    format: Delta = field(init=False)
    _writes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.warehouse = Warehouse(self.lake.environment.warehouse, settings=self.lake.environment.storage)
        self.format = Delta()

    @property
    def table(self) -> Table:
        return self.lake.tables[self.test.table]

    def run_all(self) -> LakesmithError | None:
        """Add every batch to the inputs and run the table after each; return the error that ended the test.

        Given rows of the table itself are appended after a run on empty inputs. So the bookmark of the table is before
        the given batch, and the table reads it as it would in a lake that runs every day.
        """
        test, inputs = self.test, read_by(self.table, self.graph)
        own_rows = test.given.get(test.table)
        batches = [{name: rows for name, rows in test.given.items() if name != test.table}, *test.then]
        if own_rows is not None:
            self._give(dict.fromkeys(inputs, ()))
            # No checks yet: a gate would reject an empty table.
            problem = self._run(replace(self.table, checks=()))
            if problem is not None:
                return problem
            self._append(test.table, own_rows)
        else:
            batches[0] = {**dict.fromkeys(inputs, ()), **batches[0]}
        error = None
        for batch in batches:
            if error is not None:
                return error
            self._give(batch)
            error = self._run(self.table)
        return error

    def rows(self, folder: TableFolder) -> DataFrame | None:
        """Return the current rows of a table."""
        facts = self.format.facts(folder, "")
        return self.format.read(self.own, folder, facts.version) if facts else None

    def _give(self, batch: Batch) -> None:
        for name, rows in batch.items():
            self._append(name, rows)

    def _append(self, name: TableName, rows: Sequence[Row]) -> None:
        folder, load = self.warehouse.table(name), self.lake.tables[name].load
        facts = self.format.facts(folder, "")
        if facts is not None and not rows:
            return
        frame = create_frame(self.own, rows, self._types(name, facts))
        self._writes += 1
        write = Write(flow=_FLOW, sequence=self._writes, note=f"given {self._writes}")
        if name == self.test.table:
            self.format.append(frame, folder, write)
        elif facts is not None and isinstance(load, Merge):
            # A table with one row per key has so in a test too.
            self.format.merge(Upsert(rows=frame, key=load.key, newer="true"), folder, write)
        else:
            # No other writer has to be fenced here: without a Spark job a test takes half the time.
            from deltalake import write_deltalake

            write_deltalake(folder.url, _with_nulls(frame.toArrow()), mode="append", configuration=_FOLLOWED)

    def _types(self, name: TableName, facts: TableFacts | None) -> StructType:
        """Return the columns of a table: as declared, else as stored in the lake, else inferred from values."""
        if facts is not None:
            return parse_columns(self.own, {column.name: column.type for column in facts.columns})
        table = self.lake.tables[name]
        stored = {column.name: column.type for column in self.stored[name].columns} if name in self.stored else {}
        declared = {column.name: column.type for column in table.columns if column.type}
        known = {column.lower(): type for column, type in (stored | declared).items()}
        batches = (self.test.given, *self.test.then)
        rows = [row for batch in batches for row in batch.get(name, ())]
        named = (column for row in rows for column in row.values)
        names: dict[str, str] = {}
        for column in (*stored, *(column.name for column in table.columns), *named, *sorted(self._read(name))):
            names.setdefault(column.lower(), column)
        types = {}
        for low, column in names.items():
            values = [value for row in rows for given, value in row.values.items() if given.lower() == low]
            types[column] = known.get(low) or infer_type(values)
        return parse_columns(self.own, types)

    def _read(self, name: TableName) -> frozenset[str]:
        """Return the columns of an input that the query reads."""
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
            on_event=lambda _: None,
            check_history=lambda _, __: {},  # every test is the first batch
            session=self.session,
        )
        executor.execute(plan, 1)
        return executor.errors[0] if executor.errors else None

    def _facts(self) -> LakeFacts:
        tables, name = {}, self.test.table
        for each in (*read_by(self.table, self.graph), name):
            if facts := self.format.facts(self.warehouse.table(each), flow(each)):
                tables[each] = facts
        batches = Batches(self.warehouse.store, name)
        progress = batches.progress(tables.get(name), lambda: self.format.commits(self.warehouse.table(name)))
        return LakeFacts(tables=tables, progress={name: progress})


def _with_nulls(rows: pa.Table) -> pa.Table:
    """Make all columns nullable: the next batch may have NULLs."""
    import pyarrow as pa

    return rows.cast(pa.schema([column.with_nullable(True) for column in rows.schema]))
