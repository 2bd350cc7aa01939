"""Files of stores as streams."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

_CHUNK = 4 * 1024 * 1024


class SpanReader(io.RawIOBase):
    """A file of a known size that is read in spans; no byte is fetched that is not requested.

    `fetch` returns the bytes from one position up to another, and is called for at most `most` bytes at once.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes], most: int = sys.maxsize) -> None:
        self._size = size
        self._fetch = fetch
        self._most = most
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        end = min(self._position + min(size, self._most), self._size)
        if end <= self._position:
            return b""
        chunk = self._fetch(self._position, end)
        self._position += len(chunk)
        return chunk

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(self._most), b""))

    def readinto(self, buffer: Any) -> int:
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)


def have_same_bytes(one: BinaryIO, other: BinaryIO) -> bool:
    """Whether two streams have the same bytes; closes both."""
    with one, other:
        while (chunk := one.read(_CHUNK)) == other.read(_CHUNK):
            if not chunk:
                return True
    return False


def read_full(file: BinaryIO, size: int) -> bytes:
    """As many bytes as a file still has, up to a size: raw files may return fewer than were requested."""
    chunks, missing = [], size
    while missing and (chunk := file.read(missing)):
        chunks.append(chunk)
        missing -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
