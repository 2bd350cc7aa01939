"""Commits few rows without Spark's writer: the driver collects them and writes their files.

A Spark job, and Delta's state of the log in Spark, cost more than the rows of a small batch.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from lakesmith.formats.delta import add_files
from lakesmith.formats.delta.actions import file_action
from lakesmith.formats.delta.commit_results import batch_result
from lakesmith.formats.delta.commit_rules import TEXT_PARTITIONS, can_commit, frame_types
from lakesmith.formats.delta.commits import committed_sequence
from lakesmith.formats.delta.partition_overwrite import can_replace_partitions, commit_partitions
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import open_snapshot_if_any
from lakesmith.ports import CommitResult, DataFile, ReplaceWhere, TableFolder, Write, new_batch_folder
from lakesmith.sql import collect_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

_YEARS = (date(1, 1, 1), date(9999, 12, 31))
"""Dates between these have the same text in Arrow as in Spark."""


def append_few(frame: DataFrame, folder: TableFolder, write: Write) -> CommitResult | None:
    """Append the rows, or create the table with them; None where Spark has to do it."""
    table = open_snapshot_if_any(folder)
    if write.widen or not _can_write(frame, table, folder, write):
        return None
    return _commit(frame, table, folder, write, overwrite=False)


def overwrite_few(
    frame: DataFrame, folder: TableFolder, write: Write, only: ReplaceWhere | None
) -> CommitResult | None:
    """Replace all rows, or the partitions that `only` names; None where Spark has to do it."""
    table = open_snapshot_if_any(folder)
    if table is None or not _can_write(frame, table, folder, write):
        return None
    if only is None:
        return _commit(frame, table, folder, write, overwrite=True)
    if committed_sequence(folder, table, write.flow) >= write.sequence:
        return None
    if not can_replace_partitions(only, frame, table, folder, write):
        return None
    files = _write_frame(frame, folder, write)
    if files is None:
        return None
    refuse_if_rolled_back(table, folder, write)
    commit_partitions(list(map(file_action, files)), only, table, folder, write)
    return batch_result(folder, write)


def write_file(rows: pa.Table, folder: TableFolder, name: str) -> DataFile:
    """Write the rows to a Parquet file."""
    import pyarrow.parquet as pq

    content = io.BytesIO()
    pq.write_table(rows, content, compression="zstd", store_schema=False, write_page_checksum=True)
    with folder.create(name) as file:
        file.write(content.getbuffer())
    return DataFile(name, content.tell(), rows.num_rows, footer=pq.read_metadata(content))


def _can_write(frame: DataFrame, table: DeltaTable | None, folder: TableFolder, write: Write) -> bool:
    """Whether the table accepts files with the rows, and has the partition columns of `write`."""
    types = frame_types(frame, write.partition_by)
    if len(types) == len(frame.columns):
        return False  # Spark cannot read files without columns
    if not all(isinstance(type, str) and type in TEXT_PARTITIONS for type in types.values()):
        return False
    return table is None or can_commit(table, frame, folder, write.partition_by)


def _commit(
    frame: DataFrame, table: DeltaTable | None, folder: TableFolder, write: Write, *, overwrite: bool
) -> CommitResult | None:
    files = _write_frame(frame, folder, write)
    if files is None:
        return None
    table_id = str(table.metadata().id) if table is not None else None
    return add_files.add(files, frame.schema.json(), folder, write, table_id, overwrite=overwrite)


def _write_frame(frame: DataFrame, folder: TableFolder, write: Write) -> list[DataFile] | None:
    """Write a file for each partition of the rows; None where a partition has no text that every reader knows."""
    rows = collect_arrow(frame)
    if not rows.num_rows:
        return []
    if not write.partition_by:
        return [write_file(rows, folder, new_file(write))]
    partitions = _partitions(rows, write.partition_by)
    if partitions is None:
        return None
    return [replace(write_file(part, folder, new_file(write)), partition=texts) for texts, part in partitions]


def _partitions(rows: pa.Table, columns: Sequence[str]) -> list[tuple[dict[str, str | None], pa.Table]] | None:
    """The rows by the text of their partition columns, without these columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = []
    for name in columns:
        values = rows[name]
        if pa.types.is_date(values.type) and not _is_plain_date(values):
            return None
        text = pc.cast(values, pa.string())
        if not _is_utf8(text):
            return None
        # Delta stores an empty text as NULL.
        texts.append(pc.if_else(pc.equal(text, ""), None, text).to_pylist())
    found: dict[tuple[str | None, ...], list[int]] = {}
    for number, values in enumerate(zip(*texts, strict=True)):
        found.setdefault(values, []).append(number)
    stored = rows.drop_columns(list(columns))
    return [(dict(zip(columns, values, strict=True)), stored.take(at)) for values, at in found.items()]


def _is_plain_date(values: Any) -> bool:
    import pyarrow.compute as pc

    between = pc.and_(pc.greater_equal(values, _YEARS[0]), pc.less_equal(values, _YEARS[1]))
    return pc.all(between).as_py() is not False


def _is_utf8(text: pa.ChunkedArray) -> bool:
    """Whether a text is valid UTF-8. Texts in Spark may hold any bytes."""
    import pyarrow as pa

    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def new_file(write: Write) -> str:
    """A new name for a file of a batch."""
    return f"{new_batch_folder(write.sequence)}/part-{uuid.uuid4().hex}.zstd.parquet"
