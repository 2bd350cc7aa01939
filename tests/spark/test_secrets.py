"""Secrets stay secret during a run: a canary for each input, and a check of every output.

The lake runs in a separate process with its own JVM, and waits in the middle of a step while the test checks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.servers.postgresql import Database
from tests.servers.s3 import S3Server

from lakesmith.jvm.java import cache_folder
from lakesmith.lake import Lake
from lakesmith.sources.kafka import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HADOOP, FILE, MIXED, DATABASE, UNUSED = (
    f"canary-{name}-5f0c" for name in ("hadoop", "file", "mixed", "database", "unused")
)

PAUSED = """
import json, sys
from lakesmith import failpoints
from lakesmith.cli import app

def reached(place, about):
    if (place, about) == ("batch.pinned", "silver.joined"):
        from pyspark import SparkContext
        context = SparkContext._active_spark_context
        print(json.dumps({"ui": context.uiWebUrl, "application": context.applicationId}), flush=True)
        sys.stdin.readline()

failpoints.watch(reached)
app.main(args=["--lake", sys.argv[1], "run", "--json"], prog_name="lakesmith")
"""

RAISING = """
import os
import lakesmith as lake

@lake.gold()
def raising(joined=lake.ref("silver.joined")):
    raise ValueError(f"denied: {os.environ['CANARY_HADOOP']} {os.environ['CANARY_DATABASE']} " + "." * 100)
"""
"""A table that always fails, with secrets in its error."""


def declare(folder: Path, s3: S3Server, database: Database) -> None:
    bucket = s3.bucket()
    (s3.folder / bucket / "orders.json").write_text('{"id": 1}\n')
    database.sql(
        "CREATE TABLE customers AS SELECT 1 AS id;"
        f"CREATE ROLE reader_{database.name} LOGIN PASSWORD '{DATABASE}'; GRANT SELECT ON customers TO PUBLIC;"
    )
    environment = {
        "variables": {"mixed": "env:CANARY_MIXED"},
        "spark": {
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.log.level": "INFO",
            "spark.logConf": "true",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.local.dir": str(folder / "local"),
            # Keys that Spark does not mask, with and without the prefix that it removes for Hadoop.
            "spark.hadoop.fs.example.quiet": "env:CANARY_HADOOP",
            "spark.example.quiet": "file:secrets/file",
            "spark.sql.example.quiet": "Bearer ${mixed}",
        },
        "storage": {f"s3://{bucket}": {**s3.settings(), "secret": "env:CANARY_STORAGE"}},
        "connections": {
            "shop": {"url": database.url, "user": f"reader_{database.name}", "password": "env:CANARY_DATABASE"},
            "other": {"brokers": "127.0.0.1:1", "sasl.password": "env:CANARY_UNUSED"},
        },
    }
    files = {
        "lakesmith.yml": json.dumps(
            {"name": "shop", "variables": {"mixed": None}, "environments": {"dev": environment}}
        ),
        "bronze/orders.yml": f'source: {{files: "s3://{bucket}/*.json"}}\n',
        "bronze/customers.yml": "source: {jdbc: customers, connection: shop}\n",
        "silver/joined.sql": "SELECT o.id FROM bronze.orders AS o JOIN bronze.customers AS c USING (id)\n",
        "gold/raising.py": RAISING,
        "secrets/file": FILE,
        "local/.keep": "",
        "events/.keep": "",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.spark
@pytest.mark.servers
def test_no_secret_is_visible_in_command_line_environment_ui_log_or_file(
    tmp_path: Path, s3: S3Server, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, cache, temporary = tmp_path / "shop", tmp_path / "cache", tmp_path / "temporary"
    declare(shop, s3, database)
    temporary.mkdir()
    lend_cache(cache)
    given = {
        "CANARY_HADOOP": HADOOP,
        "CANARY_MIXED": MIXED,
        "CANARY_STORAGE": s3.secret,
        "CANARY_DATABASE": DATABASE,
        "CANARY_UNUSED": UNUSED,
    }
    canaries = (*given.values(), FILE)
    environment = {**os.environ, **given, "LAKESMITH_CACHE": str(cache), "TMPDIR": str(temporary)}
    leaks: list[str] = []

    def look(where: str, text: str) -> None:
        leaks.extend(f"{canary} in {where}" for canary in canaries if canary in text)

    command = [sys.executable, "-c", PAUSED, str(shop)]
    pipe = subprocess.PIPE
    with (tmp_path / "stderr").open("wb") as stderr:
        process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=stderr, text=True)
    with process, killed_at_the_end(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (tmp_path / "stderr").read_text()
        paused = json.loads(line)
        running = {process.pid, *descendants(process.pid)}
        assert len(running) > 2, "the JVM and a worker run"
        for each in running:
            look(f"the command line of {name_of(each)}", proc(each, "cmdline"))
            if each != process.pid:  # the caller of the command set its environment
                look(f"the environment of {name_of(each)}", proc(each, "environ"))
        for page, text in pages(paused["ui"], paused["application"]):
            look(f"the UI's {page}", text)
        for path, text in files_below(temporary, cache, shop):
            look(f"{path} during the run", text)
        answer = process.communicate("\n", timeout=240)[0]
    assert process.returncode == 1, answer
    look("stdout", answer)
    look("stderr", (tmp_path / "stderr").read_text())
    for path, text in files_below(temporary, cache, shop):
        look(f"{path} after the run", text)
    [error] = json.loads(answer)["errors"]
    assert "denied: <env:CANARY_HADOOP> <env:CANARY_DATABASE>" in error["what"]
    for name in ("plan", "validate", "doctor"):
        look(f"lakesmith {name}", called([name, "--json"], shop, environment))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    lake = Lake.open(shop)
    tables = {folder.name for folder in Path(lake.declaration.environment.warehouse, "system").iterdir()}
    assert tables >= {"runs", "steps", "files", "checks"}
    for table in tables:
        rows = lake.query(f"SELECT * FROM system.{table}").rows
        assert rows
        look(f"system.{table}", str(rows))
    [(failure,)] = lake.query("SELECT error FROM system.steps WHERE error IS NOT NULL").rows
    assert "<env:CANARY_HADOOP>" in str(failure)
    assert not leaks, "\n".join(leaks)


@contextmanager
def killed_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill the process also when a test fails."""
    try:
        yield
    finally:
        process.kill()


