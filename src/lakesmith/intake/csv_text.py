"""Read CSV records as rows, by the names in the file's header: in blocks where all records are clean."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pcsv

from lakesmith.intake.rows import Abort, Broken, Target, Unreadable, block_rows, is_utf8, with_hidden_columns
from lakesmith.intake.shapes import STRING, storable
from lakesmith.intake.split import Records, at_edge
from lakesmith.intake.texts import read_texts, surely_exact

_DELIMITERS = (",", ";", "\t", "|", ":")
_QUOTE = ord('"')
_QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')


@dataclass(frozen=True, slots=True)
class Header:
    """The names in the first record of a file."""

    names: tuple[str, ...]
    delimiter: str

    def check(self, expected: Sequence[str]) -> None:
        """Raise when the file cannot be read by its header; `expected` are the known columns."""
        folded = [name.casefold() for name in self.names]
        twice = [name for name in self.names if folded.count(name.casefold()) > 1]
        if len(self.names) == 1 and (other := self._other_delimiter()):
            count = self.names[0].count(other) + 1
            expectation = f"{len(expected)} expected" if len(expected) > 1 else f"{count} with another delimiter"
            raise Broken("wrong-delimiter", f"1 column found, {expectation}; try {other!r}")
        if twice:
            named = " and ".join(map(repr, dict.fromkeys(twice)))
            raise Broken("header-twice", f"the header has {named} more than once, ignoring case")
        if not any(name.strip() for name in self.names):
            raise Broken("no-header", "the first line has no names")

    def _other_delimiter(self) -> str | None:
        counts = {other: self.names[0].count(other) for other in _DELIMITERS if other != self.delimiter}
        best = max(counts, key=lambda other: counts[other])
        return best if counts[best] else None


def read_header(raw: bytes, delimiter: str) -> Header:
    """Return the header in the first record."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Broken("not-utf8", f"byte {error.start + 1} of the header is not UTF-8; set encoding: …") from error
    if "\x00" in text:
        raise Broken("nul-byte", "the header has null characters; is it UTF-16? set encoding: …")
    try:
        names = next(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise Broken("bad-header", f"the header cannot be read: {error}") from error
    return Header(tuple(name.strip() for name in names), delimiter)


def shape(header: Header) -> pa.DataType:
    """Return the columns of a file: text, unless a declaration gives a type."""
    return pa.struct([(name, STRING) for name in header.names if storable(name)])


def rows(records: Records, header: Header, target: Target) -> Iterator[pa.RecordBatch]:
    """Yield the rows of CSV records."""
    if not target.surveyed:
        unknown = [name for name in header.names if storable(name) and name.lower() not in target.places]
        if unknown:
            raise Abort("new-fields", "", unknown[0])
    return block_rows(records, lambda part: _block(part, header, target), lambda raw: parse(raw, header), target)


def split_misquoted(records: Records, header: Header, newline: bytes = b"\n") -> Records:
    """Return the records; those that span lines with a wrong number of fields are split at each line end.

    Two stray quotes must not swallow the good rows between them.
    """
    buffer = np.frombuffer(records.data, dtype=np.uint8)
    newlines = np.flatnonzero(buffer == newline[0])
    inner = np.setdiff1d(newlines, records.stops - 1, assume_unique=True)
    if not len(inner):
        return records
    good = _field_counts(records, header.delimiter) == len(header.names)
    cut = inner[~good[np.searchsorted(records.stops, inner, side="right")]]
    if not len(cut):
        return records
    stops = np.union1d(records.stops, cut + 1)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), stops[:-1]))
    within = np.searchsorted(records.stops, starts, side="right")
    passed = np.searchsorted(newlines, starts) - np.searchsorted(newlines, records.starts[within])
    return Records(records.data, stops, records.lines[within] + passed)


def _field_counts(records: Records, delimiter: str) -> npt.NDArray[np.int64]:
    buffer = np.frombuffer(records.data, dtype=np.uint8)
    quotes, places = np.flatnonzero(buffer == _QUOTE), np.flatnonzero(buffer == ord(delimiter))
    within = np.searchsorted(records.stops, places, side="right")
    passed = np.searchsorted(quotes, places) - np.searchsorted(quotes, records.starts)[within]
    return np.bincount(within[passed % 2 == 0], minlength=len(records)) + 1


