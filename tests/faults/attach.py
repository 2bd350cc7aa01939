"""A driver that borrows a running JVM: it starts in a second, and can be killed without the JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running Spark, and how a driver reaches it."""

    port: int
    token: str
    process: int

    @staticmethod
    def of(session: SparkSession) -> Jvm:
        context: Any = session.sparkContext
        found = context._gateway.gateway_parameters
        handle = context._jvm.java.lang.ProcessHandle.current()
        return Jvm(found.port, found.auth_token, handle.pid())

    def has_ended(self) -> bool:
        """Return whether the process has ended. Its connections close before it ends, so wait a little."""
        for _ in range(50):
            try:
                if Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return True
            except OSError:
                return True
            time.sleep(0.1)
        return False

    def attach(self) -> SparkSession:
        """Open a session of this process on that Spark."""
        os.environ["PYSPARK_GATEWAY_PORT"] = str(self.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = self.token
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        launch: Any = java_gateway.launch_gateway
        gateway = launch()
        spark = gateway.jvm.org.apache.spark
        inner = spark.api.java.JavaSparkContext.fromSparkContext(spark.SparkContext.getOrCreate())
        conf: Any = SparkConf
        context = SparkContext(gateway=gateway, jsc=inner, conf=conf(_jvm=gateway.jvm, _jconf=inner.getConf()))
        return SparkSession(context, spark.sql.classic.SparkSession.builder().getOrCreate())


class Engine:
    """A JVM that drivers borrow, and that can be killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.attach"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Spark did not start"
        self.jvm = Jvm(**json.loads(line))

    def close(self) -> None:
        """Kill the process, in any state."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Start Spark, print its address, and wait until standard input closes."""
    from dataclasses import asdict

    from lakesmith.jvm.session import BRIEF, open_session

    session = open_session("faults", {**BRIEF, "spark.driver.memory": "2g"}, ("delta",), brief=True)
    sys.stdout.write(json.dumps(asdict(Jvm.of(session))) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    session.stop()


if __name__ == "__main__":
    main()
