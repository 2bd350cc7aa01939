"""Read ORC files for another process, which runs this file: Arrow's reader may crash on corrupt bytes.

A message on either pipe is a letter, a length and that many bytes. In: `O` open a file of this size, `D` requested
bytes, `N` the next stripe. Out: `R` request bytes, `S` the schema, `B` a batch, `T` nested too deeply, `E` an error of
Arrow, `M` out of memory, with a first byte for whether memory is limited.
"""

from __future__ import annotations

import io
import resource
import struct
import sys
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = struct.Struct("<cQ")
RANGE = struct.Struct("<QQ")
COUNT = struct.Struct("<Q")
DEEP = 60
"""Arrow transfers at most 63 levels."""


def send(pipe: BinaryIO, kind: bytes, *parts: bytes | pa.Buffer) -> None:
    """Write one message."""
    pipe.write(HEAD.pack(kind, sum(len(part) for part in parts)))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def receive(pipe: BinaryIO) -> tuple[bytes, bytes]:
    """Read one message; `EOFError` when the other side has ended."""
    kind, length = HEAD.unpack(_exactly(pipe, HEAD.size))
    return kind, _exactly(pipe, length)


def _exactly(pipe: BinaryIO, length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data


class _Remote(io.RawIOBase):
    """The file, whose bytes come from the other process."""

    def __init__(self, size: int, requested: BinaryIO, answers: BinaryIO) -> None:
        self._size = size
        self._at = 0
        self._requests = requested
        self._answers = answers
        self.starved: MemoryError | None = None
        """The memory error, which Arrow would report as an error of the file."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if at < 0:
            raise ValueError("the position is before the start of the file")
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        left = max(self._size - self._at, 0)
        send(self._requests, b"R", RANGE.pack(self._at, left if size < 0 else min(size, left)))
        try:
            _, data = receive(self._answers)
        except MemoryError as error:
            self.starved = error
            raise
        self._at += len(data)
        return data


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Read one file after the other until one fails, or the other side ends."""
    from pyarrow import ArrowException, orc

    remote, opened, stripe = None, None, 0
    while True:
        try:
            kind, data = receive(orders)
        except EOFError:
            return
        try:
            if kind == b"O":
                remote = _Remote(COUNT.unpack(data)[0], answers, orders)
                opened, stripe = orc.ORCFile(remote), 0
                if any(_deeper(field.type, DEEP) for field in opened.schema):
                    send(answers, b"T")
                    continue
                send(answers, b"S", COUNT.pack(opened.nrows), COUNT.pack(opened.nstripes), opened.schema.serialize())
            else:
                assert opened is not None
                send(answers, b"B", opened.read_stripe(stripe).serialize())
                stripe += 1
        except (MemoryError, ArrowException, OSError, ValueError, OverflowError) as raised:
            error = (remote and remote.starved) or raised
            message = (str(error) or type(error).__name__).encode()
            if isinstance(error, MemoryError) or b"bad_alloc" in message:
                limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
                send(answers, b"M", bytes([limited]), message)
            else:
                send(answers, b"E", message)
            return  # requested bytes may still be on their way


def _deeper(type: pa.DataType, levels: int) -> bool:
    return levels == 0 or any(_deeper(type.field(number).type, levels - 1) for number in range(type.num_fields))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
