"""Makes a Delta table of the Parquet files in a folder: it writes a log beside them and copies no row."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats.delta.actions import read_actions
from lakesmith.formats.delta.commit import commit

if TYPE_CHECKING:
    import pyarrow as pa


def adopt_files(location: str) -> None:
    """Write the log; raises where files do not fit into one table."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import Field, Schema, convert_to_deltalake
    from deltalake.exceptions import DeltaError
    from deltalake.schema import PrimitiveType

    folder = Path(location)
    files = sorted(file for file in folder.rglob("*.parquet") if not _is_hidden(file.relative_to(folder)))
    if not files:
        raise DataError(
            "nothing-to-adopt",
            f"there are no Parquet files in {location}",
            hint="name the folder that holds them or, with Hive partitions, the folder above the first partition",
        )
    partitions = _partitions(folder, files)
    first, *others = files
    try:
        schema = pq.read_schema(first)
        for file in others:
            _refuse_other_columns(schema, pq.read_schema(file), first, file)
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
    except pa.ArrowInvalid as error:
        raise DataError(
            "not-parquet",
            f"a file in {location} is not Parquet: {str(error).splitlines()[0]}",
            hint="move it out of the folder; nothing was written",
        ) from error
    except (DeltaError, OSError) as error:
        raise InfrastructureError(
            "adopt-failed",
            f"cannot write a log in {location}: {str(error).splitlines()[0]}",
            hint="check that this user may write there; the files are unchanged",
        ) from error


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


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
