"""Errors of stores and their files, the same for every store."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.ports import ObjectFact, Store


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


def unconfirmed(location: str, size: int | None, found: ObjectFact | None) -> InfrastructureError:
    """The error for a file that a commit would name, and that the store does not have as it was written."""
    problem = "is not in the store" if found is None else f"has {found.size} bytes, and {size} were written"
    return InfrastructureError(
        "file-unconfirmed",
        f"{location} {problem}",
        hint="nothing was committed; if Spark runs on a cluster, its executors must write to the same warehouse: use "
        "an object store, or a folder that all machines share",
    )


def probe_put_if_absent(store: Store, writers: int = 1) -> str | None:
    """Test put-if-absent in the store, with writers at the same time and a later one; return what is wrong, or None."""
    key = f"_lakesmith/probe/{uuid.uuid4().hex}"
    contents = [f"writer {number}".encode() for number in range(writers)]
    with ThreadPoolExecutor(writers) as pool:
        created = list(pool.map(lambda content: store.put_if_absent(key, content), contents))
    if not any(created):
        return f"{store.url}: a new file was reported as existing"
    winner = contents[created.index(True)]
    if created.count(True) > 1 or store.put_if_absent(key, b"later") or store.read(key) != winner:
        return f"{store.url}: two writers of one file both succeeded"
    store.delete([key])
    return None
