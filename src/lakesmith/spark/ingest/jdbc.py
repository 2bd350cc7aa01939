"""Reads a database into a bronze table. The extract is stored first, because a second read may return other rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakesmith.columns import ALREADY_INGESTED, HIDDEN, ROW_HASH
from lakesmith.declare import Jdbc, Settings, Table
from lakesmith.errors import DataError, DeclarationError, InfrastructureError, LakesmithError, did_you_mean
from lakesmith.formats import Delta
from lakesmith.intake.shapes import spark_type
from lakesmith.jvm.drivers import driver_class
from lakesmith.jvm.process import death, spark_errors
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.content import SourceSlice
from lakesmith.ports import Slice, TableFacts, TableFolder
from lakesmith.sources import connection
from lakesmith.sources.jdbc import EXTRACTED, OVERLAPPING, WATERMARK, Watermark, instant, partition_conditions
from lakesmith.spark.ingest import IngestContext
from lakesmith.spark.ingest.fit_columns import SourceRows, check_columns, fit_to_table, row_hash
from lakesmith.spark.ingest.jdbc_columns import DatabaseColumn, comparable, database_column, database_name
from lakesmith.spark.ingest.staged_extract import is_staged, staged_folder
from lakesmith.spark.ingest.table_schema import table_schema
from lakesmith.spark.types import sql_type
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_UNFIT = f"{HIDDEN}unfit_"
"""Prefix with the number of the other column, not its name: databases truncate long names."""
_SPLIT = f"{HIDDEN}split"
_NUMBER = f"{HIDDEN}number"
_SEEN = f"{HIDDEN}seen"
_NOT_FOR_DRIVER = ("url", "driver", "driver.class")
"""Connection settings that are not passed to the driver."""
_FETCH_SIZE = "10000"
"""Rows per fetch. By default, some drivers fetch the whole table at once."""


def pin_watermark(context: IngestContext, table: Table, source: Jdbc, batch: Batch) -> Batch:
    """Return the batch with the end of its slice. Where nothing is new, the slice ends where it begins."""
    since = batch.slice.since if batch.slice else {}
    if source.watermark is None:
        return replace(batch, content=SourceSlice(slice=Slice(since=since, until={EXTRACTED: batch.run_id})))
    server = _Server.connect(context, table, source)
    column, mark = server.watermark()
    before = str(since.get(WATERMARK, ""))
    reached = server.scalar(column.extreme("MAX"), mark.newer(before), mark) or before
    overlapping = int(server.scalar("COUNT(*)", mark.condition(reached, reached)) or 0)
    slice = Slice(since=since, until={WATERMARK: reached, OVERLAPPING: overlapping})
    return replace(batch, content=SourceSlice(slice=slice))


def read_database(
    context: IngestContext, table: Table, source: Jdbc, batch: Batch, facts: TableFacts | None
) -> DataFrame:
    """Return the rows of the batch from its staged extract. Extract them first if that has not been done."""
    staged = staged_folder(context.warehouse, table.name, batch)
    if not is_staged(context.warehouse, table.name, batch):
        if facts is not None and facts.sequence >= batch.sequence:
            raise DataError(
                "staged-extract-missing",
                f"batch {batch.sequence} is committed, but its extract is missing from {staged}",
                hint="restore that folder: the database may return other rows now",
            )
        server = _Server.connect(context, table, source)
        with server.translate_errors():
            server.stage(batch, facts, staged)
    rows = context.spark.read.parquet(staged.engine_url("spark"))
    beside = [name for name in rows.columns if name.startswith(_UNFIT)]
    unfit = {rows.columns[int(name.removeprefix(_UNFIT))]: name for name in beside}
    added = tuple(name for name in (ROW_HASH, ALREADY_INGESTED) if name in rows.columns)
    return fit_to_table(table, batch, SourceRows(rows=rows, source_name=source.table, unfit=unfit, added=added), facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A table of a database and the connection to it."""

    context: IngestContext
    table: Table
    source: Jdbc
    settings: Mapping[str, str]
    schema: StructType
    """The table's columns as Spark reads them."""

    @classmethod
    def connect(cls, context: IngestContext, table: Table, source: Jdbc) -> _Server:
        """Connect and read the table's columns."""
        from pyspark.sql.types import StructType

        settings = connection(table, context.environment)
        if not settings.get("url", "").startswith("jdbc:"):
            raise DeclarationError(
                "bad-connection",
                f"the connection '{source.connection}' needs a url that starts with jdbc:",
                hint="for example url: jdbc:postgresql://host:5432/database",
            )
        server = cls(context=context, table=table, source=source, settings=settings, schema=StructType([]))
        with server.translate_errors():
            return replace(server, schema=server.read("*", None).schema)

    def read(self, select: str, where: str | None, *conditions: str) -> DataFrame:
        """Read rows through one connection, or through one connection per condition."""
        table = f"{self.source.table} lakesmith_source" if self.source.table.startswith("(") else self.source.table
        query = f"(SELECT {select} FROM {table}{f' WHERE {where}' if where else ''}) lakesmith"
        options = {
            "fetchsize": _FETCH_SIZE,
            **{name: value for name, value in self.settings.items() if name not in _NOT_FOR_DRIVER},
            "driver": driver_class(self.settings),
            "preferTimestampNTZ": "true",
        }
        reader = self.context.spark.read
        if conditions:
            return reader.jdbc(self.settings["url"], query, predicates=list(conditions), properties=options)
        return reader.jdbc(self.settings["url"], query, properties=options)

    def scalar(self, select: str, where: str | None, mark: Watermark | None = None) -> str | None:
        """Return the single value of a query as text."""
        is_instant = mark is not None and mark.kind == "instant"
        expression = f"CAST({'unix_micros(answer)' if is_instant else 'answer'} AS string) AS text"
        with self.translate_errors():
            (row,) = self.read(f"{select} AS answer", where).selectExpr(expression).collect()
        if row.text is None:
            return None
        return instant(int(row.text)) if is_instant else str(row.text)

    def column(self, name: str, key: str) -> DatabaseColumn:
        """Return a column that the declaration names. Raise when it is missing or has no order."""
        found = [field for field in self.schema.fields if field.name.lower() == name.lower()]
        if not found:
            raise DeclarationError(
                "unknown-column",
                f"{key}: {self.source.table} has no column '{name}'",
                at=self.table.declared_at,
                hint=did_you_mean(name, self.schema.names, label="columns"),
            )
        field = next((field for field in found if field.name == name), found[0])
        column = database_column(field, self.settings["url"])
        if column.kind is None or (column.kind == "text" and (key != "watermark" or self.source.overlap)):
            raise DeclarationError(
                "column-not-ordered",
                f"{key}: '{field.name}' of {self.source.table} is {sql_type(field.dataType)}",
                at=self.table.declared_at,
                hint="name a timestamp, a date or a number; a watermark without overlap may also be text",
            )
        return column

    def watermark(self) -> tuple[DatabaseColumn, Watermark]:
        assert self.source.watermark is not None
        column = self.column(self.source.watermark, "watermark")
        assert column.kind is not None
        return column, Watermark(
            column=column.quoted, kind=column.kind, overlap=self.source.overlap, fits=comparable(column)
        )

    def stage(self, batch: Batch, facts: TableFacts | None, staged: TableFolder) -> None:
        """Write the rows of the batch to a folder, with row hashes and a flag for rows that were ingested before."""
        bronze_types = {column.name.lower(): spark_type(column.type) for column in table_schema(self.table, facts)}
        columns = [
            database_column(field, self.settings["url"], bronze_types.get(field.name.lower()))
            for field in self.schema.fields
        ]
        unfit = {column.name: f"{_UNFIT}{number}" for number, column in enumerate(columns) if column.fits}
        values = [f"{column.value} AS {column.quoted}" for column in columns]
        values += [f"{column.unfit} AS {unfit[column.name]}" for column in columns if column.fits]
        pinned = batch.slice or Slice()
        since, until = (str(side.get(WATERMARK, "")) for side in (pinned.since, pinned.until))
        where = self.watermark()[1].condition(since, until) if self.source.watermark else None
        conditions, split = self._split_conditions(where)
        rows = self.read(", ".join([*values, *split]), where, *conditions)
        extract = SourceRows(rows=rows.drop(_SPLIT), source_name=self.source.table, unfit=unfit)
        check_columns(self.table, extract, facts)
        hashed = extract.rows.selectExpr(
            # The cast removes column metadata of the driver, such as a length that Delta would enforce.
            *(f"CAST({quoted(f.name)} AS {sql_type(f.dataType)}) AS {quoted(f.name)}" for f in extract.rows.schema),
            f"{row_hash(extract)} AS {ROW_HASH}",
        )
        if self.source.watermark and pinned.since and facts is not None:
            hashed = self._mark_ingested(hashed, facts, since)
        hashed.write.mode("overwrite").parquet(staged.engine_url("spark"))

    def _mark_ingested(self, rows: DataFrame, facts: TableFacts, since: str) -> DataFrame:
        """Flag rows that are in the table or its quarantine, as many times as they are there."""
        spark = self.context.spark
        stored = spark.read.format("delta").option("versionAsOf", facts.version).load(facts.folder.engine_url("spark"))
        known = stored.where(self._overlap_condition(facts, since)).select(ROW_HASH)
        quarantine = self.context.warehouse.quarantine(self.table.name)
        if Delta().facts(quarantine, "") is not None:
            known = known.union(spark.read.format("delta").load(quarantine.engine_url("spark")).select("row_hash"))
        decisions = self.context.warehouse.quarantine_decisions(self.table.name)
        if Delta().facts(decisions, "") is not None:
            # Discarded rows are no longer in the quarantine, and must not be ingested again.
            discarded = spark.read.format("delta").load(decisions.engine_url("spark")).where("decision = 'discarded'")
            known = known.union(discarded.select("row_hash"))
        seen = known.groupBy(ROW_HASH).count()
        seen = seen.selectExpr(f"{ROW_HASH} AS {_SEEN}", "`count`")
        numbered = rows.selectExpr("*", f"row_number() OVER (PARTITION BY {ROW_HASH} ORDER BY {ROW_HASH}) AS {_NUMBER}")
        joined = numbered.join(seen, numbered[ROW_HASH] == seen[_SEEN], "left")
        return joined.selectExpr(
            *map(quoted, rows.columns), f"coalesce({_NUMBER} <= `count`, false) AS {ALREADY_INGESTED}"
        )

    def _overlap_condition(self, facts: TableFacts, since: str) -> str:
        """Return Spark SQL: the rows of the bronze table that a read after `since` may return again."""
        column, mark = self.watermark()
        types = {each.name.lower(): each.type for each in facts.columns}
        name, type = quoted(column.name), types.get(column.name.lower(), "string")
        # The database may sort text differently from Spark.
        if not since or type == "string":
            return "true"
        first_reread = (
            mark.first_reread(since) if mark.kind == "number" else f"CAST('{mark.first_reread(since)}' AS {type})"
        )
        return f"({name} >= {first_reread} OR {name} IS NULL)"

    def _split_conditions(self, where: str | None) -> tuple[list[str], list[str]]:
        """Return conditions that split the rows among connections, and the column that they use."""
        if self.source.partition_by is None or self.source.partitions < 2:
            return [], []
        column = self.column(self.source.partition_by, "partition_by")
        assert column.kind is not None
        mark = Watermark(column=column.quoted, kind=column.kind, fits=comparable(column))
        within = " AND ".join(filter(None, [where, f"NOT {mark.incomparable}"]))
        least, most = (self.scalar(column.extreme(function), within, mark) for function in ("MIN", "MAX"))
        if least is None or most is None:
            return [], []
        split = database_name(_SPLIT, self.settings["url"])
        return partition_conditions(split, column.kind, least, most, self.source.partitions), [
            f"{column.quoted} AS {split}"
        ]

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate errors of Spark and the driver into Lakesmith errors without passwords."""
        try:
            yield
        except spark_errors() as error:
            # Not chained: the driver's message may contain the whole connection.
            raise death(error) or self._error(str(error)) from None

    def _error(self, text: str) -> LakesmithError:
        reason = Settings.of(self.settings).masked(_reason(text))
        for name, value in self.settings.items():
            if value and re.search("password|secret|token|key", name, re.IGNORECASE):
                reason = reason.replace(value, "…")
        reason = re.sub(r"(password=)[^&;\s]*", r"\1…", reason, flags=re.IGNORECASE)
        for pattern, error, code, template, hint in _CAUSES:
            if re.search(pattern, reason, re.IGNORECASE):
                what = template.format(connection=self.source.connection, table=self.source.table)
                return error(code, f"{what}: {reason}", hint=hint)
        what = f"reading the database of '{self.source.connection}' failed: {reason}"
        hint = "the table is unchanged; run again"
        return InfrastructureError("database-failed", what, hint=hint)


_CAUSES: tuple[tuple[str, type[LakesmithError], str, str, str], ...] = (
    (
        r"ClassNotFound|No suitable driver",
        InfrastructureError,
        "driver-missing",
        "the Spark session has no driver for '{connection}'",
        "let Lakesmith start Spark, or add the driver to the class path of your session",
    ),
    (
        r"COLUMN_ALREADY_EXISTS",
        DataError,
        "header-twice",
        "{table} has two columns whose names differ only in case",
        "rename one of them, for example jdbc: (SELECT … AS other_name FROM …)",
    ),
    (
        r"password|authenti|access denied|login failed|permission denied|role .* does not exist|not authorized",
        InfrastructureError,
        "database-access-denied",
        "the database of '{connection}' rejects this user",
        "check user and password of the connection, and that the user may read the table",
    ),
    (
        r"refused|UnknownHost|attempt failed|timed? ?out|link failure|unreachable|database .* does not exist|terminat",
        InfrastructureError,
        "database-unreachable",
        "the database of '{connection}' cannot be reached",
        "check the url of the connection and that the server is running; then run again",
    ),
    (
        r"relation .* does not exist|table.* (?:does not|doesn't) exist|table.* not found|invalid object|ORA-00942",
        DeclarationError,
        "unknown-database-table",
        "'{connection}' has no table {table}",
        'check the name; quote names with a schema or capital letters: jdbc: \'"Sales"."Orders"\'',
    ),
    (
        r"syntax|column .* does not exist|unknown column|invalid identifier",
        DeclarationError,
        "query-rejected",
        "the database of '{connection}' cannot read {table}",
        "run the statement in the database itself, then correct it here",
    ),
)
"""A pattern in the message of a database driver, and the error for it: class, code, text and hint."""


def _reason(text: str) -> str:
    """Return the driver's message and the innermost cause, in one line."""
    found = re.findall(r"^(?:Caused by)?:? ?([\w.$]+(?:Exception|Error)\b.*)$", text, re.MULTILINE)
    causes = [re.sub(r"^[\w.$]*SQL\w*Exception: ", "", cause) for cause in found] or [text.strip().partition("\n")[0]]
    driver = next((cause for cause, line in zip(causes, found, strict=False) if cause != line), causes[-1])
    return (driver if driver == causes[-1] else f"{driver} ({causes[-1]})")[:400]
