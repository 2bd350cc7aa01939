"""Runs the shop's first two days in this process, with Lakesmith or by hand; prints the time and the CPU time at the
end of each day."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.shop import next_day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def by_lakesmith(folder: Path) -> list[tuple[float, float]]:
    from lakesmith.lake import Lake

    ended = []
    for day in (1, 2):
        if day == 2:
            next_day(folder)
        report = Lake.open(folder).run()
        assert not report.errors, report.errors
        ended.append((time.time(), _cpu()))
    return ended


def by_hand(folder: Path, spark: SparkSession) -> list[tuple[float, float]]:
    from bench.by_hand import Shop

    ended = []
    for day in (1, 2):
        if day == 2:
            next_day(folder)
        Shop(spark, folder / "landing", folder / "by_hand").run()
        if day == 2:
            spark.stop()
        ended.append((time.time(), _cpu()))
    return ended


def _cpu() -> float:
    """Return the CPU seconds of this process and, where the system has /proc, of its JVM."""
    from pyspark import SparkContext

    own = time.process_time()
    gateway = SparkContext._gateway
    about = Path(f"/proc/{gateway.proc.pid}/stat") if gateway else None
    if about is None or not about.is_file():
        return own
    # The name may contain spaces. After it, the 12th and the 13th value are user and system time.
    values = about.read_text().rpartition(")")[2].split()
    return own + (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def same_session(settings: dict[str, str]) -> SparkSession:
    from lakesmith.jvm.session import open_session

    # The value that Lakesmith chooses for little data.
    return open_session("by-hand", settings, brief=True)


def stock_session(settings: dict[str, str]) -> SparkSession:
    """Spark and Delta with the settings of Delta's quick start only."""
    from pyspark.sql import SparkSession

    from lakesmith.jvm.jars import locked
    from lakesmith.jvm.java import find_java, launch_home

    os.environ["JAVA_HOME"] = str(launch_home(find_java()))
    return (
        SparkSession.builder.appName("by-hand")
        .config("spark.jars", ",".join(str(jar.path) for jar in locked(("delta",))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config(map={**settings})
        .getOrCreate()
    )


def main() -> None:
    way, folder, settings = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    match way:
        case "lakesmith":
            ended = by_lakesmith(folder)
        case "by hand":
            ended = by_hand(folder, same_session(settings))
        case "by hand, stock":
            ended = by_hand(folder, stock_session(settings))
        case _:
            sys.exit(f"there is no way {way!r}")
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
