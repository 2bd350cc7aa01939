"""Compiles Lakesmith's Java code into the jar of the package, with the same bytes on every machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lakesmith.jvm.jars import LOG_STORE, digest, resolve_jars, spark_jars
from lakesmith.jvm.java import JavaHome, find_java

SOURCE = Path(__file__).parent / "src"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time of a zip entry."""


def class_path() -> tuple[Path, ...]:
    """The class path of the compiler."""
    of_spark = ("hadoop-client-*.jar", "slf4j-api-*.jar", "jackson-core-[0-9]*.jar", "jackson-databind-*.jar")
    return (*resolve_jars(["delta"]), *(jar for pattern in of_spark for jar in spark_jars(pattern)))


def compile_java(sources: Sequence[Path], into: Path, *, against: Sequence[Path], java: JavaHome | None = None) -> None:
    """Compile for Java 17 with a pinned compiler that is itself a jar: a Java without `javac` is enough."""
    (compiler,) = resolve_jars(["build"])
    command = [
        str((java or find_java()).java),
        *("-jar", str(compiler)),
        # Not --release: it reads the JDK's table of older interfaces, which a mere runtime lacks.
        *("-source", "17", "-target", "17", "-encoding", "UTF-8", "-proc:none", "-g:source,lines"),
        *("-warn:none", "-classpath", ":".join(map(str, against)), "-d", str(into)),
        *map(str, sources),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(answer.stdout + answer.stderr)


def build(jar: Path, java: JavaHome | None = None) -> None:
    """Compile everything under java/src into `jar`."""
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder)
        compile_java(sorted(SOURCE.rglob("*.java")), classes, against=class_path(), java=java)
        with zipfile.ZipFile(jar, "w") as archive:
            for file in sorted(classes.rglob("*.class")):
                entry = zipfile.ZipInfo(file.relative_to(classes).as_posix(), EPOCH)
                # Stored, not deflated: another zlib would make other bytes.
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_STORED)


def main() -> None:
    LOG_STORE.parent.mkdir(exist_ok=True)
    build(LOG_STORE)
    LOG_STORE.with_suffix(".jar.sha256").write_text(f"{digest(LOG_STORE)}  {LOG_STORE.name}\n")
    print(f"{LOG_STORE.name}: {LOG_STORE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
