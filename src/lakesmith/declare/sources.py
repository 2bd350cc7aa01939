"""Where a bronze table's rows come from: frozen values, one class for each kind of source."""

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
Incompatible = Literal["tell", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files that arrive in a landing zone. Each is read exactly once."""

    files: str
    """A glob below the landing zone, or an absolute path or URL."""
    format: FileFormat
    """Taken from the glob's ending unless it is given."""
    delimiter: str = ","
    """CSV only."""
    encoding: str = "utf-8"
    """Text formats only; a byte order mark in a file tells more than this does."""
    timezone: str | None = None
    """The zone of times that are written without one; without this they do not fit a timestamp column."""
    row_tag: str | None = None
    """XML only: the element that is a row."""
    max_files: int | None = None
    """How many files are taken in with one commit at the most."""
    max_bytes: int | None = None
    """How many bytes of files are taken in with one commit at the most; one file is always taken."""
    archive: str | None = None
    """Where files are moved to once they are taken in, in the same store; None leaves them where they are."""
    listing: Listing = "full"
    """`ordered` promises that new files get names that sort after all before: a run looks only from there on, and
    through everything once a day."""
    symlinks: Symlinks = "inside"
    """Which symbolic links to files on local disk are followed: those that stay inside the folder before the glob's
    first wildcard, or all."""
    envelope: Envelope | None = None
    """The records are changes of another database's table in this envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """A topic. Each record is read exactly once, by its offset."""

    topic: str
    connection: str
    """A name below `connections` of the environment: `brokers`, `registry`, and settings of the client."""
    values: Values = "json"
    subject: str | None = None
    """The registry's name of the schema; `<topic>-value` when it is not given."""
    starting: Starting = "earliest"
    """Where the first run begins."""
    incompatible: Incompatible = "tell"
    """What happens when a new schema brings what an additive table cannot hold: warn, or read nothing."""
    max_rows: int | None = None
    """How many records are taken in with one commit at the most."""
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
    """A column that only grows: rows after the last value are read. Without one the whole table is, each time."""
    overlap: float = 0.0
    """Seconds (or, for a number, units) before the last watermark that are read again for rows that came late."""
    partition_by: str | None = None
    """A number, date or timestamp column that splits the read."""
    partitions: int = 1
    """How many connections read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTable:
    """A table of another lake, read by its versions."""

    location: str
    format: TableKind
    adopt: bool = False
    """The table is this table, where it lies: no row is copied, and nothing is ever written to it."""


Source = Files | Kafka | Jdbc | OtherTable


def source_text(source: Source) -> str:
    """Where the rows come from, in a few words."""
    match source:
        case Files(files=files):
            return files
        case Kafka(topic=topic, connection=connection):
            return f"kafka {connection}/{topic}"
        case Jdbc(table=table, connection=connection):
            return f"jdbc {connection}/{table}"
        case OtherTable(location=location, format=format):
            return f"{format} {location}"
