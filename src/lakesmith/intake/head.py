"""What the first bytes of a text tell: its line ends, the header of CSV, and whether JSON spans lines."""

from __future__ import annotations

from collections.abc import Iterator

from lakesmith.intake import json_text
from lakesmith.intake.rows import Broken
from lakesmith.intake.split import Oversized, split

_HEAD = 64 << 10
"""How many bytes of a text are inspected to detect its format."""


class Peeked:
    """Pieces of a text, with a preview of its start."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.head = b""
        self._rest = pieces
        for piece in pieces:
            self.head += piece
            if len(self.head) >= _HEAD:
                break

    @property
    def newline(self) -> bytes:
        """The line end: a line feed, unless there are only carriage returns."""
        return b"\r" if b"\n" not in self.head and b"\r" in self.head[:-1] else b"\n"

    def __iter__(self) -> Iterator[bytes]:
        if self.head:
            yield self.head
        yield from self._rest


def spans_lines(head: bytes) -> bool:
    """Whether JSON is an array, or an object over several lines, not one object per line."""
    text = head.lstrip()
    if text[:1] == b"[":
        return True
    line, _, rest = text.partition(b"\n")
    if text[:1] != b"{" or not rest.strip() or isinstance(json_text.parse(line), dict):
        return False
    # A broken line may be followed by anything. An object that continues does so with a key or its end, or is complete.
    return rest.lstrip()[:1] in (b'"', b"}") or json_text.begins_with_object(text)


def first_record(pieces: Peeked, delimiter: str) -> bytes | None:
    for piece in split(pieces, delimiter=delimiter, newline=pieces.newline):
        if isinstance(piece, Oversized):
            raise header_too_long(piece)
        records = piece.without_blank(b"\r\n")
        if len(records):
            return records.part(0, 1).raws()[0]
    return None


def header_too_long(piece: Oversized) -> Broken:
    return Broken("record-too-long", "the header is not read: " + piece.problem.what)
