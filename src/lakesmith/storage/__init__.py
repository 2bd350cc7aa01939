"""Stores for everything that is not a table: landing files, pinned batches, leases."""

from lakesmith.storage.landing import (
    LandedFile,
    LandingProgress,
    LandingReport,
    archive_path,
    foreign_entries,
    land,
    landing_storage,
    list_in_order,
)
from lakesmith.storage.local import LocalStorage
from lakesmith.storage.remote import RemoteStorage
from lakesmith.storage.warehouse import Warehouse, open_storage

__all__ = [
    "LandedFile",
    "LandingProgress",
    "LandingReport",
    "LocalStorage",
    "RemoteStorage",
    "Warehouse",
    "archive_path",
    "foreign_entries",
    "land",
    "landing_storage",
    "list_in_order",
    "open_storage",
]
