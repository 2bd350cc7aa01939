"""Read ORC files in a helper process, which may crash on a corrupt file and is then restarted."""

from __future__ import annotations

import atexit
import inspect
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

_FILE = orc_process.__file__
COMMAND = [
    *(sys.executable, "-P"),
    # On a cluster, this package is a zip file.
    *([_FILE] if os.path.isfile(_FILE) else ["-c", inspect.getsource(orc_process)]),
]
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_MUCH = 64 << 20
"""A process that has returned this many bytes is not reused: it does not release its memory."""
_idle: list[OrcProcess] = []


class OrcProcess:
    """A process that reads one file at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._served = 0
        self._waiting = True
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
        """Whether it belongs to this process, is alive and idle, and has not read corrupt or very large files."""
        return self.owner == os.getpid() and self._waiting and self._served < _MUCH and self._process.poll() is None

    def open(self, file: BinaryIO, size: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch], int]:
        """Return the columns of a file, a lazy iterator over its stripes, and the row count in its metadata."""
        response = self._request(file, b"O", COUNT.pack(size))
        (rows,), (stripes,) = COUNT.unpack_from(response), COUNT.unpack_from(response, COUNT.size)
        schema = pa.ipc.read_schema(pa.py_buffer(response[2 * COUNT.size :]))
        return schema, (self._stripe(file, schema) for _ in range(stripes)), rows

    def _stripe(self, file: BinaryIO, schema: pa.Schema) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(pa.py_buffer(self._request(file, b"N")), schema)

    def _request(self, file: BinaryIO, kind: bytes, *parts: bytes) -> bytes:
        """Send a request, serve the file ranges it needs, and return the response."""
        self._waiting = False
        try:
            send(self._orders, kind, *parts)
            while True:
                kind, data = receive(self._answers)
                if kind != b"R":
                    break
                start, length = RANGE.unpack(data)
                file.seek(start)
                content = file.read(length)
                with suppress(BrokenPipeError):  # it has ended, and may have reported why
                    send(self._orders, b"D", content)
        except (EOFError, BrokenPipeError):
            raise self._exit_error() from None
        self._served += len(data)
        match kind:
            case b"T":
                raise Broken("too-deep", f"a column is nested more than {DEEP} deep")
            case b"M":
                message = data[1:].decode()
                check_memory(MemoryError(message), limited=bool(data[0]))
                raise pa.ArrowInvalid(message)
            case b"E":
                raise pa.ArrowInvalid(data.decode())
        self._waiting = True
        return data

    def _exit_error(self) -> Exception:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"code {code}"
        if code == -signal.SIGKILL:
            return NoMemory("the process that reads ORC files was killed")
        if is_limited():  # Arrow's reader also crashes on a valid file when memory is short
            what = f"the process that reads ORC files ended with {how}, under a memory limit"
            return NoMemory(f"{what}: the limit is too low, or the file is corrupt")
        if -code in _CRASHES:
            return Broken("corrupt", f"the orc file is corrupt: its reader ended with {how}")
        self._errors.seek(0)
        message = self._errors.read()[-300:].decode(errors="replace").strip()
        what = f"the process that reads ORC files ended with {how}: {message}"
        return Broken("unreadable-file", what, passing=True)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):  # unsent requests
            self._orders.close()
        self._answers.close()
        self._errors.close()


@contextmanager
def reader() -> Iterator[OrcProcess]:
    """Borrow an idle process, or start one: each thread has its own."""
    process = _idle_one() or OrcProcess()
    try:
        yield process
    finally:
        if process.is_reusable():
            _idle.append(process)
        else:
            process.close()


def _idle_one() -> OrcProcess | None:
    while True:
        try:
            found = _idle.pop()
        except IndexError:
            return None
        if found.is_reusable():
            return found
        if found.owner == os.getpid():  # processes of the parent that this process was forked from are not closed
            found.close()


@atexit.register
def _close_idle() -> None:
    while found := _idle_one():
        found.close()
