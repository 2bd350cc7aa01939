"""What may be written in lakesmith.yml, in a YAML table and in the header of a SQL table.

The decoder, its errors and the JSON Schema are all read off these models, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from lakesmith.declare.contract import Contract
from lakesmith.declare.lake import PRIVATE
from lakesmith.declare.sources import Envelope, Incompatible, Listing, Starting, Symlinks, Values
from lakesmith.load.check_models import CheckBlock, ContractBlock, QuarantineBlock
from lakesmith.load.field_types import Block
from lakesmith.load.rules import (
    LATER,
    ColumnName,
    ColumnReference,
    Currency,
    Delimiter,
    Duration,
    LowName,
    Setting,
    Share,
    Size,
    Tag,
    Text,
    Type,
    Umask,
    VariableName,
    VersionText,
    Zone,
)

ContractWord = Contract
_KEY = "The columns that tell which rows are the same thing."
_DELETE = "A condition: the row says that its key is gone."
_TRACK = "The columns whose change is a new state; by default all but the key, the order and `ignore`."
_IGNORE = "Columns whose change is not a new state."
AnyFormat = Literal["json", "csv", "text", "xml", "parquet", "avro", "orc", "delta", "iceberg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBlock(Block):
    """Where a bronze table's rows come from."""

    files: Annotated[Text | None, "A glob of files: relative to `landing`, an absolute path, or a URL."] = None
    kafka: Annotated[Text | None, "A topic; `connection` says of which cluster."] = None
    jdbc: Annotated[Text | None, "A table of a database, or a SELECT in parentheses."] = None
    table: Annotated[Text | None, "The folder or URL of another lake's table, whose rows are copied."] = None
    adopt: Annotated[Text | None, "The folder or URL of a Delta table that is used where it lies."] = None
    format: Annotated[
        AnyFormat | None,
        "How the files or the table are written. Taken from the glob's ending where it tells; `delta` for tables.",
    ] = None
    delimiter: Annotated[Delimiter | None, "Files: what stands between two values of CSV. A comma by default."] = None
    encoding: Annotated[Text | None, "Files: the encoding of text without a byte order mark; utf-8 by default."] = None
    timezone: Annotated[Zone | None, "Files, kafka: the zone of times that are written without one."] = None
    row_tag: Annotated[Text | None, "Files: the XML element that is a row."] = None
    max_files: Annotated[int | None, "Files: how many are taken in with one commit at the most."] = None
    max_bytes: Annotated[int | None, "Files: how many bytes are taken in with one commit at the most."] = None
    archive: Annotated[Text | None, "Files: the folder that they are moved to once they are taken in."] = None
    listing: Annotated[
        Listing | None, "Files: `ordered` when names of new files sort after all before, so that few are looked at."
    ] = None
    symlinks: Annotated[
        Symlinks | None, "Files: `anywhere` follows symbolic links that leave the landing folder; `inside` by default."
    ] = None
    envelope: Annotated[Envelope | None, "Files, kafka: the records are changes of a table in this envelope."] = None
    connection: Annotated[LowName | None, "Kafka, jdbc: a name below `connections` of the environment."] = None
    values: Annotated[Values | None, "Kafka: how values are written; `json` by default."] = None
    subject: Annotated[Text | None, "Kafka: the registry's name of the schema; `<topic>-value` by default."] = None
    starting: Annotated[Starting | None, "Kafka: where the first run begins; `earliest` by default."] = None
    incompatible: Annotated[
        Incompatible | None, "Kafka: what happens when a new schema does not fit the table; `tell` by default."
    ] = None
    max_rows: Annotated[int | None, "Kafka: how many records are taken in with one commit at the most."] = None
    watermark: Annotated[ColumnName | None, "Jdbc: a column that only grows; rows after its last value are read."] = (
        None
    )
    overlap: Annotated[Duration | None, "Jdbc: how far before the last watermark is read again for late rows."] = None
    partition_by: Annotated[ColumnName | None, "Jdbc: a number or time column that splits the read."] = None
    partitions: Annotated[int | None, "Jdbc: how many connections read at a time."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBlock(Block):
    """One row a key, the latest wins."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    order_by: Annotated[
        tuple[ColumnName, ...],
        "The columns that tell which of two rows is the later one. Not needed where the query gives one row a key.",
    ] = ()
    delete: Annotated[Text | None, _DELETE] = None
    soft_delete: Annotated[
        ColumnName | None, "The boolean column that is added and tells of a key that is gone, whose row then stays."
    ] = None
    update: Annotated[
        tuple[ColumnName, ...], "The only columns that a later row changes; the others stay as they first came."
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2Block(Block):
    """Every state of a key, with the time from when and until when it held."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    order_by: Annotated[
        tuple[ColumnName, ...], "The time of a row first; what follows decides between rows of the same time."
    ]
    delete: Annotated[Text | None, _DELETE] = None
    track: Annotated[tuple[ColumnName, ...], _TRACK] = ()
    ignore: Annotated[tuple[ColumnName, ...], _IGNORE] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesBlock(Block):
    """The state that a stream of changes of another database leads to."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    order_by: Annotated[tuple[ColumnName, ...], "The columns that tell the order in which the changes happened."]
    op: Annotated[ColumnName, "The column that tells what happened: insert, update, delete, truncate."]
    amounts: Annotated[
        tuple[ColumnName, ...],
        "What corrections and reversals take back: the row stays, and so does its reversal.",
    ] = ()
    previous_key: Annotated[
        Mapping[ColumnName, ColumnName], "By key column, the one that holds the key before it changed."
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBlock(Block):
    """Full extracts: what changed between one and the next, and which keys are gone."""

    key: Annotated[tuple[ColumnName, ...], _KEY]
    taken: Annotated[ColumnName, "The column that all rows of one extract have in common, and that tells their order."]
    into: Annotated[
        Literal["merge", "scd2"] | None, "`merge` holds the newest extract, `scd2` every state; `merge` by default."
    ] = None
    track: Annotated[tuple[ColumnName, ...], _TRACK] = ()
    ignore: Annotated[tuple[ColumnName, ...], _IGNORE] = ()
    max_shrink: Annotated[
        Share | None, "An extract that lost more of its rows against the one before is refused, such as `20%`."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBlock(Block):
    """Every new row is added, once, and of rows that mean the same only one is kept."""

    dedup: Annotated[tuple[ColumnName, ...], "Of rows that have the same values in these columns, one is kept."] = ()
    by: Annotated[
        ColumnName | None, "The time of a row: of those that mean the same the earliest is kept; also for `--from`."
    ] = None
    within: Annotated[
        Duration | None, "Rows are the same only within one window of this length, such as `7d`, counted from 1970."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePartitionsBlock(Block):
    """Only touched partitions are computed anew."""

    SHORT: ClassVar[str | None] = "by"

    by: Annotated[ColumnName, "The column that the table is partitioned by."]
    same_as: Annotated[
        ColumnReference | None,
        "layer.table.column whose value decides the partition of a row. SQL tables need not say it.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBlock(Block):
    """How rows enter a table, where it needs more than a word."""

    ONE_KEY: ClassVar[bool] = True

    append: Annotated[AppendBlock | None, "Every new row is added; of rows that mean the same, one is kept."] = None
    merge: Annotated[MergeBlock | None, "One row a key, the latest by `order_by`."] = None
    scd2: Annotated[Scd2Block | None, "Every state of a key, with the time that it held."] = None
    changes: Annotated[ChangesBlock | None, "The state that a stream of changes leads to."] = None
    snapshot: Annotated[SnapshotBlock | None, "Full extracts, each compared with the one before."] = None
    replace_partitions: Annotated[
        ReplacePartitionsBlock | None, "Only the partitions that changes touch are computed anew."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBlock(Block):
    """A promise about one column."""

    SHORT: ClassVar[str | None] = "type"

    type: Annotated[Type | None, "A Spark SQL type. Without one, the type is what the data brings."] = None
    required: Annotated[bool, "A row without a value goes to quarantine."] = False
    check: Annotated[Text | None, "A condition that each row has to meet, or the row goes to quarantine."] = None
    key: Annotated[bool, "Tells rows apart, with the other keys: required, and unique in a batch."] = False
    unique: Annotated[bool, "A row whose value another row of the batch has goes to quarantine."] = False
    tags: Annotated[tuple[Tag, ...], "Words about the column, such as `pii`."] = ()
    description: Annotated[Text | None, "What the column holds, for people."] = None
    since: Annotated[VersionText | None, "The version of the contract that brought the column."] = None
    deprecated: Annotated[Text | None, "Why it should not be used any more, or what to use instead."] = None
    currency: Annotated[Currency | None, "The currency of amounts, such as `EUR`, or the column that holds it."] = None
    timezone: Annotated[Zone | None, "The zone that times are meant in, such as `Europe/Berlin`."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock(Block):
    """A table: where its rows come from, how they enter, and what is promised of them."""

    source: Annotated[SourceBlock | None, "Bronze only: where the rows come from."] = None
    load: Annotated[
        Literal["append", "replace"] | LoadBlock | None,
        "How rows enter the table. `append` for bronze; `replace` by default for silver and gold.",
    ] = None
    contract: Annotated[
        ContractWord | ContractBlock | None,
        "What may change: `additive` takes new columns in, `strict` refuses them, `open` takes anything.",
    ] = None
    columns: Annotated[
        Mapping[ColumnName, ColumnBlock], "Promises about columns; a type alone may stand for the block."
    ] = field(default_factory=dict)
    checks: Annotated[Mapping[ColumnName, CheckBlock], "Rules that rows and batches have to meet."] = field(
        default_factory=dict
    )
    quarantine: Annotated[QuarantineBlock | None, "How long rows may lie in quarantine."] = None
    owner: Annotated[Text | None, "Who answers for the table."] = None
    description: Annotated[Text | None, "What the table holds, for people."] = None
    tags: Annotated[tuple[Tag, ...], "Words to select tables by, added to those of `defaults`."] = ()
    freshness: Annotated[
        Duration | None, "After this long without new rows the table counts as late, such as `1h`."
    ] = None
    enabled: Annotated[bool, "`false` leaves the table out of plans and runs."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBlock(Block):
    """How much `lakesmith query` may use before it is stopped."""

    timeout: Annotated[Duration | None, "How long a query may take; `5m` by default."] = None
    memory: Annotated[
        Size | None, "How much memory a query may use, such as `2GB`; half of the machine's by default."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentBlock(Block):
    """A place where the lake is deployed."""

    warehouse: Annotated[Setting, "The folder or URL that every table lies below; relative to the lake's folder."] = (
        ".lakesmith/warehouse"
    )
    landing: Annotated[
        Setting | None,
        "The folder or URL that relative source paths start from; the lake's folder by default.",
    ] = None
    spark: Annotated[Mapping[Text, Setting], "Settings of the Spark session; secrets as `env:NAME` or `file:PATH`."] = (
        field(default_factory=dict)
    )
    storage: Annotated[
        Mapping[Text, Mapping[Text, Setting]],
        "By the beginning of a URL, such as `s3://drops`: how that store is reached; secrets as `env:NAME`.",
    ] = field(default_factory=dict)
    connections: Annotated[
        Mapping[LowName, Mapping[Text, Setting]],
        "By name, how a database or a Kafka cluster is reached; secrets as `env:NAME` or `file:PATH`.",
    ] = field(default_factory=dict)
    jobs: Annotated[int, "How many tables are built at a time."] = 2
    query: Annotated[QueryBlock | None, "How much `lakesmith query` may use before it is stopped."] = None
    umask: Annotated[Umask, "The permissions that files of the warehouse are made without, in octal and in quotes."] = (
        PRIVATE
    )
    variables: Annotated[Mapping[VariableName, Setting], "Values of variables in this environment."] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultsBlock(Block):
    """What the tables of a layer are unless they say otherwise."""

    owner: Annotated[Text | None, "Who answers for the tables."] = None
    contract: Annotated[ContractWord | None, "What may change in the tables."] = None
    freshness: Annotated[Duration | None, "After this long without new rows a table counts as late."] = None
    tags: Annotated[tuple[Tag, ...], "Words that every table of the layer has."] = ()
    quarantine: Annotated[QuarantineBlock | None, "How long rows may lie in quarantine."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeBlock(Block):
    """lakesmith.yml: the lake's name, where it is deployed, and what holds for many tables."""

    name: Annotated[LowName, "What the lake is called."]
    environments: Annotated[
        Mapping[LowName, Annotated[EnvironmentBlock, LATER]],
        "Where the lake is deployed, by name. Without any there is `dev`, in .lakesmith/warehouse.",
    ] = field(default_factory=dict)
    default_environment: Annotated[LowName | None, "The environment to use when none is named."] = None
    variables: Annotated[
        Mapping[VariableName, Setting | None],
        "Variables for ${name} in YAML values and SQL. One without a value has to be given.",
    ] = field(default_factory=dict)
    defaults: Annotated[
        Mapping[Literal["all", "bronze", "silver", "gold"], Annotated[DefaultsBlock, LATER]],
        "What tables are unless they say otherwise: by layer, and `all`.",
    ] = field(default_factory=dict)
