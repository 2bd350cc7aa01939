"""Prepares a machine once: fetches the jars, and rehearses a small run to archive the classes it loads."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.jvm.archive import archive_files, archive_folder, sizes, sizes_file, usable_archive
from lakesmith.jvm.jars import damaged, jar_paths, locked, resolve_jars
from lakesmith.jvm.java import find_java

ARCHIVES_KEPT = 3
"""One takes about 200 MB; those of other versions and environments make room for the newest."""


def prepare(tell: Callable[[str], None], sets: tuple[str, ...] = ("delta", "build")) -> None:
    """Bring jars and archive into place; says what it does, and nothing when all is there."""
    java = find_java()
    if missing := damaged(locked(sets)):
        tell(f"fetching {', '.join(jar.name for jar in missing)}")
        resolve_jars(sets, java)
    if not usable_archive(java, jar_paths()):
        tell(f"archiving the classes that Spark and Delta load on Java {java.version} ({java.path})")
        try:
            build_archive()
        except InfrastructureError as error:
            tell(f"{error.what}; Spark starts all the same, only slower")


def build_archive() -> tuple[Path, ...]:
    """Rehearse a run in a process of its own, whose JVM archives its classes as it ends."""
    java = find_java()
    files = archive_files(java, jar_paths())
    archive_folder().mkdir(parents=True, exist_ok=True)
    sizes_file(files).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive_folder()) as folder:
        made, base = Path(folder) / "archive", files[:-1]
        for file in base:
            _call([str(java.java), "-Xshare:dump", f"-XX:SharedArchiveFile={file}"], file, folder)
        words = [str(made), str(Path(folder) / "lake"), *map(str, base)]
        _call([sys.executable, "-m", "lakesmith.jvm.setup", *words], made, folder)
        os.replace(made, files[-1])
    sizes_file(files).write_text(sizes(files))
    newest = sorted(archive_folder().glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in newest[ARCHIVES_KEPT:]:
        for file in archive_folder().glob(f"{old.stem}.*"):
            file.unlink(missing_ok=True)
    return files


def _call(command: list[str], made: Path, folder: str) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if answer.returncode != 0 or not made.is_file():
        said = answer.stderr.strip() if answer.returncode else answer.stdout.strip()
        what = f"no class archive could be made: {(said or 'Java wrote none').splitlines()[-1]}"
        hint = "Spark works without it, only slower to start; lakesmith doctor --deep tries Spark itself"
        raise InfrastructureError("no-archive", what, hint=hint)


def rehearse(archive: str, lake: Path, base: Sequence[str]) -> None:
    """Create, append, merge, replace partitions and read the change feed as runs do, then archive."""
    from pyspark.sql import functions as F

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
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc
    spark.stop()
    # The JVM writes the archive as it ends, which it does when its input is closed.
    jvm.stdin.close()
    jvm.wait()


def main(words: list[str]) -> int:
    if words:
        rehearse(words[0], Path(words[1]), words[2:])
        return 0
    started = time.monotonic()
    told: list[str] = []

    def tell(what: str) -> None:
        told.append(what)
        sys.stdout.write(f"{what} …\n")
        sys.stdout.flush()

    try:
        prepare(tell)
    except LakesmithError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if told:
        sys.stdout.write(f"ready in {time.monotonic() - started:.0f} seconds\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
