"""A process that runs the command line with its own JVM, and kills that JVM at a given moment."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakesmith import failpoints
from lakesmith.cli import app


def kill() -> None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    os.kill(gateway.proc.pid, signal.SIGKILL)


def kill_at(place: str, about: str, delay: float) -> None:
    def reached(where: str, name: str) -> None:
        if where == place and name == about:
            failpoints.watch(None)
            if delay:
                threading.Timer(delay, kill).start()
            else:
                kill()

    failpoints.watch(reached)


def kill_while_starting() -> None:
    """Kill the first Java child of this process."""

    def look() -> None:
        while True:
            for children in Path("/proc/self/task").glob("*/children"):
                with suppress(FileNotFoundError):  # a thread or child that has ended
                    for child in children.read_text().split():
                        if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/java"):
                            os.kill(int(child), signal.SIGKILL)
                            return
            time.sleep(0.005)

    threading.Thread(target=look, daemon=True).start()


def kill_when_started() -> None:
    execute: Any = importlib.import_module("lakesmith.run.execute")
    opened = execute.open_session

    def open_session(*words: Any, **options: Any) -> Any:
        session = opened(*words, **options)
        kill()
        execute.open_session = opened
        return session

    execute.open_session = open_session


def main(place: str, about: str, delay: float, calls: list[list[str]]) -> None:
    """The place is a failpoint, `spark.starting`, `spark.started`, or empty."""
    match place:
        case "":
            pass
        case "spark.starting":
            kill_while_starting()
        case "spark.started":
            kill_when_started()
        case _:
            kill_at(place, about, delay)
    codes = []
    for words in calls:
        try:
            app.main(args=words, prog_name="lakesmith")
        except SystemExit as exit:
            codes.append(exit.code)
    sys.stdout.write(json.dumps(codes) + "\n")


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