def _well_quoted(records: Records, delimiter: str) -> bool:
    """Whether all quotes are valid: around whole fields, or escaped inside."""
    buffer = np.frombuffer(records.data, dtype=np.uint8)
    quotes = np.flatnonzero(buffer == _QUOTE)
    counts = np.diff(np.searchsorted(quotes, records.stops), prepend=0)
    before, after = at_edge(buffer, quotes, delimiter)
    return not (counts % 2).any() and bool(before[::2].all() and after[1::2].all())


def parse(raw: bytes, header: Header) -> Mapping[str, object] | Unreadable:
    """Parse one record. An empty field is NULL; an empty text is written in quotes."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Unreadable("not-utf8", "the record is not UTF-8; set encoding: in the source")
    if "\x00" in text:
        return Unreadable("nul-byte", "there is a null character")
    fields = _fields(text, header.delimiter)
    if isinstance(fields, Unreadable):
        return fields
    if len(fields) != len(header.names):
        return Unreadable("csv-fields", f"{len(fields)} fields found, {len(header.names)} expected")
    return dict(zip(header.names, fields, strict=True))


def _fields(text: str, delimiter: str) -> list[str | None] | Unreadable:
    if '"' not in text:
        return [field or None for field in text.split(delimiter)]
    fields: list[str | None] = []
    at = 0
    while True:
        if text[at : at + 1] == '"':
            found = _QUOTED.match(text, at)
            if found is None:
                return Unreadable("unclosed-quote", "a quote is opened and not closed")
            end = found.end()
            if text[end : end + 1] not in ("", delimiter):
                return Unreadable("bad-quote", "text follows a closing quote")
            fields.append(found[1].replace('""', '"'))
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            fields.append(text[at:end] or None)
        if end == len(text):
            return fields
        at = end + 1


def _block(records: Records, header: Header, target: Target) -> pa.RecordBatch | None:
    """Return all records at once; None when any of them must be read by itself."""
    places = [target.places.get(name, target.places.get(name.lower())) for name in header.names]
    types = [target.schema.types[place] for place in places if place is not None]
    quick = [_quick(type) for type in types]
    if None in places or None in quick or not _plain(records, header.delimiter):
        return None
    if any(pa.types.is_integer(type) for type in types) and _may_be_hexadecimal(records.data):
        return None
    try:
        table = _read(records.data, header, quick)
        if len(table) != len(records):
            return None
        found = {
            place: _exact(table.column(number).combine_chunks(), types[number], target.timezone)
            for number, place in enumerate(places)
        }
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    columns = [found.get(place, pa.nulls(len(records), type)) for place, type in enumerate(target.schema.types)]
    return with_hidden_columns(columns, records.raws(), target)


def _plain(records: Records, delimiter: str) -> bool:
    """Whether the block reader parses the records like `parse`; it is more lenient, and strips a byte order mark."""
    data = records.data
    if not is_utf8(data) or b"\x00" in data or data.startswith(BOM_UTF8):
        return False
    return b'"' not in data or _well_quoted(records, delimiter)


def _may_be_hexadecimal(data: bytes) -> bool:
    """Whether `0x` occurs anywhere: the block reader accepts such numbers."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    return bool(((buffer[:-1] == ord("0")) & (buffer[1:] | 0x20 == ord("x"))).any())


def _read(data: bytes, header: Header, types: Sequence[pa.DataType]) -> pa.Table:
    names = [str(number) for number in range(len(header.names))]
    return pcsv.read_csv(
        pa.BufferReader(data),
        read_options=pcsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        parse_options=pcsv.ParseOptions(
            delimiter=header.delimiter, newlines_in_values=b'"' in data, ignore_empty_lines=False
        ),
        convert_options=pcsv.ConvertOptions(
            column_types=dict(zip(names, types, strict=True)),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        ),
    )


def _quick(type: pa.DataType) -> pa.DataType | None:
    is_ = pa.types
    if is_.is_timestamp(type) or is_.is_date(type) or is_.is_decimal(type):
        return STRING
    return (
        type if is_.is_string(type) or is_.is_integer(type) or is_.is_boolean(type) or is_.is_floating(type) else None
    )


def _exact(column: pa.Array, type: pa.DataType, timezone: str | None) -> pa.Array:
    """Return the column as its type; raise an error when any value may not convert exactly."""
    if pa.types.is_floating(type) and not surely_exact(column):
        raise pa.ArrowInvalid("not finite, or a whole number that may be too large")
    return column if column.type == type else read_texts(column, type, timezone)
