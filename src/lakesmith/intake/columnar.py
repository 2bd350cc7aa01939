"""Read Parquet, ORC and Avro files: their own types are compared with those of the table.

The hash of a row is that of its canonical JSON, with columns sorted by name and without NULLs: the same record has the
same hash in every file, whatever the order, encoding or number of its NULL columns.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, Literal, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as is_

from lakesmith.columns import SOURCE_ROW
from lakesmith.intake import avro, orc
from lakesmith.intake.arrays import as_json, fit, leaves, map_leaves, with_bytes, with_nulls
from lakesmith.intake.memory import check_memory
from lakesmith.intake.rows import Abort, Broken, Target, Unreadable, reason, shown, with_hidden_columns
from lakesmith.intake.shapes import added, map_type, storable, stored_type, widest

Format = Literal["parquet", "orc", "avro"]
T = TypeVar("T")
Content = tuple[pa.Schema, Iterator[pa.RecordBatch], int]
"""The columns of a file, its batches, and the row count in its metadata."""
ROWS = 20_000
SIZE = 16 << 20
"""The maximum rows and bytes of a batch, unless a single row is larger."""
_STEP = 1024
"""Rows decoded at once: a few bytes of a dictionary can expand to a long text in each of them."""
_BUFFER = 1 << 20
_DEEP = 200
_NEAR = (2**63 - 1) // 1000
"""Microseconds since 1970 that also fit into nanoseconds: the years 1677 to 2262."""


def read(file: BinaryIO, format: Format, target: Target) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file: the target's columns, the hash, rescued values, unreadable text, and the row number."""
    with _opened(file, format) as (schema, batches):
        if not target.surveyed:
            _abort_on_new_fields(_columns(schema), target)
        number = 1
        for batch in _bounded(batches):
            yield _fitted(batch, target, number)
            number += len(batch)


def shape(file: BinaryIO, format: Format) -> pa.Schema:
    """Return the table columns for a file, by its footer or header alone."""
    with _opened(file, format) as (schema, _):
        return _columns(schema)


def _columns(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, stored_type(field.type)) for field in schema if storable(field.name)])


def _abort_on_new_fields(columns: pa.Schema, target: Target) -> None:
    """Raise `Abort` when a file has a field that the table lacks, or values for which a column can be widened."""
    wide_types = widest(pa.struct(list(target.schema)), pa.struct(list(columns)))
    pairs = zip(target.schema, wide_types, strict=True)
    wider = [old.name for old, wide in pairs if old.name in target.widening and old.type != wide.type]
    for name in (*added(target.schema, columns), *wider):
        raise Abort("new-fields", "", name)


