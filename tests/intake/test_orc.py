"""A process of its own reads ORC files; what ends it is told of the file, or of the machine."""

from __future__ import annotations

import io
import os
import signal

import pyarrow as pa
import pyarrow.orc
import pytest

from lakesmith.intake import columnar, orc
from lakesmith.intake.memory import NoMemory
from lakesmith.intake.rows import Broken

TABLE = pa.table({"id": range(1000)})


def written() -> bytes:
    file = io.BytesIO()
    pyarrow.orc.write_table(TABLE, file)
    return file.getvalue()


def ids(file: io.BytesIO) -> list[int]:
    with columnar._opened(file, "orc") as (_, batches):
        return [number for batch in batches for number in batch.column(0).to_pylist()]


class Fatal(io.BytesIO):
    """A file whose reader gets a signal at a read."""

    def __init__(self, data: bytes, sent: signal.Signals, at: int) -> None:
        super().__init__(data)
        self.sent, self.left = sent, at

    def read(self, size: int | None = -1) -> bytes:
        self.left -= 1
        if self.left == 0:
            for reader in readers():
                os.kill(reader, self.sent)
        return super().read(size)


def readers() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        return [process for process in map(int, children.read().split()) if b"orc_process.py" in command(process)]


def command(process: int) -> bytes:
    with open(f"/proc/{process}/cmdline", "rb") as file:
        return file.read()


@pytest.mark.parametrize("at", [3, 5])
@pytest.mark.parametrize("sent", [signal.SIGSEGV, signal.SIGABRT])
def test_a_file_that_crashes_its_reader_is_damaged_and_the_next_is_read(sent: signal.Signals, at: int) -> None:
    with pytest.raises(Broken, match=f"corrupt: the orc file is damaged: its reader ended with {sent.name}"):
        ids(Fatal(written(), sent, at))
    assert ids(io.BytesIO(written())) == TABLE["id"].to_pylist()


def test_a_reader_that_is_killed_is_not_held_against_the_file() -> None:
    with pytest.raises(NoMemory, match="killed"):
        ids(Fatal(written(), signal.SIGKILL, 4))
    assert ids(io.BytesIO(written())) == TABLE["id"].to_pylist()


def test_files_are_read_by_one_process_after_the_other() -> None:
    ids(io.BytesIO(written()))
    before = readers()
    assert before
    for _ in range(3):
        ids(io.BytesIO(written()))
        columnar.shape(io.BytesIO(written()), "orc")
        with columnar._opened(io.BytesIO(written()), "orc") as (_, batches):
            next(batches)  # and no more of it
    assert readers() == before


def test_a_reader_of_the_process_that_this_was_forked_from_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc, "_idle", [])
    with orc.reader() as parents:
        before = readers()
    monkeypatch.setattr(parents, "owner", -1)
    with orc.reader() as own:
        assert len(readers()) == len(before) + 1
    own.end()
    parents.end()
