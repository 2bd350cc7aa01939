"""A standalone Spark cluster of processes on this machine: a master and two workers with a bare Python."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.connect import bare_python
from tests.servers.maven import free_port, start, stop

from lakesmith.jvm.jars import spark_home
from lakesmith.jvm.java import find_java, launch_home

_WORKERS = 2
_PATIENCE = 240.0
"""Seconds to start on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster."""

    master: str
    python: Path
    workers: tuple[subprocess.Popen[bytes], ...]

    def settings(self) -> dict[str, str]:
        """The `spark` settings of an environment."""
        return {
            "master": self.master,
            "spark.pyspark.python": str(self.python),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "700m",
            "spark.sql.shuffle.partitions": "2",
        }


@contextmanager
def standalone(folder: Path, hidden: Sequence[Path] = ()) -> Iterator[Cluster]:
    """A cluster that lives as long as the block. Its workers see empty folders in place of the `hidden` ones."""
    folder.mkdir(parents=True, exist_ok=True)
    port, page = free_port(), free_port()
    java = find_java()
    environment = {
        "JAVA_HOME": str(launch_home(java)),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    spark_class = str(spark_home() / "bin" / "spark-class")
    master = f"spark://127.0.0.1:{port}"
    words = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
    python = bare_python(folder)
    started: list[subprocess.Popen[bytes]] = []

    def alive(workers: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=2) as answer:
                return f'"aliveworkers" : {workers}' in answer.read().decode()
        except OSError:
            return False

    def begin(name: str, command: Sequence[str], workers: int) -> None:
        home = folder / name
        home.mkdir()
        process = start(command, lambda: alive(workers), folder=home, environment=environment, patience=_PATIENCE)
        started.append(process)

    try:
        begin("master", [spark_class, "org.apache.spark.deploy.master.Master", *words], 0)
        for number in range(1, _WORKERS + 1):
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "-d", str(folder / f"work-{number}")]
            worker = [spark_class, "org.apache.spark.deploy.worker.Worker", *options, master]
            begin(f"worker-{number}", [*_hiding(hidden), *worker], number)
        yield Cluster(master=master, python=python, workers=tuple(started[1:]))
    finally:
        for process in reversed(started):
            stop(process)


def kill(worker: subprocess.Popen[bytes]) -> None:
    """Kill a worker; its executors end with it."""
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()


def _hiding(folders: Sequence[Path]) -> list[str]:
    """The start of a command that runs in a mount namespace of its own, without the content of these folders."""
    if not folders:
        return []
    mounts = "; ".join(f"mount -t tmpfs none '{folder}'" for folder in folders)
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    script = f'set -e; {mounts}; exec "$@"'
    return ["unshare", "--mount", *user, "--propagation", "private", "sh", "-c", script, "sh"]
