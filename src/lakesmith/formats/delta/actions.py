"""Actions of a table's log: those that add and remove files and rows, and those of earlier commits."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.commit import commit
from lakesmith.formats.delta.deletion_vectors import read_vector, write_vectors
from lakesmith.formats.delta.integrity import commit_lines, log_failure, parse_action, refuse_corrupt_checkpoint
from lakesmith.formats.delta.log_files import absolute, checkpoint_name, commit_path, list_log_files, log_folder
from lakesmith.ports import Write

if TYPE_CHECKING:
    from pyroaring import BitMap64

_TIGHT_BOUNDS = re.compile(r'"tightBounds"\s*:\s*(?:true|false)')
_UNESCAPED = "/_-!.~'()*,;:$&+=@"
"""Characters that Java's URIs do not escape, besides letters and digits."""
_MAX_BOUND = 32
"""Longer text is not stored as a bound."""


def deletion_vector_actions(location: str, version: int, rows: dict[str, BitMap64]) -> Iterator[dict[str, Any]]:
    """The actions that mark rows of files as deleted."""
    if not rows:
        return
    deleted = {absolute(location, path): numbers for path, numbers in rows.items()}
    adds = active_files(location, version, lambda add: absolute(location, add["path"]) in deleted)
    if missing := set(deleted) - set(adds):
        raise InfrastructureError(
            "commit-conflict",
            f"another writer removed {min(missing)} from the table",
            hint="nothing is lost: run again",
        )
    for path, add in adds.items():
        if add.get("deletionVector"):
            deleted[path] = deleted[path] | read_vector(location, add["deletionVector"])
    vectors = write_vectors(location, deleted)
    for path, add in adds.items():
        stats = add.get("stats") or "{}"
        count = json.loads(stats).get("numRecords")
        if count is None:
            count = _read_row_count(path)
            stats = json.dumps({"numRecords": count})
        yield remove_action({**add, "stats": json.dumps({"numRecords": count})})
        yield {"add": {**add, "dataChange": True, "stats": _with_loose_bounds(stats), "deletionVector": vectors[path]}}


def remove_partition_actions(
    location: str, version: int, column: str, values: Set[str | None]
) -> Iterator[dict[str, Any]]:
    """The actions that remove whole partitions."""
    adds = active_files(location, version, lambda add: (add["partitionValues"].get(column) or None) in values)
    return map(remove_action, adds.values())


def remove_all_actions(location: str, version: int) -> Iterator[dict[str, Any]]:
    """The actions that remove all files."""
    return map(remove_action, active_files(location, version, lambda _: True).values())


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


def _read_row_count(path: str) -> int:
    import pyarrow.parquet as pq

    count: int = pq.ParquetFile(path).metadata.num_rows
    return count


def log_segment(location: str, version: int) -> tuple[int, range] | None:
    """The newest checkpoint, or -1, and the later commits of a version; None where commits are missing."""
    names = list_log_files(location)
    checkpoint = names.checkpoint(version)
    later = range(checkpoint + 1, version + 1)
    return (checkpoint, later) if names.commits.issuperset(later) else None


def active_files(location: str, version: int, selected: Callable[[dict[str, Any]], bool]) -> dict[str, dict[str, Any]]:
    """The `add` actions of a version's selected files, by path."""
    from_checkpoint, commits = _log_actions(location, version, "add")
    found: dict[str, dict[str, Any]] = {}
    for row in from_checkpoint:
        add = {name: value for name, value in row.items() if value is not None and not name.endswith("_parsed")}
        add |= {name: dict(add[name]) for name in ("partitionValues", "tags") if name in add}
        if selected(add):
            found[absolute(location, add["path"])] = add
    for actions in commits:
        for action in actions:
            if deleted := action.get("remove"):
                found.pop(absolute(location, deleted["path"]), None)
        for action in actions:
            if (added := action.get("add")) and selected(added):
                found[absolute(location, added["path"])] = added
    return found


def metadata_at(location: str, version: int) -> dict[str, Any]:
    """The `metaData` action of a version: its columns and settings."""
    from_checkpoint, commits = _log_actions(location, version, "metaData")
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
    location: str, version: int, kind: str
) -> tuple[Iterator[dict[str, Any]], Iterator[Sequence[dict[str, Any]]]]:
    """The actions of a kind in the newest checkpoint, and all actions of each later commit."""
    segment = log_segment(location, version)
    assert segment is not None
    checkpoint, commits = segment
    from_checkpoint = _checkpoint_actions(location, checkpoint, kind) if checkpoint >= 0 else iter(())
    return from_checkpoint, (read_actions(location, number) for number in commits)


def _checkpoint_actions(location: str, version: int, kind: str) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    refuse_corrupt_checkpoint(location, version)
    checkpoint = os.path.join(log_folder(location), checkpoint_name(version))
    try:
        for batch in pq.ParquetFile(checkpoint).iter_batches(columns=[kind]):
            yield from filter(None, batch.column(0).to_pylist())
    except pa.ArrowInvalid as error:
        raise log_failure(location, str(error)) from error


def read_actions(location: str, version: int) -> list[dict[str, Any]]:
    """The actions of a commit; raises where its file is corrupt."""
    path = commit_path(location, version)
    return [parse_action(path, number, line) for number, line in enumerate(commit_lines(path), 1)]


def new_batch_folder(write: Write) -> str:
    """A new name for a folder below the table's, for the files of a batch."""
    return f"batch-{write.sequence:08}-{uuid.uuid4().hex[:8]}"


def _as_uri(path: str) -> str:
    """The path escaped exactly as Delta does it: a vacuum deletes files whose path is escaped in another way."""
    return "".join(
        letter if letter.isalnum() or letter in _UNESCAPED or ord(letter) > 127 else quote(letter) for letter in path
    )


def row_count(added: Sequence[dict[str, Any]]) -> int:
    """The number of rows in new files."""
    return sum(json.loads(add["stats"])["numRecords"] for add in added)


def add_actions(location: str, folder: str, column: str | None = None) -> Iterator[dict[str, Any]]:
    """The `add` actions of new files; files without rows are deleted. With a column, each folder holds one value."""
    import pyarrow.parquet as pq

    below = os.path.join(location, folder)
    for parent, folders, names in os.walk(below, topdown=False):
        values = {} if column is None or parent == below else {column: _partition_value(os.path.basename(parent))}
        has_files = bool(folders)
        for name in sorted(names):
            path = os.path.join(parent, name)
            file = pq.ParquetFile(path) if name.endswith(".parquet") else None
            if file is None or file.metadata.num_rows == 0:
                os.remove(path)
                continue
            has_files = True
            yield add_action(location, path, values, json.dumps(file_stats(file.metadata)))
        if not has_files:
            os.rmdir(parent)


def add_action(location: str, path: str, values: Mapping[str, str | None], stats: str) -> dict[str, Any]:
    """The `add` action of a new file."""
    status = os.stat(path)
    return {
        "path": _as_uri(os.path.relpath(path, location)),
        "partitionValues": dict(values),
        "size": status.st_size,
        "modificationTime": status.st_mtime_ns // 1_000_000,
        "dataChange": True,
        "stats": stats,
    }


def _partition_value(folder: str) -> str | None:
    """The partition value in the name of a folder by Spark."""
    value = unquote(folder.partition("=")[2])
    return None if value == "__HIVE_DEFAULT_PARTITION__" else value


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
    location: str,
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
    commit(location, version + 1, [*lines, *actions], write.flow if write else location)


def _now() -> int:
    return time.time_ns() // 1_000_000
