"""Split text into records: lines, CSV records whose quotes may span lines, or the values of JSON arrays.

Never more of a text is in memory than a piece of it and one record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakesmith.intake.rows import SHOWN, Broken, Unreadable, shown

MAX_RECORD = 32 << 20
"""A record of more bytes is not read."""
_NEWLINE, _RETURN, _QUOTE, _COMMA, _BACKSLASH = b'\n\r",\\'
_DEEPER = np.zeros(256, dtype=np.int8)
_DEEPER[list(b"{[")], _DEEPER[list(b"}]")] = 1, -1
_NONE = np.zeros(0, dtype=np.int64)

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records in one byte string, each with its line end."""

    data: bytes
    stops: Places
    """Where each record ends."""
    lines: Places
    """The first line of each, or its number, from 1."""

    def __len__(self) -> int:
        return len(self.stops)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def starts(self) -> Places:
        return np.concatenate((np.zeros(min(len(self), 1), dtype=np.int64), self.stops[:-1]))

    @property
    def text_stops(self) -> Places:
        """Where each record's text ends: without one line end."""
        buffer = np.frombuffer(self.data, dtype=np.uint8)
        stops = self.stops.copy()
        for last in (_NEWLINE, _RETURN):
            stops -= (stops > self.starts) & (buffer[stops - 1] == last)
        return stops

    def raws(self) -> list[bytes]:
        """Return each record without its line end."""
        data = self.data
        bounds = zip(self.starts.tolist(), self.text_stops.tolist(), strict=True)
        return [data[start:end] for start, end in bounds]

    def part(self, start: int, stop: int) -> Records:
        if start >= stop:
            return Records(b"", _NONE, _NONE)
        first = int(self.stops[start - 1]) if start else 0
        return Records(
            self.data[first : int(self.stops[stop - 1])], self.stops[start:stop] - first, self.lines[start:stop]
        )

    def next_line(self, newline: bytes) -> int:
        """Return the line after the last record."""
        return int(self.lines[-1]) + self.data.count(newline, int(self.starts[-1]))

    def without_blank(self, blank: bytes) -> Records:
        """Return the records without those that have only `blank` characters."""
        if not len(self):
            return self
        first = np.frombuffer(self.data, dtype=np.uint8)[self.starts]
        doubtful = np.flatnonzero(np.isin(first, list(blank)))
        stops, starts = self.stops, self.starts
        empty = [number for number in doubtful.tolist() if not self.data[starts[number] : stops[number]].strip(blank)]
        if not empty:
            return self
        left = np.delete(np.arange(len(self)), empty)
        return joined([self.data[starts[number] : stops[number]] for number in left.tolist()], self.lines[left])


@dataclass(frozen=True, slots=True)
class Oversized:
    """A record that was skipped because of its length."""

    line: int
    head: bytes
    size: int
    """Its bytes, with its line end."""

    @property
    def problem(self) -> Unreadable:
        what = f"the record is {self.size:,} bytes long; at most {MAX_RECORD:,} are read"
        return Unreadable("record-too-long", what)

    def next_line(self, _: bytes) -> int:
        return self.line + 1


def joined(texts: Sequence[bytes], lines: Places) -> Records:
    """Join texts, which include their line ends, into records."""
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return Records(b"".join(texts), np.cumsum(lengths), lines)


def split(
    chunks: Iterable[bytes], *, delimiter: str | None = None, newline: bytes = b"\n", line: int = 1
) -> Iterator[Records | Oversized]:
    """Split a text into lines or, with a delimiter, into CSV records: a quoted line end does not end a record.

    What it finds depends on the chunks where a record is too long: reads that must agree need chunks with equal ends.
    """
    rest, passed = b"", 0
    head: bytes | None = None
    for chunk in chunks:
        if head is not None:
            end = chunk.find(newline) + 1
            passed += end or len(chunk)
            if not end:
                continue
            yield Oversized(line, head, passed)
            head, line, chunk = None, line + 1, chunk[end:]
        rest = rest + chunk if rest else chunk
        while found := _next(rest, line, newline, delimiter, last=False):
            yield found
            line, rest = found.next_line(newline), rest[found.size :]
        if len(rest) > MAX_RECORD:
            head, passed, rest = rest[:SHOWN], len(rest), b""
    if head is not None:
        yield Oversized(line, head, passed)
    if rest and not rest.endswith(newline):
        rest += newline
    while found := _next(rest, line, newline, delimiter, last=True):
        yield found
        line, rest = found.next_line(newline), rest[found.size :]


