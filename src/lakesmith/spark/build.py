"""Runs the query of a silver or gold table over the input versions that a batch has pinned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, assert_never

from lakesmith.columns import CHANGE_FEED, HIDDEN
from lakesmith.declare import PythonQuery, ReplacePartitions, SqlQuery, Table, TableName
from lakesmith.declare.loads import Append, Load, Merge, with_query_case
from lakesmith.errors import DataError
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import flow
from lakesmith.ledger.content import (
    AddedSums,
    BackfilledDays,
    ChangedKeys,
    ChangedPartitions,
    ChangedRows,
    FullBuild,
    MovedBookmarks,
    NewFiles,
    ReplayedRows,
    RestoredVersion,
    SourceSlice,
    VacuumFence,
)
from lakesmith.load import call_function
from lakesmith.plan.backfill import day_column
from lakesmith.plan.steps import Span
from lakesmith.ports import ReplaceWhere, TableFolder, TableFormat
from lakesmith.spark.day_range import in_days, quarantined_in_days
from lakesmith.spark.loads import apply_load, is_keyed
from lakesmith.spark.loads.order import all_not_null
from lakesmith.spark.loads.touched_keys import touched_keys
from lakesmith.spark.types import parse_columns, sql_type
from lakesmith.sql import frame_name, literal, quoted, run_sql
from lakesmith.sqlproof.binding import bind
from lakesmith.sqlproof.query import KeyFinder, PartitionTrace, key_finder, partition_source, uses_key_finder
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

BEFORE = f"{HIDDEN}before_"
"""Prefix of the hidden columns that hold a value as it was before it was cast to its declared type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The rows that a query returns for a batch."""

    rows: DataFrame
    casts: Mapping[str, str]
    """By column, the hidden column with its value before the cast to the declared type."""
    replace_where: ReplaceWhere | None = None
    """Which rows of the table are replaced, when not all are."""
    replace_quarantine: ReplaceWhere | None = None
    """Which rows of the quarantine are replaced, when some but not all are."""
    all_rows: Callable[[], DataFrame] | None = None
    """Returns all rows of the query, where the rows of the batch may not be enough to compute a key."""
    keys: DataFrame | None = None
    """The keys to recompute from all their rows. None means every key."""
    load: Load | None = None
    """The table's load, with column names in the case that the query uses."""
    inputs: Mapping[str, DataFrame] = field(default_factory=dict)
    """By input table, the rows that the query read, where the batch covers all of them."""
    missing: tuple[str, ...] = ()
    """Declared columns that the query does not return. They are added as NULL."""
    undeclared: tuple[str, ...] = ()
    """Columns that the query returns and the contract does not allow."""


def build_batch(
    spark: SparkSession, table: Table, batch: Batch, format: TableFormat, warehouse: Warehouse
) -> Built | None:
    """Return the rows of the batch, or None when the changes touch no partition."""
    return _QueryBatch(spark, table, batch, format, warehouse).build()


def full_query(spark: SparkSession, table: Table, batch: Batch, format: TableFormat, warehouse: Warehouse) -> DataFrame:
    """Return all rows of the query over the pinned inputs of a batch, before casts to declared types."""
    query = _QueryBatch(spark, table, batch, format, warehouse)
    return _run_query(spark, table, {name: query.read(name) for name in batch.inputs})


def empty_result(spark: SparkSession, table: Table, frames: Mapping[str, DataFrame]) -> tuple[DataFrame, DataFrame]:
    """Return the rows of the query over these inputs, with declared types, and the rows that the load makes of them."""
    built = cast_to_declared(spark, table, _run_query(spark, table, frames))
    rows = built.rows.drop(*built.casts.values())
    load = with_query_case(table.load, rows.columns)
    return rows, apply_load(load, rows) if is_keyed(load) else rows


