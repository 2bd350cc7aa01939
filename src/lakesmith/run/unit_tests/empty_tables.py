"""Analyses all queries and conditions on empty tables: whether Spark accepts them, and which types they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith.declare import LakeDeclaration, Merge, Scd2, Source, SqlQuery, Table, TableName
from lakesmith.declare.checks import BatchSql, RowSql, sql_named
from lakesmith.errors import DeclarationError, LakesmithError, Place
from lakesmith.jvm.process import JvmDied
from lakesmith.jvm.session import isolated
from lakesmith.plan.graph import Graph
from lakesmith.ports import TableFacts
from lakesmith.reports import EmptyReport, Event
from lakesmith.run.failures import translate
from lakesmith.run.unit_tests.session import local_session
from lakesmith.spark.build import empty_result
from lakesmith.spark.types import parse_columns, sql_type
from lakesmith.sqlproof.query import read_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANY = "void"
"""The type of NULL, which fits everywhere."""
_LINE = re.compile(r"line (\d+),? pos")
_NO_COLUMN = ("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")


def check_empty_tables(
    lake: LakeDeclaration,
    graph: Graph,
    stored: Mapping[TableName, TableFacts],
    selected: frozenset[TableName],
    *,
    on_event: Callable[[Event], None],
    session: SparkSession | None = None,
) -> EmptyReport:
    """Analyse the selected tables and all their inputs. Write nothing."""
    clock = monotonic()
    needed = selected.union(*(graph.ancestors(name) for name in selected))
    with local_session(lake, session, on_event) as spark:
        tables = _EmptyTables(lake=lake, graph=graph, stored=stored, spark=isolated(spark))
        for name in graph.order:
            if name in needed and lake.tables[name].enabled:
                tables.add(lake.tables[name])
    for error in tables.errors:
        lake.environment.mask(error)
    return EmptyReport(
        checked=tuple(str(name) for name in tables.frames if not isinstance(lake.tables[name].origin, Source)),
        skipped={str(name): why for name, why in tables.skipped.items()},
        assumed={str(name): tuple(columns) for name, columns in tables.assumed.items()},
        errors=tuple(tables.errors),
        seconds=monotonic() - clock,
    )


@dataclass(slots=True, kw_only=True)
class _EmptyTables:
    """The tables that are analysed so far; tables are added after their inputs."""

    lake: LakeDeclaration
    graph: Graph
    stored: Mapping[TableName, TableFacts]
    spark: SparkSession
    frames: dict[TableName, DataFrame] = field(default_factory=dict)
    open: set[TableName] = field(default_factory=set)
    """Tables that may have more columns than are declared or stored."""
    skipped: dict[TableName, str] = field(default_factory=dict)
    assumed: dict[TableName, list[str]] = field(default_factory=dict)
    errors: list[LakesmithError] = field(default_factory=list)

    def add(self, table: Table) -> None:
        if isinstance(table.origin, Source):
            self._add_source(table)
            return
        missing = [str(each) for each in self.graph.upstream(table.name) if each not in self.frames]
        if missing:
            self.skipped[table.name] = f"it reads {', '.join(missing)}"
            return
        try:
            self._analyse(table)
        except Exception as error:  # noqa: BLE001 (`translate` raises what is a bug of ours)
            self._failed(table, error)

    def _add_source(self, table: Table) -> None:
        name, facts = table.name, self.stored.get(table.name)
        columns = {column.name: column.type for column in facts.columns} if facts else {}
        stored = {column.lower(): column for column in columns}
        for column in table.columns:
            if column.type or column.name.lower() not in stored:
                columns[stored.get(column.name.lower(), column.name)] = column.type or _ANY
        if not columns:
            self.skipped[name] = "it declares no columns and has no rows yet"
            return
        if facts is None and table.contract != "strict":
            self.open.add(name)
        self.frames[name] = self._empty_frame(columns)

    def _empty_frame(self, columns: Mapping[str, str]) -> DataFrame:
        return self.spark.createDataFrame([], parse_columns(self.spark, columns))

    def _analyse(self, table: Table) -> None:
        frames = {}
        for name in self.graph.upstream(table.name):
            frames[str(name)] = self._input(table, name)
        given, rows = empty_result(self.spark, table, frames)
        rows.collect()
        self._check_conditions(table, given)
        if self._has_unknown_columns(table) and any(each in self.open for each in self.graph.upstream(table.name)):
            self.open.add(table.name)
        columns = {column.name: str(sql_type(column.dataType)) for column in rows.schema.fields}
        # As a plain empty table: tables that read it need not analyse its query again.
        self.frames[table.name] = self._empty_frame(columns)

    def _input(self, table: Table, name: TableName) -> DataFrame:
        """Return an input, with columns that the query reads and that the input may get later."""
        rows, query = self.frames[name], table.origin
        if name not in self.open or not isinstance(query, SqlQuery):
            return rows
        known = {column.lower() for column in rows.columns}
        unknown = sorted(each for each in read_query(query).reads.get(name, ()) if each.lower() not in known)
        if unknown:
            assumed = self.assumed.setdefault(name, [])
            assumed.extend(each for each in unknown if each not in assumed)
        return rows.selectExpr("*", *(f"CAST(NULL AS {_ANY}) AS `{each}`" for each in unknown))

    @staticmethod
    def _has_unknown_columns(table: Table) -> bool:
        return not isinstance(table.origin, SqlQuery) or read_query(table.origin).columns is None

    def _check_conditions(self, table: Table, rows: DataFrame) -> None:
        for condition, label, at, truth in _conditions(table):
            try:
                kind = rows.selectExpr(f"({condition}) AS condition").schema["condition"].dataType.simpleString()
            except Exception as error:
                failure = translate(error, table)
                if isinstance(failure, JvmDied):
                    raise failure from error
                failure.what, failure.at = f"{label}: {failure.what}", at
                failure.hint = "fix the condition or the columns that it names"
                self.errors.append(failure)
                continue
            if truth and kind not in ("boolean", _ANY):
                self.errors.append(
                    DeclarationError(
                        "query-rejected",
                        f"{label} is a {kind}, not a boolean: {condition}",
                        at=at,
                        table=str(table.name),
                        hint="compare it with a value, such as amount >= 0",
                    )
                )

    def _failed(self, table: Table, error: Exception) -> None:
        failures = translate(error, table)
        if isinstance(failures, JvmDied):
            raise failures  # no other table can be analysed
        opened = [str(each) for each in self.graph.upstream(table.name) if each in self.open]
        if opened and any(word in str(error) for word in _NO_COLUMN):
            self.skipped[table.name] = f"it reads columns that {', '.join(opened)} may get when it is built"
            return
        for failure in failures.errors:
            failure.table = failure.table or str(table.name)
            line = _LINE.search(str(error))
            if isinstance(table.origin, SqlQuery) and line and failure.code == "query-rejected":
                at = table.origin.declared_at
                failure.at = Place(at.file, at.line + int(line[1]) - 1)
        self.errors.extend(failures.errors)


def _conditions(table: Table) -> Iterator[tuple[str, str, Place, bool]]:
    """Return SQL over the table's rows, its description, its place, and whether it must be a boolean."""
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