@contextmanager
def _opened(file: BinaryIO, format: Format) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open a file, and return its columns and batches in its own types."""
    if format == "avro":
        schema, batches = avro.read(file)
        _check_type(pa.struct(list(schema)), "", 0)
        yield schema, batches
        return
    with ExitStack() as stack:
        spooled = stack.enter_context(tempfile.SpooledTemporaryFile(max_size=SIZE))
        if not file.seekable():
            shutil.copyfileobj(file, spooled)
            file = cast(BinaryIO, spooled)
        recording = _RecordingFile(file)
        reader = stack.enter_context(orc.reader()) if format == "orc" else None
        with _as_broken(recording, format):
            if reader is None:
                schema, batches, rows = _parquet(recording)
            else:
                _check_magic(recording, "orc", b"ORC", b"ORC")
                schema, batches, rows = reader.open(cast(BinaryIO, recording), recording.seek(0, io.SEEK_END))
            _check_type(pa.struct(list(schema)), "", 0)
        yield schema, _counted(batches, rows, recording, format)


class _RecordingFile(io.RawIOBase):
    """A file that remembers read errors: Arrow raises the same errors for lost connections and for bad bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.failure: BaseException | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._recorded(self._file.seek, offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        return self._recorded(self._file.read, size)

    def _recorded(self, access: Callable[..., T], *arguments: int) -> T:
        try:
            return access(*arguments)
        except BaseException as error:
            self.failure = error
            raise


@contextmanager
def _as_broken(file: _RecordingFile, format: str) -> Iterator[None]:
    """Turn Arrow's errors into `Broken`, unless reading the file itself failed."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        if file.failure is not None:
            raise file.failure from None
        check_memory(error)
        raise Broken("corrupt", f"the {format} file cannot be read to its end: {reason(error)}") from error


def _counted(
    batches: Iterator[pa.RecordBatch], rows: int, file: _RecordingFile, format: str
) -> Iterator[pa.RecordBatch]:
    count = 0
    while True:
        with _as_broken(file, format):
            batch = next(batches, None)
        if batch is None:
            break
        count += len(batch)
        yield batch
    if count != rows:
        # Arrow trusts a corrupt footer for the number of rows.
        raise Broken("corrupt", f"the {format} file claims {rows:,} rows, and {count:,} were read")


def _parquet(file: _RecordingFile) -> Content:
    import pyarrow.parquet as pq

    _check_magic(file, "parquet", b"PAR1", b"PAR1")

    def opened(unit: str) -> Any:
        # Without a buffer, or with pre-buffering, a whole row group is read into memory.
        options = {"buffer_size": _BUFFER, "pre_buffer": False, "page_checksum_verification": True}
        return pq.ParquetFile(file, coerce_int96_timestamp_unit=unit, **options)

    fine = opened("ns")
    groups = [fine.metadata.row_group(number) for number in range(fine.metadata.num_row_groups)]
    width = max((group.total_byte_size // group.num_rows for group in groups if group.num_rows), default=1)
    step = min(max(SIZE // max(width, 1), 1), _STEP)
    physical = [fine.schema.column(number).physical_type for number in range(len(fine.schema))]
    if "INT96" not in physical:
        return fine.schema_arrow, fine.iter_batches(step, use_threads=False), fine.metadata.num_rows
    schema = _with_instants(fine.schema_arrow, iter(physical), "ns")
    return schema, _instants(opened, step, schema, physical), fine.metadata.num_rows


def _instants(
    opened: Callable[[str], Any], step: int, schema: pa.Schema, physical: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file with INT96 times, in a unit that fits all: Arrow overflows and truncates silently."""
    fine, coarse = opened("ns"), opened("us")
    old = [field.name for field, plain in zip(schema, fine.schema_arrow, strict=True) if field.type != plain.type]
    far = finer = False
    both = (file.iter_batches(step, columns=old, use_threads=False) for file in (fine, coarse))
    for one, other in zip(*both, strict=True):
        for nano, micro in zip(leaves(one.to_struct_array()), leaves(other.to_struct_array()), strict=True):
            if nano.type != micro.type:
                counts = micro.view(pa.int64())
                near = pc.less_equal(pc.abs(counts), _NEAR)
                far = far or not pc.all(near, min_count=0).as_py()
                cut = pc.multiply(counts.filter(near), 1000)
                finer = finer or not cut.equals(nano.view(pa.int64()).filter(near))
    if far and finer:
        what = "has INT96 times finer than a microsecond and others outside of the years 1677 to 2262"
        raise Broken("int96-range", f"{' or '.join(old)} {what}, and no unit fits both")
    schema = _with_instants(schema, iter(physical), "us" if far else "ns")
    for batch in (coarse if far else fine).iter_batches(step, use_threads=False):
        arrays = [
            map_leaves(array, type, pa.Array.cast) for array, type in zip(batch.columns, schema.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check_magic(file: _RecordingFile, format: str, head: bytes, tail: bytes) -> None:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    first = file.read(len(head))
    if first != head:
        what = f"it begins with {first!r}, not with {head!r}" if size else "it is empty"
        raise Broken("bad-magic", f"this is not a {format} file: {what}")
    file.seek(-min(size, 4), io.SEEK_END)
    # The last byte of an ORC file is the length of its postscript.
    if size <= 2 * len(head) or tail not in file.read():
        raise Broken("truncated", f"the {format} file has no valid end: it was not written completely")
    file.seek(0)


def _with_instants(schema: pa.Schema, physical: Iterator[str], unit: str) -> pa.Schema:
    """Return the schema with INT96 times as instants, as Spark, Hive and Impala write them."""
    instant = pa.timestamp(unit, tz="UTC")
    return pa.schema(map_type(pa.struct(list(schema)), lambda leaf: instant if next(physical) == "INT96" else leaf))


def _check_type(type: pa.DataType, name: str, depth: int) -> None:
    """Check that a table can have a type: no duplicate names, only supported types, not nested too deeply."""
    if depth > _DEEP:
        raise Broken("too-deep", f"{name[:60]}… is nested more than {_DEEP} deep")
    if is_.is_union(type):
        raise Broken("unsupported-type", f"{name} is of type {type}, which cannot be read")
    if is_.is_struct(type):
        paths: dict[str, str] = {}
        for field in type:
            path = f"{name}.{field.name}" if name else field.name
            other = paths.get(field.name.lower())
            if other is not None:
                raise Broken("header-twice", f"the column {path!r} is duplicated, first as {other!r}")
            paths[field.name.lower()] = path
            _check_type(field.type, path, depth + 1)
        return
    for number in range(type.num_fields):
        _check_type(type.field(number).type, name, depth + 1)


def _bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of bounded size."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for part in _cut(batch):
            if waiting and (rows + len(part) > ROWS or size + part.nbytes > SIZE):
                yield pa.concat_batches(waiting)
                waiting, rows, size = [], 0, 0
            waiting.append(part)
            rows, size = rows + len(part), size + part.nbytes
    if waiting:
        yield pa.concat_batches(waiting)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    parts = max(-(-len(batch) // ROWS), -(-batch.nbytes // SIZE), 1)
    step = max(len(batch) // parts, 1)
    for start in range(0, len(batch), step):
        yield batch.slice(start, step)


def _fitted(batch: pa.RecordBatch, target: Target, number: int) -> pa.RecordBatch:
    batch, problems = _readable(batch)
    rows = batch.to_struct_array()
    texts = as_json(rows).to_pylist()
    fitted, misfits = fit(rows, pa.struct(list(target.schema)), target.timezone)
    columns = fitted.flatten()
    rescued: dict[int, list[str]] = {}
    for misfit in misfits:
        # The row is a struct, so each name starts with a dot.
        rescued.setdefault(misfit.row, []).append(f"{json.dumps(misfit.name[1:], ensure_ascii=False)}: {misfit.text}")
    for row, (_, raw) in problems.items():
        texts[row] = raw
        rescued.pop(row, None)
    if problems:
        columns = [with_nulls(column, set(problems)) for column in columns]
    count = len(batch)
    rescued_texts = [f"{{{', '.join(rescued[row])}}}" if row in rescued else None for row in range(count)]
    unreadable = [shown(problems[row][1].encode()) if row in problems else None for row in range(count)]
    codes = [str(problems[row][0]) if row in problems else None for row in range(count)]
    raws = [text.encode() for text in texts]
    result = with_hidden_columns(columns, raws, target, rescued_texts, unreadable, codes)
    return result.append_column(SOURCE_ROW, pa.array(range(number, number + count), pa.int64()))


def _readable(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, tuple[Unreadable, str]]]:
    """Return the batch with invalid values as NULL, and the rows that had them, as text."""
    problems: dict[int, Unreadable] = {}
    readable, legible = list(batch.columns), list(batch.columns)
    for place, (name, array) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        invalid = _invalid(array)
        if invalid:
            readable[place], legible[place] = with_nulls(array, set(invalid)), with_bytes(array)
        for row, message in invalid.items():
            code = "not-utf8" if "UTF8" in message else "invalid-value"
            problems.setdefault(row, Unreadable(code, f"the value of {name!r} is not valid: {message}"))
    if not problems:
        return batch, {}
    shown_rows = pa.RecordBatch.from_arrays(legible, names=batch.schema.names).take(pa.array(list(problems)))
    raws = as_json(shown_rows.to_struct_array()).to_pylist()
    return pa.RecordBatch.from_arrays(readable, schema=batch.schema), {
        row: (problem, raw) for (row, problem), raw in zip(problems.items(), raws, strict=True)
    }


def _invalid(array: pa.Array, start: int = 0) -> dict[int, str]:
    """Return the rows with invalid values, and why, found by bisection."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        if len(array) == 1:
            return {start: str(error).splitlines()[0]}
    else:
        return {}
    middle = len(array) // 2
    # Only a copy has no child values of other rows.
    left, right = (array.take(pa.array(range(*bounds))) for bounds in ((0, middle), (middle, len(array))))
    return _invalid(left, start) | _invalid(right, start + middle)
