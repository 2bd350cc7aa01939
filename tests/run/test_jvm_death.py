"""Spark's JVM ends during a run that started it: the error is typed, the run is recorded, and the next one continues.

The lakes run in separate processes, because the JVM of other tests must not end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.run.lakes import ORDERS

from lakesmith.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(300)]

ROWS = [{"id": 1, "amount": 5, "day": "2026-01-01", "at": "2026-01-01"}]
APART = {f"bronze/{name}.yml": f"source: {{files: landing/{name}/*.json}}\n" for name in ("clicks", "visits")}
"""Tables that do not depend on any other; they run before and after bronze.orders."""
SLOW = {
    "silver/slow.py": (
        "import lakesmith as lake\n\n\n"
        "@lake.silver()\n"
        "def slow(orders=lake.ref('bronze.orders')):\n"
        "    from pyspark.sql.functions import udf\n\n"
        "    @udf('bigint')\n"
        "    def wait(value):\n"
        "        import time\n\n"
        "        time.sleep(8)\n"
        "        return value\n\n"
        "    return orders.select(wait('id').alias('id'))\n"
    )
}


@dataclass(frozen=True)
class Answer:
    """The output of a process with a lake."""

    codes: list[int]
    reports: list[dict[str, Any]]
    stderr: str

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The errors of the first round."""
        return list(self.reports[0]["errors"])

    @property
    def outcomes(self) -> dict[str, str]:
        """By table, the outcome of its step in the first round."""
        return {step["table"]: step["outcome"] for step in self.reports[0]["steps"]}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    declare(tmp_path, {"lakesmith.yml": "name: shop\nenvironments: {dev: {jobs: 1}}\n", **ORDERS, **APART})
    for name in ("orders", "clicks", "visits"):
        declare(tmp_path, {f"landing/{name}/1.json": "".join(json.dumps(row) + "\n" for row in ROWS)})
    return tmp_path


