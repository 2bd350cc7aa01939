"""The one place where a table of ours is opened: what it is made of was looked at, or it is not opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakesmith.errors import DataError
from lakesmith.formats.delta.integrity import log_failure, refuse_damage
from lakesmith.formats.delta.names import log_of

if TYPE_CHECKING:
    from deltalake import DeltaTable


def opened_if_any(location: str) -> DeltaTable | None:
    """The newest version; None where there is no table."""
    if not os.path.isdir(log_of(location)):
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
    refuse_damage(location, table.version())
    return table


def opened(location: str) -> DeltaTable:
    """The newest version of a table that there is."""
    table = opened_if_any(location)
    if table is None:
        raise DataError("no-table", f"there is no table at {location}", hint="run again")
    return table


def opened_at(location: str, version: int) -> DeltaTable:
    """A version; raises as delta-rs does where it is gone."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(location, version=version)
    except DeltaError:  # damage, too, can look like a version that is gone
        refuse_damage(location, version)
        raise
    refuse_damage(location, version)
    return table
