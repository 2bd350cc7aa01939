"""Starts Spark with settings for small local batches, from jars in the cache."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from lakesmith.declare import PRIVATE, Settings
from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.spark_settings import FENCE
from lakesmith.jvm.class_archive import usable_archive
from lakesmith.jvm.connect import connect, is_connect
from lakesmith.jvm.jars import DEFAULT_SETS, jar_paths, spark_home
from lakesmith.jvm.java import JavaHome, cache_folder, find_java, launch_home
from lakesmith.jvm.process import death, forget_dead, launch, silence_lost_connections, stop
from lakesmith.jvm.scratch import clear_own_scratch, own_scratch
from lakesmith.jvm.worker_package import ship_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_STORE_CLASS = "io.lakesmith.storage.LocalLogStore"
S3_LOG_STORE_CLASS = "io.lakesmith.storage.S3LogStore"

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.delta.logStore.file.impl": LOG_STORE_CLASS,
    "spark.hadoop.io.delta.kernel.logStore.file.impl": LOG_STORE_CLASS,
}

S3 = {
    f"{prefix}.{scheme}.impl": S3_LOG_STORE_CLASS
    for prefix in ("spark.delta.logStore", "spark.hadoop.io.delta.kernel.logStore")
    for scheme in ("s3", "s3a")
}
"""Delta's own log store loses commits on S3. Its log store for Azure does not."""

