"""Read files one after the other as Arrow batches; each file ends with a row of its counts.

A broken file yields a single row with the reason. Its first rows are held back until it is completely read, or too
large to hold back. If such a large file is broken, the job ends before its commit, and the batch is planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesmith.columns import CORRUPT, ERROR_CODE, FILE_END, FILE_NUMBER, RESCUED, SOURCE_ROW
from lakesmith.declare.sources import Files
from lakesmith.errors import LakesmithError
from lakesmith.intake import csv_text, json_text
from lakesmith.intake.head import Peeked, first_record, header_too_long, spans_lines
from lakesmith.intake.parts import Part
from lakesmith.intake.rows import Abort, Broken, Target, Unreadable, as_json, fit_rows, shape_of, shown, text_record
from lakesmith.intake.shapes import STRING, wider
from lakesmith.intake.split import Oversized, Records, split, split_json
from lakesmith.intake.stream import Counted, chunks

if TYPE_CHECKING:
    from lakesmith.intake.xml import Value

HOLD_BACK = 64 << 20
"""The maximum bytes of a file's rows to hold back."""
_ROWS = 20_000
END_TYPE = pa.struct(
    [
        ("rows", pa.int64()),
        ("rejected", pa.int64()),
        ("rescued", pa.int64()),
        ("bytes", pa.int64()),
        ("code", STRING),
    ]
)
_ADVICE = "; set encoding: in the source"
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Task:
    """A file to read, or a part of it."""

    number: int
    """Its index in the batch."""
    path: str
    size: int
    error: str | None = None
    """Why it cannot be read, if already known."""
    part: Part | None = None
    """The part of it to read; None for the whole file."""

    @property
    def start(self) -> int:
        """Where in the file to start."""
        return 0 if self.part is None else self.part.start

    @property
    def weight(self) -> int:
        """The bytes to read."""
        return self.size if self.part is None else self.part.size

    @property
    def partitions(self) -> dict[str, str | None]:
        """The `name=value` folders above it."""
        found: dict[str, str | None] = {}
        for part in self.path.split("/")[:-1]:
            name, equals, value = part.partition("=")
            if equals and name:
                found[name] = None if value == _NO_PARTITION else unquote(value)
        return found


