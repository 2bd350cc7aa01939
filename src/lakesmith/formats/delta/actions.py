"""What the log of a table has to say of rows and files that go and of files that come, and the commit that says it."""

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
from lakesmith.formats.delta.integrity import content_of, refuse_damaged_checkpoint
from lakesmith.formats.delta.names import absolute, checkpoint_name, commit_path, log_names, log_of
from lakesmith.formats.delta.vectors import read_vector, write_vectors
from lakesmith.ports import Write

if TYPE_CHECKING:
    from pyroaring import BitMap64

_TIGHT = re.compile(r'"tightBounds"\s*:\s*(?:true|false)')
_AS_IS = "/_-!.~'()*,;:$&+=@"
"""Characters that a URI of Java's leaves as they are, besides letters and digits."""
_SHOWN = 32
"""Text of more characters is not told as a bound."""


def marks(location: str, version: int, rows: dict[str, BitMap64]) -> Iterator[dict[str, Any]]:
    """The actions that take rows out of files."""
    if not rows:
        return
    gone = {absolute(location, path): numbers for path, numbers in rows.items()}
    adds = added_files(location, version, lambda add: absolute(location, add["path"]) in gone)
    if missing := set(gone) - set(adds):
        raise InfrastructureError(
            "commit-conflict",
            f"{min(missing)} is no longer part of the table",
            hint="nothing is lost: run again",
        )
    for path, add in adds.items():
        if add.get("deletionVector"):
            gone[path] = gone[path] | read_vector(location, add["deletionVector"])
    vectors = write_vectors(location, gone)
    for path, add in adds.items():
        stats = add.get("stats") or "{}"
        count = json.loads(stats).get("numRecords")
        if count is None:
            count = _rows_of(path)
            stats = json.dumps({"numRecords": count})
        yield removal({**add, "stats": json.dumps({"numRecords": count})})
        yield {"add": {**add, "dataChange": True, "stats": _loosened(stats), "deletionVector": vectors[path]}}


def removals(location: str, version: int, column: str, values: Set[str | None]) -> Iterator[dict[str, Any]]:
    """The actions that take whole partitions away."""
    adds = added_files(location, version, lambda add: (add["partitionValues"].get(column) or None) in values)
    return map(removal, adds.values())


def everything(location: str, version: int) -> Iterator[dict[str, Any]]:
    """The actions that take all files away."""
    return map(removal, added_files(location, version, lambda _: True).values())


def removal(add: dict[str, Any]) -> dict[str, Any]:
    """The action that takes a file away."""
    kept = ("path", "partitionValues", "size", "stats", "deletionVector")
    removed = {name: add[name] for name in kept if add.get(name) is not None}
    return {"remove": {**removed, "deletionTimestamp": _now(), "dataChange": True, "extendedFileMetadata": True}}


def _loosened(stats: str) -> str:
    """The same bounds, said to be wider than the rows. As text: long decimals would not survive being read."""
    if '"tightBounds"' in stats:
        return _TIGHT.sub('"tightBounds":false', stats, count=1)
    return '{"tightBounds":false,' + stats.lstrip()[1:]


def _rows_of(path: str) -> int:
    import pyarrow.parquet as pq

    count: int = pq.ParquetFile(path).metadata.num_rows
    return count


def log_files(location: str, version: int) -> tuple[int, range] | None:
    """The newest checkpoint, or -1, and the commits since; None where they do not lead up to the version."""
    names = log_names(location)
    summed = names.checkpoint(version)
    since = range(summed + 1, version + 1)
    return (summed, since) if names.commits.issuperset(since) else None


def added_files(location: str, version: int, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, dict[str, Any]]:
    """How the log tells of the files that are wanted, by where they lie."""
    summed, commits = _replayed(location, version, "add")
    found: dict[str, dict[str, Any]] = {}
    for add in summed:
        kept = {name: value for name, value in add.items() if value is not None and not name.endswith("_parsed")}
        kept |= {name: dict(kept[name]) for name in ("partitionValues", "tags") if name in kept}
        if wanted(kept):
            found[absolute(location, add["path"])] = kept
    for actions in commits:
        for action in actions:
            if gone := action.get("remove"):
                found.pop(absolute(location, gone["path"]), None)
        for action in actions:
            if (added := action.get("add")) and wanted(added):
                found[absolute(location, added["path"])] = added
    return found


def metadata_at(location: str, version: int) -> dict[str, Any]:
    """How the log tells of a version's columns and settings."""
    summed, commits = _replayed(location, version, "metaData")
    found: dict[str, Any] = {}
    for told in summed:
        found = {name: value for name, value in told.items() if value is not None}
        found["configuration"] = dict(found.get("configuration") or ())
        found["format"] = {**found["format"], "options": dict(found["format"].get("options") or ())}
    for actions in commits:
        for action in actions:
            found = action.get("metaData", found)
    return found


