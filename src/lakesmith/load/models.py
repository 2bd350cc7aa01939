"""The models of lakesmith.yml, of a YAML table and of the header of a SQL table.

The decoder, its errors and the JSON Schema all derive from these models, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from lakesmith.declare.contract import Contract, QuarantinePolicy
from lakesmith.declare.forms import (
    ColumnName,
    Currency,
    Delimiter,
    Duration,
    LowName,
    Setting,
    Tag,
    Text,
    Type,
    Umask,
    VariableName,
    VersionText,
    Zone,
)
from lakesmith.declare.lake import PRIVATE, Defaults, QueryLimits
from lakesmith.declare.loads import Append, Changes, Merge, ReplacePartitions, Scd2, Snapshot
from lakesmith.declare.sources import Envelope, Incompatible, Listing, Starting, Symlinks, Values
from lakesmith.load.check_models import CheckBlock, ContractBlock
from lakesmith.load.field_types import LATER, Block

ContractWord = Contract
AnyFormat = Literal["json", "csv", "text", "xml", "parquet", "avro", "orc", "delta", "iceberg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBlock(Block):
    """Where a bronze table's rows come from."""

    files: Annotated[Text | None, "A glob of files: relative to `landing`, an absolute path, or a URL."] = None
    kafka: Annotated[Text | None, "A topic of the cluster named by `connection`."] = None
    jdbc: Annotated[Text | None, "A table of a database, or a SELECT in parentheses."] = None
    table: Annotated[Text | None, "The folder or URL of another lake's table, whose rows are copied."] = None
    adopt: Annotated[Text | None, "The folder or URL of a Delta table that is used in place."] = None
    format: Annotated[
        AnyFormat | None,
        "The format of the files or the table. By default from the file extension; `delta` for tables.",
    ] = None
    delimiter: Annotated[Delimiter | None, "Files: the delimiter of CSV; a comma by default."] = None
    encoding: Annotated[Text | None, "Files: the encoding of text without a byte order mark; utf-8 by default."] = None
    timezone: Annotated[Zone | None, "Files, kafka: the time zone of timestamps without one."] = None
    row_tag: Annotated[Text | None, "Files: the name of the XML element that is a row."] = None
    max_files: Annotated[int | None, "Files: the maximum number of files per batch."] = None
    max_bytes: Annotated[int | None, "Files: the maximum number of bytes per batch."] = None
    archive: Annotated[Text | None, "Files: the folder that ingested files are moved to."] = None
    listing: Annotated[
        Listing | None,
        "Files: `ordered` when new files sort after all earlier ones, so that a run lists only recent files.",
    ] = None
    symlinks: Annotated[
        Symlinks | None, "Files: `anywhere` follows symbolic links that leave the landing folder; `inside` by default."
    ] = None
    envelope: Annotated[Envelope | None, "Files, kafka: the records are change events in this envelope."] = None
    connection: Annotated[LowName | None, "Kafka, jdbc: a name below `connections` of the environment."] = None
    values: Annotated[Values | None, "Kafka: the format of values; `json` by default."] = None
    subject: Annotated[Text | None, "Kafka: the subject in the schema registry; `<topic>-value` by default."] = None
    starting: Annotated[Starting | None, "Kafka: where the first run starts; `earliest` by default."] = None
    incompatible: Annotated[
        Incompatible | None, "Kafka: what happens when a new schema does not fit the table; `warn` by default."
    ] = None
    max_rows: Annotated[int | None, "Kafka: the maximum number of records per batch."] = None
    watermark: Annotated[
        ColumnName | None, "Jdbc: a column that only grows; each run reads the rows after its last value."
    ] = None
    overlap: Annotated[
        Duration | None, "Jdbc: how far before the last watermark rows are read again, to catch late rows."
    ] = None
    partition_by: Annotated[ColumnName | None, "Jdbc: a number or time column by which the read is split."] = None
    partitions: Annotated[int | None, "Jdbc: how many connections read in parallel."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBlock(Block):
    """How rows are loaded into a table, where the load has keys."""

    ONE_KEY: ClassVar[bool] = True

    append: Annotated[Append | None, "Every new row is added; of duplicates, one is kept."] = None
    merge: Annotated[Merge | None, "One row per key, the latest by `order_by`."] = None
    scd2: Annotated[Scd2 | None, "Every version of a key, with its validity."] = None
    changes: Annotated[Changes | None, "The current state after applying a stream of changes."] = None
    snapshot: Annotated[Snapshot | None, "Full extracts, each compared with the one before."] = None
    replace_partitions: Annotated[ReplacePartitions | None, "Only the partitions that changes affect are rebuilt."] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBlock(Block):
    """The contract of one column."""

    SHORT: ClassVar[str | None] = "type"

    type: Annotated[Type | None, "A Spark SQL type. Without one, the type comes from the data."] = None
    required: Annotated[bool, "Rows with NULL in the column are quarantined."] = False
    check: Annotated[Text | None, "A condition on each row; rows for which it is false are quarantined."] = None
    key: Annotated[bool, "Part of the key: required, and unique in a batch together with the other key columns."] = (
        False
    )
    unique: Annotated[bool, "Rows whose value another row of the batch has too are quarantined."] = False
    tags: Annotated[tuple[Tag, ...], "Tags of the column, such as `pii`."] = ()
    description: Annotated[Text | None, "A description of the column."] = None
    since: Annotated[VersionText | None, "The contract version that introduced the column."] = None
    deprecated: Annotated[Text | None, "Why the column is deprecated, or what to use instead."] = None
    currency: Annotated[Currency | None, "The currency of amounts, such as `EUR`, or the column with the currency."] = (
        None
    )
    timezone: Annotated[Zone | None, "The time zone of the column's times, such as `Europe/Berlin`."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock(Block):
    """A table: its source, its load, its contract and its checks."""

    source: Annotated[SourceBlock | None, "Bronze only: where the rows come from."] = None
    load: Annotated[
        Literal["append", "replace"] | LoadBlock | None,
        "How rows are loaded. `append` for bronze; `replace` by default for silver and gold.",
    ] = None
    contract: Annotated[
        ContractWord | ContractBlock | None,
        "What may change: `additive` adds new columns, `strict` rejects them, `open` accepts anything.",
    ] = None
    columns: Annotated[
        Mapping[ColumnName, ColumnBlock], "The declared columns; a type alone is short for the block."
    ] = field(default_factory=dict)
    checks: Annotated[Mapping[ColumnName, CheckBlock], "Rules for rows and batches."] = field(default_factory=dict)
    quarantine: Annotated[QuarantinePolicy | None, "How long rows may stay in quarantine."] = None
    owner: Annotated[Text | None, "The owner of the table."] = None
    description: Annotated[Text | None, "A description of the table."] = None
    tags: Annotated[tuple[Tag, ...], "Tags to select tables by, added to those of `defaults`."] = ()
    freshness: Annotated[Duration | None, "The table is stale after this long without new rows, such as `1h`."] = None
    enabled: Annotated[bool, "`false` excludes the table from plans and runs."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentBlock(Block):
    """An environment that the lake is deployed to."""

    warehouse: Annotated[Setting, "The folder or URL of all tables; relative to the lake's folder."] = (
        ".lakesmith/warehouse"
    )
    landing: Annotated[
        Setting | None,
        "The folder or URL that relative source paths are resolved against; the lake's folder by default.",
    ] = None
    spark: Annotated[Mapping[Text, Setting], "Settings of the Spark session; secrets as `env:NAME` or `file:PATH`."] = (
        field(default_factory=dict)
    )
    storage: Annotated[
        Mapping[Text, Mapping[Text, Setting]],
        "By URL prefix, such as `s3://drops`: settings of the store; secrets as `env:NAME`.",
    ] = field(default_factory=dict)
    connections: Annotated[
        Mapping[LowName, Mapping[Text, Setting]],
        "By name, settings of a database or a Kafka cluster; secrets as `env:NAME` or `file:PATH`.",
    ] = field(default_factory=dict)
    jobs: Annotated[int, "How many tables are built in parallel."] = 2
    query: Annotated[QueryLimits | None, "The limits of `lakesmith query`."] = None
    umask: Annotated[Umask, "The umask of files in the warehouse, in octal and in quotes."] = PRIVATE
    variables: Annotated[Mapping[VariableName, Setting], "Values of variables in this environment."] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeBlock(Block):
    """lakesmith.yml: the lake's name, its environments, variables and defaults."""

    name: Annotated[LowName, "The name of the lake."]
    environments: Annotated[
        Mapping[LowName, Annotated[EnvironmentBlock, LATER]],
        "The environments, by name. Without any there is `dev`, in .lakesmith/warehouse.",
    ] = field(default_factory=dict)
    default_environment: Annotated[LowName | None, "The environment to use without --env."] = None
    variables: Annotated[
        Mapping[VariableName, Setting | None],
        "Variables for ${name} in YAML values and SQL. One without a value must be set.",
    ] = field(default_factory=dict)
    defaults: Annotated[
        Mapping[Literal["all", "bronze", "silver", "gold"], Annotated[Defaults, LATER]],
        "Defaults for tables: by layer, and `all`.",
    ] = field(default_factory=dict)
