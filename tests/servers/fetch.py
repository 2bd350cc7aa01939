"""Fetches servers and their clients into the cache: all, or `python -m tests.servers.fetch s3 azure`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.servers.maven import archive, fetched, jars

from lakesmith.jvm.jars import resolve_jars

_PACKAGES = ("openssh-server", "libwrap0", "libnsl2", "libtirpc3")
"""Debian's server, and its libraries that a small system lacks."""


def versitygw() -> Path:
    """Return the program of the S3 server, built with Go."""

    def fill(folder: Path) -> None:
        module = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
        _run("go", "install", module, environment={"GOBIN": str(folder)})

    return fetched("versitygw-1.8.0", fill) / "versitygw"


def azurite() -> Path:
    """Return the program of the Azure server, from npm."""

    def fill(folder: Path) -> None:
        _run("npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), "azurite@3.35.0")

    return fetched("azurite-3.35.0", fill) / "node_modules" / ".bin" / "azurite-blob"


def fake_gcs() -> Path:
    """The program of the Google Cloud Storage server, built by Go."""

    def fill(folder: Path) -> None:
        module = "github.com/fsouza/fake-gcs-server@v1.56.0"
        _run("go", "install", module, environment={"GOBIN": str(folder)})

    return fetched("fake-gcs-server-1.56.0", fill) / "fake-gcs-server"


def sshd() -> Path:
    """Return a folder with the SSH server and its libraries: of the system, or of Debian's package, unpacked without
    root."""

    def fill(folder: Path) -> None:
        installed = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")
        if installed:
            shutil.copy(installed, folder / "sshd")
            return
        with tempfile.TemporaryDirectory() as temporary:
            _run("apt-get", "download", *_PACKAGES, folder=Path(temporary))
            for package in Path(temporary).glob("*.deb"):
                _run("dpkg", "-x", str(package), f"{temporary}/unpacked")
            for file in Path(temporary, "unpacked").rglob("*"):
                if (file.name == "sshd" and file.parent.name == "sbin") or ".so." in file.name:
                    shutil.copy(file, folder / file.name)

    return fetched("sshd", fill)


def strace() -> Path:
    """Return `strace`: of the system, or of Debian's package, unpacked without root."""

    def fill(folder: Path) -> None:
        installed = shutil.which("strace")
        if installed:
            shutil.copy(installed, folder / "strace")
            return
        with tempfile.TemporaryDirectory() as temporary:
            _run("apt-get", "download", "strace", "libunwind8", folder=Path(temporary))
            for package in Path(temporary).glob("*.deb"):
                _run("dpkg", "-x", str(package), f"{temporary}/unpacked")
            for file in Path(temporary, "unpacked").rglob("*"):
                if (file.name == "strace" and file.parent.name == "bin") or ".so." in file.name:
                    shutil.copy(file, folder / file.name)

    return fetched("strace", fill) / "strace"


def kafka_jars() -> Path:
    """Return the folder with the broker and its dependencies."""
    return jars("org.apache.kafka", "kafka_2.13", "4.3.1")


def registry_home() -> Path:
    """Return the folder of the unpacked registry."""
    return archive("io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all")


def spark_jars() -> tuple[Path, ...]:
    """Fetch the jars that Spark needs for the servers."""
    return resolve_jars(("kafka", "iceberg", "postgresql", "s3"))


SERVERS: Mapping[str, Callable[[], object]] = {
    "s3": versitygw,
    "azure": azurite,
    "gcs": fake_gcs,
    "sftp": sshd,
    "strace": strace,
    "kafka": kafka_jars,
    "registry": registry_home,
    "jars": spark_jars,
}


def _run(*command: str, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    answer = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(answer.stdout + answer.stderr)[-3000:]}")


if __name__ == "__main__":
    for name in sys.argv[1:] or SERVERS:
        SERVERS[name]()
