"""Deleted keys stay deleted after late rows, interruptions and rollbacks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.marks import chosen_only, first_only
from tests.run.lakes import Cut, Written, cut_at

from lakesmith.formats import Delta
from lakesmith.formats.delta import spark_writes
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.ports import TableFolder
from lakesmith.spark import batch_counts, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LAKE = {
    "bronze/events.yml": (
        "source: {files: landing/events/*.json}\ncolumns: {id: bigint, at: bigint, op: string, v: string}\n"
    ),
    "silver/latest.sql": (
        "/* lakesmith\nload: {merge: {key: id, order_by: at, delete: \"op = 'D'\"}}\n*/\n"
        "SELECT id, at, op, v FROM bronze.events\n"
    ),
    "silver/history.sql": (
        "/* lakesmith\nload: {scd2: {key: id, order_by: at, delete: \"op = 'D'\", track: v}}\n*/\n"
        "SELECT id, at, op, v FROM bronze.events\n"
    ),
}


def event(id: int, at: int, op: str = "I", v: str = "x") -> dict[str, object]:
    return {"id": id, "at": at, "op": op, "v": v}


def latest(written: Written) -> list[tuple[object, ...]]:
    return written.rows('SELECT id, "at" FROM silver.latest ORDER BY id')


def history(written: Written) -> list[tuple[object, ...]]:
    return written.rows("SELECT id, valid_from, valid_to FROM silver.history ORDER BY id, valid_from")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, shared_spark: SparkSession) -> Written:
    """A lake after two runs. Tests copy it: a lake can be moved."""
    lake = Written(tmp_path_factory.mktemp("made") / "shop", shared_spark)
    lake.declare({"lakesmith.yml": "name: shop\n", **LAKE})
    lake.land("events/1.json", event(1, 1), event(2, 1), event(3, 9, "D"))
    lake.run()
    lake.land("events/2.json", event(1, 5, "D"))
    assert {step.mode for step in lake.run().values() if step.table.startswith("silver")} == {"changes"}
    return lake


@pytest.fixture
def events(made: Written, tmp_path: Path, spark: SparkSession) -> Written:
    shutil.copytree(made.folder, tmp_path / "shop")
    return Written(tmp_path / "shop", spark)


def test_a_late_row_does_not_restore_a_deleted_key_and_a_newer_one_does(events: Written) -> None:
    events.land("events/3.json", event(1, 3), event(3, 8))
    events.run()
    assert latest(events) == [(2, 1)]
    assert history(events) == [(1, 1, 5), (2, 1, None), (3, 8, 9)]
    events.land("events/4.json", event(1, 7))
    events.run()
    assert latest(events) == [(1, 7), (2, 1)]
    assert history(events) == [(1, 1, 5), (1, 7, None), (2, 1, None), (3, 8, 9)]


@pytest.mark.parametrize("when", chosen_only(["before", "after"], "after"))
def test_a_run_killed_around_the_merge_is_completed(
    events: Written, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    events.land("events/3.json", event(2, 2, "D"), event(4, 1))
    merge = Delta.merge

    def cut(self: Delta, *rest: object) -> object:
        if when == "after":
            merge(self, *rest)  # type: ignore[arg-type]
        raise Cut

    monkeypatch.setattr(Delta, "merge", cut)
    with pytest.raises(Cut):
        events.run()
    monkeypatch.undo()
    events.land("events/4.json", event(2, 1, v="late"), event(1, 2))
    events.run()
    assert latest(events) == [(4, 1)]
    assert history(events) == [(1, 1, 5), (2, 1, 2), (4, 1, None)]


def test_a_rolled_back_deletion_does_not_count(events: Written, tmp_path: Path) -> None:
    warehouse = f"{events.folder}/.lakesmith/warehouse"
    for table in ("bronze/events", "silver/latest", "silver/history"):
        events.spark.sql(f"RESTORE delta.`{warehouse}/{table}` TO VERSION AS OF 0").collect()
    (events.folder / "landing" / "events" / "2.json").unlink()
    events.land("events/3.json", event(1, 3))
    events.run()
    assert latest(events) == [(1, 3), (2, 1)]
    assert history(events) == [(1, 1, None), (2, 1, None)]


@pytest.mark.parametrize("killed", chosen_only([False, True], True))
def test_deleted_keys_of_an_uncommitted_batch_do_not_count_after_a_restore_of_its_input(
    events: Written, killed: bool
) -> None:
    wrong = events.land("events/3.json", event(2, 9, "D"))
    with cut_at("deleted_keys.stored", "lakesmith.silver.latest"), pytest.raises(Cut):
        events.run("+silver.latest")
    if killed:
        with cut_at("table.committed", "silver.latest"), pytest.raises(Cut):
            events.lake().rollback("latest", session=events.spark)
    else:
        assert not events.lake().rollback("latest", session=events.spark).errors
    wrong.unlink()
    events.land("events/4.json", event(2, 7))
    events.run()
    assert latest(events) == [(2, 7)]


LOADS = {
    "latest": "merge: {key: id, order_by: at, delete: \"op = 'D'\"}",
    "changed": "changes: {key: id, order_by: at, op: op}",
    "history": "scd2: {key: id, order_by: at, delete: \"op = 'D'\", track: v}",
}


@pytest.mark.parametrize("load", first_only(LOADS))
def test_a_key_deleted_by_a_replayed_row_stays_deleted(written: Written, load: str) -> None:
    check = "checks:\n  good: {where: v <> 'bad', on_fail: quarantine}"
    query = "SELECT id, at, op, v FROM bronze.events"
    table = f"/* lakesmith\nload: {{{LOADS[load]}}}\n{check}\n*/\n{query}\n"
    written.declare({"bronze/events.yml": LAKE["bronze/events.yml"], f"silver/{load}.sql": table})
    written.land("events/1.json", event(1, 1), event(2, 1))
    written.run()
    written.land("events/2.json", event(1, 5, "D", "bad"))
    written.run()
    chosen = QuarantineFilter(rule="good")
    report = written.lake().replay(
        f"silver.{load}", chosen, set={"v": "'x'"}, why="test", by="test", session=written.spark
    )
    assert not report.errors
    written.land("events/3.json", event(1, 3))
    assert written.run()[f"silver.{load}"].mode == "changes"
    if load == "history":
        assert history(written) == [(1, 1, 5), (2, 1, None)]
    else:
        assert written.rows(f'SELECT id, "at" FROM silver.{load} ORDER BY id') == [(2, 1)]


def test_deleted_keys_of_an_uncommitted_rebuild_are_ignored(events: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delta, "overwrite", _cut_in("silver", Delta.overwrite))
    with pytest.raises(Cut):
        events.run(full_refresh=True)
    monkeypatch.undo()
    events.land("events/3.json", event(1, 3), event(3, 8))
    events.run()
    assert latest(events) == [(2, 1)]
    assert history(events) == [(1, 1, 5), (2, 1, None), (3, 8, 9)]


def _cut_in(folder: str, overwrite: Callable[..., object]) -> Callable[..., object]:
    """Raise when a table in the folder would be replaced; other writes succeed."""

    def cut(self: Delta, frame: object, into: TableFolder, *rest: object) -> object:
        if f"/warehouse/{folder}/" in into.url:
            raise Cut
        return overwrite(self, frame, into, *rest)

    return cut


def test_large_tables_use_deletion_vectors_and_are_read_without_spark(
    events: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_DV_MERGE_BYTES", 0)
    monkeypatch.setattr(spark_writes, "merge_few", None)  # one task would read the whole table
    events.land("events/3.json", event(2, 3, v="y"), event(4, 1), event(1, 2))
    events.run()
    events.land("events/4.json", event(4, 2, "D"), event(2, 2, v="z"))
    events.run()
    assert latest(events) == [(2, 3)]
    assert history(events) == [(1, 1, 5), (2, 1, 2), (2, 2, 3), (2, 3, None), (4, 1, 2)]
    assert {status.table: status.rows for status in events.lake().status()}["silver.latest"] == 1


def test_files_outside_the_keys_of_a_batch_are_not_read(events: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_DV_MERGE_BYTES", 0)
    monkeypatch.setattr(batch_counts, "FEW_ROWS", -1)
    folder = events.folder / ".lakesmith" / "warehouse" / "silver" / "latest"
    files = set(folder.rglob("*.parquet"))
    events.land("events/3.json", *(event(id, 1) for id in range(100, 103)))
    events.run()
    later = [file for file in set(folder.rglob("*.parquet")) - files if pq.read_table(file)["id"][0].as_py() >= 100]
    assert later
    for file in later:
        file.rename(file.with_suffix(".away"))  # reading it would fail
    events.land("events/4.json", event(2, 4))
    events.run("+silver.latest")
    for file in later:
        file.with_suffix(".away").rename(file)
    assert latest(events) == [(2, 4), *((id, 1) for id in range(100, 103))]
