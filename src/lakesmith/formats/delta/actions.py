"""Actions of a table's log: those that add and remove files and rows, and those of earlier commits."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.commit import commit
from lakesmith.formats.delta.deletion_vectors import read_vector, write_vectors
from lakesmith.formats.delta.integrity import commit_lines, log_failure, parse_action, refuse_corrupt_checkpoint
from lakesmith.formats.delta.log_cache import cached_segment
from lakesmith.formats.delta.log_files import checkpoint_name, data_file_key, list_log_files, open_parquet
from lakesmith.ports import DataFile, ObjectFact, StoreCapability, TableFolder, Write

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData
    from pyroaring import BitMap64

_TIGHT_BOUNDS = re.compile(r'"tightBounds"\s*:\s*(?:true|false)')
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""Stands for NULL in the names of partition folders."""
_UNESCAPED = "/_-!.~'()*,;:$&+=@"
"""Characters that Java's URIs do not escape, besides letters and digits."""
_READERS = 16
"""How many footers are read at a time where each is a request."""
_MAX_BOUND = 32
"""Longer text is not stored as a bound."""


def deletion_vector_actions(folder: TableFolder, version: int, rows: dict[str, BitMap64]) -> Iterator[dict[str, Any]]:
    """The actions that mark rows of files as deleted, and remove the files that have no other rows."""
    if not rows:
        return
    deleted = {data_file_key(folder, path): numbers for path, numbers in rows.items()}
    adds = active_files(folder, version, lambda add: data_file_key(folder, add["path"]) in deleted)
    if missing := set(deleted) - set(adds):
        raise InfrastructureError(
            "commit-conflict",
            f"another writer removed {folder.store.location(min(missing))} from the table",
            hint="nothing is lost: run again",
        )
    for path, add in adds.items():
        if add.get("deletionVector"):
            deleted[path] = deleted[path] | read_vector(folder, add["deletionVector"])
    counts = {path: file_rows(folder, path, add) for path, add in adds.items()}
    marked = {path: rows for path, rows in deleted.items() if len(rows) < counts[path]}
    vectors = write_vectors(folder, marked) if marked else {}
    for path, add in adds.items():
        count = json.dumps({"numRecords": counts[path]})
        yield remove_action({**add, "stats": count})
        if path in marked:
            stats = _with_loose_bounds(add.get("stats") or count)
            yield {"add": {**add, "dataChange": True, "stats": stats, "deletionVector": vectors[path]}}


def file_rows(folder: TableFolder, key: str, add: Mapping[str, Any]) -> int:
    """The number of rows in a file, with deleted ones."""
    count = json.loads(add.get("stats") or "{}").get("numRecords")
    return int(open_parquet(folder, key).metadata.num_rows if count is None else count)


def remove_partition_actions(
    folder: TableFolder, version: int, column: str, values: Set[str | None]
) -> Iterator[dict[str, Any]]:
    """The actions that remove whole partitions."""
    adds = active_files(folder, version, lambda add: (add["partitionValues"].get(column) or None) in values)
    return map(remove_action, adds.values())


def remove_all_actions(folder: TableFolder, version: int) -> Iterator[dict[str, Any]]:
    """The actions that remove all files."""
    return map(remove_action, active_files(folder, version, lambda _: True).values())


def remove_action(add: dict[str, Any]) -> dict[str, Any]:
    """The action that removes a file."""
    names = ("path", "partitionValues", "size", "stats", "deletionVector")
    removed = {name: add[name] for name in names if add.get(name) is not None}
    return {"remove": {**removed, "deletionTimestamp": _now(), "dataChange": True, "extendedFileMetadata": True}}


def _with_loose_bounds(stats: str) -> str:
    """The same statistics with `tightBounds` false. Edited as text: parsing would change long decimals."""
    if '"tightBounds"' in stats:
        return _TIGHT_BOUNDS.sub('"tightBounds":false', stats, count=1)
    return '{"tightBounds":false,' + stats.lstrip()[1:]


def log_segment(folder: TableFolder, version: int) -> tuple[int, range] | None:
    """The newest checkpoint, or -1, and the later commits of a version; None where commits are missing."""
    names = list_log_files(folder, version)
    checkpoint = names.checkpoint(version)
    later = range(checkpoint + 1, version + 1)
    return (checkpoint, later) if names.commits.issuperset(later) else None


def recent_segment(folder: TableFolder, version: int) -> tuple[int, range] | None:
    """The same as `log_segment`, from a cache for tables of object stores: others may have removed commits since."""
    return cached_segment(folder, version, lambda: log_segment(folder, version))


