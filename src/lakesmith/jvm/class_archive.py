"""Finds the archive of Spark's and Delta's loaded classes, which halves the start time of a JVM."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from lakesmith.jvm.jars import spark_jars
from lakesmith.jvm.java import SHIM, JavaHome, cache_folder


def class_archive_files(java: JavaHome, jars: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files of the archive for exactly this Java and these jars, whether they exist or not.

    The archive builds on an archive of the JDK's own classes. A runtime without one, such as that from PyPI, gets two
    files, the JDK's first.
    """
    # The launcher orders the class path, and an archive fits only the order that it was built with.
    identity = f"{java.path} {java.version}\n{SHIM}"
    for jar in (*jars, *spark_jars("spark-core_*.jar")):
        # The JVM rejects an archive when the path, time or size of a jar has changed.
        about = jar.stat()
        identity += f"\n{jar} {about.st_size} {about.st_mtime_ns}"
    archive = archive_folder() / f"{sha256(identity.encode()).hexdigest()[:16]}.jsa"
    complete = (java.path / "lib" / "server" / "classes.jsa").is_file()
    return (archive,) if complete else (archive.with_suffix(".base"), archive)


def usable_archive(java: JavaHome, jars: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files of the archive if all are complete, or an empty tuple."""
    files = class_archive_files(java, jars)
    recorded = sizes_file(files)
    # The JVM ignores an archive that does not fit, but a truncated archive crashes it.
    complete = recorded.is_file() and all(file.is_file() for file in files) and recorded.read_text() == sizes(files)
    return files if complete else ()


def archive_folder() -> Path:
    return cache_folder() / "archive"


def sizes_file(files: tuple[Path, ...]) -> Path:
    """The file that records the sizes of a complete archive."""
    return files[-1].with_suffix(".sizes")


def sizes(files: tuple[Path, ...]) -> str:
    return " ".join(str(file.stat().st_size) for file in files)