def _replayed(
    location: str, version: int, kind: str
) -> tuple[Iterator[dict[str, Any]], Iterator[Sequence[dict[str, Any]]]]:
    """The actions of a kind in the newest sum of the log, and all actions of each commit since."""
    files = log_files(location, version)
    assert files is not None
    summed, commits = files
    told = _summed(location, summed, kind) if summed >= 0 else iter(())
    return told, (actions_in(location, number) for number in commits)


def _summed(location: str, version: int, kind: str) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    refuse_damaged_checkpoint(location, version)
    checkpoint = os.path.join(log_of(location), checkpoint_name(version))
    for batch in pq.ParquetFile(checkpoint).iter_batches(columns=[kind]):
        yield from filter(None, batch.column(0).to_pylist())


def actions_in(location: str, version: int) -> list[dict[str, Any]]:
    """What a commit says, which is what was written; raises where it is not."""
    return [json.loads(line) for line in content_of(commit_path(location, version)).splitlines()]


def fresh_folder(write: Write) -> str:
    """The name of a folder below the table's, for the files of a batch."""
    return f"batch-{write.sequence:08}-{uuid.uuid4().hex[:8]}"


def _as_uri(path: str) -> str:
    """The path as Delta spells it, letter by letter: a vacuum deletes the file of one that is spelt in another way."""
    return "".join(
        letter if letter.isalnum() or letter in _AS_IS or ord(letter) > 127 else quote(letter) for letter in path
    )


def rows_in(added: Sequence[dict[str, Any]]) -> int:
    """How many rows files have that are to come."""
    return sum(json.loads(add["stats"])["numRecords"] for add in added)


def additions(location: str, folder: str, column: str | None = None) -> Iterator[dict[str, Any]]:
    """How the log is to tell of new files; those without a row are taken away. With a column, each of its values has a
    folder."""
    import pyarrow.parquet as pq

    below = os.path.join(location, folder)
    for parent, folders, names in os.walk(below, topdown=False):
        values = {} if column is None or parent == below else {column: _value(os.path.basename(parent))}
        kept = bool(folders)
        for name in sorted(names):
            path = os.path.join(parent, name)
            file = pq.ParquetFile(path) if name.endswith(".parquet") else None
            if file is None or file.metadata.num_rows == 0:
                os.remove(path)
                continue
            kept = True
            yield addition(location, path, values, json.dumps(stats_of(file.metadata)))
        if not kept:
            os.rmdir(parent)


def addition(location: str, path: str, values: Mapping[str, str | None], stats: str) -> dict[str, Any]:
    """How the log is to tell of a new file."""
    status = os.stat(path)
    return {
        "path": _as_uri(os.path.relpath(path, location)),
        "partitionValues": dict(values),
        "size": status.st_size,
        "modificationTime": status.st_mtime_ns // 1_000_000,
        "dataChange": True,
        "stats": stats,
    }


def _value(folder: str) -> str | None:
    """The value for which Spark has made a folder."""
    value = unquote(folder.partition("=")[2])
    return None if value == "__HIVE_DEFAULT_PARTITION__" else value


def stats_of(told: Any) -> dict[str, Any]:
    """The bounds of a file's columns, where text can tell them exactly."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    empty: dict[str, int] = {}
    for at in range(told.num_columns):
        groups = [told.row_group(number).column(at) for number in range(told.num_row_groups)]
        name, found = groups[0].path_in_schema, [group.statistics for group in groups]
        if "." in name or not all(each is not None and each.has_null_count for each in found):
            continue
        empty[name] = sum(each.null_count for each in found)
        known = [each for each in found if each.has_min_max]
        if len(known) == sum(
            1 for group, each in zip(groups, found, strict=True) if each.null_count < group.num_values
        ):
            # Spark knows days and texts that Python does not.
            with suppress(OverflowError, ValueError):
                if between := _bounds([each.min for each in known], [each.max for each in known]):
                    least[name], greatest[name] = between
    return {
        "numRecords": told.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": empty,
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
            return (low[:_SHOWN], high) if len(high) <= _SHOWN else None
        case datetime():
            # Told to the millisecond: the bounds of what lies between have to hold it.
            whole = timedelta(milliseconds=1)
            return moment(low), moment(high + whole)
        case date():
            return low.isoformat(), high.isoformat()
        case _:
            return None


def moment(value: datetime) -> str:
    """As statistics of a file tell it; without a zone where it has none."""
    told = value.astimezone(UTC) if value.tzinfo else value
    return told.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def commit_actions(
    location: str,
    version: int,
    write: Write | None,
    operation: tuple[str, dict[str, str]],
    counts: dict[str, int],
    actions: Sequence[dict[str, Any]],
    *,
    blind: bool = False,
) -> None:
    """Make the version that comes after the one that was read, -1 for none; raises where another writer was first.
    Without `write`, the commit has no batch. With `blind`, its rows do not depend on those that were read."""
    name, parameters = operation
    info = {
        "timestamp": _now(),
        "operation": name,
        "operationParameters": parameters,
        **({"readVersion": version} if version >= 0 else {}),
        "isolationLevel": "Serializable",
        "isBlindAppend": blind,
        "operationMetrics": {name: str(count) for name, count in counts.items()},
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
