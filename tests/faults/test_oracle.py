"""The oracle imports nothing of Lakesmith, and detects wrong content."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64
from tests.faults.attach import Jvm
from tests.faults.attacked_lake import AttackedLake, Oracle
from tests.faults.delta_files import read_table
from tests.faults.oracle import Claims, verdict

from lakesmith.formats.delta.deletion_vectors import read_vector
from lakesmith.store import folder_at

WAREHOUSE = Path(".lakesmith") / "warehouse"
MAGIC = 1681511377
TO_Z85 = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)


def test_the_oracle_imports_nothing_of_lakesmith() -> None:
    code = "import sys, tests.faults.oracle; print([m for m in sys.modules if m.partition('.')[0] == 'lakesmith'])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle, jvm: Jvm) -> Claims:
    """A lake after two runs, and its claims."""
    return _after_two_runs(AttackedLake(tmp_path_factory.mktemp("sound") / "merge", "merge", 7, oracle, jvm))


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle, jvm: Jvm) -> Claims:
    """A lake with rows in deletion vectors."""
    claims = _after_two_runs(AttackedLake(tmp_path_factory.mktemp("marked") / "dv_merge", "dv_merge", 7, oracle, jvm))
    assert _with_vector(Path(claims.lake))["deletionVector"]["storageType"] == "u"
    return claims


def _after_two_runs(attacked: AttackedLake) -> Claims:
    for _ in range(2):
        attacked.land()
        assert attacked.run_to_completion() == []
    return Claims(
        lake=str(attacked.folder), flow=attacked.flow, seed=7, landed=2, completed=True, runs=tuple(attacked.runs)
    )


def _folder(lake: Path, table: str = "bronze/events") -> Path:
    return lake / WAREHOUSE / table


def _newest(folder: Path) -> Path:
    return max((folder / "_delta_log").glob("*.json"))


def _delete_a_file(lake: Path) -> None:
    next(_folder(lake).rglob("*.parquet")).unlink()


def _truncate_a_file(lake: Path) -> None:
    file = next(_folder(lake).rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-10])


def _delete_a_version(lake: Path) -> None:
    min((_folder(lake) / "_delta_log").glob("*.json")).unlink()


def _truncate_a_version(lake: Path) -> None:
    file = _newest(_folder(lake))
    file.write_text(file.read_text()[:-20])


def _change_a_version(lake: Path) -> None:
    """Change a digit so that the file stays valid JSON."""
    file = _newest(_folder(lake))
    file.write_bytes(re.sub(rb'"modificationTime":\d', b'"modificationTime":9', file.read_bytes(), count=1))


def _duplicate_rows(lake: Path) -> None:
    _next_version(lake, lambda add: {**add, "path": _copied(_folder(lake), add["path"])}, "add")


def _remove_rows(lake: Path) -> None:
    _next_version(lake, lambda add: {"path": add["path"], "dataChange": True}, "remove")


def _next_version(lake: Path, change: Callable[[dict[str, Any]], dict[str, Any]], action: str) -> None:
    _commit(_folder(lake), {action: change(next(iter(_live(_folder(lake)))))})


def _commit(folder: Path, action: dict[str, Any]) -> None:
    version = int(_newest(folder).stem) + 1
    (folder / "_delta_log" / f"{version:020}.json").write_text(json.dumps(action) + "\n")


def _live(folder: Path) -> list[dict[str, Any]]:
    table = read_table(folder)
    assert table is not None
    return list(table.live.values())


def _copied(folder: Path, path: str) -> str:
    shutil.copy(folder / path, folder / "again.parquet")
    return "again.parquet"


def _commit_a_batch_again(lake: Path) -> None:
    folder = _folder(lake)
    lines = [line for line in _newest(folder).read_text().splitlines() if '"txn"' in line]
    table = read_table(folder)
    assert table is not None
    (folder / "_delta_log" / f"{table.version + 1:020}.json").write_text("\n".join(lines))


def _delete_quarantine(lake: Path) -> None:
    shutil.rmtree(_folder(lake, "quarantine/silver/events"))


def _break_row_counts(lake: Path) -> None:
    file = lake / WAREHOUSE / "_lakesmith/batches/silver.events/00000001.done.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "rows_written": 0}))


def _shift_row_counts(lake: Path) -> None:
    """Change row counts so that they still add up."""
    file = lake / WAREHOUSE / "_lakesmith/batches/silver.events/00000002.done.json"
    record = json.loads(file.read_text())
    more = {"rows_written": record["rows_written"] + 1, "rows_deduplicated": record["rows_deduplicated"] - 1}
    file.write_text(json.dumps({**record, **more}))


def _delete_completion(lake: Path) -> None:
    os.unlink(max((lake / WAREHOUSE / "_lakesmith/batches/silver.events").glob("*.done.json")))


def _delete_runs(lake: Path) -> None:
    shutil.rmtree(_folder(lake, "system/runs"))


def _mix_release_versions(lake: Path) -> None:
    _rewrite_release(lake, lambda row: {**row, "version": 0 if row["table"] == "silver.events" else row["version"]})


def _release_missing_versions(lake: Path) -> None:
    _rewrite_release(lake, lambda row: {**row, "version": row["version"] + 1})


def _omit_a_released_table(lake: Path) -> None:
    _rewrite_release(lake, lambda row: None if row["table"] == "gold.days" else row)


def _rewrite_release(lake: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Rewrite the versions of the newest release."""
    table = DeltaTable(_folder(lake, "system/releases"))
    rows = table.to_pyarrow_table()
    newest = max(rows["released_at"].to_pylist())
    changed = [change(row) if row["released_at"] == newest else row for row in rows.to_pylist()]
    rows_left = pa.Table.from_pylist([row for row in changed if row is not None], schema=rows.schema)
    write_deltalake(table, rows_left, mode="overwrite")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("damage", "promise"),
    [
        (_delete_a_file, "V"),
        (_truncate_a_file, "V"),
        (_delete_a_version, "V"),
        (_truncate_a_version, "V"),
        (_change_a_version, "V"),
        (_duplicate_rows, "R"),
        (_remove_rows, "R"),
        (_commit_a_batch_again, "N"),
        (_delete_quarantine, "R"),
        (_break_row_counts, "B"),
        (_shift_row_counts, "B"),
        (_delete_completion, "B"),
        (_delete_runs, "A"),
        (_mix_release_versions, "C"),
        (_release_missing_versions, "C"),
        (_omit_a_released_table, "C"),
    ],
)
def test_a_damaged_lake_is_detected(
    sound: Claims, tmp_path: Path, damage: Callable[[Path], None], promise: str
) -> None:
    claims = _copied_lake(sound, tmp_path)
    assert verdict(claims) == []
    damage(Path(claims.lake))
    assert promise in {broken[0] for broken in verdict(claims)}


