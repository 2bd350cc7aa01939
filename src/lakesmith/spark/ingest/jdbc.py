"""Rows of a database become rows of a bronze table: kept aside first, because a database cannot be read twice alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakesmith.columns import AGAIN, HIDDEN, ROW_HASH
from lakesmith.declare import Jdbc, Settings, Table
from lakesmith.errors import DataError, DeclarationError, InfrastructureError, LakesmithError, did_you_mean
from lakesmith.formats import Delta
from lakesmith.intake.shapes import spark_type
from lakesmith.jvm.drivers import driver_class
from lakesmith.jvm.process import death
from lakesmith.ledger.batch import Batch
from lakesmith.ports import Slice, TableFacts
from lakesmith.sources import connection
from lakesmith.sources.jdbc import EXTRACTED, OVERLAPPING, WATERMARK, Watermark, instant, parts
from lakesmith.spark.ingest import Inlet
from lakesmith.spark.ingest.audit import Extract, audited, check_columns, row_hash
from lakesmith.spark.ingest.jdbc_columns import DatabaseColumn, comparable, database_column, database_name
from lakesmith.spark.ingest.known import known_columns
from lakesmith.spark.ingest.staged import is_staged, staged_folder
from lakesmith.spark.types import spelt
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_UNFIT = f"{HIDDEN}unfit_"
"""With the number of the column that it stands beside: a database may cut off the end of a long name."""
_SPLIT = f"{HIDDEN}split"
_NUMBER = f"{HIDDEN}number"
_SEEN = f"{HIDDEN}seen"
_OURS = ("url", "driver", "driver.class")
"""Settings of a connection that are not handed to the driver."""
_FETCHED = "10000"
"""How many rows a driver takes from the server at a time; some would take the whole table."""


def pin_rows(inlet: Inlet, table: Table, source: Jdbc, batch: Batch) -> Batch:
    """The batch with the end of its stretch. Where nothing is new, it ends where it begins."""
    since = batch.slice.since if batch.slice else {}
    if source.watermark is None:
        return replace(batch, slice=Slice(since=since, until={EXTRACTED: batch.run_id}))
    server = _Server.reached(inlet, table, source)
    column, mark = server.watermark()
    before = str(since.get(WATERMARK, ""))
    reached = server.answer(column.extreme("MAX"), mark.newer(before), mark) or before
    overlapping = int(server.answer("COUNT(*)", mark.stretch(reached, reached)) or 0)
    return replace(batch, slice=Slice(since=since, until={WATERMARK: reached, OVERLAPPING: overlapping}))


def read_database(inlet: Inlet, table: Table, source: Jdbc, batch: Batch, facts: TableFacts | None) -> DataFrame:
    """The rows of the batch, from where they were kept aside; they are brought there if they are not yet."""
    staged = staged_folder(inlet.warehouse, table.name, batch)
    if not is_staged(inlet.warehouse, table.name, batch):
        if facts is not None and facts.sequence >= batch.sequence:
            raise DataError(
                "staged-rows-gone",
                f"batch {batch.sequence} is in the table, and the rows that it was made from are gone from {staged}",
                table=str(table.name),
                hint="put that folder back as it was: the database would give other rows now",
            )
        server = _Server.reached(inlet, table, source)
        with server.translated():
            server.stage(batch, facts, staged)
    rows = inlet.spark.read.parquet(staged)
    beside = [name for name in rows.columns if name.startswith(_UNFIT)]
    unfit = {rows.columns[int(name.removeprefix(_UNFIT))]: name for name in beside}
    added = tuple(name for name in (ROW_HASH, AGAIN) if name in rows.columns)
    return audited(table, batch, Extract(rows=rows, told=source.table, unfit=unfit, added=added), facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A table of a database, and the way to it."""

    inlet: Inlet
    table: Table
    source: Jdbc
    settings: Mapping[str, str]
    schema: StructType
    """The table's columns as Spark would read them."""

    @classmethod
    def reached(cls, inlet: Inlet, table: Table, source: Jdbc) -> _Server:
        """Ask the database for the table's columns."""
        from pyspark.sql.types import StructType

        settings = connection(table, inlet.environment)
        if not settings.get("url", "").startswith("jdbc:"):
            raise DeclarationError(
                "bad-connection",
                f"the connection '{source.connection}' has no url that begins with jdbc:",
                table=str(table.name),
                hint="for example url: jdbc:postgresql://host:5432/database",
            )
        asked = cls(inlet=inlet, table=table, source=source, settings=settings, schema=StructType([]))
        with asked.translated():
            return replace(asked, schema=asked.read("*", None).schema)

    def read(self, select: str, where: str | None, *conditions: str) -> DataFrame:
        """Rows by one connection, or by one for each of some conditions."""
        table = f"{self.source.table} lakesmith_source" if self.source.table.startswith("(") else self.source.table
        query = f"(SELECT {select} FROM {table}{f' WHERE {where}' if where else ''}) lakesmith"
        options = {
            "fetchsize": _FETCHED,
            **{name: value for name, value in self.settings.items() if name not in _OURS},
            "driver": driver_class(self.settings),
            "preferTimestampNTZ": "true",
        }
        reader = self.inlet.spark.read
        if conditions:
            return reader.jdbc(self.settings["url"], query, predicates=list(conditions), properties=options)
        return reader.jdbc(self.settings["url"], query, properties=options)

    def answer(self, select: str, where: str | None, mark: Watermark | None = None) -> str | None:
        """The one value of a small query, as the text that is kept of it."""
        is_instant = mark is not None and mark.kind == "instant"
        told = f"CAST({'unix_micros(answer)' if is_instant else 'answer'} AS string) AS told"
        with self.translated():
            (row,) = self.read(f"{select} AS answer", where).selectExpr(told).collect()
        if row.told is None:
            return None
        return instant(int(row.told)) if is_instant else str(row.told)

    def column(self, name: str, key: str) -> DatabaseColumn:
        """A column that the declaration names."""
        found = [field for field in self.schema.fields if field.name.lower() == name.lower()]
        if not found:
            raise DeclarationError(
                "unknown-column",
                f"{key}: {self.source.table} has no column '{name}'",
                at=self.table.declared_at,
                table=str(self.table.name),
                hint=did_you_mean(name, self.schema.names, label="columns"),
            )
        field = next((field for field in found if field.name == name), found[0])
        column = database_column(field, self.settings["url"])
        if column.kind is None or (column.kind == "text" and (key != "watermark" or self.source.overlap)):
            raise DeclarationError(
                "column-not-ordered",
                f"{key}: '{field.name}' of {self.source.table} is {spelt(field.dataType)}",
                at=self.table.declared_at,
                table=str(self.table.name),
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

    def stage(self, batch: Batch, facts: TableFacts | None, staged: str) -> None:
        """Bring the rows of the batch to a folder, with their hashes and with whether they are in the table already."""
        wanted = {column.name.lower(): spark_type(column.type) for column in known_columns(self.table, facts)}
        columns = [
            database_column(field, self.settings["url"], wanted.get(field.name.lower())) for field in self.schema.fields
        ]
        unfit = {column.name: f"{_UNFIT}{number}" for number, column in enumerate(columns) if column.fits}
        values = [f"{column.value} AS {column.quoted}" for column in columns]
        values += [f"{column.unfit} AS {unfit[column.name]}" for column in columns if column.fits]
        stretch = batch.slice or Slice()
        since, until = (str(side.get(WATERMARK, "")) for side in (stretch.since, stretch.until))
        where = self.watermark()[1].stretch(since, until) if self.source.watermark else None
        conditions, split = self._parts(where)
        rows = self.read(", ".join([*values, *split]), where, *conditions)
        extract = Extract(rows=rows.drop(_SPLIT), told=self.source.table, unfit=unfit)
        check_columns(self.table, extract, facts)
        hashed = extract.rows.selectExpr(
            # A cast takes away what the driver noted of a column, such as a length that Delta would enforce.
            *(f"CAST({quoted(f.name)} AS {spelt(f.dataType)}) AS {quoted(f.name)}" for f in extract.rows.schema),
            f"{row_hash(extract)} AS {ROW_HASH}",
        )
        if self.source.watermark and stretch.since and facts is not None:
            hashed = self._marked(hashed, facts, since)
        hashed.write.mode("overwrite").parquet(staged)

    def _marked(self, rows: DataFrame, facts: TableFacts, since: str) -> DataFrame:
        """Each row with whether it is in the table or its quarantine: as often as it is there."""
        spark = self.inlet.spark
        stored = spark.read.format("delta").option("versionAsOf", facts.version).load(facts.location)
        known = stored.where(self._may_come_again(facts, since)).select(ROW_HASH)
        refused = self.inlet.warehouse.quarantine(self.table.name)
        if Delta().facts(refused, "") is not None:
            known = known.union(spark.read.format("delta").load(refused).select("row_hash"))
        settled = self.inlet.warehouse.settled(self.table.name)
        if Delta().facts(settled, "") is not None:
            # What was given up is out of the quarantine, and must not come again.
            given_up = spark.read.format("delta").load(settled).where("how = 'discarded'")
            known = known.union(given_up.select("row_hash"))
        seen = known.groupBy(ROW_HASH).count()
        seen = seen.selectExpr(f"{ROW_HASH} AS {_SEEN}", "`count`")
        numbered = rows.selectExpr("*", f"row_number() OVER (PARTITION BY {ROW_HASH} ORDER BY {ROW_HASH}) AS {_NUMBER}")
        joined = numbered.join(seen, numbered[ROW_HASH] == seen[_SEEN], "left")
        return joined.selectExpr(*map(quoted, rows.columns), f"coalesce({_NUMBER} <= `count`, false) AS {AGAIN}")

    def _may_come_again(self, facts: TableFacts, since: str) -> str:
        """Spark SQL: the rows of the bronze table that a read after `since` may bring once more."""
        column, mark = self.watermark()
        types = {each.name.lower(): each.type for each in facts.columns}
        name, type = quoted(column.name), types.get(column.name.lower(), "string")
        # The database may order text in another way than Spark does.
        if not since or type == "string":
            return "true"
        lowest = mark.lowest(since) if mark.kind == "number" else f"CAST('{mark.lowest(since)}' AS {type})"
        return f"({name} >= {lowest} OR {name} IS NULL)"

    def _parts(self, where: str | None) -> tuple[list[str], list[str]]:
        """Conditions that split the rows among connections, and the column that they are about."""
        if self.source.partition_by is None or self.source.partitions < 2:
            return [], []
        column = self.column(self.source.partition_by, "partition_by")
        assert column.kind is not None
        mark = Watermark(column=column.quoted, kind=column.kind, fits=comparable(column))
        within = " AND ".join(filter(None, [where, f"NOT {mark.odd}"]))
        least, most = (self.answer(column.extreme(function), within, mark) for function in ("MIN", "MAX"))
        if least is None or most is None:
            return [], []
        split = database_name(_SPLIT, self.settings["url"])
        return parts(split, column.kind, least, most, self.source.partitions), [f"{column.quoted} AS {split}"]

    @contextmanager
    def translated(self) -> Iterator[None]:
        """What Spark and the driver raise becomes an error with a next step, without the password."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except LakesmithError as error:
            error.table = error.table or str(self.table.name)
            raise
        except (PySparkException, Py4JError) as error:
            # Not chained: what the driver says may show the whole connection.
            raise death(error) or self._error(str(error)) from None

    def _error(self, text: str) -> LakesmithError:
        said = Settings.of(self.settings).masked(_reason(text))
        for name, value in self.settings.items():
            if value and re.search("password|secret|token|key", name, re.IGNORECASE):
                said = said.replace(value, "…")
        said = re.sub(r"(password=)[^&;\s]*", r"\1…", said, flags=re.IGNORECASE)
        for cause in _CAUSES:
            if re.search(cause.pattern, said, re.IGNORECASE):
                told = cause.what.format(connection=self.source.connection, table=self.source.table)
                return cause.error(cause.code, f"{told}: {said}", table=str(self.table.name), hint=cause.hint)
        what = f"the database behind '{self.source.connection}' could not be read: {said}"
        hint = "the table is as it was; run again"
        return InfrastructureError("database-failed", what, table=str(self.table.name), hint=hint)


@dataclass(frozen=True, slots=True)
class _Cause:
    """What drivers of many databases say, and what that means here."""

    pattern: str
    error: type[LakesmithError]
    code: str
    what: str
    hint: str


_CAUSES = (
    _Cause(
        r"ClassNotFound|No suitable driver",
        InfrastructureError,
        "driver-missing",
        "this Spark runs without the driver of '{connection}'",
        "let Lakesmith start Spark, or put the driver on the class path of the session that it is given",
    ),
    _Cause(
        r"COLUMN_ALREADY_EXISTS",
        DataError,
        "header-twice",
        "{table} has a column more than once, upper and lower case aside",
        "give each a name of its own, such as jdbc: (SELECT … AS other_name FROM …)",
    ),
    _Cause(
        r"password|authenti|access denied|login failed|permission denied|role .* does not exist|not authorized",
        InfrastructureError,
        "database-refused",
        "the database behind '{connection}' does not let this user in",
        "check user and password of the connection, and that the user may read the table",
    ),
    _Cause(
        r"refused|UnknownHost|attempt failed|timed? ?out|link failure|unreachable|database .* does not exist|terminat",
        InfrastructureError,
        "database-unreachable",
        "the database behind '{connection}' cannot be reached",
        "check the url of the connection, and that the server runs; then run again",
    ),
    _Cause(
        r"relation .* does not exist|table.* (?:does not|doesn't) exist|table.* not found|invalid object|ORA-00942",
        DeclarationError,
        "unknown-database-table",
        "'{connection}' has no {table}",
        'check the name; one that needs a schema or capital letters is written like jdbc: \'"Sales"."Orders"\'',
    ),
    _Cause(
        r"syntax|column .* does not exist|unknown column|invalid identifier",
        DeclarationError,
        "query-refused",
        "the database behind '{connection}' cannot read {table}",
        "try the statement in the database itself, then correct it here",
    ),
)


def _reason(text: str) -> str:
    """What the driver says, and the innermost cause where that is another, in one line."""
    found = re.findall(r"^(?:Caused by)?:? ?([\w.$]+(?:Exception|Error)\b.*)$", text, re.MULTILINE)
    causes = [re.sub(r"^[\w.$]*SQL\w*Exception: ", "", cause) for cause in found] or [text.strip().partition("\n")[0]]
    driver = next((cause for cause, line in zip(causes, found, strict=False) if cause != line), causes[-1])
    return (driver if driver == causes[-1] else f"{driver} ({causes[-1]})")[:400]