def declare(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def killed_at(place: str, about: str, shop: Path, *rounds: list[str], delay: float = 0.0) -> Answer:
    """Run the commands in one process, whose JVM is killed at the place."""
    words = [["--lake", str(shop), *each, "--json"] for each in rounds]
    process = subprocess.run(
        [sys.executable, "-m", "tests.run.kill_own_jvm", json.dumps([place, about, delay, words])],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    decoder, text, reports = json.JSONDecoder(), process.stdout, []
    while text := text.lstrip():
        report, end = decoder.raw_decode(text)
        reports.append(report)
        text = text[end:]
    *lines, codes = reports
    return Answer(codes=codes, reports=lines, stderr=process.stderr)


def recorded(shop: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the runs in the ledger, oldest first: the outcome of each, and of its steps by table."""
    lake = Lake.open(shop)
    runs = lake.query("SELECT run_id, outcome FROM system.runs ORDER BY started_at").rows
    steps = lake.query('SELECT run_id, "table", outcome FROM system.steps').rows
    return [(str(outcome), {str(table): str(how) for run, table, how in steps if run == id}) for id, outcome in runs]


def test_a_run_with_a_killed_jvm_is_recorded_and_the_next_one_completes_it(shop: Path) -> None:
    answer = killed_at("batch.pinned", "bronze.orders", shop, ["run"], ["run"])
    assert answer.codes == [4, 0]
    (error,) = answer.errors
    assert (error["code"], error["table"]) == ("jvm-died", "bronze.orders")
    assert "SIGKILL" in error["what"]
    assert "spark.driver.memory" in error["hint"]
    assert "Traceback" not in answer.stderr
    assert answer.outcomes == {
        "bronze.clicks": "ok",
        "bronze.orders": "failed",
        "bronze.visits": "skipped",
        "silver.orders": "skipped",
        "gold.sales": "skipped",
    }
    first, second = recorded(shop)
    assert first == ("failed", answer.outcomes)
    assert second[0] == "ok"
    assert Lake.open(shop).query("SELECT orders, amount FROM gold.sales").rows == ((1, 5),)
    assert list(Lake.open(shop).plan().steps) == []


@pytest.mark.parametrize(
    ("place", "about", "delay", "code"),
    [
        pytest.param("spark.starting", "", 0, "spark-start", id="while Spark starts"),
        pytest.param("spark.started", "", 0, "jvm-died", id="before the first step"),
        pytest.param("lease.released", "bronze.orders", 0, "jvm-died", id="between two steps"),
        pytest.param("table.committed", "silver.orders", 0, None, id="after a commit"),
        pytest.param("batch.pinned", "silver.slow", 4, "jvm-died", id="in the middle of a job"),
    ],
)
def test_a_run_is_recorded_and_completed_for_every_moment_of_a_jvm_kill(
    shop: Path, place: str, about: str, delay: float, code: str | None
) -> None:
    declare(shop, SLOW)
    answer = killed_at(place, about, shop, ["run"], ["run"], delay=delay)
    assert answer.codes == [4, 0]
    assert {error["code"] for error in answer.errors} <= {code, "jvm-died", "commit-unknown"}
    assert code is None or code in {error["code"] for error in answer.errors}
    assert "Traceback" not in answer.stderr
    first, second = recorded(shop)
    assert first == ("failed", answer.outcomes)
    assert second[0] == "ok"
    assert Lake.open(shop).query("SELECT orders, amount FROM gold.sales").rows == ((1, 5),)
    assert list(Lake.open(shop).plan().steps) == []


def test_a_jvm_killed_after_the_last_step_does_not_affect_the_run(shop: Path) -> None:
    answer = killed_at("lease.released", "gold.sales", shop, ["run"], ["run"])
    assert answer.codes == [0, 0]
    assert "Traceback" not in answer.stderr
    assert recorded(shop) == [("ok", answer.outcomes)]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("SELECT length(repeat(CAST(id AS string), 2000000000)) AS n", "jvm-died", id="in a task"),
        pytest.param("SELECT length(repeat('x', 2000000000)) AS n", "jvm-out-of-memory", id="planning"),
    ],
)
def test_the_error_for_a_jvm_out_of_memory_names_the_setting(shop: Path, query: str, code: str) -> None:
    memory = "name: shop\nenvironments: {dev: {jobs: 1, spark: {spark.driver.memory: 600m}}}\n"
    declare(shop, {"lakesmith.yml": memory, "silver/large.sql": f"{query} FROM bronze.orders\n"})
    answer = killed_at("", "", shop, ["run"])
    assert answer.codes == [4]
    error, *rest = answer.errors
    assert (error["code"], error["table"]) == (code, "silver.large")
    # A Spark that then stops itself reports it once.
    assert [each["code"] for each in rest] in ([], ["spark-stopped"])
    assert "memory" in error["what"]
    assert "raise spark.driver.memory" in error["hint"]
    assert recorded(shop) == [("failed", answer.outcomes)]


def test_a_continuous_run_ends_with_its_jvm(shop: Path) -> None:
    answer = killed_at("batch.pinned", "silver.orders", shop, ["run", "--continuous", "--every", "0"])
    assert answer.codes == [4]
    assert [outcome for outcome, _ in recorded(shop)] == ["failed"]


GIVEN = """
import json, sys
from tests.run.kill_own_jvm import kill_at
from lakesmith.lake import Lake
from lakesmith.jvm.session import open_session

session = open_session("given", {})
kill_at("batch.pinned", "silver.orders", 0)
first, dead = (Lake.open(sys.argv[1]).run(session=session) for _ in range(2))
last = Lake.open(sys.argv[1]).run()
codes = [[error.code for error in report.errors] for report in (first, dead)]
print(json.dumps([codes, first.outcome, dead.outcome, last.outcome]))
"""


def test_runs_in_a_session_with_a_dead_jvm_are_recorded_and_a_run_without_it_works(shop: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", GIVEN, str(shop)], capture_output=True, text=True, timeout=240, check=False
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == [[["jvm-died"], ["jvm-died"]], "failed", "failed", "ok"]
    assert [outcome for outcome, _ in recorded(shop)] == ["failed", "failed", "ok"]
