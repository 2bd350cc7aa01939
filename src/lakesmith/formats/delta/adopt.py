"""Makes a Delta table of the Parquet files in a folder: it writes a log beside them and copies no row."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.file_names import escaped
from lakesmith.formats.delta.actions import HIVE_NULL, add_action, commit_actions, file_stats
from lakesmith.formats.delta.add_files import new_table
from lakesmith.formats.delta.log_files import open_parquet
from lakesmith.ports import FileFact, SkippedEntry, TableFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

_WILDCARDS = re.compile(r"([*?\[])")
_NOTHING_WRITTEN = "move it out of the folder; nothing was written"


def adopt_files(folder: TableFolder) -> None:
    """Write the log; raises where files do not fit into one table."""
    files = _find_files(folder)
    if not files:
        raise DataError(
            "nothing-to-adopt",
            f"there are no Parquet files in {folder}",
            hint="name the folder that holds them or, with Hive partitions, the folder above the first partition",
        )
    partitions = _partitions(folder, files)
    footers = [_footer(folder, file) for file in files]
    schema = footers[0].schema.to_arrow_schema()
    for file, footer in zip(files, footers, strict=True):
        _refuse_other_columns(schema, footer.schema.to_arrow_schema(), files[0], file)
    adds = [
        add_action(file.path, file.size, _partition_values(file), json.dumps(file_stats(footer)), file.modified)
        for file, footer in zip(files, footers, strict=True)
    ]
    created = new_table(_delta_schema(folder, schema, partitions), {}, partitions)
    operation = ("CONVERT", {"numFiles": str(len(files)), "partitionBy": json.dumps(partitions)})
    actions = [*created, *({"add": add} for add in adds)]
    try:
        commit_actions(folder, -1, None, operation, {"numConvertedFiles": len(files)}, actions)
    except InfrastructureError as error:
        raise InfrastructureError(
            "adopt-failed",
            f"cannot write a log in {folder}: {error.what}",
            hint="check that this user may write there; the files are unchanged",
        ) from error


def _find_files(folder: TableFolder) -> list[FileFact]:
    """The Parquet files, by paths below the folder. Raises for what only looks like one."""
    skip, start = len(folder.path) + 1, _WILDCARDS.sub(r"[\1]", folder.path)

    def refuse(entry: SkippedEntry) -> None:
        name = entry.path[skip:]
        match entry.code:
            case "hidden-name":
                return
            case "name-not-utf8":
                what = f"{name} has a name that is not UTF-8"
                raise DataError("name-not-utf8", what, hint=f"rename it, or {_NOTHING_WRITTEN}")
            case _:
                raise DataError("not-a-file", f"{name} {entry.why.removeprefix('it ')}", hint=_NOTHING_WRITTEN)

    found = folder.store.find(f"{start}/**/*.parquet", on_skipped=refuse)
    files = [file._replace(path=file.path[skip:]) for file in found]
    for file in files:
        parent = next((name for name in file.path.split("/")[:-1] if name.endswith(".parquet")), None)
        if parent is not None:
            name = escaped(file.path[: file.path.index(parent) + len(parent)])
            hint = f"name it in the source if its files are the table: adopt: …/{name}"
            raise DataError("not-a-file", f"{name} is a folder", hint=hint)
    return files


def _footer(folder: TableFolder, file: FileFact) -> FileMetaData:
    import pyarrow as pa

    try:
        return open_parquet(folder, folder.key(file.path)).metadata
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            "not-parquet",
            f"{folder}/{file.path} cannot be read as Parquet: {str(error).splitlines()[0]}",
            hint=_NOTHING_WRITTEN,
        ) from error


def _delta_schema(folder: TableFolder, schema: pa.Schema, partitions: Sequence[str]) -> str:
    """The columns as JSON. Partition columns are text, as in the folder names: queries cast them."""
    from deltalake import Field, Schema
    from deltalake.schema import PrimitiveType

    try:
        stored = _in_microseconds(json.loads(Schema.from_arrow(schema).to_json()))
    except Exception as error:  # delta-rs has no error type for this
        raise InfrastructureError(
            "adopt-failed",
            f"cannot make a Delta table of the files in {folder}: {str(error).splitlines()[0]}",
            hint="ingest them as files instead: source: {files: …/*.parquet}",
        ) from error
    added = [json.loads(Field(name, PrimitiveType("string")).to_json()) for name in partitions]
    return json.dumps({**stored, "fields": [*stored["fields"], *added]})


def _in_microseconds(type: Any) -> Any:
    """The type with Delta's timestamps, which have microseconds: readers truncate the values."""
    if isinstance(type, list):
        return [_in_microseconds(each) for each in type]
    if isinstance(type, dict):
        return {
            name: value if name in ("name", "metadata") else _in_microseconds(value) for name, value in type.items()
        }
    return {"timestamp_nanos": "timestamp", "timestamp_nanos_ntz": "timestamp_ntz"}.get(type, type)


def _partitions(folder: TableFolder, files: Sequence[FileFact]) -> tuple[str, ...]:
    """The partition columns, from folder names such as `day=2024-01-01`."""
    parents = {file.path: file.path.split("/")[:-1] for file in files}
    found = {tuple(name.partition("=")[0] for name in names) for names in parents.values()}
    plain = [path for path, names in parents.items() if any("=" not in name for name in names)]
    if plain or len(found) > 1:
        raise DataError(
            "not-one-table",
            f"{folder}/{plain[0] if plain else files[0].path} is not partitioned like the other files",
            hint="put all files into the folder itself, or all into the same kind of name=value folders",
        )
    return next(iter(found))


def _partition_values(file: FileFact) -> dict[str, str | None]:
    pairs = (name.partition("=") for name in file.path.split("/")[:-1])
    return {name: None if value == HIVE_NULL else unquote(value) for name, _, value in pairs}


def _refuse_other_columns(schema: pa.Schema, other: pa.Schema, first: FileFact, file: FileFact) -> None:
    if schema.equals(other):
        return
    types = {field.name: field.type for field in schema}
    differing = [f"{f.name} {f.type}" for f in other if types.get(f.name) != f.type]
    differing += [f"no {name}" for name in types if name not in other.names]
    names = [each.path.rpartition("/")[2] for each in (file, first)]
    raise DataError(
        "not-one-table",
        f"{names[0]} has other columns than {names[1]}: {', '.join(differing)}",
        hint="ingest them as files instead, which merges columns: source: {files: …/*.parquet}",
    )
