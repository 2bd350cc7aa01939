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
from lakesmith.load.field_types import written_keys
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
_FORMATS_OF = {
    "delimiter": ("csv",),
    "row_tag": ("xml",),
    "encoding": ("json", "csv", "text", "xml"),
    "envelope": ("json",),
}
"""Keys of files that apply only to some formats."""


def _options(source: type[Files | Kafka | Jdbc]) -> tuple[str, ...]:
    """Return the fields of a source besides the first, which is named by its own key."""
    return tuple(option.name for option in fields(source)[1:])


KEYS: Mapping[str, tuple[str, ...]] = {
    "files": _options(Files),
    "kafka": _options(Kafka),
    "jdbc": _options(Jdbc),
    "table": ("format",),
    "adopt": (),
}
"""The keys of each kind of source."""


def read_source(name: TableName, block: SourceBlock) -> Source | None:
    """Return the source of the block; None when one of its values is already reported."""
    kinds = [kind for kind in KEYS if kind in block.places]
    if len(kinds) != 1:
        which = f"both {' and '.join(kinds)}" if kinds else "none of the source keys"
        raise _problem(block.at, "one-of", f"the source has {which}", f"give one of {', '.join(KEYS)}")
    kind = kinds[0]
    for key, at in block.places.items():
        if key not in (kind, *KEYS[kind]):
            goes_with = " or ".join(other for other, keys in KEYS.items() if key in keys)
            what = f"'{key}' is a key of {goes_with}, and this source is {kind}"
            raise _problem(at, "key-of-other-source", what, f"keys of {kind}: {', '.join(KEYS[kind])}")
    if "connection" in KEYS[kind] and "connection" not in block.places:
        hint = "add connection: NAME, one of `connections` in lakesmith.yml"
        raise _problem(block.at, "missing-connection", "the source has no connection", hint)
    written = written_keys(block)
    if kind not in written or ("connection" in KEYS[kind] and "connection" not in written):
        return None
    match kind:
        case "files":
            return _files(name, block, written)
        case "kafka":
            return Kafka(topic=written.pop("kafka"), **written)
        case "jdbc":
            return _jdbc(block, written)
        case _:
            return _other_table(block, kind, written[kind])


def _files(name: TableName, block: SourceBlock, written: dict[str, Any]) -> Files | None:
    files, at = written["files"], block.places["files"]
    _check_path(files, at)
    path = PurePosixPath(files.replace("\\", "/"))
    if path.suffix.lower() in _COMPRESSED:
        path = path.with_suffix("")
    format = block.format or _ENDINGS.get(path.suffix.lower())
    if format is None:
        if "format" in block.places:
            return None
        what = f"the extension of '{path.name}' does not imply a format"
        hint = f"add format: to the source, one of {', '.join(get_args(FileFormat))}"
        raise _problem(at, "unknown-format", what, hint)
    if format not in get_args(FileFormat):
        what = f"{format} is the format of a table, not of files"
        raise _problem(block.places["format"], "unknown-format", what, "read it with table: or adopt:")
    for key, formats in _FORMATS_OF.items():
        if key in block.places and format not in formats:
            what = f"{key} applies to {' or '.join(formats)}, and these files are {format}"
            raise _problem(block.places[key], "unknown-format", what, f"remove {key}, or set format: {formats[0]}")
    if format == "xml" and "row_tag" not in block.places:
        what = "no row_tag names the XML element that is a row"
        raise _problem(at, "missing-row-tag", what, f"row_tag: {name.name.rstrip('s')}")
    if block.encoding is not None:
        _check_encoding(block.encoding, block.places["encoding"])
    if block.archive is not None:
        _check_path(block.archive, block.places["archive"])
        if "**" in files and not block.archive.startswith(("_", ".", "/")) and not is_url(block.archive):
            what = f"files archived in '{block.archive}' would be ingested again by '{files}'"
            hint = f"archive: _{block.archive}, which no wildcard matches"
            raise _problem(block.places["archive"], "archive-in-landing", what, hint)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    return Files(**{"delimiter": delimiter, **written, "format": format})


def _jdbc(block: SourceBlock, written: dict[str, Any]) -> Jdbc:
    if block.overlap is not None and block.watermark is None:
        what = "overlap needs a watermark column"
        raise _problem(block.places["overlap"], "missing-watermark", what, "add watermark: updated_at")
    if (block.partitions or 1) > 1 and block.partition_by is None:
        what = "partitions needs partition_by, the column that splits the read"
        raise _problem(block.places["partitions"], "missing-partition-by", what, "add partition_by: id")
    return Jdbc(table=written.pop("jdbc"), **written)


def _other_table(block: SourceBlock, kind: str, location: str) -> OtherTable:
    _check_path(location, block.places[kind])
    format = block.format or "delta"
    if format not in get_args(TableKind):
        what = f"{format} is the format of files, not of a table"
        hint = f"read them with files: {location.rstrip('/')}/**/*.{format}"
        raise _problem(block.places["format"], "unknown-format", what, hint)
    return OtherTable(location=location, format=cast(TableKind, format), adopt=kind == "adopt")


def _check_path(path: str, at: Place) -> None:
    if problem := path_problem(path):
        raise _problem(at, *problem)


def _check_encoding(encoding: str, at: Place) -> None:
    try:
        codecs.lookup(encoding)
    except LookupError:
        hint = "for example latin-1, cp1252, utf-16, shift_jis"
        raise _problem(at, "unknown-encoding", f"'{encoding}' is not a known encoding", hint) from None


def _problem(at: Place, code: str, what: str, hint: str) -> DeclarationError:
    return DeclarationError(code, what, at=at, hint=hint)
