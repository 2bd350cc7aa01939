"""Prepares a machine once: fetches the jars, and archives the classes that a small run loads."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.jvm.class_archive import archive_folder, class_archive_files, sizes, sizes_file, usable_archive
from lakesmith.jvm.jars import damaged, jar_paths, locked, resolve_jars
from lakesmith.jvm.java import find_java

MAX_ARCHIVES = 3
"""An archive has about 200 MB. The oldest archives of other versions and environments are deleted."""


def prepare(report: Callable[[str], None], sets: tuple[str, ...] = ("delta", "build")) -> None:
    """Fetch missing jars and build a missing class archive. Reports each step."""
    java = find_java()
    if missing := damaged(locked(sets)):
        report(f"fetching {', '.join(jar.name for jar in missing)}")
        resolve_jars(sets, java)
    if not usable_archive(java, jar_paths()):
        report(f"archiving the classes that Spark and Delta load on Java {java.version} ({java.path})")
        try:
            build_archive()
        except InfrastructureError as error:
            report(f"{error.what}; Spark works without it, but starts more slowly")


def build_archive() -> tuple[Path, ...]:
    """Run a sample in a separate process, whose JVM archives its classes when it ends."""
    java = find_java()
    files = class_archive_files(java, jar_paths())
    archive_folder().mkdir(parents=True, exist_ok=True)
    sizes_file(files).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive_folder()) as folder:
        archive, base = Path(folder) / "archive", files[:-1]
        for file in base:
            _call([str(java.java), "-Xshare:dump", f"-XX:SharedArchiveFile={file}"], file, folder)
        arguments = [str(archive), str(Path(folder) / "lake"), *map(str, base)]
        _call([sys.executable, "-m", "lakesmith.jvm.setup", *arguments], archive, folder)
        os.replace(archive, files[-1])
    sizes_file(files).write_text(sizes(files))
    newest = sorted(archive_folder().glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in newest[MAX_ARCHIVES:]:
        for file in archive_folder().glob(f"{old.stem}.*"):
            file.unlink(missing_ok=True)
    return files


def _call(command: list[str], output: Path, folder: str) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if answer.returncode != 0 or not output.is_file():
        message = answer.stderr.strip() if answer.returncode else answer.stdout.strip()
        what = f"cannot build the class archive: {(message or 'Java wrote none').splitlines()[-1]}"
        hint = "Spark works without it, but starts more slowly; lakesmith doctor --deep checks Spark itself"
        raise InfrastructureError("no-archive", what, hint=hint)


def run_sample(archive: str, lake: Path, base: Sequence[str]) -> None:
    """Create, append, merge, replace partitions and read the change feed like a run, then write the archive."""
    from pyspark.sql import functions as F

    from lakesmith.jvm.process import end_jvm
    from lakesmith.jvm.session import isolated, open_session

    options = [f"-XX:ArchiveClassesAtExit={archive}", *(f"-XX:SharedArchiveFile={file}" for file in base)]
    spark = open_session("rehearsal", {"spark.driver.extraJavaOptions": " ".join(options)})
    landing, table, daily = (str(lake / name) for name in ("landing", "table", "daily"))
    rows = spark.range(20).select(
        "id", (F.col("id") % 3).cast("string").alias("day"), F.current_timestamp().alias("at")
    )
    rows.write.json(landing)
    rows.write.option("header", True).csv(f"{landing}-csv")
    spark.read.option("header", True).csv(f"{landing}-csv").count()
    landed = spark.read.schema("id BIGINT, day STRING, at TIMESTAMP").json(landing)
    stamped = landed.withColumn("file", F.col("_metadata.file_path")).withColumn(
        "hash", F.sha2(F.to_json(F.struct("id")), 256)
    )
    for number in ("1", "2"):
        (
            stamped.dropDuplicates(["id"])
            .write.format("delta")
            .mode("append")
            .option("delta.enableChangeDataFeed", "true")
            .option("txnAppId", "rehearsal")
            .option("txnVersion", number)
            .save(table)
        )
    own = isolated(spark)
    feed = (
        own.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 1)
        .load(table)
        .select("id", "day", "at", "file", "hash")
    )
    feed.createOrReplaceTempView("changed")
    own.sql(
        f"MERGE INTO delta.`{table}` AS target USING (SELECT * FROM changed WHERE id < 5) AS source "
        "ON target.id = source.id AND target.hash = source.hash "
        "WHEN MATCHED AND source.at >= target.at THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()
    totals = (
        own.read.format("delta")
        .load(table)
        .groupBy("day")
        .agg(F.count("*").alias("orders"), F.sum("id").alias("total"))
    )
    totals.write.format("delta").partitionBy("day").save(daily)
    totals.where("day = '1'").write.format("delta").mode("overwrite").option("replaceWhere", "day = '1'").save(daily)
    own.sql(f"SELECT * FROM delta.`{daily}` ORDER BY day").collect()
    # The JVM writes the archive when it ends.
    end_jvm(spark)


def main(arguments: list[str]) -> int:
    if arguments:
        run_sample(arguments[0], Path(arguments[1]), arguments[2:])
        return 0
    started = time.monotonic()
    steps: list[str] = []

    def report(step: str) -> None:
        steps.append(step)
        sys.stdout.write(f"{step} …\n")
        sys.stdout.flush()

    try:
        prepare(report)
    except LakesmithError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if steps:
        sys.stdout.write(f"ready in {time.monotonic() - started:.0f} seconds\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
