"""Divide a large file into parts for several tasks, with the rows, line numbers and counts of the whole file.

Quotes of CSV may contain line ends, so nobody knows in the middle of a file where a record starts. The start of each
part is a guess, which the reader of the part before it checks: a record must end there. Otherwise the file is read as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from lakesmith.declare.sources import Files
from lakesmith.errors import LakesmithError
from lakesmith.intake import csv_text
from lakesmith.intake.head import Peeked, first_record, spans_lines
from lakesmith.intake.rows import Abort, Broken
from lakesmith.intake.split import Oversized, Records, record_start, split
from lakesmith.intake.stream import CHUNK, Counted, chunks, chunks_from, separable_encoding

SECTION = 64 << 20
"""The approximate size of a part, in bytes."""
_WINDOW = 256 << 10
"""How many bytes are inspected to guess where a record starts."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the start of a file tells about all parts of it."""

    encoding: str
    newline: bytes
    delimiter: str | None = None
    """The delimiter of CSV."""
    header: csv_text.Header | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file, from the start of a record to the end of one."""

    layout: Layout
    start: int
    size: int
    """Its bytes."""
    line: int
    """Its first line, from 1."""
    until: int | None
    """The line after it; None for the last part."""

    @property
    def header(self) -> csv_text.Header | None:
        """The header, for a part that does not contain it."""
        return self.layout.header if self.start else None

    def records(self, raw: Counted) -> Iterator[Records | Oversized]:
        """Yield the records of the part. Raise an abort when it does not end with one.

        The records are those that a reader of the whole file finds here, because all chunks have the same ends.
        """
        newline, reached = self.layout.newline, self.line
        text = chunks_from(raw, self.layout.encoding)
        for piece in split(text, delimiter=self.layout.delimiter, newline=newline, line=reached):
            reached = piece.next_line(newline)
            if self.until is None or reached <= self.until or isinstance(piece, Oversized):
                yield piece
            else:
                count = int(np.searchsorted(piece.lines, self.until))
                yield piece.part(0, count)
                reached = int(piece.lines[count]) if count < len(piece) else reached
            if self.until is not None and reached >= self.until:
                break
        if self.until not in (None, reached):
            raise Abort("unsplit", "", f"no record starts in line {self.until:,}")


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a file, which may begin and end within a record."""

    start: int
    lines: int
    """The line ends in it."""
    record: int | None
    """Where the first record in it seems to start."""
    passed: int
    """The line ends before that record."""


def file_layout(file: BinaryIO, size: int, source: Files) -> Layout | None:
    """Return the layout of a file that can be read in parts; None when it must be read as a whole."""
    if source.format not in ("json", "csv", "text") or not file.seekable():
        return None
    encoding = separable_encoding(file.read(4), source.encoding)
    if encoding is None:
        return None
    file.seek(0)
    try:
        pieces = Peeked(chunks(Counted(file, size), source.encoding))
        if source.format == "csv":
            record = first_record(pieces, source.delimiter)
            if record is None:
                return None
            header = csv_text.read_header(record, source.delimiter)
            header.check(())
            return Layout(encoding, pieces.newline, source.delimiter, header)
    except (Broken, OSError, LakesmithError):
        return None  # the reader of the whole file reports it
    return None if source.format == "json" and spans_lines(pieces.head) else Layout(encoding, pieces.newline)


def section_bounds(size: int) -> list[tuple[int, int]]:
    """Return the start and the end of each section of a file.

    A part ends soon after a section, and its reader reads on to the end of a chunk: sections end just before that.
    """
    return list(pairwise([0, *range(SECTION - _WINDOW, size - _WINDOW, SECTION), size]))


def read_section(file: BinaryIO, start: int, stop: int, layout: Layout) -> Section:
    """Count the line ends in a section, and find the first record in it."""
    file.seek(start)
    data = file.read(min(_WINDOW, stop - start))
    found = record_start(data, layout.newline, layout.delimiter) if start else 0
    passed = data.count(layout.newline, 0, found)
    lines, at = 0, start
    while data:
        lines += int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == layout.newline[0]))
        at += len(data)
        data = file.read(min(CHUNK, stop - at))
    return Section(start, lines, None if found is None else start + found, passed)


def parts_of(size: int, layout: Layout, sections: Sequence[Section]) -> list[Part]:
    """Return the parts of a file, from all of its sections in order."""
    starts: list[tuple[int, int]] = []
    line = 1
    for section in sections:
        if section.record is not None and section.record < size:
            starts.append((section.record, line + section.passed))
        line += section.lines
    inner = [Part(layout, start, stop - start, line, until) for (start, line), (stop, until) in pairwise(starts)]
    return [*inner, *(Part(layout, start, size - start, line, None) for start, line in starts[-1:])]
