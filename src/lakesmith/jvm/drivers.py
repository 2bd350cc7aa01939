"""JDBC drivers by Maven coordinate. They are fetched when a machine is prepared, never at first use."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from lakesmith.errors import DeclarationError, InfrastructureError
from lakesmith.jvm.jars import HINT, LOCK, Jar, damaged, download, locked, read_lock, resolve_jars
from lakesmith.jvm.java import cache_folder

_KNOWN = {"postgresql": "postgresql"}
"""The default jar set for the name after `jdbc:`, if the connection names no driver."""
_SERVICE = "META-INF/services/java.sql.Driver"


def driver_jars(settings: Mapping[str, str]) -> tuple[Path, ...]:
    """The jars of a connection's driver, for the class path of the session."""
    paths = _paths(settings)
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        what = f"the JDBC driver {', '.join(missing)} is not on this machine"
        raise InfrastructureError("driver-missing", what, hint=f"fetch it: {HINT}")
    return paths


def fetch_driver(settings: Mapping[str, str]) -> tuple[Path, ...]:
    """Fetch a connection's driver, if it is missing on this machine."""
    jars = _locked(settings)
    if jars and damaged(jars):
        resolve_jars([name for name, locked in read_lock(LOCK.read_text()).items() if set(jars) <= set(locked)][:1])
    for coordinate, path in zip(_coordinates(settings), _paths(settings), strict=True):
        if path.is_file():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside its destination: a rename is atomic only within one file system.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            (fetched,) = download([coordinate], Path(folder))
            os.replace(fetched, path)
    return _paths(settings)


def driver_class(settings: Mapping[str, str]) -> str:
    """The class that Spark loads: from the settings, or from the driver's jar."""
    if "driver.class" in settings:
        return settings["driver.class"]
    for path in driver_jars(settings):
        with zipfile.ZipFile(path) as jar:
            if _SERVICE in jar.namelist():
                return jar.read(_SERVICE).decode().split("#")[0].split()[0]
    raise DeclarationError(
        "unknown-driver",
        "the driver's jar does not name its class",
        hint="add driver.class: the.name.of.its.Driver to the connection",
    )


def _coordinates(settings: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    if "driver" not in settings:
        kind = settings.get("url", "").removeprefix("jdbc:").partition(":")[0]
        if kind not in _KNOWN:
            raise DeclarationError(
                "unknown-driver",
                f"the connection names no driver for 'jdbc:{kind}:'",
                hint="add driver: group:artifact:version, a Maven coordinate such as org.postgresql:postgresql:42.7.14",
            )
        return tuple((jar.group, jar.artifact, jar.version) for jar in locked([_KNOWN[kind]]))
    found = []
    for coordinate in settings["driver"].replace(",", " ").split():
        words = coordinate.split(":")
        if len(words) != 3 or not all(words):
            raise DeclarationError(
                "unknown-driver",
                f"'{coordinate}' is not a Maven coordinate",
                hint="write driver: group:artifact:version, such as org.postgresql:postgresql:42.7.14",
            )
        found.append((words[0], words[1], words[2]))
    return tuple(found)


def _locked(settings: Mapping[str, str]) -> tuple[Jar, ...]:
    """The driver's jars that are in Lakesmith's lock file."""
    locked = {
        (jar.group, jar.artifact, jar.version): jar for jars in read_lock(LOCK.read_text()).values() for jar in jars
    }
    return tuple(locked[coordinate] for coordinate in _coordinates(settings) if coordinate in locked)


def _paths(settings: Mapping[str, str]) -> tuple[Path, ...]:
    locked = {(jar.group, jar.artifact, jar.version): jar.path for jar in _locked(settings)}
    folder = cache_folder() / "drivers"
    return tuple(
        locked.get((group, artifact, version), folder / group / f"{artifact}-{version}.jar")
        for group, artifact, version in _coordinates(settings)
    )
