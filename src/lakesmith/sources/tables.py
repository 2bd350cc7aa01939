"""Tables of other lakes: find their current version from their own logs, without a JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakesmith.declare import OtherTable, Table
from lakesmith.errors import DataError, InfrastructureError, missing_library
from lakesmith.ports import Slice

if TYPE_CHECKING:
    from pyiceberg.table import StaticTable

VERSION = "version"
"""The version of a Delta table, the snapshot of an Iceberg table."""
TABLE_ID = "table_id"
"""Changes when the other table is dropped and created again."""

_METADATA = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json")


def new_versions(table: Table, source: OtherTable, reached: Mapping[str, int | str]) -> Slice | None:
    """Return the versions after `reached`, or None when there are none."""
    newest = _delta_version(table, source) if source.format == "delta" else _iceberg_snapshot(table, source)
    if newest is None:
        return None
    version, table_id = newest
    is_older = source.format == "delta" and version < int(reached.get(VERSION, 0))
    if reached and (table_id != reached[TABLE_ID] or is_older):
        raise DataError(
            "source-replaced",
            f"{source.location} is not the table that was read up to version {reached[VERSION]}",
            at=table.declared_at,
            hint="it was dropped and created again: declare a table of another name, which reads all its rows",
        )
    if reached and version == reached[VERSION]:
        return None
    return Slice(since=reached, until={VERSION: version, TABLE_ID: table_id})


def open_iceberg(table: Table, source: OtherTable) -> StaticTable:
    """Open an Iceberg table by its newest metadata."""
    try:
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise missing_library("pyiceberg", "reading Iceberg tables", "iceberg") from error
    try:
        return StaticTable.from_metadata(newest_metadata(table, source))
    except (OSError, ValueError, ValidationError) as error:
        raise _unreadable(table, source, error) from error


def newest_metadata(table: Table, source: OtherTable) -> str:
    """Return the metadata file with the highest number of an Iceberg table; the location may name one itself."""
    if source.location.endswith(".metadata.json"):
        return source.location
    from pyarrow.fs import FileSelector, FileSystem

    try:
        files, root = FileSystem.from_uri(source.location.rstrip("/"))
        found = files.get_file_info(FileSelector(f"{root}/metadata", allow_not_found=True))
    except (OSError, ValueError) as error:
        raise _unreadable(table, source, error) from error
    numbers = {info.base_name: int(match[1]) for info in found if (match := _METADATA.fullmatch(info.base_name))}
    if not numbers:
        raise _missing(table, source)
    newest = [name for name, number in numbers.items() if number == max(numbers.values())]
    if len(newest) > 1:
        raise DataError(
            "metadata-unclear",
            f"{source.location} has {len(newest)} metadata files with the number {max(numbers.values())}",
            at=table.declared_at,
            hint=f"only its catalog knows the current one; name it: table: {source.location}/metadata/{newest[0]}",
        )
    return f"{source.location.rstrip('/')}/metadata/{newest[0]}"


def _delta_version(table: Table, source: OtherTable) -> tuple[int, str]:
    # deltalake takes 0.1 s to import: only readers of such tables should pay for it.
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        delta = DeltaTable(source.location)
        return delta.version(), str(delta.metadata().id)
    except TableNotFoundError as error:
        raise _missing(table, source) from error
    except (DeltaError, OSError, ValueError) as error:
        raise _unreadable(table, source, error) from error


def _iceberg_snapshot(table: Table, source: OtherTable) -> tuple[int, str] | None:
    iceberg = open_iceberg(table, source)
    snapshot = iceberg.metadata.current_snapshot_id
    return None if snapshot is None else (snapshot, str(iceberg.metadata.table_uuid))


def _missing(table: Table, source: OtherTable) -> DataError:
    return DataError(
        "source-missing",
        f"there is no {source.format.capitalize()} table at {source.location}",
        at=table.declared_at,
        hint="check the path, and the format: delta or iceberg",
    )


def _unreadable(table: Table, source: OtherTable, error: Exception) -> InfrastructureError:
    message = str(error).strip().partition("\n")[0]
    return InfrastructureError(
        "source-unreadable",
        f"the log of {source.location} cannot be read: {message}",
        at=table.declared_at,
        hint="check that this user may read it, and that none of its files is corrupt",
    )