Opener = Callable[[str], BinaryIO]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads the files of one batch."""

    source: Files
    target: Target
    open: Opener
    held: int = HOLD_BACK
    """The maximum bytes of a file's rows to hold back until it is completely read."""

    @property
    def output(self) -> pa.Schema:
        """The columns of the batches."""
        extra = [(SOURCE_ROW, pa.int64()), (FILE_NUMBER, pa.int32()), (FILE_END, END_TYPE)]
        return pa.schema([*self.target.output, *extra])

    def read(self, tasks: Iterable[Task]) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            yield from self._file(task)

    def _file(self, task: Task) -> Iterator[pa.RecordBatch]:
        if task.error is not None:
            yield self._rejected(task, *task.error.split(": ", 1))
            return
        held: list[pa.RecordBatch] = []
        size = count = rejected = rescued = 0
        # Other tasks yield rows of the other parts of a file: nothing is gained by holding back those of this part.
        released = task.part is not None
        try:
            with _opened(self.open, task) as file:
                raw = Counted(file, task.size, task.start)
                for batch in self._rows(raw, task):
                    count += len(batch)
                    rejected += len(batch) - batch.column(CORRUPT).null_count
                    rescued += len(batch) - batch.column(RESCUED).null_count
                    if released:
                        yield batch
                        continue
                    held.append(batch)
                    size += batch.nbytes
                    if size > self.held:
                        released = True
                        yield from held
                        held.clear()
        except Broken as broken:
            if broken.passing or released:
                raise Abort(_abort_kind(broken, task), task.path, str(broken)) from broken
            yield self._rejected(task, broken.code, broken.what)
            return
        except Abort as abort:
            raise Abort(abort.kind, task.path, abort.detail) from abort
        yield from held
        size = raw.count if task.part is None else task.weight
        end = {"rows": count, "rejected": rejected, "rescued": rescued, "bytes": size, "code": None}
        yield self._closing(task, {FILE_END: end})

    def _rows(self, raw: Counted, task: Task) -> Iterator[pa.RecordBatch]:
        parts = task.partitions
        from_path = fit_rows([parts], [b""], replace(self.target, text=True)) if parts else None
        with _as_listed(raw, task):
            for lines, batch in file_rows(raw, self.source, self.target, task.part):
                yield self._placed(batch if from_path is None else _with_path(batch, parts, from_path), lines, task)

    def _placed(self, batch: pa.RecordBatch, lines: pa.Array, task: Task) -> pa.RecordBatch:
        count = len(batch)
        places = [lines, pa.array(np.full(count, task.number, dtype=np.int32)), pa.nulls(count, END_TYPE)]
        return pa.RecordBatch.from_arrays([*batch.columns, *places], schema=self.output)

    def _rejected(self, task: Task, code: str, what: str) -> pa.RecordBatch:
        """Return the only row of a file that cannot be read, which also ends it."""
        end = {"rows": 1, "rejected": 1, "rescued": 0, "bytes": task.size, "code": code}
        return self._closing(
            task, {SOURCE_ROW: 0, CORRUPT: self._head(task), ERROR_CODE: f"{code}: {what}", FILE_END: end}
        )

    def _closing(self, task: Task, values: Mapping[str, object]) -> pa.RecordBatch:
        row = {**dict.fromkeys(self.output.names), FILE_NUMBER: task.number, **values}
        return pa.RecordBatch.from_pylist([row], schema=self.output)

    def _head(self, task: Task) -> str:
        try:
            with self.open(task.path) as file:
                return shown(file.read(4096))
        except (OSError, LakesmithError):
            return ""


@dataclass(frozen=True, slots=True)
class FileSurvey:
    """The result of a survey of a file."""

    shape: pa.DataType
    """Its columns, as a struct."""
    why: str | None = None
    """Why it cannot be read."""
    passing: bool = False
    """Whether the next run may be able to read it."""


def survey(source: Files, open: Opener, expected: Sequence[str], task: Task) -> FileSurvey:
    """Read a file for its columns only; `expected` are the known ones."""
    parts = pa.struct([(name, STRING) for name in task.partitions])
    if task.error is not None:
        return FileSurvey(pa.struct([]), task.error)
    try:
        with _opened(open, task) as file:
            raw = Counted(file, task.size, task.start)
            with _as_listed(raw, task):
                found = file_shape(raw, source, expected, task.part)
    except Broken as broken:
        if task.part is not None and not broken.passing:
            raise Abort(_abort_kind(broken, task), task.path, str(broken)) from broken
        return FileSurvey(pa.struct([]), str(broken), broken.passing)
    except Abort as abort:
        raise Abort(abort.kind, task.path, abort.detail) from abort
    return FileSurvey(wider(found, parts))


def file_rows(
    raw: Counted, source: Files, target: Target, part: Part | None = None
) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    """Yield the rows of a file, or of a part of it, with the line or number of each."""
    match source.format:
        case "json":
            yield from _json_rows(raw, source, target, part)
        case "csv":
            yield from _csv_rows(raw, source, target, part)
        case "text":
            yield from _text_rows(raw, source, target, part)
        case "xml":
            from lakesmith.intake import xml

            found = _xml_records(raw, source)
            normal = ((n, r, v if isinstance(v, Unreadable) else xml.normalise(v, target)) for n, r, v in found)
            yield from _fitted(normal, replace(target, text=True))
        case _:
            from lakesmith.intake import columnar

            for batch in columnar.read(raw.whole(), source.format, target):
                yield batch.column(SOURCE_ROW), batch.drop_columns([SOURCE_ROW])


