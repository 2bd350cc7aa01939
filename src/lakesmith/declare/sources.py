"""Sources of bronze tables: frozen values, one class per kind of source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FileFormat = Literal["json", "csv", "text", "xml", "parquet", "avro", "orc"]
TableKind = Literal["delta", "iceberg"]
Envelope = Literal["debezium"]
Listing = Literal["full", "ordered"]
Symlinks = Literal["inside", "anywhere"]
Values = Literal["json", "avro", "protobuf", "text"]
Starting = Literal["earliest", "latest"]
Incompatible = Literal["warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files that arrive in a landing zone. Each is read exactly once."""

    files: str
    """A glob below the landing zone, or an absolute path or URL."""
    format: FileFormat
    """From the file extension by default."""
    delimiter: str = ","
    """CSV only."""
    encoding: str = "utf-8"
    """Text formats only; a byte order mark in a file overrides it."""
    timezone: str | None = None
    """The time zone of timestamps without one; without this, such values do not fit a timestamp column."""
    row_tag: str | None = None
    """XML only: the name of the element that is a row."""
    max_files: int | None = None
    """The maximum number of files per batch."""
    max_bytes: int | None = None
    """The maximum number of bytes per batch; a batch has at least one file."""
    archive: str | None = None
    """The folder of the same store that ingested files are moved to; None leaves them in place."""
    listing: Listing = "full"
    """`ordered` promises that new files sort after all earlier ones: a run lists only from there on, and everything
    once a day."""
    symlinks: Symlinks = "inside"
    """Which symbolic links on local disk are followed: those inside the folder before the glob's first wildcard, or
    all."""
    envelope: Envelope | None = None
    """The records are change events of another database in this envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """A topic. Each record is read exactly once, by its offset."""

    topic: str
    connection: str
    """A name below `connections` of the environment: `brokers`, `registry`, and settings of the client."""
    values: Values = "json"
    subject: str | None = None
    """The subject in the schema registry; `<topic>-value` by default."""
    starting: Starting = "earliest"
    """Where the first run starts."""
    incompatible: Incompatible = "warn"
    """The reaction when a new schema has something that an additive table cannot hold: warn, or read nothing."""
    max_rows: int | None = None
    """The maximum number of records per batch."""
    timezone: str | None = None
    envelope: Envelope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jdbc:
    """A table of a database."""

    table: str
    """Its name, or a SELECT in parentheses."""
    connection: str
    """A name below `connections` of the environment: `url`, `driver`, `user`, `password`, and driver settings."""
    watermark: str | None = None
    """A column that only grows: each run reads the rows after its last value. Without one, the whole table."""
    overlap: float = 0.0
    """Seconds (or, for a number, units) before the last watermark that are read again, to catch late rows."""
    partition_by: str | None = None
    """A number, date or timestamp column by which the read is split."""
    partitions: int = 1
    """How many connections read in parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTable:
    """A table of another lake, read by its versions."""

    location: str
    format: TableKind
    adopt: bool = False
    """The table is read in place: no row is copied, and nothing is ever written to it."""


Source = Files | Kafka | Jdbc | OtherTable


def source_text(source: Source) -> str:
    """Return a short description of the source."""
    match source:
        case Files(files=files):
            return files
        case Kafka(topic=topic, connection=connection):
            return f"kafka {connection}/{topic}"
        case Jdbc(table=table, connection=connection):
            return f"jdbc {connection}/{table}"
        case OtherTable(location=location, format=format):
            return f"{format} {location}"