@dataclass(frozen=True, slots=True)
class _QueryBatch:
    """The query of one batch and its pinned inputs."""

    spark: SparkSession
    table: Table
    batch: Batch
    format: TableFormat
    warehouse: Warehouse

    def build(self) -> Built | None:
        """Run the query in the way that the mode of the batch requires."""
        table, batch = self.table, self.batch
        match batch.content:
            case AddedSums():
                return self._changed_groups()
            case ChangedKeys() if uses_key_finder(table):
                return self._changed_groups()
            case ChangedRows() | ChangedKeys() if is_keyed(table.load):
                return self._new_and_all_rows()
            case BackfilledDays(days=days):
                return self._selected_days(days)
            case ChangedPartitions():
                return self._changed_partitions()
            case ChangedRows() | ChangedKeys() | FullBuild():
                frames = {name: self._input(name) for name in batch.inputs}
                return replace(self._run(frames), inputs=frames)
            case NewFiles() | SourceSlice() | ReplayedRows() | VacuumFence() | MovedBookmarks() | RestoredVersion():
                raise AssertionError(f"a batch of mode {batch.mode} runs no query")
            case _:
                assert_never(batch.content)

    def read(self, name: str) -> DataFrame:
        """Return all rows of an input at its pinned version."""
        return self.format.read(self.spark, self._folder(name), self.batch.inputs[name].version)

    def _folder(self, name: str) -> TableFolder:
        return self.warehouse.table(_table_name(name))

    def _feed(self, name: str) -> DataFrame:
        until = self.batch.inputs[name].version
        return self.format.changes(self.spark, self._folder(name), self.batch.since[name], until)

    def _input(self, name: str) -> DataFrame:
        """Return the rows that the query reads of an input."""
        return _new_rows(self._feed(name)) if isinstance(self.batch.content, ChangedRows) else self.read(name)

    def _run(self, frames: Mapping[str, DataFrame]) -> Built:
        built = cast_to_declared(self.spark, self.table, _run_query(self.spark, self.table, frames))
        return replace(built, load=with_query_case(self.table.load, built.rows.columns))

    def _changed_partitions(self) -> Built | None:
        """Return the rows of the partitions that changes touch, or None when they touch none."""
        trace, load = partition_source(self.table), self.table.load
        assert isinstance(trace, PartitionTrace)
        assert isinstance(load, ReplacePartitions)
        name, partition = str(trace.table), self._partition_expression(trace)
        touched, kind = _touched_partitions(self._feed(name), partition)
        if not touched:
            return None
        values, texts = zip(*touched, strict=True)
        frames = {each: self.read(each) for each in self.batch.inputs}
        frames[name] = frames[name].where(among(partition, values))
        built = replace(self._run(frames), load=None)
        # The column that `same_as` names may have another type, and an empty text cannot be cast to it.
        same = built.rows.schema[load.by].dataType == kind
        stored = values if same else tuple(value for value in values if value != "")
        return replace(
            built,
            inputs=frames,
            replace_where=ReplaceWhere(among(quoted(load.by), stored), texts if same else ()),
            replace_quarantine=ReplaceWhere(among("partition", texts), texts),
        )

    def _partition_expression(self, trace: PartitionTrace) -> str:
        """Return SQL over the traced input: the partition that its rows belong to."""
        assert isinstance(self.table.load, ReplacePartitions)
        by = self.table.load.by
        declared = next((column.type for column in self.table.columns if column.name == by), None)
        return f"try_cast({trace.expression} AS {declared})" if declared else trace.expression

    def _selected_days(self, days: Span) -> Built:
        """Return the rows of some days. For keyed loads, also their keys (new and stored) and all rows."""
        folder = self.warehouse.table(self.table.name)
        facts = self.format.facts(folder, flow(self.table.name))
        assert facts is not None
        column = day_column(self.table, facts)
        kind = next(stored.type for stored in facts.columns if stored.name == column)
        inside = in_days(quoted(column), kind, days)
        trace = partition_source(self.table)
        frames = {name: self.read(name) for name in self.batch.inputs}
        if isinstance(trace, PartitionTrace):
            name = str(trace.table)
            frames[name] = frames[name].where(in_days(self._partition_expression(trace), kind, days))
        full = self._run(frames)
        built = replace(
            full,
            rows=full.rows.where(inside),
            all_rows=lambda: full.rows,
            replace_where=ReplaceWhere(inside),
            replace_quarantine=ReplaceWhere(quarantined_in_days(column, kind, days, self.batch.sequence)),
        )
        load = full.load
        assert load is not None
        if not is_keyed(load) or isinstance(load, Append):
            return built
        keys = touched_keys(load, built.rows)
        if keys is not None:
            stored = self.format.read(self.spark, folder, facts.version).where(inside)
            keys = keys.unionByName(stored.select(*keys.columns).where(all_not_null(keys.columns))).distinct()
        return replace(built, replace_where=None, keys=keys)

    def _new_and_all_rows(self) -> Built:
        """Return the new rows and all rows: a keyed load compares the rows of one key."""
        (name,) = self.batch.inputs
        feed = self._feed(name)
        new_rows = _new_rows(feed)
        built = self._run({name: new_rows})

        def all_rows() -> DataFrame:
            return self._run({name: self.read(name)}).rows

        if not isinstance(self.batch.content, ChangedKeys):
            return replace(built, all_rows=all_rows, inputs={name: new_rows})
        # A row that was updated or deleted touches the key that it had before.
        before_and_after = self._run({name: feed.drop(*CHANGE_FEED)}).rows
        assert built.load is not None
        assert is_keyed(built.load)
        return replace(built, all_rows=all_rows, keys=touched_keys(built.load, before_and_after))

    def _changed_groups(self) -> Built:
        """Return the rows of the keys that changes of any input touch; for added sums, the totals of new rows alone."""
        table, batch = self.table, self.batch
        assert isinstance(table.origin, SqlQuery)
        assert isinstance(table.load, Merge)
        now, feeds = {}, {}
        for name, position in batch.inputs.items():
            now[name] = self.read(name)
            if position.version > batch.since[name]:
                feeds[name] = self._feed(name).drop(*CHANGE_FEED)
        if isinstance(batch.content, AddedSums):
            return self._run({**now, **feeds})
        from pyspark.sql import DataFrame

        finder = key_finder(table.origin, table.load.key)
        assert isinstance(finder, KeyFinder)
        found = [
            self._keys_from_changes(finder.queries[_table_name(name)], name, feeds, now)
            for name in feeds
            if _table_name(name) in finder.queries
        ]
        built = self._run(now)
        assert isinstance(built.load, Merge)
        key = built.load.key
        own = built.rows.select(*map(quoted, key))
        keys = reduce(DataFrame.unionByName, found) if found else own.limit(0)
        # Cast to the table's types: a declared type may map several keys to one.
        types = {field.name: sql_type(field.dataType) for field in own.schema.fields}
        keys = keys.selectExpr(*(f"try_cast({quoted(name)} AS {types[name]}) AS {quoted(name)}" for name in key))
        keys = keys.where(all_not_null(key)).distinct()
        rows = built.rows.join(keys, list(key), "left_semi")
        return replace(built, rows=rows, all_rows=lambda: rows, keys=keys)

    def _keys_from_changes(
        self, query: SqlQuery, name: str, feeds: Mapping[str, DataFrame], now: Mapping[str, DataFrame]
    ) -> DataFrame:
        """Return the keys that changes of one input touch, with old and new rows of the other inputs."""
        frames = {other: rows.unionByName(feeds[other]) if other in feeds else rows for other, rows in now.items()}
        return _run_over(self.spark, query, {**frames, name: feeds[name]})


