"""A Spark Connect server of the test run's own, with the settings that Lakesmith asks of a server."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pytest
from tests.servers.maven import free_port, start
from tests.servers.shared import shared

from lakesmith.jvm.jars import jar_paths, spark_home
from lakesmith.jvm.java import find_java, launch_home
from lakesmith.jvm.session import session_settings

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A running server."""

    port: int

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
def connect() -> ConnectServer:
    """One server for the whole test run; each client has a session of its own."""
    return shared("connect", start_connect)


def start_connect(folder: Path, **settings: str) -> tuple[ConnectServer, subprocess.Popen[bytes]]:
    """A server that runs its jobs itself."""
    java = find_java()
    server = ConnectServer(port=free_port())
    ours = session_settings(
        {
            "spark.master": "local[2]",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(server.port),
            "spark.driver.memory": "1g",
            "spark.local.dir": str(folder / "local"),
            **settings,
        },
        java=java,
        jars=jar_paths(),
        brief=True,
    )
    properties = folder / "server.conf"
    properties.write_text("".join(f"{name} {value}\n" for name, value in ours.items()))
    words = ["--properties-file", str(properties), "--class", _CLASS, "spark-internal"]
    environment = {
        "JAVA_HOME": str(launch_home(java)),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": str(bare_python(folder)),
    }
    command = [str(spark_home() / "bin" / "spark-submit"), *words]
    process = start(command, lambda: _listens(server.port), folder=folder, environment=environment, patience=240)
    return server, process


def bare_python(folder: Path) -> Path:
    """A Python with PyArrow, NumPy and the client of object stores only, as on a machine of a cluster."""
    packages = folder / "packages"
    packages.mkdir()
    installed = Path(pyarrow.__file__).parents[1]
    for name in ("pyarrow*", "numpy*", "obstore*"):
        for found in installed.glob(name):
            (packages / found.name).symlink_to(found)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
