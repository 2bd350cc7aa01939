"""Checks everything that a run depends on, and says how to fix problems."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
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
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _packages,
        _java,
        lambda: _jars(jar_sets, fix),
        lambda: _drivers(connections or {}, fix),
        lambda: _archive(fix),
    ]
    if warehouse_storage is not None:
        checks.append(lambda: _storage(warehouse_storage))
    if deep:
        checks.append(lambda: _spark(start, warehouse_storage))
    return tuple(finding for check in checks for finding in check())


def _python() -> Iterator[Finding]:
    found = ".".join(map(str, sys.version_info[:3]))
    required = ".".join(map(str, PYTHON))
    ok = sys.version_info >= PYTHON
    yield Finding(subject="python", ok=ok, found=found, fix=None if ok else f"install Python {required} or newer")


def _packages() -> Iterator[Finding]:
    found = {name: _installed(name) for name in _required()}
    missing = [name for name, version in found.items() if version is None]
    listed = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
    fix = f"pip install {' '.join(missing)}" if missing else None
    yield Finding(subject="packages", ok=not missing, found=listed, fix=fix)
    spark = _installed("pyspark")
    right = spark == SPARK
    fix = None if right else f"pip install 'pyspark=={SPARK}'"
    yield Finding(subject="pyspark", ok=right, found=spark or "not installed", fix=fix)


def _java() -> Iterator[Finding]:
    try:
        java = find_java()
    except LakesmithError as error:
        yield _failure("java", error)
    else:
        yield Finding(subject="java", ok=True, found=f"{java.version} from {java.origin}: {java.path}")


def _jars(sets: Collection[str], fix: bool) -> Iterator[Finding]:
    for name in sets:
        subject = f"jars: {name}"
        try:
            if fix:
                resolve_jars([name])
            jars = locked([name])
            wrong = ", ".join(jar.name for jar in damaged(jars))
        except LakesmithError as error:
            yield _failure(subject, error)
        else:
            found = f"missing or damaged: {wrong}" if wrong else f"{len(jars)} jars, checksums match"
            yield Finding(subject=subject, ok=not wrong, found=found, fix=FIX if wrong else None)
    try:
        log_store()
    except LakesmithError as error:
        yield _failure("log store", error)
    else:
        yield Finding(subject="log store", ok=True, found="as packaged")


def _drivers(connections: Mapping[str, Mapping[str, str]], fix: bool) -> Iterator[Finding]:
    for name, settings in connections.items():
        if not settings.get("url", "").startswith("jdbc:"):
            continue
        try:
            jars = fetch_driver(settings) if fix else driver_jars(settings)
        except LakesmithError as error:
            yield _failure(f"driver: {name}", error)
        else:
            yield Finding(subject=f"driver: {name}", ok=True, found=", ".join(jar.name for jar in jars))


def _archive(fix: bool) -> Iterator[Finding]:
    try:
        archive = usable_archive(find_java(), jar_paths())
        if fix and not archive:
            archive = build_archive()
    except LakesmithError as error:
        yield _failure("class archive", error)
    else:
        found = (
            f"{sum(file.stat().st_size for file in archive) >> 20} MB"
            if archive
            else "none: Spark takes twice as long to start"
        )
        yield Finding(subject="class archive", ok=bool(archive), found=found, fix=None if archive else FIX)


def _storage(storage: Store) -> Iterator[Finding]:
    try:
        wrong = storage.probe()
    except InfrastructureError as error:
        yield Finding(subject="storage", ok=False, found=error.what, fix=error.hint)
        return
    found = wrong or f"{storage.url} creates files exclusively"
    fix = (
        None
        if wrong is None
        else "put the warehouse on a disk or store that creates files exclusively, and set it in lakesmith.yml"
    )
    yield Finding(subject="storage", ok=wrong is None, found=found, fix=fix)


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
    kinds = {(worker.python, worker.pyarrow, worker.numpy) for worker in workers}
    hosts = len({worker.host for worker in workers})
    found = "; ".join(f"Python {python}, pyarrow {pyarrow}, numpy {numpy}" for python, pyarrow, numpy in sorted(kinds))
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
