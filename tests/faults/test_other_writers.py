"""Other writers commit without changing rows, and the oracle detects their lost commits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.faults.delta_files import read_table
from tests.faults.file_names import is_ingested, odd_name
from tests.faults.foreign_log import lost
from tests.faults.jvm_processes import jvms_of, kill_jvm
from tests.faults.other_writers import KINDS, BatchWriter, Burst, Writers

TABLE = "silver.events"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    for part in range(3):
        write_deltalake(tmp_path / "silver/events", pa.table({"seq": [part], "name": ["a"]}), mode="append")
    return tmp_path


@pytest.mark.parametrize(
    ("writer", "kind"),
    [(writer, kind) for writer, kinds in KINDS.items() for kind in kinds if writer != "spark"],
)
def test_a_burst_changes_no_row_and_leaves_no_gap(warehouse: Path, writer: BatchWriter, kind: str) -> None:
    check_burst(warehouse, Writers(), Burst(writer, kind, 3, TABLE, "before"))


@pytest.fixture(scope="module")
def spark_writer() -> Iterator[Writers]:
    """Writers that share one Spark, which is the other writer here: the session of the tests has another log store."""
    writers = Writers()
    yield writers
    writers.close()


@pytest.mark.spark
@pytest.mark.verify
@pytest.mark.parametrize("kind", KINDS["spark"])
def test_a_burst_of_spark_changes_no_row_and_leaves_no_gap(warehouse: Path, spark_writer: Writers, kind: str) -> None:
    check_burst(warehouse, spark_writer, Burst("spark", kind, 3, TABLE, "before"))
    newest = max((warehouse / "silver/events/_delta_log").glob("*.json"))
    assert "Apache-Spark" in newest.read_text()


def check_burst(warehouse: Path, writers: Writers, burst: Burst) -> None:
    made = writers.commit(warehouse, burst)
    table = read_table(warehouse / "silver/events")
    assert table is not None
    assert sorted(row["seq"] for row in table.rows()) == [0, 1, 2]
    assert [each.version for each in made] == list(range(3, table.version + 1))
    assert made
    assert {each.between for each in made[:-1]} <= {burst.kind == "pair"}
    assert list(lost(warehouse, made)) == []
    assert DeltaTable(warehouse / "silver/events").version() == table.version


def test_a_missing_table_gets_no_commit(tmp_path: Path) -> None:
    assert Writers().commit(tmp_path, Burst("hand", "bare", 3, TABLE, "before")) == []


def test_a_lost_or_overwritten_commit_of_another_writer_is_detected(warehouse: Path) -> None:
    made = Writers().commit(warehouse, Burst("hand", "info", 2, TABLE, "before"))
    assert list(lost(warehouse, made)) == []
    log = warehouse / "silver/events/_delta_log"
    (log / f"{3:020}.json").write_text("{}")
    (log / f"{4:020}.json").unlink()
    assert [each.split()[-1] for each in lost(warehouse, made)] == ["overwritten", "gone"]


def test_the_version_between_an_append_and_its_delete_is_marked(warehouse: Path) -> None:
    made = Writers().commit(warehouse, Burst("delta-rs", "pair", 1, TABLE, "before"))
    assert [each.between for each in made] == [True, False]


def test_odd_names_are_unique_valid_and_partly_undecodable(tmp_path: Path) -> None:
    names = [odd_name(1, number) for number in range(1, 200)]
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).touch()
    assert len(list(tmp_path.iterdir())) == len(names)
    assert {is_ingested(name) for name in names} == {True, False}
    assert all(name.endswith(b".json") for name in names)


def test_only_the_jvm_of_a_process_is_killed(tmp_path: Path) -> None:
    java = tmp_path / "java"
    sleep = shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, java)
    script = f"import subprocess; subprocess.run(['sh', '-c', '{java} 60; exit 7'])"
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        deadline = time.monotonic() + 20
        while not jvms_of(parent.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(jvms_of(parent.pid)) == 1
        assert kill_jvm(parent.pid)
        assert parent.wait(20) == 0
        assert not kill_jvm(parent.pid)
