"""Kills at the failpoints that other lakes never reach: gates, archives, table features and checkpoints."""

from __future__ import annotations

import ast
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.faults.attach import Jvm
from tests.faults.attacked_lake import PATIENCE
from tests.faults.lake_process import LakeCommand, Order, answer_of, start
from tests.faults.lakes import assert_typed
from tests.faults.test_kills import KILLS
from tests.run.lakes import Written

from lakesmith.failpoints import FAILPOINTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


class Lake(Written):
    """A lake whose processes can be killed."""

    jvm: Jvm

    def kill(self, place: str, about: str = "", *, do: LakeCommand = "run", version: int = 0) -> None:
        order = Order(
            lake=str(self.folder),
            answer=str(self.folder.parent / "answer.json"),
            jvm=self.jvm,
            do=do,
            table=about,
            version=version,
            place=place,
            about=about,
        )
        process = start(order)
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL, f"{place} was not reached: {answer_of(order)}"


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, jvm: Jvm) -> Lake:
    made = Lake(tmp_path / "shop", spark)
    made.jvm = jvm
    made.declare({"lakesmith.yml": "name: shop\n"})
    return made


def test_a_process_is_killed_at_every_failpoint() -> None:
    elsewhere = {kill.place for rows in KILLS.values() for row in rows for kill in row}
    assert elsewhere | _killed_here() == FAILPOINTS.keys()


def _killed_here() -> set[str]:
    """Return the failpoints that the tests of this file pass to `lake.kill`."""
    calls = [node for node in ast.walk(ast.parse(Path(__file__).read_text())) if isinstance(node, ast.Call)]
    return {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "lake.kill"}


@pytest.mark.verify
def test_kills_around_archiving_and_after_the_ledger_lose_nothing(lake: Lake) -> None:
    lake.declare({"bronze/notes.yml": "source: {files: landing/*.json, archive: done}\n"})
    lake.land("1.json", {"id": 1})
    lake.run()
    lake.land("2.json", {"id": 2})
    lake.kill("files.archiving", "bronze.notes")
    assert _ids(lake) == [1, 2]
    lake.run()
    assert lake.run() == {}
    assert _ids(lake) == [1, 2]
    lake.land("3.json", {"id": 3})
    lake.kill("ledger.recorded")
    assert lake.run() == {}
    assert _ids(lake) == [1, 2, 3]
    lake.kill("files.returning", "bronze.notes", do="restore")
    lake.run()  # completes the restore: the files are back in the landing zone
    assert _ids(lake) == [1]
    lake.run()
    assert lake.run() == {}
    assert _ids(lake) == [1, 2, 3]


def _ids(lake: Lake) -> list[object]:
    return [row[0] for row in lake.rows("SELECT id FROM bronze.notes ORDER BY id")]


@pytest.mark.verify
def test_a_kill_while_a_gate_holds_a_batch_loses_nothing(lake: Lake) -> None:
    lake.declare(
        {"bronze/notes.yml": "source: {files: landing/*.json}\nchecks:\n  few: {expect: count(*) < 3, on_fail: fail}\n"}
    )
    lake.land("1.json", {"id": 1})
    lake.run()
    lake.land("2.json", {"id": 2}, {"id": 3}, {"id": 4})
    lake.kill("batch.held", "bronze.notes")
    assert _ids(lake) == [1]
    lake.run(ok=False)
    [error] = lake.reports[-1].errors
    assert_typed(error, "gate-failed")
    assert _ids(lake) == [1]
    held = lake.reports[-1].run
    assert held is not None
    assert not lake.lake().approve(held.run_id, reason="a busy day", by="test", session=lake.spark).errors
    assert _ids(lake) == [1, 2, 3, 4]
    assert lake.run() == {}


@pytest.mark.verify
def test_a_kill_between_a_table_feature_and_its_rows_loses_nothing(lake: Lake) -> None:
    lake.declare({"bronze/notes.yml": "source: {files: landing/*.parquet}\n"})
    (lake.folder / "landing").mkdir()
    for number, type in ((1, pa.int32()), (1 << 40, pa.int64())):
        pq.write_table(pa.table({"id": pa.array([number], type)}), lake.folder / f"landing/{number}.parquet")
        if number == 1:
            lake.run()
    lake.kill("feature.enabled", "bronze.notes")
    assert _ids(lake) == [1]
    lake.run()
    assert lake.run() == {}
    assert _ids(lake) == [1, 1 << 40]


@pytest.mark.verify
def test_a_kill_before_a_checkpoint_loses_nothing(lake: Lake) -> None:
    lake.declare(
        {
            "bronze/notes.yml": "source: {files: landing/*.json}\n",
            "silver/days.sql": "/* lakesmith\nload: {replace_partitions: day}\n*/\n"
            "SELECT day, count(*) AS n FROM bronze.notes GROUP BY day\n",
        }
    )
    for number in range(10):
        lake.land(f"{number}.json", {"id": number, "day": number % 2})
        lake.run()
    assert lake.version("silver.days") == 9
    lake.land("10.json", {"id": 10, "day": 0})
    lake.kill("log.checkpointing", "silver.days")
    lake.run()
    assert lake.run() == {}
    assert lake.rows("SELECT day, n FROM silver.days ORDER BY day") == [(0, 6), (1, 5)]
    lake.land("11.json", {"id": 11, "day": 1})
    lake.run()
    assert lake.rows("SELECT day, n FROM silver.days ORDER BY day") == [(0, 6), (1, 6)]
