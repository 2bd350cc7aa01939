"""Stores for everything that is not a table: landing files, pinned batches, leases."""

from lakesmith.store.landing import (
    LandedFile,
    LandingProgress,
    LandingReport,
    archive_path,
    foreign_entries,
    land,
    landing_store,
    list_in_order,
)
from lakesmith.store.local import LocalStore
from lakesmith.store.object_store import ObjectStore
from lakesmith.store.remote import RemoteStore
from lakesmith.store.warehouse import Warehouse, folder_at, open_store

__all__ = [
    "LandedFile",
    "LandingProgress",
    "LandingReport",
    "LocalStore",
    "ObjectStore",
    "RemoteStore",
    "Warehouse",
    "archive_path",
    "folder_at",
    "foreign_entries",
    "land",
    "landing_store",
    "list_in_order",
    "open_store",
]
