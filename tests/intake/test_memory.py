"""A process without enough memory reports it, and rejects no file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from lakesmith.intake.memory import NoMemory, check_memory

READ = """
import resource, sys
import pyarrow as pa
from lakesmith.intake import columnar
from lakesmith.intake.rows import Broken, Target

name, format, spare = sys.argv[1:]
target = Target(schema=pa.schema([("text", pa.string())]), surveyed=True)

def count(name):
    with open(name, "rb") as file:
        return sum(len(batch) for batch in columnar.read(file, format, target))

if format != "orc":  # the process that reads ORC has its limit from the start
    count(name + ".small")
with open("/proc/self/statm") as figures:
    mapped = int(figures.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (int(spare) << 20),) * 2)
try:
    print(count(name))
except MemoryError:
    print("no memory")
except Broken as broken:
    print(broken)
"""
WIDE = 32 << 20


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_a_file_too_large_for_memory_is_not_reported_as_corrupt(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"wide.{format}"
    written(file, WIDE)
    written(tmp_path / f"wide.{format}.small", 10)
    found = [read(file, spare) for spare in (10, 100, 4000)]
    assert set(found[:-1]) <= {"no memory", "1"}
    assert found[0] == "no memory"
    assert found[-1] == "1"


def read(file: Path, spare: int) -> str:
    command = [sys.executable, "-c", READ, str(file), file.suffix[1:], str(spare)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def written(file: Path, width: int) -> None:
    text = "x" * width
    if ".parquet" in file.name:
        pq.write_table(pa.table({"text": [text]}), file)
    elif ".orc" in file.name:
        pyarrow.orc.write_table(pa.table({"text": [text]}), str(file), compression="zlib")
    else:
        schema = {"type": "record", "name": "note", "fields": [{"name": "text", "type": "string"}]}
        with file.open("wb") as made:
            fastavro.writer(made, schema, [{"text": text}], codec="deflate")


def test_out_of_memory_is_distinguished_from_corrupt_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoMemory):
        check_memory(pa.ArrowMemoryError("malloc of size 8388608 failed"))
    check_memory(pa.ArrowMemoryError(f"malloc of size {1 << 60} failed"))
    check_memory(pa.ArrowInvalid("Unexpected end of stream"))
    check_memory(MemoryError())
    check_memory(MemoryError(), limited=False)
    monkeypatch.setattr("lakesmith.intake.memory.is_limited", lambda: True)
    for error in (MemoryError(), pa.ArrowException("Unknown error: std::bad_alloc")):
        with pytest.raises(NoMemory):
            check_memory(error)
