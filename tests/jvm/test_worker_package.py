"""The package as workers of a cluster get it: a zip file beside PyArrow and NumPy."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import orc
from tests.servers.connect import bare_python

from lakesmith.jvm.worker_package import package_zip

READ = """
import io, sys
from lakesmith.intake import direct, orc, reader
data = sys.stdin.buffer.read()
with orc.reader() as process:
    schema, stripes, rows = process.open(io.BytesIO(data), len(data))
    print(rows, next(stripes).column(0).to_pylist(), ".zip" in orc.__file__)
"""


def test_an_orc_file_is_read_from_the_zip_file_by_a_bare_python(tmp_path: Path) -> None:
    file = io.BytesIO()
    orc.write_table(pa.table({"id": [1, 2]}), file)
    ended = subprocess.run(
        [bare_python(tmp_path), "-c", READ],
        input=file.getvalue(),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(package_zip())},
        check=False,
    )
    assert (ended.stdout, ended.stderr) == (b"2 [1, 2] True\n", b"")


def test_the_same_files_make_the_same_zip_file() -> None:
    assert package_zip() == package_zip()
    assert package_zip().stat().st_size < 2 << 20
    assert sys.modules["lakesmith"].__file__
