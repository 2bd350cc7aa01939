"""Commits to a table's log without Spark: all files of a commit are synced to disk before the commit is visible.

`java/src/io/lakesmith/storage/LocalLogStore.java` does the same for Spark's commits.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from lakesmith.disk import create, make_folders, sync, sync_all, write_new
from lakesmith.errors import InfrastructureError
from lakesmith.failpoints import failpoint
from lakesmith.formats.delta.checksums import checksum_path, checksums_of, drop_stale_checksums, write_checksums
from lakesmith.formats.delta.deletion_vectors import vector_file
from lakesmith.formats.delta.integrity import refuse_corruption
from lakesmith.formats.delta.log_files import absolute, checkpoint_name, commit_path, list_log_files, log_folder

_INTERVAL = 10
"""The number of versions between checkpoints."""
_POINTER = "_last_checkpoint"


class VersionTaken(InfrastructureError):
    """Another writer committed the version first."""

    def __init__(self, version: int) -> None:
        super().__init__(
            "commit-conflict",
            f"another writer committed version {version} first",
            hint="nothing is lost: run again",
        )


def commit(location: str, version: int, actions: Sequence[dict[str, Any]], about: str) -> None:
    """Commit a version of a table; raises VersionTaken where it exists. `about` is for failpoints."""
    make_folders(log_folder(location))
    path = commit_path(location, version)
    content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in actions).encode()
    temporary, checksums = (os.path.join(log_folder(location), f".{uuid.uuid4()}.tmp") for _ in range(2))
    try:
        write_new(temporary, content)
        write_new(checksums, checksums_of(content))
        # All at once: a slow disk syncs many files as fast as one.
        sync_all([temporary, checksums, *_files_and_folders(location, actions)])
        drop_stale_checksums(location, version)
        # Fails where the name exists: of two writers of one version exactly one wins.
        os.link(temporary, path)
        failpoint("log.linked", about)
        with suppress(OSError):  # the commit is made; the next one writes missing checksums
            os.replace(checksums, checksum_path(path))
    except FileExistsError as error:
        raise VersionTaken(version) from error
    finally:
        for leftover in (temporary, checksums):
            with suppress(OSError):  # the outcome is decided, and nobody reads leftovers
                os.remove(leftover)
    sync_log(location)
    if version and version % _INTERVAL == 0:
        from deltalake import exceptions

        failpoint("log.checkpointing", about)
        # A checkpoint only saves time. Corrupt commits never enter one: the next reader of the table reports them.
        with suppress(exceptions.DeltaError, OSError, InfrastructureError):
            _checkpoint(location, version)
            write_checksums(location)


def sync_log(location: str) -> None:
    """Sync the log's folder, if it exists, so that commits survive a power cut: the last writer may have been killed
    before it did."""
    if os.path.isdir(log_folder(location)):
        sync(log_folder(location))


def _files_and_folders(location: str, actions: Sequence[dict[str, Any]]) -> set[str]:
    """The files that a commit adds, and their folders up to the table's own."""
    root = os.path.abspath(location)
    removed = {removed["path"] for action in actions if (removed := action.get("remove"))}
    files = set(_added(location, actions, removed))
    folders = {folder for file in files for folder in _folders(root, file)}
    return {root, *files, *folders}


def _added(location: str, actions: Sequence[dict[str, Any]], removed: set[str]) -> Iterator[str]:
    for action in actions:
        added = action.get("add") or action.get("cdc")
        if not added:
            continue
        # A file that the same commit removes was in the table before: only its deletion vector is new.
        if added["path"] not in removed:
            yield absolute(location, added["path"])
        if (vector := added.get("deletionVector")) and (path := vector_file(location, vector)):
            yield path


def _folders(root: str, file: str) -> Iterator[str]:
    """The folder of a file, and its parents below the table's folder."""
    folder = os.path.dirname(file)
    yield folder
    while folder.startswith(f"{root}{os.sep}"):
        folder = os.path.dirname(folder)
        yield folder


def _checkpoint(location: str, version: int) -> None:
    """Write a checkpoint of a version. delta-rs syncs nothing, and files have their names before they are complete on
    disk. So delta-rs works in a scratch folder, on links to the log."""
    from deltalake import DeltaTable

    refuse_corruption(location, version)
    log = os.path.abspath(log_folder(location))
    with tempfile.TemporaryDirectory(prefix="lakesmith-checkpoint-") as scratch:
        os.mkdir(log_folder(scratch))
        for name in _files_of_version(location, version):
            os.symlink(os.path.join(log, name), os.path.join(log_folder(scratch), name))
        DeltaTable(scratch, version=version).create_checkpoint()
        # In this order: the pointer must not outlive the checkpoint.
        for name in (checkpoint_name(version), _POINTER):
            _copy(os.path.join(log_folder(scratch), name), os.path.join(log, name))
    DeltaTable(location).cleanup_metadata()


def _copy(source_path: str, path: str) -> None:
    """Copy a file: readers see the complete new file or the old one."""
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".{uuid.uuid4()}.tmp")
    try:
        with open(source_path, "rb") as source, os.fdopen(create(temporary), "wb") as target:
            shutil.copyfileobj(source, target)
        sync(temporary)
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.remove(temporary)
    sync(folder)


def _files_of_version(location: str, version: int) -> Iterator[str]:
    """The names of the log files that readers of a version need."""
    names = list_log_files(location)
    first = names.checkpoint(version)
    if first >= 0:
        yield checkpoint_name(first)
    for number in names.commits_between(first, version):
        yield os.path.basename(commit_path(location, number))