def active_files(
    folder: TableFolder, version: int, selected: Callable[[dict[str, Any]], bool]
) -> dict[str, dict[str, Any]]:
    """The `add` actions of a version's selected files, by key."""
    from_checkpoint, commits = _log_actions(folder, version, "add")
    found: dict[str, dict[str, Any]] = {}
    for row in from_checkpoint:
        add = {name: value for name, value in row.items() if value is not None and not name.endswith("_parsed")}
        add |= {name: dict(add[name]) for name in ("partitionValues", "tags") if name in add}
        if selected(add):
            found[data_file_key(folder, add["path"])] = add
    for actions in commits:
        for action in actions:
            if deleted := action.get("remove"):
                found.pop(data_file_key(folder, deleted["path"]), None)
        for action in actions:
            if (added := action.get("add")) and selected(added):
                found[data_file_key(folder, added["path"])] = added
    return found


def metadata_at(folder: TableFolder, version: int) -> dict[str, Any]:
    """The `metaData` action of a version: its columns and settings."""
    from_checkpoint, commits = _log_actions(folder, version, "metaData")
    found: dict[str, Any] = {}
    for row in from_checkpoint:
        found = {name: value for name, value in row.items() if value is not None}
        found["configuration"] = dict(found.get("configuration") or ())
        found["format"] = {**found["format"], "options": dict(found["format"].get("options") or ())}
    for actions in commits:
        for action in actions:
            found = action.get("metaData", found)
    return found


def _log_actions(
    folder: TableFolder, version: int, kind: str
) -> tuple[Iterator[dict[str, Any]], Iterator[Sequence[dict[str, Any]]]]:
    """The actions of a kind in the newest checkpoint, and all actions of each later commit."""
    segment = recent_segment(folder, version)
    assert segment is not None
    checkpoint, commits = segment
    from_checkpoint = _checkpoint_actions(folder, checkpoint, kind) if checkpoint >= 0 else iter(())
    return from_checkpoint, (read_actions(folder, number) for number in commits)


def _checkpoint_actions(folder: TableFolder, version: int, kind: str) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    refuse_corrupt_checkpoint(folder, version)
    try:
        for batch in open_parquet(folder, folder.key(checkpoint_name(version))).iter_batches(columns=[kind]):
            yield from filter(None, batch.column(0).to_pylist())
    except pa.ArrowInvalid as error:
        raise log_failure(folder, str(error)) from error


def read_actions(folder: TableFolder, version: int) -> list[dict[str, Any]]:
    """The actions of a commit; raises where its file is corrupt or gone."""
    lines = enumerate(commit_lines(folder, version), 1)
    return [parse_action(folder, version, number, line) for number, line in lines]


def _as_uri(path: str) -> str:
    """The path escaped exactly as Delta does it: a vacuum deletes files whose path is escaped in another way."""
    return "".join(
        letter if letter.isalnum() or letter in _UNESCAPED or ord(letter) > 127 else quote(letter) for letter in path
    )


def row_count(added: Sequence[dict[str, Any]]) -> int:
    """The number of rows in new files."""
    return sum(json.loads(add["stats"])["numRecords"] for add in added)


def add_actions(folder: TableFolder, batch: str, column: str | None = None) -> list[dict[str, Any]]:
    """The `add` actions of the new files in a folder below the table's; files without rows are deleted. With a column,
    each folder in it holds one value."""
    actions, unused = [], []
    for file, footer in _footers(folder, folder.list(f"{batch}/")):
        if footer is None or footer.num_rows == 0:
            unused.append(file.key)
            continue
        parent = file.key.rpartition("/")[0]
        values = {} if column is None or parent == batch else {column: _partition_value(parent.rpartition("/")[2])}
        stats = json.dumps(file_stats(footer))
        actions.append(add_action(file.key, file.size, values, stats, file.modified))
    folder.delete(unused)
    return actions


def _footers(folder: TableFolder, files: Iterable[ObjectFact]) -> Iterator[tuple[ObjectFact, FileMetaData | None]]:
    """The files with their footers; None for files that are not Parquet."""

    def footer(file: ObjectFact) -> FileMetaData | None:
        return open_parquet(folder, folder.key(file.key)).metadata if file.key.endswith(".parquet") else None

    found = list(files)
    if StoreCapability.SHARED not in folder.store.capabilities:
        yield from zip(found, map(footer, found), strict=True)
        return
    with ThreadPoolExecutor(_READERS) as pool:  # each footer is a round trip
        yield from zip(found, pool.map(footer, found), strict=True)


