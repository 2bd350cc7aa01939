"""Where bytes live that are not tables: landing files, pinned batches, leases."""

from lakesmith.storage.local import LocalStorage
from lakesmith.storage.warehouse import Warehouse, open_storage

__all__ = ["LocalStorage", "Warehouse", "open_storage"]
