"""Servers that are published as jars: fetched once with Maven into the cache, and started as separate processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakesmith.jvm.java import cache_folder, find_java

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lakesmith</groupId><artifactId>servers</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


def jars(group: str, artifact: str, version: str) -> Path:
    """Return the folder with a jar and its dependencies."""

    def fill(folder: Path) -> None:
        (folder / "pom.xml").write_text(_POM.format(group=group, artifact=artifact, version=version))
        _maven(folder, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}")

    return fetched(f"{artifact}-{version}", fill)


def archive(coordinates: str) -> Path:
    """Return the folder of an unpacked archive, such as `group:artifact:version:tar.gz:classifier`."""
    _, artifact, version, kind, _ = coordinates.split(":")

    def fill(folder: Path) -> None:
        _maven(folder, "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}")
        (packed,) = folder.glob(f"*.{kind}")
        shutil.unpack_archive(packed, folder, filter="data")
        packed.unlink()

    return fetched(f"{artifact}-{version}", fill)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def java() -> str:
    return str(find_java().java)


@contextmanager
def started(command: Sequence[str], answers: Callable[[], bool], *, folder: Path, **options: Any) -> Iterator[None]:
    """A server process that lives as long as the block."""
    process = start(command, answers, folder=folder, **options)
    try:
        yield
    finally:
        stop(process)


def start(
    command: Sequence[str],
    answers: Callable[[], bool],
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    patience: float = 90,
) -> subprocess.Popen[bytes]:
    """Start a server and wait until it answers; raise with the end of its log if it does not."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            user=user,
        )
    deadline = time.monotonic() + patience
    try:
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not answer:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)
    except BaseException:
        stop(process)
        raise
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def fetched(name: str, fill: Callable[[Path], None]) -> Path:
    folder = cache_folder() / "servers" / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Fill a temporary folder, so that an interrupted fetch leaves no incomplete one.
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            filling = Path(temporary) / name
            filling.mkdir()
            fill(filling)
            try:
                os.replace(filling, folder)
            except OSError:
                # Another process was faster.
                assert folder.is_dir()
    return folder


def _maven(folder: Path, *words: str) -> None:
    answer = subprocess.run(["mvn", "-q", "-B", *words], cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"mvn {' '.join(words)} failed:\n{(answer.stdout + answer.stderr)[-3000:]}")