def _new_rows(feed: DataFrame) -> DataFrame:
    return feed.where("_change_type IN ('insert', 'update_postimage')").drop(*CHANGE_FEED)


def _run_query(spark: SparkSession, table: Table, frames: Mapping[str, DataFrame]) -> DataFrame:
    query = table.origin
    if isinstance(query, SqlQuery):
        return _run_over(spark, query, frames)
    assert isinstance(query, PythonQuery)
    from pyspark.sql import DataFrame

    rows = call_function(query, {parameter: frames[str(ref)] for parameter, ref in query.refs})
    if not isinstance(rows, DataFrame):
        raise DataError(
            "not-a-dataframe",
            f"{query.function}() returned {type(rows).__name__}, not a DataFrame",
            at=query.declared_at,
            table=str(table.name),
            hint="return a DataFrame with the rows of the table",
        )
    return rows


def _run_over(spark: SparkSession, query: SqlQuery, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Run the text of a query with a frame in place of each table."""
    names = {_table_name(name): frame_name() for name in frames}
    return run_sql(spark, bind(query, names), dict(zip(names.values(), frames.values(), strict=True)))


def _table_name(name: str) -> TableName:
    parsed = TableName.parse(name)
    assert parsed is not None, f"{name} was validated when it was loaded"
    return parsed


def cast_to_declared(spark: SparkSession, table: Table, rows: DataFrame, extra: Sequence[str] = ()) -> Built:
    """Check the output against the contract and cast it to the declared types; the original values stay in hidden
    columns. Columns in `extra` do not belong to the query and are passed through."""
    found = {each.name: each.dataType for each in rows.schema.fields if each.name not in extra}
    drift = table.drift
    missing = tuple(column.name for column in table.columns if column.name not in found)
    undeclared = tuple(name for name in found if name not in {column.name for column in table.columns})
    undeclared = undeclared if drift.new_column != "evolve" else ()
    stops = missing if drift.missing_column == "freeze" else ()
    if stops or (undeclared and drift.new_column == "freeze"):
        wrong = f"does not return {', '.join(stops)}" if stops else f"also returns {', '.join(undeclared)}"
        raise DataError(
            "contract-broken",
            f"the query {wrong}",
            at=table.declared_at,
            table=str(table.name),
            hint=f"the query returns {', '.join(found)}; declare exactly these columns",
        )
    if undeclared and drift.new_column == "discard":
        rows = rows.drop(*undeclared)
        found = {name: kind for name, kind in found.items() if name not in undeclared}
    if missing:
        types = {column.name: column.type or "string" for column in table.columns}
        rows = rows.selectExpr("*", *(f"CAST(NULL AS {types[name]}) AS {quoted(name)}" for name in missing))
        found = {each.name: each.dataType for each in rows.schema.fields if each.name not in extra}
    hidden = [name for name in found if name.startswith(HIDDEN)]
    if hidden:
        raise DataError(
            "reserved-column",
            f"the query returns a column {hidden[0]!r}, which is a name reserved by Lakesmith",
            at=table.declared_at,
            table=str(table.name),
            hint=f"rename it: names must not start with {HIDDEN}",
        )
    declared = parse_columns(spark, {column.name: column.type for column in table.columns if column.type})
    casts = {field.name: field for field in declared.fields if field.dataType != found[field.name]}
    if not casts:
        return Built(rows=rows, casts={}, missing=missing, undeclared=undeclared)
    selected = [
        f"try_cast({quoted(name)} AS {casts[name].dataType.simpleString()}) AS {quoted(name)}"
        if name in casts
        else quoted(name)
        for name in found
    ]
    before = {name: BEFORE + name for name in casts}
    originals = [f"{quoted(name)} AS {quoted(hidden)}" for name, hidden in before.items()]
    cast = rows.selectExpr(*selected, *originals, *extra)
    return Built(rows=cast, casts=before, missing=missing, undeclared=undeclared)


def _touched_partitions(feed: DataFrame, partition: str) -> tuple[list[tuple[object, str | None]], DataType]:
    """Return the partitions that changed rows belonged to before or belong to now, as values and as Spark's text, and
    the type of the values. A row that moved touches both partitions."""
    from pyspark.sql.types import StringType

    changed = feed.selectExpr(f"{partition} AS value", f"CAST({partition} AS string) AS text").distinct()
    kind = changed.schema["value"].dataType
    found: set[tuple[object, str | None]] = {(row.value, row.text) for row in changed.collect()}
    share: set[tuple[object, str | None]] = {(None, None), ("", "")}
    if isinstance(kind, StringType) and found & share:
        found |= share  # Delta stores an empty text as NULL, so one partition holds both
    return sorted(found, key=lambda pair: (pair[1] is not None, pair[1])), kind


def among(expression: str, values: Sequence[object]) -> str:
    """Return SQL: whether the expression has one of the values."""
    column_list = ", ".join(_literal(value) for value in values if value is not None)
    parts = [f"{expression} IN ({column_list})"] if column_list else []
    if None in values:
        parts.append(f"{expression} IS NULL")
    return " OR ".join(parts)


def _literal(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return str(value)
        case datetime():
            # PySpark returns timestamps in the time zone of this machine.
            return f"TIMESTAMP'{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case str():
            return literal(value)
        case _:
            raise DataError(
                "bad-partition-type",
                f"a table cannot be partitioned by a {type(value).__name__}",
                hint="partition by a date, a string, an integer or a boolean",
            )
