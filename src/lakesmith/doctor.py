"""Checks everything that a run depends on, and says how to fix problems."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.jvm.class_archive import usable_archive
from lakesmith.jvm.drivers import driver_jars, fetch_driver
from lakesmith.jvm.jars import DEFAULT_SETS, damaged, jar_paths, locked, log_store, resolve_jars
from lakesmith.jvm.java import find_java
from lakesmith.jvm.setup import build_archive
from lakesmith.ports import Store
from lakesmith.reports import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON = (3, 11)
SPARK = "4.1.3"
"""The version that the jars fit."""
FIX = "lakesmith doctor --fix"
Result = tuple[str, str | None]
"""What a check found, and what fixes it if that is wrong."""


def diagnose(
    warehouse_storage: Store | None,
    connections: Mapping[str, Mapping[str, str]] | None = None,
    fix: bool = False,
    deep: bool = False,
    *,
    jar_sets: Collection[str] = DEFAULT_SETS,
    start: Callable[[], SparkSession] | None = None,
) -> tuple[Finding, ...]:
    """Check each part. `fix` fetches the jar sets and builds the class archive if needed; `deep` runs jobs on the Spark
    that `start` starts, by default a local one."""
    findings = [_python(), _packages(), _pyspark(), _checked("java", _java)]
    findings += [_checked(f"jars: {name}", partial(_jars, name, fix)) for name in jar_sets]
    findings.append(_checked("log store", _log_store))
    for name, settings in (connections or {}).items():
        if settings.get("url", "").startswith("jdbc:"):
            findings.append(_checked(f"driver: {name}", partial(_driver, settings, fix)))
    findings.append(_checked("class archive", partial(_archive, fix)))
    if warehouse_storage is not None:
        findings.append(_checked("storage", partial(_storage, warehouse_storage)))
    if deep:
        findings += _spark(start, warehouse_storage)
    return tuple(findings)


def _checked(subject: str, check: Callable[[], Result]) -> Finding:
    """Return the result of a check; an error that it raises is a finding too."""
    try:
        found, fix = check()
    except LakesmithError as error:
        return _failure(subject, error)
    return Finding(subject=subject, ok=fix is None, found=found, fix=fix)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= PYTHON
    fix = None if ok else f"install Python {'.'.join(map(str, PYTHON))} or newer"
    return Finding(subject="python", ok=ok, found=found, fix=fix)


def _packages() -> Finding:
    installed = {name: _installed(name) for name in _required()}
    missing = [name for name, version in installed.items() if version is None]
    found = ", ".join(f"{name} {version or 'missing'}" for name, version in installed.items())
    fix = f"pip install {' '.join(missing)}" if missing else None
    return Finding(subject="packages", ok=not missing, found=found, fix=fix)


def _pyspark() -> Finding:
    spark = _installed("pyspark")
    fix = None if spark == SPARK else f"pip install 'pyspark=={SPARK}'"
    return Finding(subject="pyspark", ok=spark == SPARK, found=spark or "not installed", fix=fix)


def _java() -> Result:
    java = find_java()
    return f"{java.version} from {java.origin}: {java.path}", None


def _jars(name: str, fix: bool) -> Result:
    if fix:
        resolve_jars([name])
    jars = locked([name])
    wrong = ", ".join(jar.name for jar in damaged(jars))
    return (f"missing or damaged: {wrong}", FIX) if wrong else (f"{len(jars)} jars, checksums match", None)


def _log_store() -> Result:
    log_store()
    return "as packaged", None


def _driver(settings: Mapping[str, str], fix: bool) -> Result:
    jars = fetch_driver(settings) if fix else driver_jars(settings)
    return ", ".join(jar.name for jar in jars), None


def _archive(fix: bool) -> Result:
    archive = usable_archive(find_java(), jar_paths())
    if fix and not archive:
        archive = build_archive()
    if not archive:
        return "none: Spark takes twice as long to start", FIX
    return f"{sum(file.stat().st_size for file in archive) >> 20} MB", None


def _storage(storage: Store) -> Result:
    wrong = storage.probe()
    if wrong:
        fix = "put the warehouse on a disk or store that creates files exclusively, and set it in lakesmith.yml"
        return wrong, fix
    return f"{storage.url} creates files exclusively", None


def _spark(start: Callable[[], SparkSession] | None, warehouse: Store | None) -> Iterator[Finding]:
    # Imported here: PySpark costs half a second, and only a deep check needs it.
    from pyspark.sql import SparkSession

    from lakesmith.jvm.cluster import is_local, refuse_unsafe
    from lakesmith.jvm.process import death, spark_errors
    from lakesmith.jvm.session import close_session, open_session

    running = SparkSession.getActiveSession()
    subject = "spark"
    session = None
    try:
        session = running or (start() if start else open_session("doctor", {}))
        rows = session.range(3).count()
        found = f"Spark {session.version} {'runs' if running else 'started'} and counted {rows} rows"
        yield Finding(subject=subject, ok=rows == 3, found=found)
        if not is_local(session):
            subject = "workers"
            yield _workers(session)
        if warehouse is not None:
            subject = "executors"
            refuse_unsafe(session, warehouse)
            yield Finding(subject=subject, ok=True, found=f"they write to {warehouse.url}")
    except LakesmithError as error:
        yield _failure(subject, error)
    except spark_errors() as error:
        yield _failure(subject, death(error) or _spark_failure(error))
    finally:
        if session is not None and not running:
            close_session(session)


def _workers(session: SparkSession) -> Finding:
    """Compare the Python of the workers with that of this process."""
    from lakesmith.jvm.cluster import worker_pythons

    workers = worker_pythons(session)
    versions = sorted({(worker.python, worker.pyarrow, worker.numpy) for worker in workers})
    hosts = len({worker.host for worker in workers})
    found = "; ".join(f"Python {python}, pyarrow {pyarrow}, numpy {numpy}" for python, pyarrow, numpy in versions)
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    ok = all(worker.python.startswith(f"{ours}.") for worker in workers)
    fix = None if ok else f"set spark.pyspark.python to a Python {ours} that all machines have"
    return Finding(subject="workers", ok=ok, found=f"{found} ({hosts} host{'s' if hosts > 1 else ''})", fix=fix)


def _spark_failure(error: Exception) -> InfrastructureError:
    # A worker's error is the last line of its stack.
    what = next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
    hint = "the workers need Python, pyarrow and numpy; spark.pyspark.python names their Python"
    return InfrastructureError("spark-failed", what, hint=hint)


def _failure(subject: str, error: LakesmithError) -> Finding:
    return Finding(subject=subject, ok=False, found=error.what, fix=error.hint)


def _required() -> tuple[str, ...]:
    """The packages that Lakesmith always needs, from its metadata."""
    try:
        lines = requires("lakesmith") or []
    except PackageNotFoundError:
        return ("lakesmith",)
    requirements = (line.partition(";") for line in lines)
    always = [name for name, _, condition in requirements if "extra" not in condition]
    return tuple(sorted("".join(c if c.isalnum() or c in "-_." else " " for c in name).split()[0] for name in always))


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