SYNCED = {
    # Delta writes checkpoints and version checksums without its log store.
    "spark.hadoop.fs.file.impl": "io.lakesmith.storage.SyncedLocalFileSystem",
    # Without this, Delta writes version checksums without that file system, too.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings that sync each file of a Delta log to disk before it gets its name."""

BRIEF = {
    # For small data, adaptive planning and code generation cost more than they save. `bench.demo` measures this.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

_IGNORING_FILES = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
"""Settings that make Spark silently skip unreadable files: vacuumed input rows would be lost without an error."""

_REFUSE_OLD_VERSIONS = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
"""The setting that makes Delta refuse versions older than a week. A lake that paused longer must still read them, and
a vacuum retains what its tables have not read yet."""

_SUBSTITUTE_VARIABLES = "spark.sql.variable.substitute"
"""The setting that replaces `${env:HOME}` in SQL, and so in values of the data."""

_REDACTED = "(?i)secret|password|token|access[.]?key|account[.]?key|jaas"
"""Settings that Spark's UI and logs redact: Spark's default, and credentials of Azure and Kafka."""

_NEEDED = (
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "HADOOP_",
    "JAVA_",
    "JDK_",
    "KRB5",
    "LC_",
    "LD_",
    "PYSPARK_",
    "PYTHON",
    "SPARK_",
)
"""Prefixes of variables that the JVM, its libraries or the workers read."""
_NEEDED_NAMES = ("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")

JOINED = {
    "spark.sql.extensions": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
    "spark.jars": ",",
    "spark.redaction.regex": "|",
}
"""Settings whose value is a list: the user's entries are appended to ours."""


def open_session(
    name: str,
    settings: Mapping[str, str],
    jar_sets: tuple[str, ...] = DEFAULT_SETS,
    drivers: tuple[Path, ...] = (),
    *,
    brief: bool = False,
    private: Collection[str] = (),
    umask: int = PRIVATE,
) -> SparkSession:
    """Start Spark, or return the existing session of this process. `spark.remote` selects Spark Connect.

    `drivers` are JDBC jars. `brief` is for runs with little data and turns optimisers of Spark and the JVM off.
    `private` are environment variables that the JVM does not get. `umask` applies to files of the JVM and its workers.
    """
    settings = Settings.of(settings)
    # Imported here: PySpark costs half a second, and most commands never need it.
    from pyspark.sql import SparkSession

    _silence_query_errors()
    if remote := settings.get("spark.remote"):
        others = {key: value for key, value in settings.items() if key != "spark.remote"}
        address = remote.partition("/;")[0]  # a token may follow
        with _described_as("spark-start", f"Spark Connect at {address} did not answer", "check spark.remote", settings):
            session = connect(remote, name, others)
            ship_package(session)
        refuse_foreign(session)
        return session

    java = find_java()
    scratch = own_scratch()
    merged = session_settings(settings, java=java, jars=jar_paths(jar_sets), drivers=drivers, brief=brief)
    merged = with_privacy(merged, scratch.folder, umask)
    hint = "lakesmith doctor --deep"
    described = _described_as("spark-start", "Spark did not start", hint, settings)
    with described, _environment(java, private, _workers_python(merged)):
        forget_dead()
        launch({**merged, "spark.app.name": name}, umask=umask, keep_open=scratch.lock)
        session = SparkSession.builder.appName(name).config(map={**merged}).getOrCreate()
        if not local_cores(merged["spark.master"]):
            ship_package(session)
    silence_lost_connections(session)
    refuse_foreign(session)
    return session


def refuse_foreign(session: SparkSession, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise when the session does not commit through Lakesmith's log store; `more` are settings for other stores."""
    needed = {**DELTA, **more}
    hint = "nothing is lost: start another session and run again"
    with _described_as("spark-failed", "the Spark session does not answer", hint):
        found = {key: session.conf.get(key, None) or "" for key in needed}
    for key, value in needed.items():
        # The user's entries of a list come after ours.
        if not found[key].startswith(value):
            if is_connect(session):
                what = f"the server of Spark Connect commits without Lakesmith's log store: its {key} is not {value}"
                hint = "start the server with that setting, and with the jars that `lakesmith doctor` checks"
            else:
                what = f"this process runs a Spark that Lakesmith did not start, and its {key} is not {value}"
                hint = "stop that session first, or start it with that setting"
            raise InfrastructureError("foreign-session", what, hint=hint)


def isolated(session: SparkSession) -> SparkSession:
    """A session on the same Spark with its own settings and temporary views, for the writes of one table."""
    # Spark Connect can only clone a session; the settings of the clone are still its own.
    make = "cloneSession" if is_connect(session) else "newSession"
    own = cast("SparkSession", getattr(session, make)())
    for name in (*_IGNORING_FILES, _REFUSE_OLD_VERSIONS, _SUBSTITUTE_VARIABLES):
        own.conf.set(name, "false")
    for name in FENCE:
        own.conf.unset(name)
    return own


def close_session(session: SparkSession) -> None:
    """Stop Spark, or disconnect from the server of Spark Connect."""
    try:
        stop(session)
    finally:
        clear_own_scratch()


def with_privacy(settings: Mapping[str, str], folder: str, umask: int) -> dict[str, str]:
    """Add settings for private files: temporary files, and files that Hadoop creates."""
    ours = {"spark.local.dir": folder, "spark.hadoop.fs.permissions.umask-mode": f"{umask:03o}"}
    options = f'"-Djava.io.tmpdir={folder}" {settings["spark.driver.extraJavaOptions"]}'
    return {**ours, **settings, "spark.driver.extraJavaOptions": options}


def session_settings(
    settings: Mapping[str, str],
    *,
    java: JavaHome,
    jars: tuple[Path, ...],
    drivers: tuple[Path, ...] = (),
    brief: bool = False,
) -> dict[str, str]:
    """Lakesmith's settings, overridden by the user's."""
    secret = sorted(Settings.of(settings).secrets)
    ours = {
        "spark.master": "local[*]",
        **DELTA,
        **S3,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(java_options(java, jars, brief=brief)),
        "spark.databricks.delta.snapshotPartitions": "2",
        # Spark caches a hundred compiled classes by default. A step of a history needs more, and would compile them
        # again in each run.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.sql.session.timeZone": "UTC",
        # Spark's default takes twice the space and more time, and has no statistics for data skipping.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Spark writes page checksums but does not verify them by default: a flipped bit would be read as a value.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.sql.warehouse.dir": (cache_folder() / "spark" / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # Hadoop has its own settings without the prefix.
        "spark.redaction.regex": "|".join(
            [_REDACTED, *(re.escape(key.removeprefix("spark.hadoop.")) for key in secret)]
        ),
    }
    if brief:
        ours |= BRIEF
    # Not on the class path: the class archive fits only the class path that it was built with.
    shipped = drivers
    master = settings.get("spark.master", ours["spark.master"])
    if cores := local_cores(master):
        ours["spark.sql.shuffle.partitions"] = str(cores)
        ours["spark.driver.memory"] = _memory()
        # Only this machine connects to a local Spark; a host name that does not resolve must not stop it.
        ours["spark.driver.host"] = "localhost"
        ours["spark.driver.bindAddress"] = "127.0.0.1"
        ours |= SYNCED
    else:
        shipped = (*jars, *drivers)
    if shipped:
        ours["spark.jars"] = ",".join(jar.as_uri() for jar in shipped)
    merged = {**ours, **settings}
    for key, separator in JOINED.items():
        if key in ours and key in settings:
            merged[key] = ours[key] + separator + settings[key]
    return merged


def java_options(java: JavaHome, jars: tuple[Path, ...], *, brief: bool = False) -> tuple[str, ...]:
    """The options of the driver's JVM."""
    configuration = Path(__file__).with_name("log4j2.properties")
    options = [
        # Throughput over short pauses: no one waits for answers in the middle of a batch.
        "-XX:+UseParallelGC",
        "-Dfile.encoding=UTF-8",
        f"-Dlog4j2.configurationFile={configuration.as_uri()}",
        f"-Dderby.system.home={cache_folder() / 'spark' / 'derby'}",
    ]
    if brief:
        # The second compiler takes a third of the CPU time of a short run and does not pay off. Without it, the JVM
        # reserves so little code cache that it soon spends a third of the time on freeing it.
        options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"]
    if archive := usable_archive(java, jars):
        # A stale archive is no error: the JVM detects it, logs it (the log is off), and starts without it.
        options += [f"-XX:SharedArchiveFile={os.pathsep.join(map(str, archive))}", "-Xshare:auto", "-Xlog:disable"]
    return tuple(f'"{option}"' if " " in option else option for option in options)


def _silence_query_errors() -> None:
    """Stop PySpark from printing each query error with the JVM's stack before it raises it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def local_cores(master: str) -> int | None:
    """The number of cores of a local master; None for a cluster."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if not found:
        return None
    if found[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(found[1] or 1)


def _workers_python(settings: Mapping[str, str]) -> str | None:
    """The Python of the workers. This process's own only where it certainly exists: on this machine."""
    return settings.get("spark.pyspark.python") or (sys.executable if local_cores(settings["spark.master"]) else None)


def _memory() -> str:
    """A quarter of the machine's memory, between 1 and 4 GB. A local Spark has a single heap."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return "1g"
    return f"{min(max(machine // 4, 1 << 30), 4 << 30) >> 20}m"


@contextmanager
def _environment(java: JavaHome, private: Collection[str] = (), workers_python: str | None = None) -> Iterator[None]:
    """Set the environment variables that Spark's launcher reads, while it starts. Without `workers_python`, workers
    run the Python of PYSPARK_PYTHON, or `python3`."""
    unset = [name for name in private if not name.startswith(_NEEDED) and name not in _NEEDED_NAMES]
    variables = {
        "JAVA_HOME": str(launch_home(java)),
        **({"PYSPARK_PYTHON": workers_python} if workers_python else {}),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Scripts and jars of another Spark do not fit this PySpark.
        "SPARK_HOME": str(spark_home()),
        # The launcher is a short-lived JVM of its own.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # Not removed here, because other threads may read their secrets at the same time.
        "LAKESMITH_UNSET": " ".join(sorted(unset)),
    }
    if "UTF" not in (os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG", "")).upper():
        # In another locale, a JVM cannot open files whose names are not ASCII.
        variables["LC_ALL"] = "C.UTF-8"
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


@contextmanager
def _described_as(code: str, what: str, hint: str, settings: Settings | None = None) -> Iterator[None]:
    try:
        yield
    except InfrastructureError:
        raise
    except Exception as error:
        if died := death(error):
            raise died from error
        first = str(error).strip().partition("\n")[0]
        message = f"{what}: {type(error).__name__}: {first}"
        raise InfrastructureError(code, settings.masked(message) if settings else message, hint=hint) from error