def _next(rest: bytes, line: int, newline: bytes, delimiter: str | None, *, last: bool) -> Records | Oversized | None:
    """Return the complete records at the start of `rest`; None when the first record is incomplete."""
    found = complete_records(rest, line, newline, delimiter)
    if len(found):
        return found
    end = rest.find(newline) + 1
    if not end or not (last or len(rest) > MAX_RECORD):
        return None
    # A quote is not closed: only its line is lost, not everything after it.
    if end > MAX_RECORD:
        return Oversized(line, rest[:SHOWN], end)
    return Records(rest[:end], np.array([end]), np.array([line]))


def complete_records(data: bytes, line: int, newline: bytes, delimiter: str | None) -> Records:
    """Return the complete records at the start of `data`. More data after it adds records, and changes none."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(buffer == newline[0])
    if delimiter is None or b'"' not in data:
        return _whole(data, newlines + 1, line + np.arange(len(newlines)))
    numbers = _closing(buffer, newlines, delimiter)
    firsts = np.concatenate((np.zeros(min(len(numbers), 1), dtype=np.int64), numbers[:-1] + 1))
    return _whole(data, newlines[numbers] + 1, line + firsts)


def _whole(data: bytes, stops: Places, lines: Places) -> Records:
    """Return the records that end at `stops`, without the incomplete record that follows them."""
    return Records(data[: int(stops[-1])] if len(stops) else b"", stops, lines)


def _closing(buffer: npt.NDArray[np.uint8], newlines: Places, delimiter: str) -> Places:
    """Return the line ends that end a CSV record. In valid CSV, an even number of quotes precedes each of them.

    After a stray quote, an odd number precedes them. A stray quote begins a record that spans lines and contains a
    quote that is not at the edge of a field. The first line of such a record becomes a record of its own.
    """
    quotes = np.flatnonzero(buffer == _QUOTE)
    before, after = at_edge(buffer, quotes, delimiter)
    even = np.arange(len(quotes)) % 2 == 0
    passed = np.searchsorted(quotes, newlines) % 2
    ways = []
    for parity in (0, 1):
        stray = quotes[~np.where(even == (parity == 0), before, after)]
        closing = np.flatnonzero(passed == parity)
        spanning = np.diff(closing, prepend=-1) > 1
        holding = np.diff(np.searchsorted(stray, newlines[closing]), prepend=0) > 0
        ways.append((closing, np.flatnonzero(spanning & holding)))
    found: list[Places] = []
    line = parity = 0
    while True:
        closing, bad = ways[parity]
        start = int(np.searchsorted(closing, line))
        which = int(np.searchsorted(bad, start))
        if which == len(bad):
            return np.concatenate((*found, closing[start:]))
        stop = int(bad[which])
        lone = int(closing[stop - 1]) + 1 if stop > start else line
        found += [closing[start:stop], np.array([lone])]
        line, parity = lone + 1, 1 - parity


def at_edge(
    buffer: npt.NDArray[np.uint8], quotes: Places, delimiter: str
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return for each quote whether it can open a field, by the byte before it, and close one, by the byte after it."""
    edge = np.zeros(256, dtype=np.bool_)
    edge[[_NEWLINE, _RETURN, _QUOTE, ord(delimiter)]] = True
    first, last = quotes == 0, quotes == len(buffer) - 1
    return first | edge[buffer[quotes - 1]], last | edge[buffer[quotes + 1 - last]]


