"""Reads bytes like a worker, and returns the rows in a short form."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from lakesmith.columns import CORRUPT, ERROR_CODE, FILE_END, FILE_NUMBER, HIDDEN, RESCUED, ROW_HASH, SOURCE_ROW
from lakesmith.declare.sources import FileFormat, Files
from lakesmith.intake.reader import HOLD_BACK, FileSurvey, Reader, Task, survey
from lakesmith.intake.rows import Target
from lakesmith.intake.shapes import schema_of
from lakesmith.intake.split import Records

_BESIDE = (ROW_HASH, RESCUED, SOURCE_ROW, FILE_NUMBER, FILE_END, CORRUPT, ERROR_CODE)


@dataclass(frozen=True)
class Found:
    """The rows of one file."""

    batches: list[pa.RecordBatch]

    @property
    def every(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch.to_pylist()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the columns of the readable rows, without NULLs."""
        return [
            {name: value for name, value in row.items() if value is not None and name not in _BESIDE}
            for row in self.every
            if row[ERROR_CODE] is None and row[FILE_END] is None
        ]

    @property
    def codes(self) -> dict[int, str]:
        """Return the code of each unreadable row, by line."""
        return {row[SOURCE_ROW]: row[ERROR_CODE].split(": ", 1)[0] for row in self.every if row[ERROR_CODE] is not None}

    @property
    def words(self) -> list[str]:
        return [row[ERROR_CODE].split(": ", 1)[1] for row in self.every if row[ERROR_CODE] is not None]

    @property
    def raws(self) -> list[str]:
        return [row[CORRUPT] for row in self.every if row[CORRUPT] is not None]

    @property
    def lines(self) -> list[int]:
        return [row[SOURCE_ROW] for row in self.every if row[ERROR_CODE] is None and row[FILE_END] is None]

    @property
    def rescued(self) -> list[dict[str, Any] | None]:
        """Return the rescued values of each readable row."""
        return [
            None if row[RESCUED] is None else json.loads(row[RESCUED])
            for row in self.every
            if row[ERROR_CODE] is None and row[FILE_END] is None
        ]

    @property
    def end(self) -> dict[str, Any]:
        """Return the content of the row that closes the file. There is exactly one, and it is the last."""
        stops = [row[FILE_END] for row in self.every if row[FILE_END] is not None]
        assert len(stops) == 1
        assert self.every[-1][FILE_END] is not None
        end: dict[str, Any] = stops[0]
        return end


def read(
    data: bytes | Callable[[], BinaryIO],
    columns: Mapping[str, str],
    *,
    format: FileFormat = "json",
    path: str = "in/file",
    size: int | None = None,
    surveyed: bool = True,
    held: int = HOLD_BACK,
    **source: Any,
) -> Found:
    """Read a file for columns with Spark SQL types."""
    declared = Files(files="in/*", format=format, **source)
    target = Target(schema=schema_of(columns), timezone=declared.timezone, surveyed=surveyed)
    task = Task(0, path, _size(data) if size is None else size)
    reader = Reader(source=declared, target=target, open=lambda _: _opened(data), held=held)
    found = Found(list(reader.read([task])))
    rows = [row for row in found.every if row[FILE_END] is None]
    assert found.end["rows"] == (len(rows) if found.end["code"] is None else 1)
    assert found.end["bytes"] == task.size
    assert not any(name.startswith(HIDDEN) for name in columns)
    return found


def look(
    data: bytes | Callable[[], BinaryIO],
    *,
    format: FileFormat = "json",
    path: str = "in/file",
    size: int | None = None,
    expected: Sequence[str] = (),
    **source: Any,
) -> FileSurvey:
    """Survey a file."""
    task = Task(0, path, _size(data) if size is None else size)
    return survey(Files(files="in/*", format=format, **source), lambda _: _opened(data), expected, task)


def lines(*records: object) -> bytes:
    """Write JSON lines; texts and bytes are unchanged."""
    texts = [each if isinstance(each, bytes) else _text(each).encode() for each in records]
    return b"\n".join(texts) + b"\n"


def as_records(texts: Sequence[bytes]) -> Records:
    """Join texts as lines."""
    data = b"".join(text + b"\n" for text in texts)
    stops = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    return Records(data, stops, np.arange(1, len(texts) + 1))


def legible(batch: pa.RecordBatch) -> list[dict[str, str]]:
    """Return comparable rows: -0.0 differs from 0.0."""
    batch.validate(full=True)
    return [{name: repr(value) for name, value in row.items()} for row in batch.to_pylist()]


def _text(record: object) -> str:
    return record if isinstance(record, str) else json.dumps(record)


def _size(data: bytes | Callable[[], BinaryIO]) -> int:
    assert isinstance(data, bytes)
    return len(data)


def _opened(data: bytes | Callable[[], BinaryIO]) -> BinaryIO:
    return io.BytesIO(data) if isinstance(data, bytes) else data()
