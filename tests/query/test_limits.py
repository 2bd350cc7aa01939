"""A query that takes too much time or memory is stopped, with an error that says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

from lakesmith.declare import QueryLimits
from lakesmith.errors import InfrastructureError
from lakesmith.lake import Lake
from lakesmith.query import DuckDB

SHORT = QueryLimits(timeout=0.3)
FOREVER = {
    "a scan": "SELECT count(*) FROM range(10000000000000)",
    "a cross join": "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b",
    "a filtered cross join": "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3",
    "a recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "a pending fetch": "SELECT CASE WHEN range = 1 THEN sleep_ms(60000) END FROM range(100000)",
    "a sleep": "SELECT sleep_ms(60000)",
}


def stopped(engine: DuckDB, sql: str, **tables: pyarrow.dataset.Dataset | pa.RecordBatchReader) -> InfrastructureError:
    with pytest.raises(InfrastructureError) as raised:
        engine.query(sql, tables)
    return raised.value


@pytest.mark.parametrize("sql", FOREVER.values(), ids=FOREVER)
def test_an_endless_query_is_interrupted(sql: str) -> None:
    begun = time.monotonic()
    error = stopped(DuckDB(SHORT), sql)
    assert (error.code, error.exit_code) == ("query-timeout", 4)
    assert error.what == "the query was stopped after 0.3 seconds"
    assert "--timeout" in (error.hint or "")
    assert time.monotonic() - begun < 10


def test_an_endless_table_read_is_interrupted() -> None:
    def batches() -> object:
        while True:
            time.sleep(0.01)
            yield pa.record_batch({"a": [1]})

    for sql in ("SELECT count(*) FROM silver.endless", "FROM silver.endless a JOIN silver.endless b USING (a)"):
        endless = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
        assert stopped(DuckDB(SHORT), sql, **{"silver.endless": endless}).code == "query-timeout"


def test_a_query_that_ends_in_time_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    assert DuckDB(QueryLimits(timeout=60)).query("SELECT 1", {}).rows == ((1,),)
    assert threading.active_count() == before


SMALL = QueryLimits(timeout=60, memory=50_000_000)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM range(20000000) ORDER BY hash(range)",
        "SELECT * FROM range(1000000000)",
        "SELECT {'a': range, 'b': [range]} FROM range(1000000000)",
        "SELECT repeat('x', 100000) FROM range(100000)",
        "SELECT list(range) FROM range(100000000)",
    ],
)
def test_engine_and_answer_stay_within_the_memory_limit(sql: str) -> None:
    error = stopped(DuckDB(SMALL), sql)
    assert (error.code, error.exit_code) == ("query-memory", 4)
    assert "--memory" in (error.hint or "")


def test_a_fully_read_stream_stays_within_the_memory_limit() -> None:
    batch = pa.record_batch({"a": ["x" * 1000] * 10_000})
    big = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(100)))
    sql = "SELECT count(*) FROM silver.big a JOIN silver.big b USING (a)"
    assert stopped(DuckDB(SMALL), sql, **{"silver.big": big}).code == "query-memory"


def test_nothing_is_spilled_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stopped(DuckDB(SMALL), "SELECT * FROM range(20000000) ORDER BY hash(range)")
    assert list(tmp_path.iterdir()) == []


def test_the_first_rows_of_an_endless_answer_are_returned_at_once() -> None:
    answer = DuckDB(SMALL).query("FROM range(1000000000)", {}, rows=3)
    assert (answer.rows, answer.truncated) == (((0,), (1,), (2,)), True)
    assert not DuckDB().query("FROM range(3)", {}, rows=3).truncated


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lakesmith.yml").write_text("name: shop\nenvironments: {dev: {query: {timeout: 2s, memory: 60MB}}}\n")
    return tmp_path


def test_limits_default_to_the_environment(lake: Path) -> None:
    shop = Lake.open(lake)
    assert shop.query_limits() == QueryLimits(timeout=2.0, memory=60_000_000)
    assert shop.query_limits(timeout=1.5, memory=10**9) == QueryLimits(timeout=1.5, memory=10**9)
    with pytest.raises(InfrastructureError, match=r"stopped after 0\.2 seconds"):
        shop.query(FOREVER["a scan"], timeout=0.2)


def run(lake: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakesmith", "query", *arguments, "--lake", str(lake)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_fails_with_a_typed_error_at_the_timeout(lake: Path) -> None:
    ended = run(lake, FOREVER["a scan"], "--timeout", "0.5s", "--json")
    assert ended.returncode == 4
    assert json.loads(ended.stdout)["errors"][0]["code"] == "query-timeout"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT levenshtein(repeat('a', 2000000), repeat('b', 2000000))", "query-timeout"),
        ("SELECT length(repeat('x', 10000000) || range::VARCHAR) FROM range(100000)", "query-memory"),
    ],
)
def test_the_command_ends_when_the_engine_cannot_be_interrupted(sql: str, code: str, lake: Path) -> None:
    """A single function call checks no interrupt, and its text does not count against a limit of DuckDB."""
    ended = run(lake, sql, "--timeout", "1s" if code == "query-timeout" else "60s")
    assert (ended.returncode, ended.stdout) == (4, "")
    assert f"[{code}]" in ended.stderr
    assert "hint:" in ended.stderr


@pytest.mark.parametrize(("option", "code"), [("--timeout", "bad-duration"), ("--memory", "bad-size")])
def test_an_invalid_limit_is_rejected(option: str, code: str, lake: Path) -> None:
    ended = run(lake, "SELECT 1", option, "soon")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"[{code}]" in ended.stderr