def _with_vector(lake: Path) -> dict[str, Any]:
    """Return a file of the table with a deletion vector."""
    return next(add for add in _live(_folder(lake, "silver/events")) if add.get("deletionVector"))


def _drop_a_vector(lake: Path) -> None:
    add = _with_vector(lake)
    _commit(_folder(lake, "silver/events"), {"add": {**add, "deletionVector": None}})


def _delete_a_vector(lake: Path) -> None:
    for file in _folder(lake, "silver/events").glob("deletion_vector_*.bin"):
        file.unlink()


def _corrupt_a_vector(lake: Path) -> None:
    for file in _folder(lake, "silver/events").glob("deletion_vector_*.bin"):
        file.write_bytes(file.read_bytes()[:-8] + bytes(8))


def _mark_one_more(lake: Path) -> None:
    _mark_inline(lake, lambda rows, count: rows | BitMap64([min(set(range(count)) - set(rows))]))


def _mark_one_less(lake: Path) -> None:
    _mark_inline(lake, lambda rows, _: rows - BitMap64(rows[:1]))


def _mark_inline(lake: Path, change: Callable[[BitMap64, int], BitMap64]) -> None:
    """Store a deletion vector in the log."""
    folder, add = _folder(lake, "silver/events"), _with_vector(lake)
    rows = change(read_vector(folder_at(str(folder)), add["deletionVector"]), json.loads(add["stats"])["numRecords"])
    data = struct.pack("<i", MAGIC) + rows.serialize()
    encoded = base64.b85encode(data + bytes(-len(data) % 4)).translate(TO_Z85).decode()
    vector = {"storageType": "i", "pathOrInlineDv": encoded, "sizeInBytes": len(data), "cardinality": len(rows)}
    _commit(folder, {"add": {**add, "deletionVector": vector}})


@pytest.mark.spark
@pytest.mark.parametrize(
    ("damage", "promise"),
    [
        (_drop_a_vector, "R"),
        (_delete_a_vector, "V"),
        (_corrupt_a_vector, "V"),
        (_mark_one_more, "R"),
        (_mark_one_less, "R"),
    ],
)
def test_a_damaged_deletion_vector_is_detected(
    marked: Claims, tmp_path: Path, damage: Callable[[Path], None], promise: str
) -> None:
    claims = _copied_lake(marked, tmp_path)
    assert verdict(claims) == []
    damage(Path(claims.lake))
    assert promise in {broken[0] for broken in verdict(claims)}


@pytest.mark.spark
def test_an_inline_deletion_vector_is_read(marked: Claims, tmp_path: Path) -> None:
    claims = _copied_lake(marked, tmp_path)
    _mark_inline(Path(claims.lake), lambda rows, _: rows)
    assert verdict(claims) == []


def _copied_lake(sound: Claims, tmp_path: Path) -> Claims:
    lake = tmp_path / sound.flow
    shutil.copytree(sound.lake, lake)
    return replace(sound, lake=str(lake))


@pytest.mark.spark
def test_rows_of_a_partial_batch_are_detected(sound: Claims) -> None:
    # Between two runs, a table may have the rows of any number of complete files.
    between = replace(sound, completed=False, acknowledged=0, landed=3)
    assert verdict(between) == []
    assert any(broken.startswith("N") for broken in verdict(replace(between, acknowledged=3)))


@pytest.mark.spark
def test_a_rollback_that_misses_a_table_is_detected(sound: Claims) -> None:
    rows = DeltaTable(_folder(Path(sound.lake), "system/releases")).to_pyarrow_table().sort_by("released_at")
    first, *_, last = rows["release"].to_pylist()
    assert verdict(replace(sound, rolled_back=last)) == []
    found = verdict(replace(sound, rolled_back=first))
    assert len(found) == 3
    assert all(broken.startswith("C") and "was rolled back to release" in broken for broken in found)
