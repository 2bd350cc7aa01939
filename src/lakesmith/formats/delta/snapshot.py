"""The one place that opens tables of the lake: each snapshot is checked for corruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.errors import DataError
from lakesmith.formats.delta.integrity import log_failure, refuse_corruption
from lakesmith.formats.delta.log_files import LOG, delta_table
from lakesmith.ports import TableFolder

if TYPE_CHECKING:
    from deltalake import DeltaTable


def open_snapshot_if_any(folder: TableFolder) -> DeltaTable | None:
    """The newest version; None where there is no table."""
    if folder.disk is not None and folder.disk.folder_changed(folder.key(LOG)) is None:
        return None
    # deltalake takes a tenth of a second to import: too long where there is no table to read.
    from deltalake import exceptions

    try:
        table = delta_table(folder)
    except exceptions.TableNotFoundError:
        return None
    except (exceptions.DeltaError, OSError) as error:
        raise log_failure(folder, str(error)) from error
    refuse_corruption(folder, table.version())
    return table


def open_snapshot(folder: TableFolder) -> DeltaTable:
    """The newest version; raises where there is no table."""
    table = open_snapshot_if_any(folder)
    if table is None:
        raise DataError("no-table", f"there is no table at {folder}", hint="run again")
    return table


def open_snapshot_at(folder: TableFolder, version: int) -> DeltaTable:
    """A version; raises delta-rs's error where it is gone."""
    from deltalake import exceptions

    try:
        table = delta_table(folder, version)
    except exceptions.DeltaError:  # corruption, too, can look like a version that is gone
        refuse_corruption(folder, version)
        raise
    refuse_corruption(folder, version)
    return table
