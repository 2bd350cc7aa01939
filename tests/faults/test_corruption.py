"""Corrupt or missing files: Lakesmith stops and names the file. It never returns or skips a gap."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.faults.lakes import (
    assert_right_after_a_rerun,
    assert_typed,
    content,
    failing,
    land_second_day,
    run_first_day,
    warehouse,
)
from tests.faults.prebuilt_lake import BRONZE, PrebuiltLake, build_lake
from tests.marks import chosen_only
from tests.run.lakes import Written

from lakesmith.errors import LakesmithError, Problems
from lakesmith.formats.delta.actions import log_segment
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.held import HeldBatches
from lakesmith.ledger.lease import Leases
from lakesmith.plan.steps import Finish
from lakesmith.ports import names_in_folder
from lakesmith.store import LocalStore, folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def made(tmp_path: Path) -> PrebuiltLake:
    return build_lake(tmp_path / "shop")


def stopped(call: Callable[[], object]) -> LakesmithError:
    with pytest.raises(LakesmithError) as caught:
        call()
    error = caught.value.errors[0] if isinstance(caught.value, Problems) else caught.value
    assert_typed(error)
    return error


def assert_stops(made: PrebuiltLake, file: Path, code: str, *, reading: bool = True) -> None:
    """Check that every command names the corrupt file, and that a run changes nothing."""
    before = sorted(made.warehouse.rglob("*"))
    lake = made.lake()
    found = [next(iter(lake.plan().problems)), next(iter(lake.run().errors))]
    if reading:
        found += [stopped(lambda: lake.query("SELECT * FROM bronze.orders")), stopped(lambda: lake.query(SHORT))]
    for error in found:
        assert_typed(error, code)
        assert str(file) in error.what or str(file.relative_to(made.warehouse)) in error.what
        assert error.table in ("bronze.orders", None)
    assert sorted(made.warehouse.rglob("*")) == before


SHORT = "SELECT count(*) FROM bronze.orders"


def flip(file: Path, place: int, bit: int = 7) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 1 << bit
    file.write_bytes(damaged)


@pytest.mark.parametrize("cached", [True, False])
def test_a_log_without_a_middle_commit_is_never_read_as_a_shorter_table(made: PrebuiltLake, cached: bool) -> None:
    if cached:
        made.lake().status()
    file = made.commit(1)
    file.unlink()
    assert_stops(made, file, "table-unreadable")
    assert str(file) in stopped(made.lake().status).what
    assert log_segment(folder_at(str(made.table)), 3) is None


@pytest.mark.parametrize("cached", [True, False])
def test_a_log_without_its_newest_commit_is_never_read_as_a_shorter_table(made: PrebuiltLake, cached: bool) -> None:
    if cached:
        made.lake().status()
    file = made.commit(3)
    file.unlink()
    made.land(5)
    assert_stops(made, file, "commits-missing")


def test_a_removed_table_ingests_all_files_again(made: PrebuiltLake) -> None:
    made.commit(3).unlink()
    os.rename(made.table, made.folder / "away")
    [step] = [step for step in made.lake().plan().steps if step.table == BRONZE]
    assert len(getattr(step, "files", ())) == 4


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda file: file.write_bytes(b""), id="empty"),
        pytest.param(lambda file: flip(file, 0), id="no JSON"),
        pytest.param(lambda file: file.write_bytes(file.read_bytes()[:-40]), id="cut off"),
        pytest.param(
            lambda file: file.write_bytes(file.read_bytes().replace(b'{"add"', b'{"aed"')), id="an unknown action"
        ),
        pytest.param(lambda file: file.write_bytes(b"\0" * len(file.read_bytes())), id="zeros"),
    ],
)
@pytest.mark.parametrize("version", [1, 3])
def test_a_corrupt_commit_stops_every_reader(made: PrebuiltLake, damage: Callable[[Path], None], version: int) -> None:
    file = made.commit(version)
    damage(file)
    assert_stops(made, file, "table-unreadable")


@pytest.mark.parametrize(
    "pointer",
    [b"", b"garbage", b'{"version":1}', b"\0\0\0\0", b"[]"],
    ids=["empty", "garbage", "older", "zeros", "list"],
)
def test_a_corrupt_checkpoint_pointer_changes_no_row(made: PrebuiltLake, pointer: bytes) -> None:
    for version in (1, 2):
        DeltaTable(str(made.table), version=version).create_checkpoint()
    (made.table / "_delta_log/_last_checkpoint").write_bytes(pointer)
    assert made.ids() == [1, 2, 3, 4]
    assert not made.lake().plan().problems


def test_a_missing_or_corrupt_checkpoint_is_named(made: PrebuiltLake) -> None:
    DeltaTable(str(made.table), version=2).create_checkpoint()
    [checkpoint] = (made.table / "_delta_log").glob("*.checkpoint.parquet")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2])
    assert_stops(made, checkpoint, "table-unreadable")
    checkpoint.unlink()
    assert_stops(made, made.table / "_delta_log/_last_checkpoint", "table-unreadable")
    checkpoint.write_bytes(whole)
    assert made.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda file: file.write_bytes(file.read_bytes()[:-60]), id="cut off"),
        pytest.param(lambda file: file.write_bytes(b""), id="empty"),
        pytest.param(lambda file: file.unlink(), id="lost"),
    ],
)
def test_a_truncated_empty_or_missing_data_file_stops_a_query(
    made: PrebuiltLake, damage: Callable[[Path], None]
) -> None:
    file = made.data(1)
    damage(file)
    error = stopped(lambda: made.lake().query("SELECT * FROM bronze.orders"))
    assert_typed(error, "table-unreadable")
    assert file.name in error.what
    assert "bronze.orders" in error.what


def test_a_flipped_bit_in_a_page_with_a_checksum_is_never_read_as_a_value(made: PrebuiltLake) -> None:
    file = made.data(1)
    rows = pq.read_table(file)
    pq.write_table(rows, file, write_page_checksum=True, compression="none")
    _set_size(made, 1, file.stat().st_size)
    assert made.ids() == [1, 2, 3, 4]
    place = file.read_bytes().index((2).to_bytes(8, "little"))
    flip(file, place, 0)
    error = stopped(made.ids)
    assert_typed(error, "table-unreadable")
    assert file.name in error.what


@pytest.mark.spark
def test_a_run_stops_at_a_corrupt_data_file_and_names_it(tmp_path: Path, spark: SparkSession) -> None:
    lake = Written(tmp_path / "shop", spark)
    run_first_day(lake)
    land_second_day(lake)
    lake.run("bronze.orders")
    file = sorted((warehouse(lake) / "bronze/orders").glob("*.parquet"), key=os.path.getmtime)[-1]
    whole, before = file.read_bytes(), content(lake)
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    last = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1
    for damage in (lambda: flip(file, last, 0), lambda: file.write_bytes(whole[:-60]), lambda: file.write_bytes(b"")):
        damage()
        [error] = failing(lake).errors
        assert_typed(error, "table-unreadable")
        assert file.name in error.what
        file.write_bytes(whole)
        assert content(lake) == before
    assert_right_after_a_rerun(lake)


@pytest.mark.spark
@pytest.mark.parametrize("cached", chosen_only([True, False], True))
def test_a_run_stops_at_a_commit_with_a_changed_digit_and_names_it(
    tmp_path: Path, spark: SparkSession, cached: bool
) -> None:
    """The file is still valid JSON, with the same size and modification time."""
    lake = Written(tmp_path / "shop", spark)
    run_first_day(lake)
    land_second_day(lake)
    lake.run("bronze.orders")
    before = content(lake)
    for table in ("bronze/orders", "silver/orders"):
        file = max((warehouse(lake) / table / "_delta_log").glob("*.json"))
        whole, times = file.read_bytes(), file.stat()
        if cached:
            lake.lake().status()
        place = re.search(rb"numRecords[^0-9]*(\d)", whole)
        assert place is not None
        flip(file, place.start(1), 0)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        [error] = failing(lake).errors
        assert_typed(error, "table-unreadable")
        assert str(file) in error.what
        for name in ("bronze.orders", "silver.orders"):
            reading = partial(lake.rows, f"SELECT count(*) FROM {name}")
            if name == table.replace("/", "."):
                assert str(file) in stopped(reading).what
            else:
                reading()
        assert file.is_file()
        file.write_bytes(whole)
        assert content(lake) == before
    assert_right_after_a_rerun(lake)


def _set_size(made: PrebuiltLake, version: int, size: int) -> None:
    actions = [json.loads(line) for line in made.commit(version).read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["size"] = size
    made.commit(version).write_text("\n".join(map(json.dumps, actions)))


BATCH_DAMAGES: dict[str, Callable[[Path], object]] = {
    "lost": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "garbage": lambda file: file.write_bytes(b"garbage"),
    "zeros": lambda file: file.write_bytes(b"\0" * 40),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-5]),
    "a bit of a path": lambda file: flip(file, file.read_bytes().index(b"landing/") + 8, 0),
    "a bit of the checksum": lambda file: flip(file, 15, 0),
}


@pytest.mark.parametrize("damage", BATCH_DAMAGES)
@pytest.mark.parametrize("batch", ["00000004.01", "00000002.01"])
def test_the_inputs_of_a_batch_are_never_guessed(made: PrebuiltLake, batch: str, damage: str) -> None:
    file = made.batch(batch)
    BATCH_DAMAGES[damage](file)
    made.land(5)
    assert_stops(made, file, "batch-unknown" if damage == "lost" else "batch-unreadable", reading=False)
    assert made.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut off", "a bit of the checksum"])
def test_a_corrupt_completion_record_is_named(made: PrebuiltLake, damage: str) -> None:
    file = made.batch("00000004.done")
    BATCH_DAMAGES[damage](file)
    assert_stops(made, file, "batch-unreadable", reading=False)


def test_a_batch_without_its_completion_record_is_completed_again(made: PrebuiltLake) -> None:
    made.batch("00000004.done").unlink()
    [step] = [step for step in made.lake().plan().steps if step.table == BRONZE]
    assert isinstance(step, Finish)
    assert step.sequence == 4


def test_a_corrupt_summary_of_ingested_files_is_named_and_a_missing_one_is_recomputed(made: PrebuiltLake) -> None:
    batches = made.batches
    ingested = {file.path: file for number in range(1, 5) for file in batches.pinned(number, 1).files}
    batches.write_summary(4, 1, ingested)
    summary = made.warehouse / "_lakesmith/ingested/bronze.orders/00000004.01.json"
    whole = summary.read_bytes()
    for damage in ("empty", "garbage", "cut off", "a bit of a path"):
        BATCH_DAMAGES[damage](summary)
        assert_stops(made, summary, "batch-unreadable", reading=False)
        summary.write_bytes(whole)
    assert not any(step.table == BRONZE for step in made.lake().plan().steps)
    summary.unlink()
    assert not any(step.table == BRONZE for step in made.lake().plan().steps)


def test_a_batch_without_a_checksum_is_read(made: PrebuiltLake) -> None:
    for file in (made.warehouse / "_lakesmith/batches/bronze.orders").iterdir():
        record = json.loads(file.read_bytes())
        del record["checksum"]
        file.write_text(json.dumps(record))
    assert not made.lake().plan().problems
    assert made.batches.pinned(4, 1).files[0].path == "landing/4.json"


def test_a_corrupt_lease_is_treated_as_free(made: PrebuiltLake) -> None:
    storage = LocalStore(made.warehouse)
    for number, data in enumerate((b"", b"garbage", b"\0\0\0", b"[]", b"{}"), 1):
        storage.replace(f"_lakesmith/leases/bronze.orders/{number * 10:08}.json", data)
        with Leases(storage, "run").hold(BRONZE, "run"):
            assert names_in_folder(storage, "_lakesmith/leases/bronze.orders") == [f"{number * 10 + 1:08}.json"]


def test_a_corrupt_held_batch_is_named(made: PrebuiltLake) -> None:
    storage = LocalStore(made.warehouse)
    key = "_lakesmith/held/bronze.orders/batch.json"
    for data in (b"", b"garbage", b"[]", b"{}"):
        storage.replace(key, data)
        error = stopped(lambda: HeldBatches(storage).get("bronze.orders"))
        assert_typed(error, "batch-unreadable")
        assert key in error.what


def test_a_batch_is_done_by_the_attempt_whose_commit_is_in_the_log(made: PrebuiltLake) -> None:
    first = made.ingest(5)
    again = made.batches.pin(first)
    made.finish(again, 4)
    done = Batches(LocalStore(made.warehouse), BRONZE).done(5)
    assert done is not None
    assert done.attempt == again.attempt != first.attempt
