"""Commits to a table's log without Spark: all files of a commit are durable before the commit is visible.

`java/src/io/lakesmith/storage/` does the same for Spark's commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from lakesmith.errors import InfrastructureError
from lakesmith.failpoints import failpoint
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.deletion_vectors import vector_file
from lakesmith.formats.delta.integrity import refuse_corruption
from lakesmith.formats.delta.log_files import (
    LOG,
    POINTER,
    checkpoint_name,
    commit_name,
    data_file_key,
    delta_table,
    is_in_store,
    list_log_files,
    version_files,
)
from lakesmith.ports import DiskStore, TableFolder

_INTERVAL = 10
"""The number of versions between checkpoints."""


class VersionTaken(InfrastructureError):
    """Another writer committed the version first."""

    def __init__(self, version: int) -> None:
        super().__init__(
            "commit-conflict",
            f"another writer committed version {version} first",
            hint="nothing is lost: run again",
        )


def commit(folder: TableFolder, version: int, actions: Sequence[dict[str, Any]], about: str) -> None:
    """Commit a version of a table; raises VersionTaken where it exists. `about` is for failpoints."""
    content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in actions).encode()
    if not _put(folder, version, content, dict(_files(folder, actions)), about):
        raise VersionTaken(version)
    if version and version % _INTERVAL == 0:
        from deltalake import exceptions

        failpoint("log.checkpointing", about)
        # A checkpoint only saves time. Corrupt commits never enter one: the next reader of the table reports them.
        with suppress(exceptions.DeltaError, OSError, InfrastructureError):
            _checkpoint(folder, version)
            write_checksums(folder)


def _put(folder: TableFolder, version: int, content: bytes, files: dict[str, int | None], about: str) -> bool:
    """Create the commit, once its files are durable; False where the version exists."""
    name = commit_name(version)
    if folder.disk is None:
        folder.store.confirm(files)
        created = folder.put_if_absent(name, content)
        if created:
            failpoint("log.linked", about)
        return created
    folder.disk.drop_stale_checksums(map(folder.key, version_files(version)))
    return folder.disk.put_checked(folder.key(name), content, files, lambda: failpoint("log.linked", about))


def sync_log(folder: TableFolder) -> None:
    """On a disk: sync the log's folder, so that commits survive a power cut. The last writer may have been killed
    before it did."""
    if folder.disk is not None:
        folder.disk.sync_folder(folder.key(LOG))


def _files(folder: TableFolder, actions: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int | None]]:
    """The keys and sizes of the files that a commit adds."""
    removed = {removed["path"] for action in actions if (removed := action.get("remove"))}
    for action in actions:
        added = action.get("add") or action.get("cdc")
        if not added:
            continue
        # A file that the same commit removes was in the table before: only its deletion vector is new.
        if added["path"] not in removed and is_in_store(key := data_file_key(folder, added["path"])):
            yield key, added["size"]
        if (vector := added.get("deletionVector")) and (key := vector_file(folder, vector) or "") and is_in_store(key):
            yield key, None


def _checkpoint(folder: TableFolder, version: int) -> None:
    """Write a checkpoint of a version."""
    if folder.disk is None:
        delta_table(folder, version).create_checkpoint()
    else:
        refuse_corruption(folder, version)
        _checkpoint_on_disk(folder, folder.disk, version)
    delta_table(folder).cleanup_metadata()


def _checkpoint_on_disk(folder: TableFolder, disk: DiskStore, version: int) -> None:
    """Write a durable checkpoint. delta-rs syncs nothing, and files have their names before they are complete on disk.
    So delta-rs works in a scratch store, on links to the log."""
    names = list_log_files(folder, version)
    first = names.checkpoint(version)
    needed = [commit_name(number) for number in names.commits_between(first, version)]
    if first >= 0:
        needed.append(checkpoint_name(first))
    with disk.scratch(map(folder.key, needed)) as scratch:
        made = TableFolder(scratch, folder.path)
        delta_table(made, version).create_checkpoint()
        # In this order: the pointer must not outlive the checkpoint.
        for name in (checkpoint_name(version), POINTER):
            content = made.read(name)
            assert content is not None
            folder.replace(name, content)
