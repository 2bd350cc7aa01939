"""Files of a warehouse of all writers are private, or have the permissions of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.run.lakes import ORDERS, Written

from lakesmith.cache import write_cache
from lakesmith.spark import batch_counts, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATED = (
    "/* lakesmith\nload: {merge: {key: id, order_by: id}}\nchecks:\n  few: {expect: count(*) < 1, on_fail: fail}\n*/\n"
    "SELECT id FROM bronze.orders\n"
)


def modes(folder: Path) -> Iterator[tuple[str, bool, int]]:
    """Return everything below a folder: path, whether it is a folder, and permissions."""
    for path in (folder, *sorted(folder.rglob("*"))):
        yield str(path.relative_to(folder)), path.is_dir(), path.stat().st_mode & 0o777


def assert_all(folder: Path, *, folders: int, files: int) -> None:
    wrong = [
        f"{path} {mode:03o}" for path, is_folder, mode in modes(folder) if mode != (folders if is_folder else files)
    ]
    assert wrong == []


@pytest.mark.spark
def test_files_of_all_writers_are_private(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written.declare({**ORDERS, "silver/gated.sql": GATED})
    for day, writer in enumerate(("driver", "Spark", "Spark, into a large table", "driver")):
        monkeypatch.setattr(batch_counts, "FEW_ROWS", 10_000 if writer == "driver" else -1)
        monkeypatch.setattr(write, "_DV_MERGE_BYTES", 0 if "large" in writer else 64 << 20)
        rows = [{"id": id, "amount": amount, "day": f"d{id}", "at": day} for id, amount in ((1, 1), (2, 2), (3, -1))]
        written.land(f"orders/{day}.json", *rows, '{"id": 4, "am')
        written.run(ok=False)
    written.lake().compact((), session=written.spark)
    warehouse = written.folder / ".lakesmith/warehouse"
    made = "\n".join(path for path, _, _ in modes(warehouse))
    for kind in ("/_change_data/", "/deletion_vector_", "/batch-0", "_lakesmith/held/", "system/runs/", "quarantine/"):
        assert kind in made
    assert_all(warehouse, folders=0o700, files=0o600)


@pytest.mark.spark
@pytest.mark.verify
@pytest.mark.timeout(300)
def test_with_a_group_umask_the_group_can_read_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    lake, temporary = Written(tmp_path / "shop", cast("SparkSession", None)), tmp_path / "temporary"
    lake.declare({"lakesmith.yml": 'name: shop\nenvironments: {dev: {umask: "027"}}\n', **ORDERS})
    lake.land("orders/1.json", {"id": 1, "amount": 1, "day": "d", "at": 1}, '{"id": 4, "am')
    temporary.mkdir()
    command = [sys.executable, "-m", "lakesmith", "run", "-C", str(lake.folder)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    before = os.umask(0o077)  # narrower than the lake's
    try:
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        os.umask(before)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert_all(lake.folder / ".lakesmith/warehouse", folders=0o750, files=0o640)
    assert os.listdir(temporary) == []


def test_caches_of_a_lake_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_cache(tmp_path / "lakes" / "5f0c.facts.json", {"bronze.orders": "a fact"})
    finally:
        os.umask(before)
    assert_all(tmp_path / "lakes", folders=0o700, files=0o600)
