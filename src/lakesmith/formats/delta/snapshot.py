"""The one place that opens tables of the lake: each snapshot is checked for corruption."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakesmith.errors import DataError
from lakesmith.formats.delta.integrity import log_failure, refuse_corruption
from lakesmith.formats.delta.log_files import log_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable


def open_snapshot_if_any(location: str) -> DeltaTable | None:
    """The newest version; None where there is no table."""
    if not os.path.isdir(log_folder(location)):
        return None
    # deltalake takes a tenth of a second to import: too long where there is no table to read.
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table = DeltaTable(location)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise log_failure(location, str(error)) from error
    refuse_corruption(location, table.version())
    return table


def open_snapshot(location: str) -> DeltaTable:
    """The newest version; raises where there is no table."""
    table = open_snapshot_if_any(location)
    if table is None:
        raise DataError("no-table", f"there is no table at {location}", hint="run again")
    return table


def open_snapshot_at(location: str, version: int) -> DeltaTable:
    """A version; raises delta-rs's error where it is gone."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(location, version=version)
    except DeltaError:  # corruption, too, can look like a version that is gone
        refuse_corruption(location, version)
        raise
    refuse_corruption(location, version)
    return table
