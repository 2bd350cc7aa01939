"""ORC files are read by a process beside this one, which may crash on a damaged file and is then started anew."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, cast

import pyarrow as pa

from lakesmith.intake import orc_process
from lakesmith.intake.memory import NoMemory, check_memory, is_limited
from lakesmith.intake.orc_process import COUNT, DEEP, RANGE, receive, send
from lakesmith.intake.rows import Broken

COMMAND = [sys.executable, "-P", orc_process.__file__]
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_MUCH = 64 << 20
"""Who has handed over so many bytes is not kept: it does not give its memory back."""
_idle: list[Reader] = []


class Reader:
    """A process that reads one file at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._served = 0
        self._at_rest = True
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at its end
        try:
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError as error:
            self._errors.close()
            what = f"no process could be started that reads ORC files: {error}"
            raise Broken("unreadable-file", what, passing=True) from error
        self._orders = cast(BinaryIO, self._process.stdin)
        self._answers = cast(BinaryIO, self._process.stdout)

    def is_reusable(self) -> bool:
        """Whether it is of this process, lives, waits for an order, and was never given damaged bytes or many."""
        return self.owner == os.getpid() and self._at_rest and self._served < _MUCH and self._process.poll() is None

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
        self._at_rest = False
        try:
            send(self._orders, kind, *parts)
            while True:
                kind, data = receive(self._answers)
                if kind != b"R":
                    break
                start, length = RANGE.unpack(data)
                file.seek(start)
                wanted = file.read(length)
                with suppress(BrokenPipeError):  # then it has ended, and perhaps said why
                    send(self._orders, b"D", wanted)
        except (EOFError, BrokenPipeError):
            raise self._died() from None
        self._served += len(data)
        match kind:
            case b"T":
                raise Broken("too-deep", f"a column is nested more than {DEEP} deep")
            case b"M":
                said = data[1:].decode()
                check_memory(MemoryError(said), limited=bool(data[0]))
                raise pa.ArrowInvalid(said)
            case b"E":
                raise pa.ArrowInvalid(data.decode())
        self._at_rest = True
        return data

    def _died(self) -> Exception:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"code {code}"
        if code == -signal.SIGKILL:
            return NoMemory("the process that reads ORC files was killed")
        if is_limited():  # Arrow's reader crashes also on a sound file that there is no memory for
            what = f"the process that reads ORC files ended with {how}, under a limit of memory"
            return NoMemory(f"{what}: that is too low, or the file is damaged")
        if -code in _CRASHES:
            return Broken("corrupt", f"the orc file is damaged: its reader ended with {how}")
        self._errors.seek(0)
        said = self._errors.read()[-300:].decode(errors="replace").strip()
        what = f"the process that reads ORC files ended with {how}: {said}"
        return Broken("unreadable-file", what, passing=True)

    def end(self) -> None:
        """Have no more of it, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):  # what it was not told any more
            self._orders.close()
        self._answers.close()
        self._errors.close()


@contextmanager
def reader() -> Iterator[Reader]:
    """A process that is idle, or a new one: each thread has its own."""
    taken = _idle_one() or Reader()
    try:
        yield taken
    finally:
        if taken.is_reusable():
            _idle.append(taken)
        else:
            taken.end()


def _idle_one() -> Reader | None:
    while True:
        try:
            found = _idle.pop()
        except IndexError:
            return None
        if found.is_reusable():
            return found
        if found.owner == os.getpid():  # those of the process that this was forked from are not ours to end
            found.end()


@atexit.register
def _end_idle() -> None:
    while found := _idle_one():
        found.end()
