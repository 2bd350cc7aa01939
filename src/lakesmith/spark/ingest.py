"""Files become rows of a bronze table: as they arrived, with where they came from, unreadable ones marked."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from lakesmith.declare import Files, Table
from lakesmith.errors import DataError
from lakesmith.ledger.batches import Batch
from lakesmith.ports import FileFact, Storage, TableFacts
from lakesmith.quality.rules import CORRUPT, HIDDEN, quoted
from lakesmith.spark.types import merged, parse_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

AUDIT = ("_source_file", "_source_modified", "_ingested_at", "_run_id", "_row_hash")
_HEADER_BYTES = 65_536
_GLOB = re.compile(r"([\[\]{}*?\\])")
_UNSTORABLE = re.compile(r"[ ,;{}()\n\t=]")


def read_batch(
    spark: SparkSession, table: Table, batch: Batch, facts: TableFacts | None, storage: Storage
) -> DataFrame:
    """The rows of the batch's files: the payload, the audit columns, and the text of rows that could not be read."""
    assert isinstance(table.origin, Files)
    files = [file for file in batch.files if file.size > 0]
    known = {column.name: column.type for column in facts.columns} if facts else {}
    known = {name: type for name, type in known.items() if name not in AUDIT}
    if table.contract != "open":
        known |= {column.name: column.type for column in table.columns if column.type}
    read = _read_json if table.origin.format == "json" else _read_csv
    return _audited(read(spark, table, files, known, storage), batch)


def _read_json(
    spark: SparkSession, table: Table, files: Sequence[FileFact], known: Mapping[str, str], storage: Storage
) -> DataFrame:
    paths = [_escaped(storage.location(file.path)) for file in files]
    reader = spark.read.option("primitivesAsString", table.contract == "open")
    # An inference pass over the new files: without it a new field would be dropped in silence.
    found = (
        reader.option("columnNameOfCorruptRecord", CORRUPT).json(paths).schema if paths else parse_columns(spark, {})
    )
    fields = [field for field in found.fields if field.name != CORRUPT]
    _check_names(table, [field.name for field in fields], where=f"{len(files)} new files")
    _check_contract(table, known, [field.name for field in fields])
    return _parsed(spark, merged(parse_columns(spark, known), fields), paths)


def _parsed(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    from pyspark.sql.types import StringType

    return (
        spark.read.schema(schema.add(CORRUPT, StringType()))
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("mode", "PERMISSIVE")
        .json(list(paths))
        .selectExpr("*", *_ORIGIN)
    )


_ORIGIN = ("_metadata.file_path AS _source_file", "_metadata.file_modification_time AS _source_modified")


def _read_csv(
    spark: SparkSession, table: Table, files: Sequence[FileFact], known: Mapping[str, str], storage: Storage
) -> DataFrame:
    from pyspark.sql.types import StringType

    assert isinstance(table.origin, Files)
    # Spark matches CSV columns by position: files are read in groups that share a header, each by its own names.
    groups: dict[tuple[str, ...], list[FileFact]] = defaultdict(list)
    for file in files:
        groups[_header(table, file, known, storage)].append(file)
    frames = []
    for header, members in groups.items():
        _check_contract(table, known, header)
        schema = parse_columns(spark, {name: known.get(name, "string") for name in header})
        frames.append(
            spark.read.schema(schema.add(CORRUPT, StringType()))
            .options(
                header="true",
                # The names were read from the header itself; a quoted field may span lines.
                enforceSchema="true",
                multiLine="true",
                columnNameOfCorruptRecord=CORRUPT,
                mode="PERMISSIVE",
                sep=table.origin.delimiter,
                escape='"',
            )
            .csv([_escaped(storage.location(file.path)) for file in members])
            .selectExpr("*", *_ORIGIN)
        )
    if not frames:
        return _parsed(spark, parse_columns(spark, known), [])
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    missing = [name for name in known if name not in rows.columns]
    return rows.selectExpr("*", *(f"CAST(NULL AS {known[name]}) AS {quoted(name)}" for name in missing))


def _header(table: Table, file: FileFact, known: Mapping[str, str], storage: Storage) -> tuple[str, ...]:
    assert isinstance(table.origin, Files)
    try:
        text = storage.head(file.path, _HEADER_BYTES).decode("utf-8-sig", errors="strict")
    except UnicodeDecodeError as error:
        if error.start < _HEADER_BYTES - 4:
            raise DataError(
                "not-utf8",
                f"{file.path} is not UTF-8 (byte {error.start})",
                table=str(table.name),
                hint="convert the file to UTF-8 and land it under a new name",
            ) from error
        text = error.object[: error.start].decode("utf-8-sig")
    names = next(csv.reader(io.StringIO(text), delimiter=table.origin.delimiter), [])
    folded = [name.casefold() for name in names]
    twice = sorted({name for name in names if folded.count(name.casefold()) > 1})
    if twice:
        raise DataError(
            "header-twice",
            f"{file.path} has the column {', '.join(map(repr, twice))} more than once in its header",
            table=str(table.name),
            hint="give each column a name of its own and land the file under a new name",
        )
    _check_names(table, names, where=file.path)
    spelt = {name.lower(): name for name in known}
    return tuple(spelt.get(name.lower(), name) for name in names)


def _check_names(table: Table, names: Sequence[str], *, where: str) -> None:
    reserved = [name for name in names if name in (*AUDIT, "_metadata") or name.startswith(HIDDEN)]
    if reserved:
        raise DataError(
            "reserved-column",
            f"{where} brings the column {reserved[0]!r}, a name that Lakesmith uses itself",
            table=str(table.name),
            hint=f"rename the field in the source; reserved are {', '.join(AUDIT)}, _metadata and {HIDDEN}…",
        )
    unstorable = [name for name in names if not name or _UNSTORABLE.search(name)]
    if unstorable:
        raise DataError(
            "bad-column-name",
            f"{where} brings a column named {unstorable[0]!r}, which a table cannot store",
            table=str(table.name),
            hint="column names must not be empty or contain spaces, tabs, line ends or any of ,;{}()=",
        )


def _check_contract(table: Table, known: Mapping[str, str], found: Sequence[str]) -> None:
    if table.contract != "strict":
        return
    lower = {name.lower() for name in known}
    new = [name for name in found if name.lower() not in lower]
    if new:
        raise DataError(
            "contract-broken",
            f"the contract is strict, and the new files bring {', '.join(map(repr, new))}",
            table=str(table.name),
            hint=f"add the column to {table.declared_at.file}, or say `contract: additive` to take new columns in",
        )


def _audited(rows: DataFrame, batch: Batch) -> DataFrame:
    payload = [name for name in rows.columns if name not in (CORRUPT, "_source_file", "_source_modified")]
    row = ", ".join(map(quoted, payload))
    return rows.selectExpr(
        *map(quoted, payload),
        "_source_file",
        "_source_modified",
        f"timestamp_millis({batch.pinned_at}) AS _ingested_at",
        f"'{batch.run_id}' AS _run_id",
        # to_json leaves out NULLs, so the hash of a row stays the same when the table gains a column.
        f"sha2(to_json(struct({row})), 256) AS _row_hash" if payload else "sha2('{}', 256) AS _row_hash",
        CORRUPT,
    )


def _escaped(path: str) -> str:
    """Spark reads a path as a glob: a file may well be called `orders[1].json`."""
    return _GLOB.sub(r"\\\1", path)
