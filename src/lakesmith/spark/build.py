"""Queries become rows of a silver or gold table, over the inputs that a batch has pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.declare import PythonQuery, ReplacePartitions, SqlQuery, Table, TableName
from lakesmith.declare.loads import Append, Load, Merge, respelt
from lakesmith.errors import DataError
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import flow
from lakesmith.load import call_function
from lakesmith.plan.backfill import day_column
from lakesmith.ports import Part, TableFormat
from lakesmith.spark.days import refused_within, within
from lakesmith.spark.loads import is_keyed, shaped
from lakesmith.spark.loads.keys import touched_keys
from lakesmith.spark.loads.order import have_values
from lakesmith.spark.types import parse_columns, spelt
from lakesmith.sql import literal, quoted
from lakesmith.sqlproof.query import KeyFinder, PartitionTrace, bind, by_finder, key_finder, partition_source
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
BEFORE = f"{HIDDEN}before_"
"""Prefix of the hidden columns that hold a value as it was before it was cast to its declared type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The rows that a query gives for a batch."""

    rows: DataFrame
    casts: Mapping[str, str]
    """By column, the hidden column that holds its value before the cast to the declared type."""
    part: Part | None = None
    """Which rows are replaced, when it is not the whole table."""
    refused_part: Part | None = None
    """Which rows of the quarantine are replaced, when it is not all of them and not none."""
    whole: DataFrame | None = None
    """All rows that the query gives, where those of the batch may not suffice."""
    keys: DataFrame | None = None
    """The keys that changes touch, when these are computed from all their rows; all keys when it is None."""
    load: Load | None = None
    """The table's load, with the columns spelt as the query spells them."""
    inputs: Mapping[str, DataFrame] = field(default_factory=dict)
    """By input table, the rows that these were made from, where these are all of them."""
    missing: tuple[str, ...] = ()
    """Declared columns that the query does not give; they are there, without values."""
    undeclared: tuple[str, ...] = ()
    """Columns that the contract does not let in."""


def build_batch(
    spark: SparkSession, table: Table, batch: Batch, format: TableFormat, warehouse: Warehouse
) -> Built | None:
    """The rows of the batch; None when the changes touch no partition."""
    frames = {
        name: _input(spark, TableName.parse(name) or _unreachable(name), batch, format, warehouse)
        for name in batch.inputs
    }
    if batch.mode == "sums" or (batch.mode == "keys" and by_finder(table)):
        return _grouped(spark, table, batch, format, warehouse)
    if batch.mode in ("changes", "keys") and is_keyed(table.load):
        return _weighed(spark, table, batch, frames, format, warehouse)
    if batch.mode == "days":
        return _refilled(spark, table, batch, frames, format, warehouse)
    if batch.mode != "partitions":
        built = typed(spark, table, _run_query(spark, table, frames))
        return replace(built, load=respelt(table.load, built.rows.columns), inputs=frames)
    trace = partition_source(table)
    assert isinstance(trace, PartitionTrace)
    assert isinstance(table.load, ReplacePartitions)
    decides = _decides(table, trace)
    touched, kind = _touched(spark, trace, decides, batch, format, warehouse)
    if not touched:
        return None
    values, texts = zip(*touched, strict=True)
    frames[str(trace.table)] = frames[str(trace.table)].where(among(decides, values))
    built = typed(spark, table, _run_query(spark, table, frames))
    # What `same_as` names may be spelt in another way, and an empty text is then nothing that could be cast.
    same = built.rows.schema[table.load.by].dataType == kind
    held = values if same else tuple(value for value in values if value != "")
    return replace(
        built,
        inputs=frames,
        part=Part(among(quoted(table.load.by), held), texts if same else ()),
        refused_part=Part(among("partition", texts), texts),
    )


def whole_query(
    spark: SparkSession, table: Table, batch: Batch, format: TableFormat, warehouse: Warehouse
) -> DataFrame:
    """All rows that the query gives over the inputs that a batch has pinned, before values are cast."""
    frames = {
        name: format.read(spark, warehouse.table(_named(name)), position.version)
        for name, position in batch.inputs.items()
    }
    return _run_query(spark, table, frames)


def analysed(spark: SparkSession, table: Table, frames: Mapping[str, DataFrame]) -> tuple[DataFrame, DataFrame]:
    """The rows that the query gives when its inputs are these frames, with the declared types; and the rows that the
    table then holds."""
    built = typed(spark, table, _run_query(spark, table, frames))
    rows = built.rows.drop(*built.casts.values())
    load = respelt(table.load, rows.columns)
    return rows, shaped(load, rows) if is_keyed(load) else rows


def _decides(table: Table, trace: PartitionTrace) -> str:
    """SQL over the traced table: the partition that its rows end up in."""
    assert isinstance(table.load, ReplacePartitions)
    declared = next((column.type for column in table.columns if column.name == table.load.by), None)
    return f"try_cast({trace.expression} AS {declared})" if declared else trace.expression