def file_shape(raw: Counted, source: Files, expected: Sequence[str], part: Part | None = None) -> pa.DataType:
    """Return the columns of a file, or of a part of it, as a struct."""
    match source.format:
        case "json":
            return _json_shape(raw, source, part)
        case "csv":
            if part is not None:
                assert part.layout.header is not None
                return csv_text.shape(part.layout.header)
            found = first_record(Peeked(chunks(raw, source.encoding)), source.delimiter)
            if found is None:
                return pa.struct([])
            header = csv_text.read_header(found, source.delimiter)
            header.check(expected)
            return csv_text.shape(header)
        case "text":
            return pa.struct([("value", STRING)])
        case "xml":
            from lakesmith.intake import xml

            return xml.shape(value for _, _, value in _xml_records(raw, source))
        case _:
            from lakesmith.intake import columnar

            return pa.struct(list(columnar.shape(raw.whole(), source.format)))


def _xml_records(raw: Counted, source: Files) -> Iterator[tuple[int, bytes, Mapping[str, Value] | Unreadable]]:
    from lakesmith.intake import xml

    if source.encoding == "utf-8":
        return xml.records(chunks(raw, "utf-8"), source.row_tag or "")
    return xml.records(chunks(raw, source.encoding), source.row_tag or "", encoding="utf-8")


def _json_rows(
    raw: Counted, source: Files, target: Target, part: Part | None
) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    for piece in _json_pieces(raw, source, part):
        if isinstance(piece, Oversized):
            yield _oversized(piece, target)
        elif source.envelope:
            raws = piece.raws()
            yield pa.array(piece.lines), fit_rows([*_changes(raws)], raws, target)
        else:
            yield from _numbered(piece, json_text.rows(piece, target))


def _json_shape(raw: Counted, source: Files, part: Part | None) -> pa.DataType:
    found: pa.DataType = pa.struct([])
    for piece in _json_pieces(raw, source, part):
        if isinstance(piece, Oversized):
            continue
        if source.envelope:
            found = wider(found, shape_of([*_changes(piece.raws())]))
        else:
            found = wider(found, json_text.shape(piece))
    return found


def _json_pieces(raw: Counted, source: Files, part: Part | None) -> Iterator[Records | Oversized]:
    for piece in _records(raw, source, part)[1]:
        remaining = piece if isinstance(piece, Oversized) else piece.without_blank(b" \t\r\n")
        if isinstance(remaining, Oversized) or len(remaining):
            yield remaining


def _csv_rows(
    raw: Counted, source: Files, target: Target, part: Part | None
) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    header = None if part is None else part.header
    target = replace(target, text=True)
    newline, pieces = _records(raw, source, part)
    for piece in pieces:
        if isinstance(piece, Oversized):
            if header is None:
                raise header_too_long(piece)
            yield _oversized(piece, target)
            continue
        records = piece.without_blank(b"\r\n")
        if header is None and len(records):
            header = csv_text.read_header(records.part(0, 1).raws()[0], source.delimiter)
            header.check(target.schema.names)
            records = records.part(1, len(records))
        if header is not None and len(records):
            records = csv_text.split_misquoted(records, header, newline).without_blank(b"\r\n")
            yield from _numbered(records, csv_text.rows(records, header, target))
    if part is not None and header is None:
        raise Abort("unsplit", "", "the first part has no header")


def _records(raw: Counted, source: Files, part: Part | None) -> tuple[bytes, Iterator[Records | Oversized]]:
    """Return the line end of a text, and its records: lines, JSON values or those of CSV."""
    if part is not None:
        return part.layout.newline, part.records(raw)
    pieces = Peeked(chunks(raw, source.encoding))
    if source.format == "json" and spans_lines(pieces.head):
        return b"\n", split_json(pieces)
    delimiter = source.delimiter if source.format == "csv" else None
    return pieces.newline, split(pieces, delimiter=delimiter, newline=pieces.newline)


