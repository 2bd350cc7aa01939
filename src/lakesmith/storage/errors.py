"""What can be wrong with a store or a file in it, told the same way by every store."""

from __future__ import annotations

import uuid

from lakesmith.errors import DataError
from lakesmith.ports import Storage


def file_gone(location: str) -> DataError:
    return DataError(
        "file-gone",
        f"{location} was there when the landing zone was listed, and is gone",
        hint="put it back under the same name: landing is append-only",
    )


def file_rewritten(location: str) -> DataError:
    return DataError(
        "file-rewritten",
        f"{location} was rewritten since the landing zone was listed",
        hint="put it back as it was, and land the new bytes under a new name: landing is append-only",
    )


def archive_taken(source: str, target: str) -> DataError:
    return DataError(
        "archive-taken",
        f"{source} cannot be archived: {target} is there already, with other bytes",
        hint="move one of the two out of the way, or set another folder as archive",
    )


def probe_put_if_absent(storage: Storage) -> str | None:
    """Try put-if-absent for real; what is wrong with the store, or None."""
    key = f"_lakesmith/probe/{uuid.uuid4().hex}"
    if not storage.put_if_absent(key, b"first"):
        return f"{storage.root()}: a new file was taken for an old one"
    if storage.put_if_absent(key, b"second") or storage.read(key) != b"first":
        return f"{storage.root()}: two writers of one file both won"
    storage.remove(key)
    return None
