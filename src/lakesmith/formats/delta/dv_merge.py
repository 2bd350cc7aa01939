"""A merge that looks at a large table once: where the rows lie that are to go, and which rows come in their place.

Delta's MERGE joins the batch with the table three times, and twice sends every row of the table through a shuffle: rows
without a match have to be kept in those joins. Here the table is read once, beside a batch that every task holds: the
columns that decide, and the place of each row in its file. What goes is marked in deletion vectors, what comes is
written to new files, and both are one commit.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakesmith.columns import GONE, HIDDEN
from lakesmith.errors import DataError
from lakesmith.formats.delta.actions import additions, commit_actions, fresh_folder, marks, rows_in
from lakesmith.formats.delta.committable import committable, types_in, types_of
from lakesmith.ports import Upsert, Write
from lakesmith.sql import bounds, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

_NUMBER, _FILE, _ROW, _HOW = (f"{HIDDEN}{name}" for name in ("number", "in_file", "at_row", "how"))
_TARGET_COLUMN = re.compile(r"\btarget\.(?:`((?:[^`]|``)+)`|(\w+))")


def placeable(table: DeltaTable, rows: DataFrame, location: str) -> bool:
    """Whether rows of the table can be marked, and Lakesmith may do it."""
    settings = table.metadata().configuration
    return settings.get("delta.enableDeletionVectors") == "true" and committable(table, rows, location)


def with_places(rows: DataFrame) -> DataFrame:
    """The rows of a table as they are read, each with the file and the number that it has there; as they are where rows
    cannot be marked."""
    if "row_index" not in rows.select("_metadata.*").columns:
        return rows
    return rows.selectExpr("*", f"_metadata.file_path AS {_FILE}", f"_metadata.row_index AS {_ROW}")


def pinned(upsert: Upsert, table: DeltaTable) -> tuple[Upsert, int]:
    """The same rows, whatever their query would give another time, with a number each and bounds for the table's; and
    how many they are."""
    # What is kept so is lost with its executor, and the job fails: it is never computed again, and other.
    rows = upsert.rows.selectExpr("*", f"monotonically_increasing_id() AS {_NUMBER}").localCheckpoint()
    name = upsert.key[0]
    count, inside = bounds(rows, name, "target.")
    if types_of(rows, [name])[name] != types_in(table)[name]:
        inside = None
    both = " AND ".join(f"({part})" for part in (inside, upsert.also) if part)
    return replace(upsert, rows=rows, also=both or None), count


def place(upsert: Upsert, count: int, table: DeltaTable, location: str, write: Write) -> None:
    """Commit the merge of rows that are pinned and that every task can hold; raises where another writer was first."""
    from pyspark.sql import functions as F

    folder = fresh_folder(write)
    source = upsert.rows
    target = _target(upsert, source.sparkSession, location, table.version())
    met = _decided(upsert, target, F.broadcast(source))
    coming = source.join(_numbers(source, met.left), _NUMBER, "left_anti") if met.left else source
    if GONE in source.columns:
        coming = coming.where(f"NOT {GONE}")
    stored = [quoted(column.name) for column in table.schema().fields]
    coming.select(*stored).write.parquet(os.path.join(location, folder))
    added = list(additions(location, folder))
    actions = [*marks(location, table.version(), met.rows), *({"add": add} for add in added)]
    counts = {
        "numSourceRows": count,
        "numTargetRowsInserted": rows_in(added) - met.replaced,
        "numTargetRowsUpdated": met.replaced,
        "numTargetRowsDeleted": met.deleted,
        "numTargetFilesAdded": len(added),
        "numTargetBytesAdded": sum(add["size"] for add in added),
    }
    commit_actions(location, table.version(), write, ("MERGE", {}), counts, actions)


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
