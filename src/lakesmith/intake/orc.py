"""ORC files are read by a process beside this one, which may crash on a damaged file and is then started anew."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import pyarrow as pa

from lakesmith.intake import orc_process
from lakesmith.intake.memory import NoMemory
from lakesmith.intake.orc_process import COUNT, RANGE, receive, send
from lakesmith.intake.rows import Broken

_idle: list[Reader] = []
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


class Reader:
    """A process that reads one file at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.at_rest = True
        """Whether it waits for an order, rather than being left in the middle of one."""
        command = [sys.executable, "-P", orc_process.__file__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._orders = cast(BinaryIO, self._process.stdin)
        self._answers = cast(BinaryIO, self._process.stdout)

    def open(self, file: BinaryIO, size: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch], int]:
        """The columns of a file, its stripes as they are asked for, and how many rows it says that it has."""
        told = self._ask(file, b"O", COUNT.pack(size))
        (rows,), (stripes,) = COUNT.unpack_from(told), COUNT.unpack_from(told, COUNT.size)
        schema = pa.ipc.read_schema(pa.py_buffer(told[2 * COUNT.size :]))
        return schema, (self._stripe(file, schema) for _ in range(stripes)), rows

    def _stripe(self, file: BinaryIO, schema: pa.Schema) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(pa.py_buffer(self._ask(file, b"N")), schema)

    def _ask(self, file: BinaryIO, kind: bytes, *parts: bytes) -> bytes:
        """Give an order, hand over what of the file is wanted for it, and return the answer."""
        self.at_rest = False
        try:
            send(self._orders, kind, *parts)
            while True:
                kind, data = receive(self._answers)
                if kind != b"R":
                    break
                start, length = RANGE.unpack(data)
                file.seek(start)
                send(self._orders, b"D", file.read(length))
        except (EOFError, BrokenPipeError):
            raise self._died() from None
        self.at_rest = True
        if kind == b"M":
            raise MemoryError(data.decode())
        if kind == b"E":
            raise pa.ArrowInvalid(data.decode())
        return data

    def _died(self) -> Exception:
        code = -self._process.wait()
        if code in _CRASHES:
            return Broken("corrupt", f"the orc file is damaged: its reader ended with {signal.Signals(code).name}")
        return NoMemory("the process that reads ORC files was killed")

    def end(self) -> None:
        """Have no more of it, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._orders.close()
        self._answers.close()


@contextmanager
def reader() -> Iterator[Reader]:
    """A process that is idle, or a new one: each thread has its own."""
    taken = _idle_one() or Reader()
    try:
        yield taken
    finally:
        if taken.at_rest:
            _idle.append(taken)
        else:
            taken.end()


def _idle_one() -> Reader | None:
    while True:
        try:
            found = _idle.pop()
        except IndexError:
            return None
        if found.owner == os.getpid():  # not one of the process that this was forked from
            return found


@atexit.register
def _end_idle() -> None:
    while found := _idle_one():
        found.end()