def record_start(data: bytes, newline: bytes, delimiter: str | None) -> int | None:
    """Guess where the first record starts behind a line end, in a text that may begin within a quoted field of CSV.

    None when no record seems to start.
    """
    if delimiter is None or b'"' not in data:
        return data.find(newline) + 1 or None
    buffer = np.frombuffer(data, dtype=np.uint8)
    quotes = np.flatnonzero(buffer == _QUOTE)
    before, after = at_edge(buffer, quotes, delimiter)
    opening = np.arange(len(quotes)) % 2 == 0
    # Quotes that open or close fields are at edges of fields. A wrong guess fails sooner than the right one.
    outside, inside = (np.argmin(np.append(np.where(opening == even, before, after), False)) for even in (True, False))
    newlines = np.flatnonzero(buffer == newline[0])
    ending = newlines[np.searchsorted(quotes, newlines) % 2 == (0 if outside >= inside else 1)]
    return int(ending[0]) + 1 if len(ending) else None


def split_json(chunks: Iterable[bytes]) -> Iterator[Records]:
    """Split JSON arrays into elements, or a text into objects that span lines: only brackets decide where each ends."""
    rest, number, depth = b"", 1, 0
    array: bool | None = None
    for chunk in chunks:
        rest = rest + chunk if rest else chunk
        if array is None:
            if not rest.strip():
                continue
            array = rest.lstrip()[:1] == b"["
        found = _values(rest, depth, array=array)
        texts = [text + b"\n" for start, end in found.bounds if (text := rest[start:end].strip())]
        if texts:
            yield joined(texts, np.arange(number, number + len(texts)))
        rest, number, depth = rest[found.reached :], number + len(texts), found.depth
        if len(rest) > MAX_RECORD:
            raise Broken("record-too-long", f"record {number:,} is longer than {MAX_RECORD:,} bytes")
    if depth or rest.strip():
        raise Broken("truncated-json", f"the file ends before its value does: {shown(rest.strip()[:60])!r}")


@dataclass(frozen=True, slots=True)
class _Values:
    """The complete JSON values in a text."""

    bounds: Iterable[tuple[int, int]]
    reached: int
    """Where the last of them ends."""
    depth: int
    """1 when that is within an array."""


def _values(data: bytes, depth: int, *, array: bool) -> _Values:
    buffer = np.frombuffer(data, dtype=np.uint8)
    quotes = _quotes(data, buffer)
    brackets = _outside(quotes, np.flatnonzero(_DEEPER[buffer]))
    steps = _DEEPER[buffer[brackets]]
    depths = depth + np.cumsum(steps, dtype=np.int64)
    if len(depths) and depths.min() < 0:
        raise Broken("not-json", "a bracket is closed that was not opened")
    if not array:
        stops = brackets[depths == 0] + 1
        starts = np.concatenate((np.zeros(1, dtype=np.int64), stops))
        return _Values(zip(starts[:-1].tolist(), stops.tolist(), strict=True), int(starts[-1]), 0)
    commas = _outside(quotes, np.flatnonzero(buffer == _COMMA))
    around = np.concatenate((np.array([depth]), depths))[np.searchsorted(brackets, commas)]
    edges = brackets[(depths == 0) | (depths == 1) & (steps == 1)]
    stops = np.sort(np.concatenate((edges, commas[around == 1])))
    if not len(stops):
        return _Values((), 0, depth)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), stops[:-1] + 1))
    last = int(stops[-1])
    return _Values(zip(starts.tolist(), stops.tolist(), strict=True), last + 1, int(buffer[last] not in b"]}"))


def _outside(quotes: Places, places: Places) -> Places:
    """Return the places outside quoted texts."""
    outside: npt.NDArray[np.bool_] = np.searchsorted(quotes, places) % 2 == 0
    return places[outside]


def _quotes(data: bytes, buffer: npt.NDArray[np.uint8]) -> Places:
    """Return the quotes that begin or end a text. An odd number of backslashes before a quote escapes it."""
    quotes = np.flatnonzero(buffer == _QUOTE)
    if b"\\" not in data:
        return quotes
    slashes = np.flatnonzero(buffer == _BACKSLASH)
    apart = np.diff(slashes) > 1
    first, last = slashes[np.insert(apart, 0, True)], slashes[np.append(apart, True)]
    escaped: npt.NDArray[np.bool_] = np.isin(quotes, last[(last - first) % 2 == 0] + 1, assume_unique=True)
    return quotes[~escaped]
