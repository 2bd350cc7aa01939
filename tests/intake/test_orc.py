"""A separate process reads ORC files; its crash is reported as an error of the file or of the machine."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from lakesmith.intake import columnar, orc, orc_process
from lakesmith.intake.memory import NoMemory
from lakesmith.intake.rows import Broken

TABLE = pa.table({"id": range(1000)})


@pytest.fixture(autouse=True)
def no_others(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use no readers of other tests, and leave none."""
    orc._close_idle()
    yield
    monkeypatch.undo()
    orc._close_idle()


def written() -> bytes:
    file = io.BytesIO()
    pyarrow.orc.write_table(TABLE, file)
    return file.getvalue()


def ids(file: io.BytesIO) -> list[int]:
    with columnar._opened(file, "orc") as (_, batches):
        return [number for batch in batches for number in batch.column(0).to_pylist()]


class Fatal(io.BytesIO):
    """A file whose reader process gets a signal during a read."""

    def __init__(self, data: bytes, sent: signal.Signals, at: int) -> None:
        super().__init__(data)
        self.sent, self.left = sent, at

    def read(self, size: int | None = -1) -> bytes:
        self.left -= 1
        if self.left == 0:
            for reader in readers():
                os.kill(reader, self.sent)
                wait_for_end(reader)
        return super().read(size)


class Starved(io.BytesIO):
    """A file whose reader process has no memory for its bytes."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > orc_process.HEAD.size:
            raise MemoryError
        return super().read(size)


def readers() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [process for process in map(int, children) if b"orc_process.py" in command(process)]


def wait_for_end(process: int) -> None:
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)


def command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.mark.parametrize("at", [3, 5])
@pytest.mark.parametrize("sent", [signal.SIGSEGV, signal.SIGABRT])
def test_a_file_that_crashes_its_reader_is_corrupt_and_the_next_one_is_read(sent: signal.Signals, at: int) -> None:
    with pytest.raises(Broken, match=f"corrupt: the orc file is corrupt: its reader ended with {sent.name}"):
        ids(Fatal(written(), sent, at))
    assert ids(io.BytesIO(written())) == TABLE["id"].to_pylist()


def test_a_killed_reader_does_not_reject_the_file() -> None:
    with pytest.raises(NoMemory, match="killed"):
        ids(Fatal(written(), signal.SIGKILL, 4))
    assert ids(io.BytesIO(written())) == TABLE["id"].to_pylist()


def test_a_crash_under_a_memory_limit_does_not_reject_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc, "is_limited", lambda: True)
    with pytest.raises(NoMemory, match="ended with SIGSEGV, under a memory limit"):
        ids(Fatal(written(), signal.SIGSEGV, 4))


def test_a_reader_that_died_while_idle_is_not_reused() -> None:
    ids(io.BytesIO(written()))
    for reader in readers():
        os.kill(reader, signal.SIGKILL)
        wait_for_end(reader)
    assert ids(io.BytesIO(written())) == TABLE["id"].to_pylist()


def test_a_reader_that_read_corrupt_bytes_is_not_reused() -> None:
    ids(io.BytesIO(written()))
    before = readers()
    data = bytearray(written())
    data[-40:-20] = bytes(20)
    with pytest.raises(Broken, match="corrupt"):
        ids(io.BytesIO(bytes(data)))
    assert not set(before) & set(readers())


def test_a_reader_that_cannot_start_or_exits_does_not_reject_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rejected(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", rejected)
        with pytest.raises(Broken, match="Too many open files") as raised:
            ids(io.BytesIO(written()))
    assert raised.value.passing
    monkeypatch.setattr(orc, "COMMAND", [sys.executable, "-c", "import no_such_module"])
    with pytest.raises(Broken, match="No module named 'no_such_module'") as raised:
        ids(io.BytesIO(written()))
    assert raised.value.passing


def test_a_reader_that_has_read_much_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc, "_MUCH", 1000)
    ids(io.BytesIO(written()))
    assert readers() == []


@pytest.mark.parametrize(("depth", "fine"), [(50, True), (70, False), (150, False)])
def test_columns_that_are_nested_too_deeply_are_reported(depth: int, fine: bool) -> None:
    type: pa.DataType = pa.int64()
    value: object = 7
    for _ in range(depth):
        type, value = pa.struct([("a", type)]), {"a": value}
    file = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"deep": pa.array([value], type)}), file)
    if fine:
        assert columnar.shape(file, "orc").names == ["deep"]
        return
    with pytest.raises(Broken, match="too-deep"):
        columnar.shape(file, "orc")


def test_files_are_read_by_one_process_in_turn() -> None:
    ids(io.BytesIO(written()))
    before = readers()
    assert before
    for _ in range(3):
        ids(io.BytesIO(written()))
        columnar.shape(io.BytesIO(written()), "orc")
        with columnar._opened(io.BytesIO(written()), "orc") as (_, batches):
            next(batches)  # and no more of it
    assert readers() == before


def test_a_reader_of_the_parent_process_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with orc.reader() as parents:
        pass
    monkeypatch.setattr(parents, "owner", -1)
    with orc.reader() as own:
        assert own is not parents
    assert parents._process.poll() is None
    parents.close()


def test_a_reader_without_memory_for_a_file_reports_it() -> None:
    orders, answers = Starved(), io.BytesIO()
    orc_process.send(orders, b"O", orc_process.COUNT.pack(len(written())))
    orc_process.send(orders, b"D", written())
    orders.seek(0)
    orc_process.serve(orders, answers)
    answers.seek(0)
    assert orc_process.receive(answers)[0] == b"R"
    assert orc_process.receive(answers)[0] == b"M"
