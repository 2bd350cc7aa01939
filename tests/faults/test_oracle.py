"""The oracle knows nothing of Lakesmith, and finds out when a lake does not hold what it should."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.faults.attach import Jvm
from tests.faults.delta_files import read_table
from tests.faults.oracle import Claims, verdict
from tests.faults.siege import Oracle, Siege

WAREHOUSE = Path(".lakesmith") / "warehouse"


def test_the_oracle_imports_nothing_of_lakesmith() -> None:
    code = "import sys, tests.faults.oracle; print([m for m in sys.modules if m.partition('.')[0] == 'lakesmith'])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle, jvm: Jvm) -> Claims:
    """A lake after two runs, and all that is known of it."""
    siege = Siege(tmp_path_factory.mktemp("sound") / "merge", "merge", 7, oracle, jvm)
    for _ in range(2):
        siege.land()
        assert siege.settle() == []
    return Claims(lake=str(siege.folder), flow="merge", seed=7, landed=2, settled=True, runs=tuple(siege.runs))


def _folder(lake: Path, table: str = "bronze/events") -> Path:
    return lake / WAREHOUSE / table


def _newest(folder: Path) -> Path:
    return max((folder / "_delta_log").glob("*.json"))


def _lose_a_file(lake: Path) -> None:
    next(_folder(lake).rglob("*.parquet")).unlink()


def _cut_a_file(lake: Path) -> None:
    file = next(_folder(lake).rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-10])


def _lose_a_version(lake: Path) -> None:
    min((_folder(lake) / "_delta_log").glob("*.json")).unlink()


def _tear_a_version(lake: Path) -> None:
    file = _newest(_folder(lake))
    file.write_text(file.read_text()[:-20])


def _double_rows(lake: Path) -> None:
    _next_version(lake, lambda add: {**add, "path": _copied(_folder(lake), add["path"])}, "add")


def _lose_rows(lake: Path) -> None:
    _next_version(lake, lambda add: {"path": add["path"], "dataChange": True}, "remove")


def _next_version(lake: Path, change: Callable[[dict[str, Any]], dict[str, Any]], action: str) -> None:
    folder = _folder(lake)
    table = read_table(folder)
    assert table is not None
    add = next(iter(table.live.values()))
    written = json.dumps({action: change(add)}) + "\n"
    (folder / "_delta_log" / f"{table.version + 1:020}.json").write_text(written)


def _copied(folder: Path, path: str) -> str:
    shutil.copy(folder / path, folder / "again.parquet")
    return "again.parquet"


def _commit_a_batch_again(lake: Path) -> None:
    folder = _folder(lake)
    told = [line for line in _newest(folder).read_text().splitlines() if '"txn"' in line]
    table = read_table(folder)
    assert table is not None
    (folder / "_delta_log" / f"{table.version + 1:020}.json").write_text("\n".join(told))


def _lose_quarantine(lake: Path) -> None:
    shutil.rmtree(_folder(lake, "quarantine/silver/events"))


def _open_the_books(lake: Path) -> None:
    file = lake / WAREHOUSE / "_lakesmith/batches/silver.events/00000001.done.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "rows_written": 0}))


def _forget_the_end(lake: Path) -> None:
    os.unlink(max((lake / WAREHOUSE / "_lakesmith/batches/silver.events").glob("*.done.json")))


def _lose_the_runs(lake: Path) -> None:
    shutil.rmtree(_folder(lake, "system/runs"))


def _mix_a_release(lake: Path) -> None:
    _release_anew(lake, lambda row: {**row, "version": 0 if row["table"] == "silver.events" else row["version"]})


def _release_what_there_is_not(lake: Path) -> None:
    _release_anew(lake, lambda row: {**row, "version": row["version"] + 1})


def _lose_a_part_of_a_release(lake: Path) -> None:
    _release_anew(lake, lambda row: None if row["table"] == "gold.days" else row)


def _release_anew(lake: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Record other versions in the newest release."""
    table = DeltaTable(_folder(lake, "system/releases"))
    rows = table.to_pyarrow_table()
    newest = max(rows["released_at"].to_pylist())
    told = [change(row) if row["released_at"] == newest else row for row in rows.to_pylist()]
    kept = pa.Table.from_pylist([row for row in told if row is not None], schema=rows.schema)
    write_deltalake(table, kept, mode="overwrite")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("harm", "promise"),
    [
        (_lose_a_file, "V"),
        (_cut_a_file, "V"),
        (_lose_a_version, "V"),
        (_tear_a_version, "V"),
        (_double_rows, "R"),
        (_lose_rows, "R"),
        (_commit_a_batch_again, "N"),
        (_lose_quarantine, "R"),
        (_open_the_books, "B"),
        (_forget_the_end, "B"),
        (_lose_the_runs, "A"),
        (_mix_a_release, "C"),
        (_release_what_there_is_not, "C"),
        (_lose_a_part_of_a_release, "C"),
    ],
)
def test_a_lake_that_was_harmed_is_found_out(
    sound: Claims, tmp_path: Path, harm: Callable[[Path], None], promise: str
) -> None:
    lake = tmp_path / "merge"
    shutil.copytree(sound.lake, lake)
    claims = replace(sound, lake=str(lake))
    assert verdict(claims) == []
    harm(lake)
    assert promise in {broken[0] for broken in verdict(claims)}


@pytest.mark.spark
def test_rows_of_a_part_of_a_batch_are_no_version(sound: Claims) -> None:
    # Between two runs, a table may stand at any batch that landed, and nowhere else.
    between = replace(sound, settled=False, acknowledged=0, landed=3)
    assert verdict(between) == []
    assert any(broken.startswith("N") for broken in verdict(replace(between, acknowledged=3)))


@pytest.mark.spark
def test_a_rollback_that_left_a_table_behind_is_found_out(sound: Claims) -> None:
    rows = DeltaTable(_folder(Path(sound.lake), "system/releases")).to_pyarrow_table().sort_by("released_at")
    first, *_, last = rows["release"].to_pylist()
    assert verdict(replace(sound, rolled_back=last)) == []
    found = verdict(replace(sound, rolled_back=first))
    assert len(found) == 3
    assert all(broken.startswith("C") and "was rolled back to release" in broken for broken in found)
