"""The jars that Spark needs besides its own: locked with checksums, fetched once into a cache."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from xml.sax.saxutils import quoteattr

from lakesmith.errors import InfrastructureError, did_you_mean
from lakesmith.jvm.java import JavaHome, cache_folder, find_java, trust_options

LOCK = Path(__file__).parent / "jars.lock"
LOG_STORE = Path(__file__).parent.parent / "jars" / "lakesmith-log-store.jar"
DEFAULT_SETS = ("delta",)
HINT = "lakesmith doctor --fix"


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One locked jar."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> Path:
        return cache_folder() / "jars" / self.name


def locked(sets: Iterable[str] = DEFAULT_SETS) -> tuple[Jar, ...]:
    """The jars of the named sets, in the order of the lock file."""
    sets_by_name = read_lock(LOCK.read_text())
    jars: dict[Jar, None] = {}
    for name in sets:
        if name not in sets_by_name:
            hint = did_you_mean(name, sets_by_name, label="jar sets")
            raise InfrastructureError("unknown-jars", f"there is no jar set '{name}'", hint=hint)
        jars.update(dict.fromkeys(sets_by_name[name]))
    return tuple(jars)


def jar_paths(sets: Iterable[str] = DEFAULT_SETS) -> tuple[Path, ...]:
    """The log store and the named sets, for the class path. Compares sizes; `damaged` compares checksums."""
    jars = locked(sets)
    missing = [jar.name for jar in jars if not _has_size(jar)]
    if missing:
        what = f"jars are missing or incomplete in {cache_folder() / 'jars'}: {', '.join(missing)}"
        raise InfrastructureError("jars-missing", what, hint=HINT)
    return (log_store(), *(jar.path for jar in jars))


def resolve_jars(sets: Iterable[str] = DEFAULT_SETS, java: JavaHome | None = None) -> tuple[Path, ...]:
    """Fetch the missing or damaged jars of the named sets, verify them, and put them into the cache."""
    jars = locked(sets)
    missing = damaged(jars)
    if missing:
        folder = cache_folder() / "jars"
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its destination: a rename is atomic only within one file system.
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            fetched = download([(j.group, j.artifact, j.version) for j in missing], Path(temporary), java)
            for jar, file in zip(missing, fetched, strict=True):
                if (found := digest(file)) != jar.sha256:
                    what = f"{jar.name} differs from the locked jar: SHA-256 {found}, expected {jar.sha256}"
                    hint = "check the repository that Ivy uses; nothing was installed"
                    raise InfrastructureError("jar-differs", what, hint=hint)
            for jar, file in zip(missing, fetched, strict=True):
                os.replace(file, jar.path)
    return tuple(jar.path for jar in jars)


def damaged(jars: Sequence[Jar]) -> list[Jar]:
    """The jars that are missing or whose checksum differs."""
    return [jar for jar in jars if not _has_size(jar) or digest(jar.path) != jar.sha256]


def log_store() -> Path:
    """Lakesmith's own jar, if its checksum matches."""
    expected = LOG_STORE.with_suffix(".jar.sha256").read_text().split()[0]
    if not LOG_STORE.is_file() or digest(LOG_STORE) != expected:
        what = "the log store's jar is missing or was changed after Lakesmith was packaged"
        raise InfrastructureError("log-store-differs", what, hint="install Lakesmith again")
    return LOG_STORE


def download(
    coordinates: Sequence[tuple[str, str, str]], folder: Path, java: JavaHome | None = None
) -> tuple[Path, ...]:
    """Fetch jars by (group, artifact, version) with the Ivy that comes with Spark.

    $LAKESMITH_IVY_SETTINGS names an Ivy settings file, for machines that can only reach a mirror.
    """
    java = java or find_java()
    dependencies = "".join(
        f'<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} transitive="false"/>'
        for group, artifact, version in coordinates
    )
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="lakesmith" module="jars"/>'
        '<configurations defaultconfmapping="default->master"><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    settings = os.environ.get("LAKESMITH_IVY_SETTINGS")
    command = [
        str(java.java),
        *trust_options(java, folder),
        *("-jar", str(spark_jars("ivy-*.jar")[0])),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(module), "-cache", str(folder / "ivy"), "-confs", "default"),
        *("-retrieve", str(folder / "[artifact]-[revision].[ext]")),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    files = tuple(folder / f"{artifact}-{version}.jar" for _, artifact, version in coordinates)
    if answer.returncode != 0 or not all(file.is_file() for file in files):
        lines = [line.strip() for line in (answer.stdout + answer.stderr).splitlines() if line.strip()]
        complaints = [line for line in lines if "not found" in line or "rror" in line or "xception" in line]
        what = f"cannot fetch jars: {'; '.join((complaints or lines[-3:])[:4])}"
        hint = "check the network, or set LAKESMITH_IVY_SETTINGS to an Ivy settings file"
        raise InfrastructureError("jars-unreachable", what, hint=hint)
    shutil.rmtree(folder / "ivy", ignore_errors=True)
    return files


def read_lock(text: str) -> dict[str, tuple[Jar, ...]]:
    """Parse the lock file: `[set]` starts a set, `group:artifact:version sha256 size` is a jar."""
    sets: dict[str, tuple[Jar, ...]] = {}
    name = ""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words and words[0].startswith("["):
            name = words[0].strip("[]")
            sets[name] = ()
        elif words:
            group, artifact, version = words[0].split(":")
            jar = Jar(group=group, artifact=artifact, version=version, sha256=words[1], size=int(words[2]))
            sets[name] = (*sets[name], jar)
    return sets


@cache
def spark_home() -> Path:
    """The folder of the installed PySpark, found without importing it."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        hint = "pip install 'lakesmith[spark]'"
        raise InfrastructureError("no-spark", "PySpark is not installed", hint=hint)
    return Path(package.origin).parent


def spark_jars(pattern: str = "*.jar") -> list[Path]:
    """Jars that come with PySpark."""
    return sorted((spark_home() / "jars").glob(pattern))


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        state = sha256()
        while block := stream.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def _has_size(jar: Jar) -> bool:
    return jar.path.is_file() and jar.path.stat().st_size == jar.size
