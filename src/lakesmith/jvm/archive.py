"""Where the archive of Spark's and Delta's loaded classes is, with which a JVM starts in half the time."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from lakesmith.jvm.jars import spark_jars
from lakesmith.jvm.java import SHIM, JavaHome, cache_folder


def archive_files(java: JavaHome, jars: tuple[Path, ...]) -> tuple[Path, ...]:
    """The archive for exactly this Java and these jars, whether it has been made or not.

    It stands on an archive of the JDK's own classes. Where the runtime comes without one, as that from PyPI does,
    there are two files, that one first.
    """
    # The launcher orders the class path, and an archive fits only the order that it was made with.
    identity = f"{java.path} {java.version}\n{SHIM}"
    for jar in (*jars, *spark_jars("spark-core_*.jar")):
        # The JVM refuses an archive when a jar's place, time or size is another.
        about = jar.stat()
        identity += f"\n{jar} {about.st_size} {about.st_mtime_ns}"
    archive = archive_folder() / f"{sha256(identity.encode()).hexdigest()[:16]}.jsa"
    complete = (java.path / "lib" / "server" / "classes.jsa").is_file()
    return (archive,) if complete else (archive.with_suffix(".base"), archive)


def usable_archive(java: JavaHome, jars: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files of the archive when they are there and whole, else none."""
    files = archive_files(java, jars)
    known = sizes_file(files)
    # The JVM passes over an archive that does not fit, but a truncated one makes it crash.
    whole = known.is_file() and all(file.is_file() for file in files) and known.read_text() == sizes(files)
    return files if whole else ()


def archive_folder() -> Path:
    return cache_folder() / "archive"


def sizes_file(files: tuple[Path, ...]) -> Path:
    """Where the sizes were written down when the archive was complete."""
    return files[-1].with_suffix(".sizes")


def sizes(files: tuple[Path, ...]) -> str:
    return " ".join(str(file.stat().st_size) for file in files)