def add_action(
    name: str, size: int, values: Mapping[str, str | None], stats: str, modified: int | None = None
) -> dict[str, Any]:
    """The `add` action of a new file."""
    return {
        "path": _as_uri(name),
        "partitionValues": dict(values),
        "size": size,
        "modificationTime": _now() if modified is None else modified,
        "dataChange": True,
        "stats": stats,
    }


def file_action(file: DataFile) -> dict[str, Any]:
    """The `add` action of a file that a writer reported."""
    if file.footer is not None:
        stats = file_stats(file.footer)
    else:
        stats = {
            "numRecords": file.rows,
            "minValues": {name: stats_timestamp(least) for name, (least, _) in file.bounds.items()},
            "maxValues": {name: stats_timestamp(greatest) for name, (_, greatest) in file.bounds.items()},
            "nullCount": dict.fromkeys(file.bounds, 0),
        }
    return add_action(file.path, file.size, file.partition, json.dumps(stats))


def _partition_value(folder: str) -> str | None:
    """The partition value in the name of a folder by Spark."""
    value = unquote(folder.partition("=")[2])
    return None if value == HIVE_NULL else value


def file_stats(metadata: Any) -> dict[str, Any]:
    """The statistics of a Parquet file, from its metadata, with the bounds that text represents exactly."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(metadata.num_columns):
        groups = [metadata.row_group(number).column(at) for number in range(metadata.num_row_groups)]
        name, found = groups[0].path_in_schema, [group.statistics for group in groups]
        if "." in name or not all(each is not None and each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounded = [each for each in found if each.has_min_max]
        if len(bounded) == sum(
            1 for group, each in zip(groups, found, strict=True) if each.null_count < group.num_values
        ):
            # Spark stores dates and texts that Python cannot represent.
            with suppress(OverflowError, ValueError):
                if between := _bounds([each.min for each in bounded], [each.max for each in bounded]):
                    least[name], greatest[name] = between
    return {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
        "tightBounds": True,
    }


def _bounds(least: Sequence[Any], greatest: Sequence[Any]) -> tuple[Any, Any] | None:
    if not least:
        return None
    low, high = min(least), max(greatest)
    match low:
        case bool() | float():
            return None
        case int():
            return low, high
        case str():
            return (low[:_MAX_BOUND], high) if len(high) <= _MAX_BOUND else None
        case datetime():
            # Statistics have milliseconds: the upper bound must not be rounded down.
            return stats_timestamp(low), stats_timestamp(high + timedelta(milliseconds=1))
        case date():
            return low.isoformat(), high.isoformat()
        case _:
            return None


def stats_timestamp(value: datetime) -> str:
    """A timestamp as in the statistics of a file; without a zone where it has none."""
    shown = value.astimezone(UTC) if value.tzinfo else value
    return shown.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def overwrite_metrics(added: Sequence[dict[str, Any]], removed: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The metrics of a commit that replaces files."""
    return {
        "numFiles": len(added),
        "numOutputRows": row_count(added),
        "numOutputBytes": sum(add["size"] for add in added),
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(each["remove"]["size"] for each in removed),
    }


def commit_actions(
    folder: TableFolder,
    version: int,
    write: Write | None,
    operation: tuple[str, dict[str, str]],
    metrics: dict[str, int],
    actions: Sequence[dict[str, Any]],
    *,
    blind: bool = False,
) -> None:
    """Commit the version after the one that was read, -1 for none; raises where another writer was first. Without
    `write`, the commit belongs to no batch. With `blind`, its rows do not depend on those that were read."""
    name, parameters = operation
    info = {
        "timestamp": _now(),
        "operation": name,
        "operationParameters": parameters,
        **({"readVersion": version} if version >= 0 else {}),
        "isolationLevel": "Serializable",
        "isBlindAppend": blind,
        "operationMetrics": {name: str(count) for name, count in metrics.items()},
        **({"userMetadata": write.note} if write else {}),
        "engineInfo": "Lakesmith",
        "txnId": str(uuid.uuid4()),
    }
    lines: list[dict[str, Any]] = [{"commitInfo": info}]
    if write is not None:
        lines.append({"txn": {"appId": write.flow, "version": write.sequence, "lastUpdated": _now()}})
    commit(folder, version + 1, [*lines, *actions], write.flow if write else folder.url)


def _now() -> int:
    return time.time_ns() // 1_000_000