def lend_cache(folder: Path) -> None:
    """A separate cache with all fetched files and without cached facts."""
    folder.mkdir()
    for name in ("jars", "drivers", "archive"):
        if (cache_folder() / name).exists():
            (folder / name).symlink_to(cache_folder() / name)


def descendants(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").glob("*"):
        for child in map(int, proc(process, f"task/{task.name}/children").split()):
            yield child
            yield from descendants(child)


def proc(process: int, file: str) -> str:
    """Return a file of /proc for a process, or nothing when the process has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/{file}").read_bytes().decode(errors="replace")
    return ""


def name_of(process: int) -> str:
    return proc(process, "cmdline").partition("\0")[0].rpartition("/")[2]


def pages(ui: str, application: str) -> Iterator[tuple[str, str]]:
    """Return the pages of the UI and its API."""
    api = f"api/v1/applications/{application}"
    plain = ["environment/", "SQL/", "jobs/", "stages/", "executors/", f"{api}/environment", f"{api}/jobs"]
    detailed = f"{api}/sql?details=true&planDescription=true&length=1000"
    queries = json.loads(_page(f"{ui}/{detailed}"))
    assert queries
    for page in (*plain, detailed, *(f"SQL/execution/?id={query['id']}" for query in queries)):
        yield page, _page(f"{ui}/{page}")


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def files_below(*folders: Path) -> Iterator[tuple[Path, str]]:
    """Return all files except the user's own secret files, and no links."""
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and "secrets" not in path.parts:
                with suppress(FileNotFoundError):  # a temporary file of the run
                    yield path, path.read_bytes().decode(errors="replace")


def called(words: list[str], shop: Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "lakesmith", "--lake", str(shop), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "bug in Lakesmith" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.spark
def test_the_plan_of_a_topic_shows_no_password(spark: SparkSession) -> None:
    settings = {"brokers": "127.0.0.1:1", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": UNUSED}
    records = spark.read.format("kafka").options(**spark_settings(settings), subscribe="orders").load()
    frame: Any = records
    query = frame._jdf.queryExecution()
    assert UNUSED not in query.logical().toString() + query.analyzed().toString() + str(records)