def _refilled(
    spark: SparkSession,
    table: Table,
    batch: Batch,
    frames: dict[str, DataFrame],
    format: TableFormat,
    warehouse: Warehouse,
) -> Built:
    """The rows of some days; or the keys that rows of these days have, now or in the table, and all rows."""
    location, days = warehouse.table(table.name), batch.days
    facts = format.facts(location, flow(table.name))
    assert facts is not None
    assert days is not None
    column = day_column(table, facts)
    kind = next(known.type for known in facts.columns if known.name == column)
    inside = within(quoted(column), kind, days)
    trace = partition_source(table)
    if isinstance(trace, PartitionTrace):
        frames[str(trace.table)] = frames[str(trace.table)].where(within(_decides(table, trace), kind, days))
    whole = typed(spark, table, _run_query(spark, table, frames))
    load = respelt(table.load, whole.rows.columns)
    built = replace(
        whole,
        rows=whole.rows.where(inside),
        whole=whole.rows,
        load=load,
        part=Part(inside),
        refused_part=Part(refused_within(column, kind, days, batch.sequence)),
    )
    if not is_keyed(load) or isinstance(load, Append):
        return built
    keys = touched_keys(load, built.rows)
    if keys is not None:
        held = format.read(spark, location, facts.version).where(inside)
        keys = keys.unionByName(held.select(*keys.columns).where(have_values(keys.columns))).distinct()
    return replace(built, part=None, keys=keys)


def _weighed(
    spark: SparkSession,
    table: Table,
    batch: Batch,
    frames: Mapping[str, DataFrame],
    format: TableFormat,
    warehouse: Warehouse,
) -> Built:
    """The rows that are new, and all rows: those of one key are weighed against each other."""
    (name,) = frames
    source = TableName.parse(name) or _unreachable(name)
    location, version = warehouse.table(source), batch.inputs[name].version
    feed = format.changes(spark, location, batch.since[name], version)
    arriving = feed.where("_change_type IN ('insert', 'update_postimage')").drop(*_FEED_COLUMNS)
    built = typed(spark, table, _run_query(spark, table, {name: arriving}))
    all_rows = {name: format.read(spark, location, version)}
    whole = typed(spark, table, _run_query(spark, table, all_rows)).rows
    load = respelt(table.load, built.rows.columns)
    if batch.mode != "keys":
        return replace(built, whole=whole, load=load, inputs={name: arriving})
    # A row that changed or went away leaves its mark on the key that it had.
    before_and_after = typed(spark, table, _run_query(spark, table, {name: feed.drop(*_FEED_COLUMNS)}))
    assert is_keyed(load)
    return replace(built, whole=whole, load=load, keys=touched_keys(load, before_and_after.rows))


def _grouped(spark: SparkSession, table: Table, batch: Batch, format: TableFormat, warehouse: Warehouse) -> Built:
    """The rows of the keys that changes of any input touch; or, to be added up, what new rows alone give."""
    assert isinstance(table.origin, SqlQuery)
    assert isinstance(table.load, Merge)
    now, feeds = {}, {}
    for name, position in batch.inputs.items():
        location = warehouse.table(TableName.parse(name) or _unreachable(name))
        now[name] = format.read(spark, location, position.version)
        if position.version > batch.since[name]:
            feed = format.changes(spark, location, batch.since[name], position.version)
            feeds[name] = feed.drop(*_FEED_COLUMNS)
    if batch.mode == "sums":
        built = typed(spark, table, _run_query(spark, table, {**now, **feeds}))
        return replace(built, load=respelt(table.load, built.rows.columns))
    from pyspark.sql import DataFrame

    finder = key_finder(table.origin, table.load.key)
    assert isinstance(finder, KeyFinder)
    found = [
        _found(spark, finder.queries[_named(name)], name, feeds, now)
        for name in feeds
        if _named(name) in finder.queries
    ]
    built = typed(spark, table, _run_query(spark, table, now))
    load = respelt(table.load, built.rows.columns)
    assert isinstance(load, Merge)
    own = built.rows.select(*map(quoted, load.key))
    keys = reduce(DataFrame.unionByName, found) if found else own.limit(0)
    # As the table's own: a declared type may make one key of several.
    types = {field.name: spelt(field.dataType) for field in own.schema.fields}
    keys = keys.selectExpr(*(f"try_cast({quoted(name)} AS {types[name]}) AS {quoted(name)}" for name in load.key))
    keys = keys.where(have_values(load.key)).distinct()
    rows = built.rows.join(keys, list(load.key), "left_semi")
    return replace(built, rows=rows, whole=rows, load=load, keys=keys)


def _found(
    spark: SparkSession, query: SqlQuery, name: str, feeds: Mapping[str, DataFrame], now: Mapping[str, DataFrame]
) -> DataFrame:
    """The keys that changes of one input touch, the others being as they were and as they are."""
    frames = {other: rows.unionByName(feeds[other]) if other in feeds else rows for other, rows in now.items()}
    return spark.sql(bind(query, _views({**frames, name: feeds[name]})))


