"""Where bytes live that are not tables: landing files, pinned batches, leases."""

from lakesmith.storage.landing import Landed, Landing, Sending, archived, found_in_order, land, landing_of, not_ours
from lakesmith.storage.local import LocalStorage
from lakesmith.storage.remote import RemoteStorage
from lakesmith.storage.warehouse import Warehouse, open_storage

__all__ = [
    "Landed",
    "Landing",
    "LocalStorage",
    "RemoteStorage",
    "Sending",
    "Warehouse",
    "archived",
    "found_in_order",
    "land",
    "landing_of",
    "not_ours",
    "open_storage",
]
