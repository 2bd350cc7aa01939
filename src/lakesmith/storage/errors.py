"""Errors of stores and their files, the same for every store."""

from __future__ import annotations

import uuid

from lakesmith.errors import DataError
from lakesmith.ports import Storage


def file_gone(location: str) -> DataError:
    return DataError(
        "file-gone",
        f"{location} was deleted after the landing zone was listed",
        hint="put it back under the same name: landing is append-only",
    )


def file_rewritten(location: str) -> DataError:
    return DataError(
        "file-rewritten",
        f"{location} was rewritten after the landing zone was listed",
        hint="restore the old content, and land the new content under a new name: landing is append-only",
    )


def archive_conflict(source: str, target: str) -> DataError:
    return DataError(
        "archive-taken",
        f"{source} cannot be archived: {target} exists already, with other content",
        hint="move one of the two files away, or set another archive folder",
    )


def probe_put_if_absent(storage: Storage) -> str | None:
    """Test put-if-absent in the store; return what is wrong with it, or None."""
    key = f"_lakesmith/probe/{uuid.uuid4().hex}"
    if not storage.put_if_absent(key, b"first"):
        return f"{storage.root()}: a new file was reported as existing"
    if storage.put_if_absent(key, b"second") or storage.read(key) != b"first":
        return f"{storage.root()}: two writers of one file both succeeded"
    storage.remove(key)
    return None
