"""A store in the memory of the test's process."""

from __future__ import annotations

from uuid import uuid4

from lakesmith.store import ObjectStore
from lakesmith.store.access import Access, RemoteFolder
from lakesmith.store.object_clients import Client, _clients


def memory_store() -> ObjectStore:
    """An empty store; copies of it, and pickled ones, have the same files."""
    from obstore.store import MemoryStore

    name = uuid4().hex
    access, files = Access("memory", f"memory://{name}", name), MemoryStore()
    _clients[access] = Client(files, files)
    return ObjectStore(RemoteFolder(access, "root"))
