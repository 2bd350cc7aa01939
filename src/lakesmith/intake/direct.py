"""Write good rows from the reader straight into Parquet files of the table; Spark only gets their statistics.

Nothing reads the files until a commit references them. A reader that fails removes its own files. Those of a killed job
belong to no version, like those of any interrupted writer, until Delta's VACUUM removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from lakesmith.columns import (
    CHANGE_AUDIT,
    CORRUPT,
    FILE_END,
    FILE_NUMBER,
    RESCUED,
    ROW_HASH,
    SOURCE_FILE,
    SOURCE_ROW,
    WRITTEN_FILE,
)
from lakesmith.intake.shapes import STRING
from lakesmith.ports import DataFile, TableFolder

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_GROUP = 64 << 20
"""The approximate size in memory of one row group."""
_MOMENT = pa.timestamp("us", tz="UTC")
WRITTEN_FIELD = pa.field(WRITTEN_FILE, pa.struct([("path", STRING), ("size", pa.int64()), ("rows", pa.int64())]))


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where the good rows of a batch are written, and their audit values."""

    folder: TableFolder
    """The table's."""
    columns: Sequence[str]
    """The columns of the incoming rows."""
    places: Sequence[str]
    """By file number, its path."""
    modified: Sequence[int]
    """By file number, its modification time in milliseconds since 1970."""
    pinned_at: int
    run_id: str

    def divert(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the good rows; yield the others, and one row for each Parquet file written."""
        schema: pa.Schema | None = None
        with ExitStack() as opened:
            rows = _ParquetFile(self.folder, opened)
            for batch in batches:
                schema = schema or batch.schema.append(WRITTEN_FIELD)
                good, others = _split(batch)
                if len(good):
                    rows.add(self._audited(good))
                if len(others):
                    yield pa.RecordBatch.from_arrays(
                        [*others.columns, pa.nulls(len(others), WRITTEN_FIELD.type)], schema=schema
                    )
            file = rows.finish()
        if file is not None:
            assert schema is not None
            report = {"path": file.path, "size": file.size, "rows": file.rows}
            yield pa.RecordBatch.from_pylist([{**dict.fromkeys(schema.names), WRITTEN_FILE: report}], schema=schema)

    def _audited(self, batch: pa.RecordBatch) -> pa.Table:
        count = len(batch)
        number = batch.column(FILE_NUMBER)[0].as_py()  # a batch is of one file
        columns = {
            **{name: batch.column(name) for name in self.columns if name not in CHANGE_AUDIT},
            SOURCE_FILE: pa.repeat(pa.scalar(self.places[number], STRING), count),
            SOURCE_ROW: batch.column(SOURCE_ROW),
            "_source_modified": _moments(self.modified[number], count),
            **{name: batch.column(name) for name in self.columns if name in CHANGE_AUDIT},
            "_ingested_at": _moments(self.pinned_at, count),
            "_run_id": pa.repeat(pa.scalar(self.run_id, STRING), count),
            ROW_HASH: batch.column(ROW_HASH),
            RESCUED: batch.column(RESCUED),
        }
        return pa.table(columns)


@dataclass
class _ParquetFile:
    """A Parquet file that is created with its first rows. It becomes visible when the stack ends without an error."""

    folder: TableFolder
    opened: ExitStack
    path: str = field(default_factory=lambda: f"part-{uuid.uuid4().hex}.zstd.parquet")
    waiting: list[pa.Table] = field(default_factory=list)
    size: int = 0
    count: int = 0
    file: BinaryIO | None = None
    writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        self.waiting.append(rows)
        self.size += rows.nbytes
        if self.size >= _GROUP:
            self._write()

    def _write(self) -> None:
        import pyarrow.parquet as pq

        group = pa.concat_tables(self.waiting)
        if self.writer is None:
            self.file = self.opened.enter_context(self.folder.create(self.path))
            self.writer = pq.ParquetWriter(
                self.file,
                group.schema,
                compression="zstd",
                store_schema=False,
                store_decimal_as_integer=True,
                write_page_checksum=True,
            )
        self.writer.write_table(group, row_group_size=max(len(group), 1))
        self.count += len(group)
        self.waiting, self.size = [], 0

    def finish(self) -> DataFile | None:
        """Write the remaining rows and the footer; None when there are no rows."""
        if self.waiting:
            self._write()
        if self.writer is None or self.file is None:
            return None
        self.writer.close()
        return DataFile(path=self.path, size=self.file.tell(), rows=self.count)


def _split(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Split a batch into good rows and reporting rows."""
    unreadable, closing = batch.column(CORRUPT), batch.column(FILE_END)
    if unreadable.null_count == closing.null_count == len(batch):
        return batch, batch.slice(0, 0)
    good = pc.and_(unreadable.is_null(), closing.is_null())
    return batch.filter(good), batch.filter(pc.invert(good))


def _moments(milliseconds: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(milliseconds * 1000, pa.int64()), count).cast(_MOMENT)
