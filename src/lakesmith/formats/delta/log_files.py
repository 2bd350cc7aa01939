"""Names of the files of a table's log, and of the files that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakesmith.ports import ObjectFact, StoreCapability, TableFolder

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.parquet import ParquetFile

LOG = "_delta_log"
POINTER = f"{LOG}/_last_checkpoint"
"""Names the newest checkpoint."""
LOG_FILE = re.compile(r"(\d{20})\.(?:(?P<commit>json)|(?P<checksum>crc)|checkpoint\.(?:.+\.)?parquet)")
"""A commit, a version checksum file of Delta, a checkpoint or a part of one."""
_NUMBERED = f"{LOG}/0"
"""The start of the names that begin with a version. None has twenty digits."""
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log, by version. Names are relative to the table's folder."""

    commits: frozenset[int]
    checkpoints: tuple[tuple[int, str], ...]
    """With their names. A checkpoint may have several parts, of which some may be missing."""
    version_checksums: tuple[tuple[int, str], ...]
    """Delta's version checksum files (`N.crc`), which state the settings and writers of a version."""

    def checkpoint(self, version: int) -> int:
        """The newest complete checkpoint up to a version; -1 where there is none."""
        complete = (number for number, name in self.checkpoints if name == checkpoint_name(number))
        return max((number for number in complete if number <= version), default=-1)

    def other_files(self, version: int) -> Iterator[str]:
        """The files other than commits that readers of a version may read."""
        first, others = self.checkpoint(version), (*self.checkpoints, *self.version_checksums)
        return (name for number, name in others if first <= number <= version)

    def commits_between(self, checkpoint: int, version: int) -> list[int]:
        """The existing commits, checkpoint < number <= version."""
        return sorted(number for number in self.commits if checkpoint < number <= version)


def commit_name(version: int) -> str:
    """The name of a commit."""
    return f"{LOG}/{version:020}.json"


def checkpoint_name(version: int) -> str:
    """The name of a checkpoint in one part."""
    return f"{LOG}/{version:020}.checkpoint.parquet"


def version_files(version: int) -> tuple[str, ...]:
    """The names of the files that a version may have in the log."""
    return commit_name(version), f"{LOG}/{version:020}.crc", checkpoint_name(version)


def list_log_files(folder: TableFolder, version: int | None = None) -> LogListing:
    """List the files of the log; with `version`, at least those that its readers need."""
    if version is not None and (pointed := _last_checkpoint(folder)) is not None and pointed <= version:
        newest = _listing(folder.list(_NUMBERED, after=f"{LOG}/{pointed:020}"))
        if newest.checkpoint(version) >= pointed:
            return newest
    return _listing(folder.list(_NUMBERED))


def _last_checkpoint(folder: TableFolder) -> int | None:
    """The checkpoint that the pointer names; None where nothing can be read from it."""
    try:
        pointer: Any = json.loads(folder.read(POINTER) or b"")
        return int(pointer["version"])
    except (ValueError, TypeError, KeyError):
        return None


def _listing(files: Iterable[ObjectFact]) -> LogListing:
    commits: set[int] = set()
    checkpoints: list[tuple[int, str]] = []
    version_checksums: list[tuple[int, str]] = []
    for file in files:
        found = LOG_FILE.fullmatch(file.key, len(LOG) + 1)
        if found is None:
            continue
        number = int(found[1])
        if found["commit"]:
            commits.add(number)
        else:
            (version_checksums if found["checksum"] else checkpoints).append((number, file.key))
    return LogListing(frozenset(commits), tuple(checkpoints), tuple(version_checksums))


def commit_etags(folder: TableFolder, since: int) -> dict[int, str]:
    """The etags of the commits from a version on, found with one listing."""
    files = (
        (LOG_FILE.fullmatch(file.key, len(LOG) + 1), file)
        for file in folder.list(_NUMBERED, after=f"{LOG}/{since:020}")
    )
    return {int(name[1]): file.etag for name, file in files if name and name["commit"]}


def delta_table(folder: TableFolder, version: int | None = None) -> DeltaTable:
    """The table as delta-rs opens it. Its log is not checked for corruption."""
    from deltalake import DeltaTable

    return DeltaTable(folder.engine_url("delta-rs"), version=version, storage_options=storage_options(folder))


def sql_name(folder: TableFolder) -> str:
    """The table in Spark's SQL."""
    return f"delta.`{folder.engine_url('spark')}`"


def storage_options(folder: TableFolder) -> dict[str, str] | None:
    """The options by which delta-rs reaches the store."""
    return dict(folder.store.engine("delta-rs").settings) or None


def display_name(folder: TableFolder) -> str:
    """A table's name in messages: the last two folders are its layer and its name."""
    return ".".join(folder.url.rstrip("/").split("/")[-2:])


def data_file_key(folder: TableFolder, path: str) -> str:
    """The key of a file that the log or Spark names. A file outside of the store keeps its path or URL."""
    plain = unquote(path)
    if not _ABSOLUTE.match(path):
        return folder.key(plain)
    if plain.startswith(("file:", "/")):
        plain = f"/{plain.removeprefix('file:').lstrip('/')}"
    for engine in ("delta-rs", "spark"):
        root = f"{folder.store.engine(engine).url}/"
        if plain.startswith(root):
            return plain.removeprefix(root)
    return plain


def is_in_store(key: str) -> bool:
    """Whether the store can read the file. A local disk reads all its paths."""
    return "://" not in key


def missing_file(folder: TableFolder, keys: Collection[str]) -> str | None:
    """The first of some files that is gone, if any is."""
    existing: set[str] = set()
    if StoreCapability.SHARED in folder.store.capabilities:
        # A listing costs about one request, and a stat one for each file.
        existing = {folder.key(file.key) for file in folder.list()}
    others = (key for key in keys if key not in existing and is_in_store(key))
    return next((key for key in others if folder.store.stat(key) is None), None)


def open_parquet(folder: TableFolder, key: str, **options: Any) -> ParquetFile:
    """Open a Parquet file. Raises FileNotFoundError."""
    from pyarrow.parquet import ParquetFile

    if key.startswith("/") or not is_in_store(key):
        return ParquetFile(key, **options)
    return ParquetFile(key, filesystem=folder.store.arrow(), **options)
