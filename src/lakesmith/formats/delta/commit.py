"""Commits to a table's log without Spark: what a commit names is on the disk before the commit has its name.

`java/src/io/lakesmith/storage/LocalLogStore.java` does the same for commits of Spark.
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
from lakesmith.failpoints import reach
from lakesmith.formats.delta.checksums import drop_stale_seals, seal_for, seal_log, seal_of
from lakesmith.formats.delta.integrity import refuse_damage
from lakesmith.formats.delta.names import absolute, checkpoint_name, commit_path, log_names, log_of
from lakesmith.formats.delta.vectors import vector_file

_INTERVAL = 10
"""A checkpoint is made every so many versions."""
_POINTER = "_last_checkpoint"


class VersionTaken(InfrastructureError):
    """Another writer made the version first."""

    def __init__(self, version: int) -> None:
        super().__init__(
            "commit-conflict",
            f"another writer made version {version} first",
            hint="nothing is lost: run again",
        )


def commit(location: str, version: int, actions: Sequence[dict[str, Any]], about: str) -> None:
    """Make a version of a table; raises VersionTaken where there is one. `about` is for failpoints."""
    make_folders(log_of(location))
    made = commit_path(location, version)
    content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in actions).encode()
    temporary, seal = (os.path.join(log_of(location), f".{uuid.uuid4()}.tmp") for _ in range(2))
    try:
        write_new(temporary, content)
        write_new(seal, seal_for(content))
        # All at once, for a disk that is slow to sync syncs many files as fast as one.
        sync_all([temporary, seal, *_named(location, actions)])
        drop_stale_seals(location, version)
        # Refused where the name is taken: of two writers of one version exactly one wins.
        os.link(temporary, made)
        reach("log.linked", about)
        with suppress(OSError):  # the outcome is decided; who commits next seals it
            os.replace(seal, seal_of(made))
    except FileExistsError as error:
        raise VersionTaken(version) from error
    finally:
        for left in (temporary, seal):
            with suppress(OSError):  # the outcome is decided, and nobody reads what stays behind
                os.remove(left)
    sync_log(location)
    if version and version % _INTERVAL == 0:
        from deltalake import exceptions

        reach("log.summing", about)
        # It saves time, no more; and damage does not enter a checkpoint: whoever opens the table next reports it.
        with suppress(exceptions.DeltaError, OSError, InfrastructureError):
            _checkpoint(location, version)
            seal_log(location)


def sync_log(location: str) -> None:
    """Make the names in a log survive a power cut, where there is one: whoever committed last may have been killed
    before it did."""
    if os.path.isdir(log_of(location)):
        sync(log_of(location))


def _named(location: str, actions: Sequence[dict[str, Any]]) -> set[str]:
    """The files that a commit adds, and the folders that hold them up to the table's own."""
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
        # One that is removed in the same commit was in the table before, and only its deletion vector is new.
        if added["path"] not in removed:
            yield absolute(location, added["path"])
        if (vector := added.get("deletionVector")) and (path := vector_file(location, vector)):
            yield path


def _folders(root: str, file: str) -> Iterator[str]:
    """The folder of a file, and those above it that are below the table's."""
    folder = os.path.dirname(file)
    yield folder
    while folder.startswith(f"{root}{os.sep}"):
        folder = os.path.dirname(folder)
        yield folder


def _checkpoint(location: str, version: int) -> None:
    """Make a checkpoint of a version. delta-rs syncs nothing and names a file before it is complete on the disk, so it
    works in a folder of its own, on links to the log."""
    from deltalake import DeltaTable

    refuse_damage(location, version)
    log = os.path.abspath(log_of(location))
    with tempfile.TemporaryDirectory(prefix="lakesmith-checkpoint-") as apart:
        os.mkdir(log_of(apart))
        for name in _log_of_version(location, version):
            os.symlink(os.path.join(log, name), os.path.join(log_of(apart), name))
        DeltaTable(apart, version=version).create_checkpoint()
        # In this order: the pointer must not outlive the checkpoint.
        for name in (checkpoint_name(version), _POINTER):
            _put(os.path.join(log_of(apart), name), os.path.join(log, name))
    DeltaTable(location).cleanup_metadata()


def _put(made: str, path: str) -> None:
    """Copy a file to a place where readers see all of it or what was there before."""
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".{uuid.uuid4()}.tmp")
    try:
        with open(made, "rb") as source, os.fdopen(create(temporary), "wb") as target:
            shutil.copyfileobj(source, target)
        sync(temporary)
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.remove(temporary)
    sync(folder)


def _log_of_version(location: str, version: int) -> Iterator[str]:
    """The names of the files that a version is read from."""
    names = log_names(location)
    first = names.checkpoint(version)
    if first >= 0:
        yield checkpoint_name(first)
    for number in names.since(first, version):
        yield os.path.basename(commit_path(location, number))