def _input(spark: SparkSession, name: TableName, batch: Batch, format: TableFormat, warehouse: Warehouse) -> DataFrame:
    position = batch.inputs[str(name)]
    location = warehouse.table(name)
    since = batch.since.get(str(name))
    if since is None or batch.mode != "changes":
        return format.read(spark, location, position.version)
    feed = format.changes(spark, location, since, position.version)
    return feed.where("_change_type IN ('insert', 'update_postimage')").drop(*_FEED_COLUMNS)


def _run_query(spark: SparkSession, table: Table, frames: Mapping[str, DataFrame]) -> DataFrame:
    query = table.origin
    if isinstance(query, SqlQuery):
        return spark.sql(bind(query, _views(frames)))
    assert isinstance(query, PythonQuery)
    from pyspark.sql import DataFrame

    rows = call_function(query, {parameter: frames[str(ref)] for parameter, ref in query.refs})
    if not isinstance(rows, DataFrame):
        raise DataError(
            "not-a-dataframe",
            f"{query.function}() returned {type(rows).__name__}, not a DataFrame",
            at=query.declared_at,
            table=str(table.name),
            hint="return the DataFrame that the table is to hold",
        )
    return rows


def _views(frames: Mapping[str, DataFrame]) -> dict[TableName, str]:
    """By table, the view that stands for it."""
    views = {}
    for name, frame in frames.items():
        view = f"lakesmith_{name.replace('.', '_')}"
        frame.createOrReplaceTempView(view)
        views[_named(name)] = view
    return views


def _named(name: str) -> TableName:
    return TableName.parse(name) or _unreachable(name)


def typed(spark: SparkSession, table: Table, rows: DataFrame, beside: Sequence[str] = ()) -> Built:
    """Cast to the declared types, keeping the values before, and hold the output to the contract. Columns in `beside`
    are none of the query's, and come along."""
    found = {each.name: each.dataType for each in rows.schema.fields if each.name not in beside}
    drift = table.drift
    missing = tuple(column.name for column in table.columns if column.name not in found)
    undeclared = tuple(name for name in found if name not in {column.name for column in table.columns})
    undeclared = undeclared if drift.new_column != "evolve" else ()
    stops = missing if drift.missing_column == "freeze" else ()
    if stops or (undeclared and drift.new_column == "freeze"):
        wrong = f"does not give {', '.join(stops)}" if stops else f"also gives {', '.join(undeclared)}"
        raise DataError(
            "contract-broken",
            f"the query {wrong}",
            at=table.declared_at,
            table=str(table.name),
            hint=f"the query gives {', '.join(found)}; declare the columns that it gives",
        )
    if undeclared and drift.new_column == "discard":
        rows = rows.drop(*undeclared)
        found = {name: kind for name, kind in found.items() if name not in undeclared}
    if missing:
        types = {column.name: column.type or "string" for column in table.columns}
        rows = rows.selectExpr("*", *(f"CAST(NULL AS {types[name]}) AS {quoted(name)}" for name in missing))
        found = {each.name: each.dataType for each in rows.schema.fields if each.name not in beside}
    hidden = [name for name in found if name.startswith(HIDDEN)]
    if hidden:
        raise DataError(
            "reserved-column",
            f"the query gives the column {hidden[0]!r}, a name that Lakesmith uses itself",
            at=table.declared_at,
            table=str(table.name),
            hint=f"give it a name that does not start with {HIDDEN}",
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
    kept = [f"{quoted(name)} AS {quoted(hidden)}" for name, hidden in before.items()]
    cast = rows.selectExpr(*selected, *kept, *beside)
    return Built(rows=cast, casts=before, missing=missing, undeclared=undeclared)


def _touched(
    spark: SparkSession,
    trace: PartitionTrace,
    decides: str,
    batch: Batch,
    format: TableFormat,
    warehouse: Warehouse,
) -> tuple[list[tuple[object, str | None]], DataType]:
    """The partitions of every row that was there before or is there now, as values and as Spark spells them, and the
    type of the values: a row that moved touches both."""
    from pyspark.sql.types import StringType

    name = str(trace.table)
    feed = format.changes(spark, warehouse.table(trace.table), batch.since[name], batch.inputs[name].version)
    told = feed.selectExpr(f"{decides} AS value", f"CAST({decides} AS string) AS text").distinct()
    kind = told.schema["value"].dataType
    found: set[tuple[object, str | None]] = {(row.value, row.text) for row in told.collect()}
    share: set[tuple[object, str | None]] = {(None, None), ("", "")}
    if isinstance(kind, StringType) and found & share:
        found |= share  # Delta keeps a text without letters as NULL: one partition holds both
    return sorted(found, key=lambda pair: (pair[1] is not None, pair[1])), kind


def among(expression: str, values: Sequence[object]) -> str:
    """SQL: the expression has one of the values."""
    listed = ", ".join(_literal(value) for value in values if value is not None)
    parts = [f"{expression} IN ({listed})"] if listed else []
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
            # PySpark gives timestamps in the time zone of this machine.
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


def _unreachable(name: str) -> TableName:
    raise AssertionError(f"{name} was validated when it was loaded")
