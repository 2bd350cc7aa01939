"""Reads of small tables on Spark by the names of their files.

Delta computes the state of a log in Spark jobs before it reads the first row. For a table of a few files that costs
more than the rows, and the log is already known here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from lakesmith.formats.delta.actions import active_files, read_actions, recent_segment
from lakesmith.formats.delta.commit_rules import is_plain_table
from lakesmith.formats.delta.deletion_vectors import read_vector
from lakesmith.formats.delta.log_files import commit_name, data_file_key
from lakesmith.formats.delta.snapshot import open_snapshot_at
from lakesmith.ports import StoreCapability, TableFolder
from lakesmith.sql import literal, quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

_MAX_FILES = 32
"""Spark lists more paths in a job."""
_MAX_BYTES = 64 << 20
_MAX_MARKED = 2_000
"""Row numbers of deleted rows that fit into a condition."""
_MAX_PARTS = 8
_PATTERNS = frozenset("{}[]*?\\")
"""Characters by which Spark takes a path for a pattern."""
_HIDDEN = re.compile(r"[_.].*|.*\._COPYING_", re.DOTALL)
"""Names of files that Spark leaves out of a read, without an error."""


@dataclass(slots=True)
class _Part:
    """Files to read in one way."""

    sizes: dict[str, int] = field(default_factory=dict)
    """By key."""
    skipped: dict[str, BitMap64] = field(default_factory=dict)
    """By key, the numbers of rows to skip."""
    selected: dict[str, BitMap64] = field(default_factory=dict)
    """By key, the numbers of the rows to read. Empty for all rows."""
    version: int = 0
    """The version that the rows changed in."""
    change: str | None = None
    """The type of the changes; None where the files name it."""


def read_directly(spark: SparkSession, folder: TableFolder, version: int) -> DataFrame | None:
    """The rows of a version; None where Delta has to read them."""
    table = _readable_table(folder, version)
    if table is None:
        return None
    part = _Part()
    for key, add in active_files(folder, version, lambda _: True).items():
        part.sizes[key], part.skipped[key] = add["size"], _vector(folder, add)
    return _rows(spark, folder, table, part) if part.sizes and _are_small(folder, [part]) else None


def read_changes_directly(spark: SparkSession, folder: TableFolder, after: int, until: int) -> DataFrame | None:
    """The change feed of versions after < v <= until; None where Delta has to read it."""
    table = _readable_table(folder, until) if after < until <= after + _MAX_PARTS else None
    if table is None or recent_segment(folder, after + 1) is None:
        return None
    parts: list[_Part] = []
    for version in range(after + 1, until + 1):
        changed = _changes(folder, version, read_actions(folder, version))
        if changed is None:
            return None
        parts += changed
    if not 0 < len(parts) <= _MAX_PARTS or not _are_small(folder, parts):
        return None
    from pyspark.sql import DataFrame

    return reduce(DataFrame.unionByName, (_changed_rows(spark, folder, table, part) for part in parts))


def _readable_table(folder: TableFolder, version: int) -> DeltaTable | None:
    from deltalake import exceptions

    try:
        table = open_snapshot_at(folder, version)
    except (exceptions.DeltaError, OSError):
        return None
    is_plain = is_plain_table(table, also={"deletionVectors"}) and "__CHAR_VARCHAR" not in table.schema().to_json()
    return table if is_plain and recent_segment(folder, version) is not None else None


def _changes(folder: TableFolder, version: int, actions: Sequence[dict[str, Any]]) -> list[_Part] | None:
    """The changes of a commit; None for one that changes the columns or settings of the table."""
    if any("metaData" in action or "protocol" in action for action in actions):
        return None
    feed = {data_file_key(folder, each["cdc"]["path"]): each["cdc"]["size"] for each in actions if "cdc" in each}
    if feed:
        return [_Part(feed, version=version)]
    added, removed = (
        {data_file_key(folder, action[kind]["path"]): action[kind] for action in actions if _is_change(action, kind)}
        for kind in ("add", "remove")
    )
    inserted, deleted = (_Part(version=version, change=change) for change in ("insert", "delete"))
    marked = _Part(version=version, change="delete")
    for key, add in added.items():
        if key in removed:
            before, now = _vector(folder, removed[key]), _vector(folder, add)
            if before - now:
                return None  # rows are there again
            marked.sizes[key], marked.selected[key] = add["size"], now - before
        else:
            inserted.sizes[key], inserted.skipped[key] = add["size"], _vector(folder, add)
    for key in removed.keys() - added.keys():
        if removed[key].get("size") is None:
            return None
        deleted.sizes[key], deleted.skipped[key] = removed[key]["size"], _vector(folder, removed[key])
    return [part for part in (inserted, deleted, marked) if part.sizes]


def _is_change(action: dict[str, Any], kind: str) -> bool:
    return kind in action and action[kind].get("dataChange", True)


def _vector(folder: TableFolder, file: dict[str, Any]) -> BitMap64:
    from pyroaring import BitMap64

    descriptor = file.get("deletionVector")
    return read_vector(folder, descriptor) if descriptor else BitMap64()


def _are_small(folder: TableFolder, parts: Sequence[_Part]) -> bool:
    """Whether the files are few and small, and exist as the log names them."""
    sizes = [each for part in parts for each in part.sizes.items()]
    marked = sum(len(rows) for part in parts for rows in (*part.skipped.values(), *part.selected.values()))
    if len(sizes) > _MAX_FILES or sum(size for _, size in sizes) > _MAX_BYTES or marked > _MAX_MARKED:
        return False
    names = (Counter(_name(key) for key in part.sizes) for part in parts)
    if any(max(found.values(), default=1) > 1 for found in names):
        return False  # conditions select files by name
    if any(_PATTERNS & set(key) or not key.startswith(f"{folder.path}/") for key, _ in sizes):
        return False
    if any(_HIDDEN.fullmatch(_name(key)) for key, _ in sizes):
        return False
    if StoreCapability.SHARED in folder.store.capabilities:
        found = {folder.key(file.key): file.size for file in folder.list()}
        return all(found.get(key) == size for key, size in sizes)
    return all((file := folder.store.stat(key)) is not None and file.size == size for key, size in sizes)


def _changed_rows(spark: SparkSession, folder: TableFolder, table: DeltaTable, part: _Part) -> DataFrame:
    commit = folder.stat(commit_name(part.version))
    change = "_change_type" if part.change is None else f"'{part.change}' AS _change_type"
    return _rows(spark, folder, table, part).selectExpr(
        *(quoted(field.name) for field in table.schema().fields),
        change,
        f"CAST({part.version} AS bigint) AS _commit_version",
        f"timestamp_millis({commit.modified if commit else 0}) AS _commit_timestamp",
    )


def _rows(spark: SparkSession, folder: TableFolder, table: DeltaTable, part: _Part) -> DataFrame:
    from pyspark.sql.types import StringType, StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    if part.version and part.change is None:
        schema = schema.add("_change_type", StringType())
    root = folder.store.engine("spark").url
    rows = spark.read.schema(schema).parquet(*(f"{root}/{key}" for key in part.sizes))
    if part.selected:
        rows = rows.where(" OR ".join(_conditions(part.selected)) or "false")
    skipped = list(_conditions(part.skipped))
    return rows.where(f"NOT ({' OR '.join(skipped)})") if skipped else rows


def _conditions(rows: dict[str, BitMap64]) -> Iterator[str]:
    for key, numbers in rows.items():
        if numbers:
            yield (
                f"(_metadata.file_name = {literal(_name(key))} "
                f"AND _metadata.row_index IN ({', '.join(map(str, numbers))}))"
            )


def _name(key: str) -> str:
    return key.rpartition("/")[2]