def _numbered(records: Records, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    start = 0
    for batch in batches:
        yield pa.array(records.lines[start : start + len(batch)]), batch
        start += len(batch)


def _text_rows(
    raw: Counted, source: Files, target: Target, part: Part | None
) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    for piece in _records(raw, source, part)[1]:
        if isinstance(piece, Oversized):
            yield _oversized(piece, target)
            continue
        raws = piece.raws()
        yield pa.array(piece.lines), fit_rows([text_record(raw, "line", _ADVICE) for raw in raws], raws, target)


def _changes(raws: Iterable[bytes]) -> Iterator[json_text.Record]:
    """Yield changes from their envelopes."""
    from lakesmith.intake.debezium import unwrapped

    return unwrapped(map(json_text.parse, raws))


def _fitted(
    found: Iterable[tuple[int, bytes, json_text.Record]], target: Target
) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    """Yield rows of single records, in batches with bounded rows and bytes."""
    lines: list[int] = []
    raws: list[bytes] = []
    records: list[json_text.Record] = []
    size = 0
    for line, raw, record in found:
        lines.append(line)
        raws.append(raw)
        records.append(record)
        size += len(raw)
        if len(lines) >= _ROWS or size >= HOLD_BACK // 4:
            yield pa.array(lines, pa.int64()), fit_rows(records, raws, target)
            lines, raws, records, size = [], [], [], 0
    if lines:
        yield pa.array(lines, pa.int64()), fit_rows(records, raws, target)


def _oversized(piece: Oversized, target: Target) -> tuple[pa.Array, pa.RecordBatch]:
    return pa.array([piece.line], pa.int64()), fit_rows([piece.problem], [piece.head], target)


def _opened(open: Opener, task: Task) -> BinaryIO:
    try:
        return open(task.path)
    except FileNotFoundError:
        raise Broken("file-gone", "the file was listed, and has been deleted since", passing=True) from None
    except PermissionError:
        raise Broken("permission-denied", "this user may not read the file", passing=True) from None
    except OSError as error:
        raise Broken("unreadable-file", str(error.strerror or error)[:200], passing=True) from error
    except LakesmithError as error:
        raise Broken(error.code, error.what, passing=True) from error


def _abort_kind(broken: Broken, task: Task) -> str:
    """Return what an abort of the job is for: a part cannot tell what to reject of its file."""
    if broken.passing:
        return "left-out"
    return "broken" if task.part is None else "unsplit"


@contextmanager
def _as_listed(raw: Counted, task: Task) -> Iterator[None]:
    """Check that a file has its listed size. A file that looks broken may be in the middle of a rewrite."""
    try:
        yield
    except Broken as broken:
        if not broken.passing and task.part is None:
            raw.check_size()
        raise
    if task.part is None:
        raw.check_size()  # a part that reaches the end of the file checks it itself


def _with_path(batch: pa.RecordBatch, parts: Mapping[str, str | None], from_path: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with values from the path; values in the file that differ are rescued."""
    count = len(batch)
    beside: dict[int, dict[str, object]] = {}
    for place, name in enumerate(from_path.schema.names):
        if name.lower() not in {part.lower() for part in parts}:
            continue
        inside, value = batch.column(place), from_path.column(place)[0]
        other = pc.and_(inside.is_valid(), pc.not_equal(inside, value)) if value.is_valid else inside.is_valid()
        for row in np.flatnonzero(other.to_numpy(zero_copy_only=False)).tolist():
            beside.setdefault(row, {})[name] = inside[row].as_py()
        column = pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)
        batch = batch.set_column(place, batch.schema.field(place), column)
    misfit = from_path.column(RESCUED)[0].as_py()
    if not beside and misfit is None:
        return batch
    rescued = batch.column(RESCUED).to_pylist()
    merged = [_merged(stored, misfit, beside.get(row)) for row, stored in enumerate(rescued)]
    place = batch.schema.get_field_index(RESCUED)
    return batch.set_column(place, batch.schema.field(place), pa.array(merged, STRING))


def _merged(stored: str | None, misfit: str | None, other: Mapping[str, object] | None) -> str | None:
    """Merge several JSON objects into one."""
    fields = [text[1:-1] for text in (stored, misfit, as_json(other) if other else None) if text]
    return f"{{{', '.join(fields)}}}" if fields else None
