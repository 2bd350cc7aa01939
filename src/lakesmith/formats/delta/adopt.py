"""Makes a Delta table of the Parquet files in a folder: it writes a log beside them and copies no row."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.file_names import escaped, is_utf8
from lakesmith.formats.delta.actions import read_actions
from lakesmith.formats.delta.commit import commit

if TYPE_CHECKING:
    import pyarrow as pa


def adopt_files(location: str) -> None:
    """Write the log; raises where files do not fit into one table."""
    from deltalake import Field, Schema, convert_to_deltalake
    from deltalake.exceptions import DeltaError
    from deltalake.schema import PrimitiveType

    folder = Path(location)
    files = sorted(file for file in folder.rglob("*.parquet") if not _is_hidden(file.relative_to(folder)))
    for file in files:
        _refuse_odd_entry(file, folder)
    if not files:
        raise DataError(
            "nothing-to-adopt",
            f"there are no Parquet files in {location}",
            hint="name the folder that holds them or, with Hive partitions, the folder above the first partition",
        )
    partitions = _partitions(folder, files)
    first, *others = files
    try:
        schema = _schema(first)
        for file in others:
            _refuse_other_columns(schema, _schema(file), first, file)
        # delta-rs syncs nothing. So it works on links in a scratch folder, and Lakesmith makes the commit.
        with tempfile.TemporaryDirectory(prefix="lakesmith-adopt-") as scratch:
            for file in files:
                link = Path(scratch, file.relative_to(folder))
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file.absolute())
            convert_to_deltalake(
                scratch,
                mode="error",
                # As text, as in the folder names: queries cast them.
                partition_by=Schema([Field(each, PrimitiveType("string")) for each in partitions])
                if partitions
                else None,
                partition_strategy="hive" if partitions else None,
            )
            actions = read_actions(scratch, 0)
        commit(location, 0, actions, location)
    except (DeltaError, OSError) as error:
        raise InfrastructureError(
            "adopt-failed",
            f"cannot write a log in {location}: {str(error).splitlines()[0]}",
            hint="check that this user may write there; the files are unchanged",
        ) from error


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _refuse_odd_entry(file: Path, folder: Path) -> None:
    """Raise for what only looks like a data file. Opening a FIFO would block."""
    name = escaped(str(file.relative_to(folder)))
    hint = "move it out of the folder; nothing was written"
    if not is_utf8(str(file.relative_to(folder))):
        raise DataError("name-not-utf8", f"{name} has a name that is not UTF-8", hint=f"rename it, or {hint}")
    try:
        mode = os.stat(file).st_mode
    except OSError as error:
        raise DataError("not-a-file", f"{name} cannot be opened: {error.strerror}", hint=hint) from error
    if stat.S_ISDIR(mode):
        hint = f"name it in the source if its files are the table: adopt: …/{name}"
        raise DataError("not-a-file", f"{name} is a folder", hint=hint)
    if not stat.S_ISREG(mode):
        raise DataError("not-a-file", f"{name} is no regular file", hint=hint)


def _schema(file: Path) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            "not-parquet",
            f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}",
            hint="move it out of the folder; nothing was written",
        ) from error


def _partitions(folder: Path, files: Sequence[Path]) -> tuple[str, ...]:
    """The partition columns, from folder names such as `day=2024-01-01`."""
    found = {tuple(part.partition("=")[0] for part in file.relative_to(folder).parts[:-1]) for file in files}
    plain = [file for file in files if any("=" not in part for part in file.relative_to(folder).parts[:-1])]
    if plain or len(found) > 1:
        raise DataError(
            "not-one-table",
            f"{(plain or files)[0]} is not partitioned like the other files",
            hint="put all files into the folder itself, or all into the same kind of name=value folders",
        )
    return next(iter(found))


def _refuse_other_columns(schema: pa.Schema, other: pa.Schema, first: Path, file: Path) -> None:
    if schema.equals(other):
        return
    types = {field.name: field.type for field in schema}
    differing = [f"{f.name} {f.type}" for f in other if types.get(f.name) != f.type]
    differing += [f"no {name}" for name in types if name not in other.names]
    raise DataError(
        "not-one-table",
        f"{file.name} has other columns than {first.name}: {', '.join(differing)}",
        hint="ingest them as files instead, which merges columns: source: {files: …/*.parquet}",
    )
