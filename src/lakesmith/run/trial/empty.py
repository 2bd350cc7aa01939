"""The whole graph on no rows at all: whether Spark takes every query and every condition, and which types come out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith.declare import LakeDeclaration, Merge, Scd2, Source, SqlQuery, Table, TableName
from lakesmith.declare.checks import BatchSql, RowSql, sql_named
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems
from lakesmith.plan.graph import Graph
from lakesmith.plan.query import read_query
from lakesmith.ports import TableFacts
from lakesmith.reports import EmptyReport, Event
from lakesmith.run.failures import translate
from lakesmith.run.trial.session import local_session
from lakesmith.spark.build import analysed
from lakesmith.spark.jvm import JvmDied
from lakesmith.spark.session import isolated
from lakesmith.spark.types import parse_columns, spelt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANY = "void"
"""The type of NULL, which fits wherever a value does."""
_LINE = re.compile(r"line (\d+),? pos")
_NO_COLUMN = ("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")


def try_empty(
    lake: LakeDeclaration,
    graph: Graph,
    stored: Mapping[TableName, TableFacts],
    selected: frozenset[TableName],
    *,
    on_event: Callable[[Event], None],
    session: SparkSession | None = None,
) -> EmptyReport:
    """Analyse the selected tables and all that they are made from. Writes nothing."""
    clock = monotonic()
    wanted = selected.union(*(graph.ancestors(name) for name in selected))
    with local_session(lake, session, on_event) as spark:
        tried = _Trying(lake=lake, graph=graph, stored=stored, spark=isolated(spark))
        for name in graph.order:
            if name in wanted and lake.tables[name].enabled:
                tried.add(lake.tables[name])
    return EmptyReport(
        checked=tuple(str(name) for name in tried.frames if not isinstance(lake.tables[name].origin, Source)),
        skipped={str(name): why for name, why in tried.skipped.items()},
        assumed={str(name): tuple(columns) for name, columns in tried.assumed.items()},
        errors=tuple(tried.errors),
        seconds=monotonic() - clock,
    )


@dataclass(slots=True, kw_only=True)
class _Trying:
    """How far the walk through the graph has come; tables are added after their inputs."""

    lake: LakeDeclaration
    graph: Graph
    stored: Mapping[TableName, TableFacts]
    spark: SparkSession
    frames: dict[TableName, DataFrame] = field(default_factory=dict)
    open: set[TableName] = field(default_factory=set)
    """Tables that may turn out to have more columns than are known."""
    skipped: dict[TableName, str] = field(default_factory=dict)
    assumed: dict[TableName, list[str]] = field(default_factory=dict)
    errors: list[LakesmithError] = field(default_factory=list)

    def add(self, table: Table) -> None:
        if isinstance(table.origin, Source):
            self._source(table)
            return
        missing = [str(each) for each in self.graph.upstream(table.name) if each not in self.frames]
        if missing:
            self.skipped[table.name] = f"it is made from {', '.join(missing)}"
            return
        try:
            self._made(table)
        except Exception as error:  # noqa: BLE001 (`translate` raises what is a bug of ours)
            self._failed(table, error)

    def _source(self, table: Table) -> None:
        name, facts = table.name, self.stored.get(table.name)
        columns = {column.name: column.type for column in facts.columns} if facts else {}
        known = {column.lower(): column for column in columns}
        for column in table.columns:
            if column.type or column.name.lower() not in known:
                columns[known.get(column.name.lower(), column.name)] = column.type or _ANY
        if not columns:
            self.skipped[name] = "it declares no columns and holds nothing yet"
            return
        if facts is None and table.contract != "strict":
            self.open.add(name)
        self.frames[name] = self._no_rows(columns)

    def _no_rows(self, columns: Mapping[str, str]) -> DataFrame:
        return self.spark.createDataFrame([], parse_columns(self.spark, columns))

    def _made(self, table: Table) -> None:
        frames = {}
        for name in self.graph.upstream(table.name):
            frames[str(name)] = self._input(table, name)
        given, rows = analysed(self.spark, table, frames)
        rows.collect()
        self._conditions(table, given)
        if self._tells_no_columns(table) and any(each in self.open for each in self.graph.upstream(table.name)):
            self.open.add(table.name)
        columns = {column.name: spelt(column.dataType) for column in rows.schema.fields}
        # From here on a table like any other: its query need not be gone through again by those that read it.
        self.frames[table.name] = self._no_rows(columns)

    def _input(self, table: Table, name: TableName) -> DataFrame:
        """The rows of an input, with the columns that the query names and that may still come."""
        rows, query = self.frames[name], table.origin
        if name not in self.open or not isinstance(query, SqlQuery):
            return rows
        known = {column.lower() for column in rows.columns}
        unknown = sorted(each for each in read_query(query).reads.get(name, ()) if each.lower() not in known)
        if unknown:
            told = self.assumed.setdefault(name, [])
            told.extend(each for each in unknown if each not in told)
        return rows.selectExpr("*", *(f"CAST(NULL AS {_ANY}) AS `{each}`" for each in unknown))

    @staticmethod
    def _tells_no_columns(table: Table) -> bool:
        return not isinstance(table.origin, SqlQuery) or read_query(table.origin).columns is None

    def _conditions(self, table: Table, rows: DataFrame) -> None:
        for condition, label, at, truth in _conditions(table):
            try:
                kind = rows.selectExpr(f"({condition}) AS told").schema["told"].dataType.simpleString()
            except Exception as error:
                failure = translate(error, table)
                if isinstance(failure, JvmDied):
                    raise failure from error
                failure.what, failure.at = f"{label}: {failure.what}", at
                failure.hint = "correct the condition or the columns that it names"
                self.errors.append(failure)
                continue
            if truth and kind not in ("boolean", _ANY):
                self.errors.append(
                    DeclarationError(
                        "query-refused",
                        f"{label} is a {kind}, and has to be true or false: {condition}",
                        at=at,
                        table=str(table.name),
                        hint="compare it with something, such as amount >= 0",
                    )
                )

    def _failed(self, table: Table, error: Exception) -> None:
        failures = translate(error, table)
        if isinstance(failures, JvmDied):
            raise failures  # no other table can be analysed
        opened = [str(each) for each in self.graph.upstream(table.name) if each in self.open]
        if opened and any(word in str(error) for word in _NO_COLUMN):
            self.skipped[table.name] = f"it reads columns that {', '.join(opened)} may bring when it is built"
            return
        found = failures.errors if isinstance(failures, Problems) else (failures,)
        for failure in found:
            failure.table = failure.table or str(table.name)
            line = _LINE.search(str(error))
            if isinstance(table.origin, SqlQuery) and line and failure.code == "query-refused":
                at = table.origin.declared_at
                failure.at = Place(at.file, at.line + int(line[1]) - 1)
        self.errors.extend(found)


def _conditions(table: Table) -> Iterator[tuple[str, str, Place, bool]]:
    """SQL over the table's rows, what it is, where it stands, and whether it has to be true or false."""
    for column in table.columns:
        if column.check:
            yield column.check, f"the check of column {column.name}", column.declared_at, True
    for check in table.checks:
        for text in sql_named(check.rule):
            yield text, f"check {check.name}", check.declared_at, isinstance(check.rule, RowSql | BatchSql)
        if check.where:
            yield check.where, f"`where` of check {check.name}", check.declared_at, True
    if isinstance(table.load, Merge | Scd2) and table.load.delete is not None:
        yield table.load.delete, "the condition of delete", table.load_at or table.declared_at, True
