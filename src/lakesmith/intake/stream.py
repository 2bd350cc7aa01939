"""Read a file's bytes: decompressed within bounds, counted, and converted to UTF-8."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from lakesmith.errors import LakesmithError
from lakesmith.intake.rows import Broken

CHUNK = 4 << 20
_EXPANSION = 200
"""The maximum expansion factor of a compressed file, once it expands to more than `_FREE` bytes."""
_FREE = 256 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zstd"))


class Counted(io.RawIOBase):
    """A file that counts the bytes read, and checks them against its listed size."""

    def __init__(self, file: BinaryIO, size: int, start: int = 0) -> None:
        if start:
            file.seek(start)
        self._file = file
        self._size = size
        self._jumped = False
        self.count = start
        """The bytes read, and those before the start."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except (OSError, LakesmithError) as error:
            what = f"reading stopped after {self.count:,} bytes: {_message(error)}"
            raise Broken("unreadable-file", what, passing=True) from error
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)

    def check_size(self) -> None:
        """Raise when the file does not have its pinned size."""
        if self._jumped:
            self.count = self._file.seek(0, io.SEEK_END) if self._file.seekable() else self._size
        else:
            while self.read(CHUNK):
                pass
        if self.count != self._size:
            what = f"the file was {self._size:,} bytes when it was listed, and {self.count:,} were read"
            raise Broken("changed-while-read", what, passing=True)

    def whole(self) -> BinaryIO:
        """Return the underlying file for readers that seek; their reads are not counted."""
        self._jumped = True
        return self._file


def chunks(raw: Counted, encoding: str) -> Iterator[bytes]:
    """Yield the text of a file as UTF-8, in pieces, without a byte order mark."""
    buffered = io.BufferedReader(raw, CHUNK)
    stream, compressed = _decompressed(buffered)
    head = _read(stream, CHUNK)
    mark, used = _marked(head, encoding)
    head = head[len(mark) :]
    decode = _decoder(used)
    total = 0
    data = head
    while data:
        total += len(data)
        if compressed and total > _FREE and total > _EXPANSION * max(raw.count, 1):
            what = f"{raw.count:,} bytes expand to more than {total:,}; the maximum is {_EXPANSION} times the size"
            raise Broken("expands-too-much", what)
        yield data if decode is None else transcoded(decode, data, used, last=False)
        data = _read(stream, CHUNK)
    if decode is not None:
        yield transcoded(decode, b"", used, last=True)


def separable_encoding(head: bytes, encoding: str) -> str | None:
    """Return the encoding of a text that can be read from any line on; None when only the whole can be read."""
    _, used = _marked(head, encoding)
    name = codecs.lookup(used).name
    separable = name in ("utf-8", "ascii") or name.startswith(("iso8859", "cp125"))
    return used if separable and _compression(head) is None else None


def chunks_from(raw: Counted, encoding: str) -> Iterator[bytes]:
    """Yield the text of a file from its current position to its end, in pieces that end where those of `chunks` do.

    The encoding is one of `separable_encoding`.
    """
    buffered, at = io.BufferedReader(raw, CHUNK), raw.count
    decode = _decoder(encoding)
    while data := buffered.read(CHUNK - at % CHUNK):
        text = data if at else data.removeprefix(codecs.BOM_UTF8)
        at += len(data)
        yield text if decode is None else transcoded(decode, text, encoding, last=False)
    raw.check_size()


def _marked(head: bytes, encoding: str) -> tuple[bytes, str]:
    """Return the byte order mark at the start of a file, and the encoding of what follows."""
    return next((found for found in _MARKS if head.startswith(found[0])), (b"", encoding))


def _decoder(encoding: str) -> codecs.IncrementalDecoder | None:
    """Return a decoder; None for UTF-8, which stays as it is."""
    return None if codecs.lookup(encoding).name == "utf-8" else codecs.getincrementaldecoder(encoding)(errors="strict")


def _compression(head: bytes) -> str | None:
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def _decompressed(buffered: io.BufferedReader[Counted]) -> tuple[BinaryIO, bool]:
    """Detect compression by the first bytes, not by the name: a file named .json may be compressed."""
    match _compression(buffered.peek(4)[:4]):
        case "gzip":
            return cast(BinaryIO, gzip.GzipFile(fileobj=buffered)), True
        case "bz2":
            return cast(BinaryIO, bz2.BZ2File(buffered)), True
        case "zstd":
            import pyarrow as pa

            return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), "zstd")), True
        case _:
            return cast(BinaryIO, buffered), False


def _read(stream: BinaryIO, size: int) -> bytes:
    try:
        return stream.read(size)
    except Broken:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
        # EOFError has its own text; pyarrow and bz2 raise OSError.
        code = "truncated" if isinstance(error, EOFError) or "runcated" in str(error) else "corrupt-compression"
        raise Broken(code, f"the compressed data cannot be read to its end: {_message(error)}") from error


def transcoded(decode: codecs.IncrementalDecoder, data: bytes, encoding: str, *, last: bool) -> bytes:
    """Return the next bytes of a text as UTF-8."""
    try:
        return decode.decode(data, last).encode()
    except UnicodeError as error:
        raise Broken("bad-encoding", f"the file is not {encoding}: {_message(error)}") from error


def _message(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0][:200]
