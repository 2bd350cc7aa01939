"""Where the archive of Spark's and Delta's loaded classes is, with which a JVM starts in half the time."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from lakesmith.spark.jars import spark_jars
from lakesmith.spark.java import JavaHome, cache_folder


def archive_folder() -> Path:
    return cache_folder() / "archive"


def usable_archive(java: JavaHome, jars: tuple[Path, ...]) -> Path | None:
    """The archive, when it is there and whole."""
    archive = archive_file(java, jars)
    size = size_file(archive)
    # The JVM passes over an archive that does not fit, but a truncated one makes it crash.
    whole = archive.is_file() and size.is_file() and size.read_text() == str(archive.stat().st_size)
    return archive if whole else None


def size_file(archive: Path) -> Path:
    """Where the archive's size was written down when it was complete."""
    return archive.with_suffix(".size")


def archive_file(java: JavaHome, jars: tuple[Path, ...]) -> Path:
    """The archive for exactly this Java and these jars, whether it has been made or not."""
    identity = f"{java.path} {java.version}"
    for jar in (*jars, *spark_jars("spark-core_*.jar")):
        # The JVM refuses an archive when a jar's place, time or size is another.
        about = jar.stat()
        identity += f"\n{jar} {about.st_size} {about.st_mtime_ns}"
    return archive_folder() / f"{sha256(identity.encode()).hexdigest()[:16]}.jsa"
