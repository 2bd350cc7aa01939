"""A merge that looks at a large table once: where the rows lie that are to go, and which rows come in their place.

Delta's MERGE joins the batch with the table three times, and twice sends every row of the table through a shuffle: rows
without a match have to be kept in those joins. Here the table is read once, beside a batch that every task holds: the
columns that decide, and the place of each row in its file. What goes is marked in deletion vectors, what comes is
written to new files, and both are one commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lakesmith.columns import GONE, HIDDEN
from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats.delta.files import is_plain_table, sync, sync_commit
from lakesmith.formats.delta.vectors import read_vector, write_vectors
from lakesmith.ports import Upsert, Write
from lakesmith.sql import bounds, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

_NUMBER, _FILE, _ROW, _HOW = (f"{HIDDEN}{name}" for name in ("number", "in_file", "at_row", "how"))
_TARGET_COLUMN = re.compile(r"\btarget\.(?:`((?:[^`]|``)+)`|(\w+))")
_TIGHT = re.compile(r'"tightBounds"\s*:\s*(?:true|false)')
_SUM = re.compile(r"(\d{20})\.checkpoint\.parquet")
_CHECKPOINTS = 10
"""Every so many versions the log is summed up."""
_SHOWN = 32
"""Text of more characters is not told as a bound."""


def placeable(table: DeltaTable, rows: DataFrame, location: str) -> bool:
    """Whether the table asks nothing of its writer but rows, its log can be read, and the rows are of its columns."""
    settings = table.metadata().configuration
    if settings.get("delta.enableDeletionVectors") != "true" or settings.get("delta.appendOnly") == "true":
        return False
    if not is_plain_table(table, also={"deletionVectors"}) or _log_files(location, table.version()) is None:
        return False
    stored = [name for name in rows.columns if not name.startswith(HIDDEN)]
    return types_of(rows, stored) == {column.name: column.type for column in table.schema().fields}


def types_of(rows: DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """The types of columns as the log tells them."""
    from deltalake import Schema

    told = Schema.from_json(rows.select(*map(quoted, names)).schema.json())
    return {column.name: column.type for column in told.fields}


def with_places(rows: DataFrame) -> DataFrame:
    """The rows of a table as they are read, each with the file and the number that it has there; as they are where rows
    cannot be marked."""
    told = rows.select("_metadata").schema["_metadata"].dataType
    if "row_index" not in told.fieldNames():  # type: ignore[attr-defined]
        return rows
    return rows.selectExpr("*", f"_metadata.file_path AS {_FILE}", f"_metadata.row_index AS {_ROW}")


def pinned(upsert: Upsert, table: DeltaTable) -> tuple[Upsert, int]:
    """The same rows, whatever their query would give another time, with a number each and bounds for the table's; and
    how many they are."""
    # What is kept so is lost with its executor, and the job fails: it is never computed again, and other.
    rows = upsert.rows.selectExpr("*", f"monotonically_increasing_id() AS {_NUMBER}").localCheckpoint()
    name = upsert.key[0]
    count, inside = bounds(rows, name, "target.")
    if types_of(rows, [name]) != {column.name: column.type for column in table.schema().fields if column.name == name}:
        inside = None
    both = " AND ".join(f"({part})" for part in (inside, upsert.also) if part)
    return replace(upsert, rows=rows, also=both or None), count


def place(upsert: Upsert, count: int, table: DeltaTable, location: str, write: Write) -> None:
    """Commit the merge of rows that are pinned and that every task can hold; raises where another writer was first."""
    from pyspark.sql import functions as F

    folder = f"batch-{write.sequence:08}-{uuid.uuid4().hex[:8]}"
    source = upsert.rows
    target = _target(upsert, source.sparkSession, location, table.version())
    met = _decided(upsert, target, F.broadcast(source))
    coming = source.join(_numbers(source, met.left), _NUMBER, "left_anti") if met.left else source
    if GONE in source.columns:
        coming = coming.where(f"NOT {GONE}")
    stored = [quoted(column.name) for column in table.schema().fields]
    coming.select(*stored).write.parquet(os.path.join(location, folder))
    added = list(_added(location, folder))
    actions = [*_marked(location, table.version(), met.rows), *({"add": add} for add in added)]
    counts = {
        "numSourceRows": count,
        "numTargetRowsInserted": sum(json.loads(add["stats"])["numRecords"] for add in added) - met.replaced,
        "numTargetRowsUpdated": met.replaced,
        "numTargetRowsDeleted": met.deleted,
        "numTargetFilesAdded": len(added),
        "numTargetBytesAdded": sum(add["size"] for add in added),
    }
    _commit(location, table.version(), write, counts, actions)


def _target(upsert: Upsert, spark: SparkSession, location: str, version: int) -> DataFrame:
    if upsert.met is not None and upsert.met[0] == version and _ROW in upsert.met[1].columns:
        return upsert.met[1]
    return with_places(spark.read.format("delta").option("versionAsOf", version).load(location))


@dataclass(slots=True, kw_only=True)
class _Met:
    """What came of rows of the batch that met rows of the table."""

    rows: dict[str, BitMap64] = field(default_factory=dict)
    """By file, the rows of the table that go."""
    replaced: int = 0
    deleted: int = 0
    left: list[pa.Array] = field(default_factory=list)
    """The numbers of rows of the batch that change nothing."""
    tied: list[pa.Array] = field(default_factory=list)
    """The numbers of those for which the order does not tell."""


def _decided(upsert: Upsert, target: DataFrame, source: DataFrame) -> _Met:
    if upsert.by_order is None:
        return _gathered(_meet(upsert, target, source, upsert.newer))
    met = _gathered(_meet(upsert, target, source, *upsert.by_order))
    if met.tied:
        # Rows of the same time: what else is in them decides.
        alike = source.join(_numbers(source, met.tied), _NUMBER, "left_semi")
        met = _gathered(_meet(upsert, target, alike, upsert.newer), met)
    return met


def _meet(upsert: Upsert, target: DataFrame, source: DataFrame, newer: str, tied: str = "false") -> DataFrame:
    """The rows that meet, by file and by what is to be done: numbers of rows, told together since the name is long."""
    from pyspark.sql import functions as F

    same = [f"target.{quoted(name)} = source.{quoted(name)}" for name in upsert.key]
    condition = " AND ".join([*same, *([f"({upsert.also})"] if upsert.also else [])])
    words = _TARGET_COLUMN.findall(f"{condition} {newer} {tied}")
    asked = {_FILE, _ROW, *((odd.replace("``", "`") or plain).lower() for odd, plain in words)}
    target = target.select(*(quoted(name) for name in target.columns if name.lower() in asked))
    gone = f"source.{GONE}" if GONE in source.columns else "false"
    met = target.alias("target").join(source.alias("source"), F.expr(condition))
    told = met.selectExpr(
        _FILE,
        _ROW,
        f"source.{_NUMBER}",
        f"CASE WHEN coalesce({tied}, false) THEN 'tied' WHEN NOT coalesce({newer}, false) THEN 'left' "
        f"WHEN {gone} THEN 'deleted' ELSE 'replaced' END AS {_HOW}",
    )
    rows, numbers = F.expr(f"collect_list({_ROW})"), F.expr(f"collect_list({_NUMBER})")
    return told.groupBy(_FILE, _HOW).agg(rows.alias(_ROW), numbers.alias(_NUMBER))


def _gathered(told: DataFrame, before: _Met | None = None) -> _Met:
    """With what was told before, without the ties that this tells apart."""
    from pyroaring import BitMap64

    met = _Met() if before is None else replace(before, tied=[])
    found = told.toArrow()
    for at in range(found.num_rows):
        path, how = found[_FILE][at].as_py(), found[_HOW][at].as_py()
        rows, numbers = found[_ROW][at].values, found[_NUMBER][at].values
        if how in ("tied", "left"):
            (met.tied if how == "tied" else met.left).append(numbers)
            continue
        going = BitMap64(rows.to_numpy())
        known = met.rows.get(path, BitMap64())
        if len(going) != len(rows) or known & going:
            raise DataError(
                "key-twice",
                "two rows of the batch are for one row of the table, and nothing says which of them counts",
                hint="group by the key, or say order_by: then the latest of them is kept",
            )
        met.rows[path] = known | going
        if how == "deleted":
            met.deleted += len(rows)
        else:
            met.replaced += len(rows)
    return met


def _numbers(source: DataFrame, numbers: list[pa.Array]) -> DataFrame:
    import pyarrow as pa

    return source.sparkSession.createDataFrame(pa.table({_NUMBER: pa.chunked_array(numbers, pa.int64())}))


def _marked(location: str, version: int, rows: dict[str, BitMap64]) -> Iterator[dict[str, Any]]:
    """The actions that take rows out of files."""
    if not rows:
        return
    gone = {_absolute(location, path): numbers for path, numbers in rows.items()}
    adds = _adds(location, version, gone)
    for path, add in adds.items():
        if add.get("deletionVector"):
            gone[path] = gone[path] | read_vector(location, add["deletionVector"])
    vectors = write_vectors(location, gone)
    now = _now()
    for path, add in adds.items():
        stats = add.get("stats") or "{}"
        count = json.loads(stats).get("numRecords")
        if count is None:
            count = _rows_of(path)
            stats = json.dumps({"numRecords": count})
        removed = {
            "path": add["path"],
            "deletionTimestamp": now,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": add["size"],
            "stats": json.dumps({"numRecords": count}),
        }
        if add.get("deletionVector"):
            removed["deletionVector"] = add["deletionVector"]
        yield {"remove": removed}
        yield {"add": {**add, "dataChange": True, "stats": _loosened(stats), "deletionVector": vectors[path]}}


def _loosened(stats: str) -> str:
    """The same bounds, said to be wider than the rows. As text: long decimals would not survive being read."""
    if '"tightBounds"' in stats:
        return _TIGHT.sub('"tightBounds":false', stats, count=1)
    return '{"tightBounds":false,' + stats.lstrip()[1:]


def _absolute(location: str, path: str) -> str:
    """Where a file lies that the log, or Spark, names."""
    plain = unquote(path).removeprefix("file:")
    return os.path.normpath(
        os.path.join(os.path.abspath(location), f"/{plain.lstrip('/')}" if plain[:1] == "/" else plain)
    )


def _rows_of(path: str) -> int:
    import pyarrow.parquet as pq

    count: int = pq.ParquetFile(path).metadata.num_rows
    return count


def _log_files(location: str, version: int) -> tuple[str | None, list[str]] | None:
    """The newest sum of the log and the commits since; None where they do not lead up to the version."""
    log = os.path.join(location, "_delta_log")
    names = set(os.listdir(log))
    sums = (int(found[1]) for name in names if (found := _SUM.fullmatch(name)))
    summed = max((number for number in sums if number <= version), default=-1)
    since = [f"{number:020}.json" for number in range(summed + 1, version + 1)]
    if not names.issuperset(since):
        return None
    newest = os.path.join(log, f"{summed:020}.checkpoint.parquet") if summed >= 0 else None
    return newest, [os.path.join(log, name) for name in since]


def _adds(location: str, version: int, paths: dict[str, BitMap64]) -> dict[str, dict[str, Any]]:
    """How the log tells of some of its files, by where they lie."""
    import pyarrow.parquet as pq

    files = _log_files(location, version)
    assert files is not None
    newest, commits = files
    found: dict[str, dict[str, Any]] = {}
    for batch in pq.ParquetFile(newest).iter_batches(columns=["add"]) if newest else ():
        for add in batch.column(0).to_pylist():
            if add and (path := _absolute(location, add["path"])) in paths:
                kept = {name: value for name, value in add.items() if value is not None and name != "stats_parsed"}
                kept |= {name: dict(kept[name]) for name in ("partitionValues", "tags") if name in kept}
                found[path] = kept
    for name in commits:
        with open(name, encoding="utf-8") as commit:
            actions = [json.loads(line) for line in commit]
        for action in actions:
            if gone := action.get("remove"):
                found.pop(_absolute(location, gone["path"]), None)
        for action in actions:
            if (add := action.get("add")) and (path := _absolute(location, add["path"])) in paths:
                found[path] = add
    if missing := set(paths) - set(found):
        raise InfrastructureError(
            "commit-conflict",
            f"{min(missing)} is no longer part of the table",
            hint="nothing is lost: run again",
        )
    return found


def _added(location: str, folder: str) -> Iterator[dict[str, Any]]:
    """How the log is to tell of new files, which are brought to the disk; those without a row are taken away."""
    import pyarrow.parquet as pq

    below = os.path.join(location, folder)
    for name in sorted(os.listdir(below)):
        path = os.path.join(below, name)
        file = pq.ParquetFile(path) if name.endswith(".parquet") else None
        if file is None or file.metadata.num_rows == 0:
            os.remove(path)
            continue
        sync(path)
        yield {
            "path": quote(f"{folder}/{name}"),
            "partitionValues": {},
            "size": os.path.getsize(path),
            "modificationTime": os.stat(path).st_mtime_ns // 1_000_000,
            "dataChange": True,
            "stats": json.dumps(_stats(file.metadata)),
        }
    if not os.listdir(below):
        shutil.rmtree(below)
    else:
        sync(below)
    sync(location)


def _stats(told: Any) -> dict[str, Any]:
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
            return _moment(low), _moment(high + whole)
        case date():
            return low.isoformat(), high.isoformat()
        case _:
            return None


def _moment(value: datetime) -> str:
    text = value.astimezone(UTC) if value.tzinfo else value
    return text.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _commit(location: str, version: int, write: Write, counts: dict[str, int], actions: list[dict[str, Any]]) -> None:
    info = {
        "timestamp": _now(),
        "operation": "MERGE",
        "operationParameters": {},
        "readVersion": version,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {name: str(count) for name, count in counts.items()},
        "userMetadata": write.note,
        "engineInfo": "Lakesmith",
        "txnId": str(uuid.uuid4()),
    }
    told = {"appId": write.flow, "version": write.sequence, "lastUpdated": _now()}
    lines = [{"commitInfo": info}, {"txn": told}, *actions]
    log = os.path.join(location, "_delta_log")
    temporary = os.path.join(log, f".{uuid.uuid4()}.tmp")
    with open(temporary, "x", encoding="utf-8") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    try:
        # Refused where the name is taken: of two writers of one version exactly one wins.
        os.link(temporary, os.path.join(log, f"{version + 1:020}.json"))
    except FileExistsError as error:
        raise InfrastructureError(
            "commit-conflict",
            f"another writer made version {version + 1} first",
            hint="nothing is lost: run again",
        ) from error
    finally:
        os.remove(temporary)
    sync_commit(location, version + 1)
    if (version + 1) % _CHECKPOINTS == 0:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with suppress(DeltaError):  # it saves time, no more
            DeltaTable(location, version=version + 1).create_checkpoint()


def _now() -> int:
    return time.time_ns() // 1_000_000
