"""The reason why a JVM ended, from its exit status and errors. The processes here are not Java."""

from __future__ import annotations

import logging
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from tests.plan.lakes import lake, made

from lakesmith.jvm import process as jvm
from lakesmith.plan.graph import Graph
from lakesmith.run.failures import is_external, translate
from lakesmith.run.unit_tests.empty_tables import _EmptyTables, check_empty_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Gateway:
    """A fake of PySpark's gateway to a JVM."""

    proc: subprocess.Popen[bytes] | None
    gateway_parameters: Any = None


@pytest.fixture
def process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process instead of the JVM, which runs a line of shell."""
    with subprocess.Popen(["sh", "-c", request.param]) as process:
        monkeypatch.setattr(jvm, "_gateway", lambda: Gateway(process))
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("process", "what", "hint"),
    [
        ("kill -KILL $$", "was killed (SIGKILL)", "dmesg"),
        ("kill -TERM $$", "was terminated by SIGTERM", "run again"),
        ("kill -ABRT $$", "crashed (SIGABRT)", "hs_err_pid"),
        ("exit 52", "ran out of memory (exit status 52)", "raise spark.driver.memory"),
        ("exit 3", "ran out of memory (exit status 3)", "raise spark.driver.memory"),
        ("exit 1", "exited with status 1", "run again"),
    ],
    indirect=["process"],
)
def test_the_error_says_how_the_jvm_ended(process: subprocess.Popen[bytes], what: str, hint: str) -> None:
    died = jvm.death(Py4JNetworkError("Answer from Java side is empty"))
    assert died is not None
    assert (died.code, died.exit_code, died.what) == ("jvm-died", 4, f"Spark's JVM {what}")
    assert hint in (died.hint or "")


@pytest.mark.parametrize("process", ["sleep 0.5; exit 52"], indirect=True)
@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o77.read"),
        ConnectionRefusedError(),
        EOFError(),
        ValueError("java.lang.OutOfMemoryError: Java heap space"),
        ValueError("Job 3 cancelled because SparkContext was shut down"),
    ],
    ids=lambda error: f"{type(error).__name__} {error}",
)
def test_an_error_of_a_jvm_that_is_about_to_end_waits_for_its_end(
    process: subprocess.Popen[bytes], error: Exception
) -> None:
    assert is_external(error)
    failure = translate(error, made("gold.sales", "SELECT 1 FROM silver.orders"))
    assert (failure.code, failure.table) == ("jvm-died", "gold.sales")


class Mute(Exception):
    """A fake exception of Java, whose text is read from the JVM."""

    def __str__(self) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize("process", ["sleep 0.2; exit 52"], indirect=True)
def test_an_error_without_a_readable_text_means_a_dead_jvm(process: subprocess.Popen[bytes]) -> None:
    assert jvm.death(Mute()) is not None


@pytest.mark.parametrize("process", ["sleep 60"], indirect=True)
def test_a_running_jvm_is_not_dead(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "_EXIT_TIMEOUT", 0.1)
    assert jvm.death() is None
    assert jvm.death(ValueError("any other failure")) is None
    assert jvm.death(Py4JNetworkError("a connection that was cut")) is None


class Deaf:
    """A fake session whose JVM has ended."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionRefusedError


@pytest.mark.parametrize("process", ["kill -KILL $$"], indirect=["process"])
def test_nothing_else_is_tried_after_the_jvm_ended(process: subprocess.Popen[bytes]) -> None:
    tables = lake(made("gold.a", "SELECT 1 AS one"), made("gold.b", "SELECT 1 AS one"))
    graph, deaf = Graph.of(tables.tables), cast("SparkSession", Deaf())
    with pytest.raises(jvm.JvmDied):
        check_empty_tables(tables, graph, {}, frozenset(tables.tables), on_event=lambda event: None, session=deaf)
    tried = _EmptyTables(lake=tables, graph=graph, stored={}, spark=deaf)
    with pytest.raises(jvm.JvmDied):
        tried.add(tables.tables[graph.order[0]])
    assert tried.errors == []


def test_a_jvm_of_another_process_is_dead_when_it_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        parameters = SimpleNamespace(address="127.0.0.1", port=server.getsockname()[1])
        monkeypatch.setattr(jvm, "_gateway", lambda: Gateway(None, parameters))
        assert jvm.death() is None
    assert jvm.death() is not None


def test_a_spark_that_does_not_stop_hides_no_other_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def reject() -> None:
        raise RuntimeError("not now")

    monkeypatch.setattr(jvm, "_gateway", lambda: None)
    with caplog.at_level(logging.WARNING):
        session: Any = SimpleNamespace(stop=reject)
        jvm.stop(session)
    assert "Spark did not stop: RuntimeError: not now" in caplog.text


@pytest.mark.parametrize("process", ["exit 0"], indirect=True)
def test_a_listening_jvm_is_not_dead_with_any_status(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    process.wait()
    with socket.create_server(("127.0.0.1", 0)) as server:
        parameters = SimpleNamespace(address="127.0.0.1", port=server.getsockname()[1])
        monkeypatch.setattr(jvm, "_gateway", lambda: Gateway(process, parameters))
        assert jvm.death() is None
    assert jvm.death() is not None


SETTINGS = {
    "spark.plain": "value",
    "spark.a key: with=signs#!": " \\ back\\slash, tab\t, line\nend, = : # ! ",
    "spark.unicode": "Zürich ☃ 𝄞",
    "spark.empty": "",
}


@pytest.mark.spark
def test_java_reads_the_settings_as_they_were_written(shared_spark: SparkSession) -> None:
    with jvm._properties(SETTINGS):
        file = Path(shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])[1])
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        java: Any = shared_spark.sparkContext._jvm
        read = java.java.util.Properties()
        read.load(java.java.io.StringReader(file.read_text("utf-8")))
        assert {key: read.getProperty(key) for key in SETTINGS} == SETTINGS
    assert not file.parent.exists()


def test_the_user_s_arguments_for_spark_submit_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    with jvm._properties({}):
        assert os.environ["PYSPARK_SUBMIT_ARGS"].endswith("--load-spark-defaults --verbose pyspark-shell")
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--verbose pyspark-shell"
