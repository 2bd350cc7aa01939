"""Turn the source block of a bronze table into a source, and reject keys that do not belong to it."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import fields
from pathlib import PurePosixPath
from typing import Any, cast, get_args

from lakesmith.declare import Files, Jdbc, Kafka, OtherTable, Source, TableName
from lakesmith.declare.sources import FileFormat, TableKind
from lakesmith.errors import DeclarationError, Place
from lakesmith.load.models import SourceBlock
from lakesmith.load.paths import is_url, path_problem

_ENDINGS: Mapping[str, FileFormat] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "text",
    ".log": "text",
    ".xml": "xml",
    ".parquet": "parquet",
    ".avro": "avro",
    ".orc": "orc",
}
_COMPRESSED = (".gz", ".bz2", ".zst")
_TEXT_FORMATS = ("json", "csv", "text", "xml")

KEYS: Mapping[str, tuple[str, ...]] = {
    "files": (
        *("format", "delimiter", "encoding", "timezone", "row_tag", "max_files", "max_bytes", "archive", "listing"),
        *("symlinks", "envelope"),
    ),
    "kafka": ("connection", "values", "subject", "starting", "incompatible", "max_rows", "timezone", "envelope"),
    "jdbc": ("connection", "watermark", "overlap", "partition_by", "partitions"),
    "table": ("format",),
    "adopt": (),
}
"""The keys of each kind of source."""


def read_source(name: TableName, block: SourceBlock) -> Source | None:
    """Return the source of the block; None when one of its values is already reported."""
    kinds = [kind for kind in KEYS if kind in block.places]
    if len(kinds) != 1:
        found = f"both {' and '.join(kinds)}" if kinds else "none of the source keys"
        raise _problem(block.at, name, "one-of", f"the source has {found}", f"give one of {', '.join(KEYS)}")
    kind = kinds[0]
    for key in block.places:
        if key not in (kind, *KEYS[kind]):
            goes_with = " or ".join(other for other, keys in KEYS.items() if key in keys)
            what = f"'{key}' is a key of {goes_with}, and this source is {kind}"
            raise _problem(
                block.places[key], name, "key-of-other-source", what, f"keys of {kind}: {', '.join(KEYS[kind])}"
            )
    match kind:
        case "files":
            return _files(name, block)
        case "kafka":
            return _kafka(name, block)
        case "jdbc":
            return _jdbc(name, block)
        case _:
            return _other_table(name, block, kind)


def _files(name: TableName, block: SourceBlock) -> Files | None:
    if block.files is None:
        return None
    at = block.places["files"]
    _check_path(name, block.files, at)
    path = PurePosixPath(block.files.replace("\\", "/"))
    if path.suffix.lower() in _COMPRESSED:
        path = path.with_suffix("")
    format = block.format or _ENDINGS.get(path.suffix.lower())
    if format is None:
        if "format" in block.places:
            return None
        what = f"the extension of '{path.name}' does not imply a format"
        hint = f"add format: to the source, one of {', '.join(get_args(FileFormat))}"
        raise _problem(at, name, "unknown-format", what, hint)
    if format not in get_args(FileFormat):
        what = f"{format} is the format of a table, not of files"
        raise _problem(block.places["format"], name, "unknown-format", what, "read it with table: or adopt:")
    for key, formats in (
        ("delimiter", ("csv",)),
        ("row_tag", ("xml",)),
        ("encoding", _TEXT_FORMATS),
        ("envelope", ("json",)),
    ):
        if key in block.places and format not in formats:
            what = f"{key} applies to {' or '.join(formats)}, and these files are {format}"
            raise _problem(
                block.places[key], name, "unknown-format", what, f"remove {key}, or set format: {formats[0]}"
            )
    if format == "xml" and block.row_tag is None and "row_tag" not in block.places:
        what = "no row_tag names the XML element that is a row"
        raise _problem(at, name, "missing-row-tag", what, f"row_tag: {name.name.rstrip('s')}")
    if block.encoding is not None:
        _check_encoding(name, block)
    if block.archive is not None:
        _check_path(name, block.archive, block.places["archive"])
        if "**" in block.files and not block.archive.startswith(("_", ".", "/")) and not is_url(block.archive):
            what = f"files archived in '{block.archive}' would be ingested again by '{block.files}'"
            hint = f"archive: _{block.archive}, which no wildcard matches"
            raise _problem(block.places["archive"], name, "archive-in-landing", what, hint)
    written = _written(block, Files) | {"format": format}
    return Files(**{"delimiter": "\t" if path.suffix.lower() == ".tsv" else ",", **written})


def _kafka(name: TableName, block: SourceBlock) -> Kafka | None:
    connection = _connection(name, block)
    if block.kafka is None or connection is None:
        return None
    return Kafka(topic=block.kafka, **_written(block, Kafka))


def _jdbc(name: TableName, block: SourceBlock) -> Jdbc | None:
    connection = _connection(name, block)
    if block.jdbc is None or connection is None:
        return None
    if block.overlap is not None and block.watermark is None:
        what = "overlap needs a watermark column"
        raise _problem(block.places["overlap"], name, "missing-watermark", what, "add watermark: updated_at")
    if (block.partitions or 1) > 1 and block.partition_by is None:
        what = "partitions needs partition_by, the column that splits the read"
        raise _problem(block.places["partitions"], name, "missing-partition-by", what, "add partition_by: id")
    return Jdbc(**_written(block, Jdbc) | {"table": block.jdbc})


def _other_table(name: TableName, block: SourceBlock, kind: str) -> OtherTable | None:
    location = block.table if kind == "table" else block.adopt
    if location is None:
        return None
    _check_path(name, location, block.places[kind])
    format = block.format or "delta"
    if format not in get_args(TableKind):
        what = f"{format} is the format of files, not of a table"
        hint = f"read them with files: {location.rstrip('/')}/**/*.{format}"
        raise _problem(block.places["format"], name, "unknown-format", what, hint)
    return OtherTable(location=location, format=cast(TableKind, format), adopt=kind == "adopt")


def _written(block: SourceBlock, kind: type[Files | Kafka | Jdbc]) -> dict[str, Any]:
    """Return the written keys that the source has under the same names."""
    values = {each.name: getattr(block, each.name, None) for each in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _connection(name: TableName, block: SourceBlock) -> str | None:
    if block.connection is None and "connection" not in block.places:
        what = "the source has no connection"
        raise _problem(
            block.at, name, "missing-connection", what, "add connection: NAME, one of `connections` in lakesmith.yml"
        )
    return block.connection


def _check_path(name: TableName, path: str, at: Place) -> None:
    if problem := path_problem(path):
        raise _problem(at, name, *problem)


def _check_encoding(name: TableName, block: SourceBlock) -> None:
    try:
        codecs.lookup(block.encoding or "")
    except LookupError:
        what = f"'{block.encoding}' is not a known encoding"
        hint = "for example latin-1, cp1252, utf-16, shift_jis"
        raise _problem(block.places["encoding"], name, "unknown-encoding", what, hint) from None


def _problem(at: Place, table: TableName, code: str, what: str, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=at, table=str(table), hint=hint)
