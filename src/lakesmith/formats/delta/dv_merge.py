"""Merges into a large table by deletion vectors, and reads the table once.

Delta's MERGE joins the batch with the table three times, and shuffles every row of the table twice: these joins must
keep rows without a match. Here the batch is broadcast and the table is read once: the columns that decide, and the
position of each row in its file. Deletion vectors mark the replaced and deleted rows, new files hold the new rows, and
both are one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakesmith.columns import DELETE_ROW, HIDDEN
from lakesmith.errors import DataError
from lakesmith.formats.delta.actions import (
    add_actions,
    commit_actions,
    deletion_vector_actions,
    file_action,
    row_count,
)
from lakesmith.formats.delta.commit_rules import DELETION_VECTORS, can_commit, frame_types, table_types
from lakesmith.formats.delta.few_rows import new_file, write_file
from lakesmith.formats.delta.spark_reads import AT_ROW, IN_FILE, read
from lakesmith.ports import TableFolder, Upsert, Write, new_batch_folder
from lakesmith.sql import bounds, collect_arrow, frame_name, quoted, run_sql

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

_NUMBER, _OUTCOME = f"{HIDDEN}number", f"{HIDDEN}outcome"
_MAX_FEW = 100_000
"""The number of rows of a batch that the driver merges. More are merged by Spark."""


def can_merge_by_vectors(table: DeltaTable, rows: DataFrame, folder: TableFolder) -> bool:
    """Whether the table has deletion vectors and Lakesmith may commit to it."""
    settings = table.metadata().configuration
    return settings.get(DELETION_VECTORS) == "true" and can_commit(table, rows, folder)


def pin_rows(upsert: Upsert, table: DeltaTable) -> tuple[Upsert, int]:
    """Compute the rows once, number them, and bound the rows of the table by their first key; also return the count."""
    # When an executor with these rows is lost, the job fails: they are never recomputed with another result.
    rows = upsert.rows.selectExpr("*", f"monotonically_increasing_id() AS {_NUMBER}").localCheckpoint()
    if rows.sparkSession is not upsert.rows.sparkSession:
        # Spark Connect returns them in the session that this one was cloned from.
        frame = frame_name()
        rows = run_sql(upsert.rows.sparkSession, f"SELECT * FROM {frame}", {frame: rows})
    name = upsert.key[0]
    count, inside = bounds(rows, name, "target.")
    if frame_types(rows, [name])[name] != table_types(table)[name]:
        inside = None
    both = " AND ".join(f"({part})" for part in (inside, upsert.extra_match) if part)
    return replace(upsert, rows=rows, extra_match=both or None), count


def match_condition(upsert: Upsert) -> str:
    """SQL: a row of the batch and a row of the table are the same."""
    same = [f"target.{quoted(name)} = source.{quoted(name)}" for name in upsert.key]
    return " AND ".join([*same, *([f"({upsert.extra_match})"] if upsert.extra_match else [])])


def merge_by_vectors(upsert: Upsert, count: int, table: DeltaTable, folder: TableFolder, write: Write) -> None:
    """Commit the merge of pinned rows, few enough to broadcast; raises where another writer was first."""
    from pyspark.sql import functions as F

    batch = new_batch_folder(write.sequence)
    source = upsert.rows
    target = _target(upsert, source.sparkSession, folder, table.version())
    matches = _find_matches(upsert, target, F.broadcast(source))
    new = source.join(_numbers(source, matches.unchanged), _NUMBER, "left_anti") if matches.unchanged else source
    if DELETE_ROW in source.columns:
        new = new.where(f"NOT {DELETE_ROW}")
    stored = [quoted(column.name) for column in table.schema().fields]
    new.select(*stored).write.parquet(f"{folder.engine_url('spark')}/{batch}")
    _commit(add_actions(folder, batch), matches, count, table, folder, write)


def merge_few(upsert: Upsert, table: DeltaTable, folder: TableFolder, write: Write) -> bool:
    """Commit the merge of few rows after one Spark job; False where they are many. Raises where another writer was
    first."""
    import pyarrow as pa

    found = _join_few(upsert, _target(upsert, upsert.rows.sparkSession, folder, table.version()), table)
    numbers = found[_NUMBER].to_pylist()
    if max(numbers, default=0) >= _MAX_FEW:
        return False
    matches = _Matches()
    new: dict[int, int] = {}
    unchanged = set()
    for at, (number, outcome) in enumerate(zip(numbers, found[_OUTCOME].to_pylist(), strict=True)):
        if outcome == "unchanged":
            unchanged.add(number)
        elif outcome in ("new", "replaced"):
            new.setdefault(number, at)
        if outcome in ("deleted", "replaced"):
            matches.add(found[IN_FILE][at].as_py(), outcome, [found[AT_ROW][at].as_py()])
    written = pa.array([at for number, at in new.items() if number not in unchanged], pa.int64())
    rows = found.take(written).select([column.name for column in table.schema().fields])
    added = [file_action(write_file(rows, folder, new_file(write)))] if rows.num_rows else []
    _commit(added, matches, len(set(numbers)), table, folder, write)
    return True


def _join_few(upsert: Upsert, target: DataFrame, table: DeltaTable) -> pa.Table:
    """The rows of the batch with the matching rows of the table and the outcomes, from one task without a shuffle."""
    from pyspark.sql import functions as F

    source = upsert.rows.coalesce(1).selectExpr("*", f"monotonically_increasing_id() AS {_NUMBER}")
    source = source.where(f"{_NUMBER} <= {_MAX_FEW}").alias("source").hint("shuffle_hash")
    joined = source.join(target.coalesce(1).alias("target"), F.expr(match_condition(upsert)), "left")
    delete = f"source.{DELETE_ROW}" if DELETE_ROW in upsert.rows.columns else "false"
    unmatched = f"IF({delete}, 'unchanged', 'new')"
    outcomes = joined.selectExpr(
        *(f"source.{quoted(column.name)}" for column in table.schema().fields),
        f"source.{_NUMBER}",
        IN_FILE,
        AT_ROW,
        f"IF({IN_FILE} IS NULL, {unmatched}, {_outcome(upsert, upsert.newer)}) AS {_OUTCOME}",
    )
    return collect_arrow(outcomes)


def _commit(
    added: list[dict[str, Any]], matches: _Matches, count: int, table: DeltaTable, folder: TableFolder, write: Write
) -> None:
    actions = [
        *deletion_vector_actions(folder, table.version(), matches.rows),
        *({"add": add} for add in added),
    ]
    metrics = {
        "numSourceRows": count,
        "numTargetRowsInserted": row_count(added) - matches.replaced,
        "numTargetRowsUpdated": matches.replaced,
        "numTargetRowsDeleted": matches.deleted,
        "numTargetFilesAdded": len(added),
        "numTargetBytesAdded": sum(add["size"] for add in added),
    }
    commit_actions(folder, table.version(), write, ("MERGE", {}), metrics, actions)


def _target(upsert: Upsert, spark: SparkSession, folder: TableFolder, version: int) -> DataFrame:
    if upsert.matched is not None and upsert.matched[0] == version and AT_ROW in upsert.matched[1].columns:
        return upsert.matched[1]
    return read(spark, folder, version, positions=True)


@dataclass(slots=True, kw_only=True)
class _Matches:
    """The outcome for rows of the batch that match rows of the table."""

    rows: dict[str, BitMap64] = field(default_factory=dict)
    """By file, the rows of the table to delete."""
    replaced: int = 0
    deleted: int = 0
    unchanged: list[pa.Array] = field(default_factory=list)
    """The numbers of rows of the batch that change nothing."""
    tied: list[pa.Array] = field(default_factory=list)
    """The numbers of rows of the batch that `by_order` cannot decide."""

    def add(self, path: str, outcome: str, rows: Sequence[int] | np.ndarray[Any, Any]) -> None:
        """Delete or replace rows of a file."""
        from pyroaring import BitMap64

        new, earlier = BitMap64(rows), self.rows.get(path, BitMap64())
        if len(new) != len(rows) or earlier & new:
            raise DataError(
                "key-twice",
                "two rows of the batch match the same row of the table, and no order decides between them",
                hint="group by the key, or declare order_by: then the latest row wins",
            )
        self.rows[path] = earlier | new
        if outcome == "deleted":
            self.deleted += len(rows)
        else:
            self.replaced += len(rows)


def _find_matches(upsert: Upsert, target: DataFrame, source: DataFrame) -> _Matches:
    if upsert.by_order is None:
        return _collect(_join(upsert, target, source, upsert.newer))
    matches = _collect(_join(upsert, target, source, *upsert.by_order))
    if matches.tied:
        # Rows of the same time: their other columns decide.
        tied = source.join(_numbers(source, matches.tied), _NUMBER, "left_semi")
        matches = _collect(_join(upsert, target, tied, upsert.newer), matches)
    return matches


def _join(upsert: Upsert, target: DataFrame, source: DataFrame, newer: str, tied: str = "false") -> DataFrame:
    """The matching rows by file and outcome, as lists of row numbers: the file names are long."""
    from pyspark.sql import functions as F

    # Spark reads only the columns of the table that these conditions use.
    joined = target.alias("target").join(source.alias("source"), F.expr(match_condition(upsert)))
    outcomes = joined.selectExpr(
        IN_FILE,
        AT_ROW,
        f"source.{_NUMBER}",
        f"IF(coalesce({tied}, false), 'tied', {_outcome(upsert, newer)}) AS {_OUTCOME}",
    )
    rows, numbers = F.expr(f"collect_list({AT_ROW})"), F.expr(f"collect_list({_NUMBER})")
    return outcomes.groupBy(IN_FILE, _OUTCOME).agg(rows.alias(AT_ROW), numbers.alias(_NUMBER))


def _outcome(upsert: Upsert, newer: str) -> str:
    """SQL: what a row of the batch does to the row of the table that it matches."""
    delete = f"source.{DELETE_ROW}" if DELETE_ROW in upsert.rows.columns else "false"
    return f"CASE WHEN NOT coalesce({newer}, false) THEN 'unchanged' WHEN {delete} THEN 'deleted' ELSE 'replaced' END"


def _collect(outcomes: DataFrame, before: _Matches | None = None) -> _Matches:
    """Collect the outcomes; with `before`, add them to earlier ones, whose ties they decide."""
    matches = _Matches() if before is None else replace(before, tied=[])
    found = collect_arrow(outcomes)
    for at in range(found.num_rows):
        path, outcome = found[IN_FILE][at].as_py(), found[_OUTCOME][at].as_py()
        rows, numbers = found[AT_ROW][at].values, found[_NUMBER][at].values
        if outcome in ("tied", "unchanged"):
            (matches.tied if outcome == "tied" else matches.unchanged).append(numbers)
            continue
        matches.add(path, outcome, rows.to_numpy())
    return matches


def _numbers(source: DataFrame, numbers: list[pa.Array]) -> DataFrame:
    import pyarrow as pa

    return source.sparkSession.createDataFrame(pa.table({_NUMBER: pa.chunked_array(numbers, pa.int64())}))
