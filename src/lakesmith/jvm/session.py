"""Starts Spark with settings that suit small local batches, quietly, from jars that are already there."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from lakesmith.declare import PRIVATE, Settings
from lakesmith.errors import InfrastructureError
from lakesmith.formats.delta.rows import FENCE
from lakesmith.jvm.archive import usable_archive
from lakesmith.jvm.jars import DEFAULT_SETS, jar_paths, spark_home
from lakesmith.jvm.java import JavaHome, cache_folder, find_java, launch_home
from lakesmith.jvm.process import death, forget_dead, hush_lost_connections, launch, stop
from lakesmith.jvm.scratch import clear_own_scratch, own_scratch

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

SYNCED = {
    # Delta writes checkpoints and the state of a version past its log store.
    "spark.hadoop.fs.file.impl": "io.lakesmith.storage.SyncedLocalFileSystem",
    # Else Delta writes the state of a version past that file system, too.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings with which files in a Delta log are synced before they have their names."""

BRIEF = {
    # Planning again in the middle of a query, and writing Java for each of its stages and expressions, cost more than
    # small data takes to move. `bench.demo` measures what they save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

_PASSED_OVER = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
"""Settings with which Spark leaves out rows in silence: a vacuumed input would be a gap that nobody hears of."""

_TOO_OLD = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
"""The setting with which Delta refuses versions of more than a week ago: a lake that rested would not go on, although
a vacuum keeps all that its tables have still to read."""

_SUBSTITUTED = "spark.sql.variable.substitute"
"""The setting with which `${env:HOME}` in SQL, and so in a value of the data, becomes something else."""

_REDACTED = "(?i)secret|password|token|access[.]?key|account[.]?key|jaas"
"""The settings that Spark's UI and logs hide: its own default, and names of Azure's and Kafka's credentials."""

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
"""Beginnings of variables that the JVM, its libraries or the workers read themselves."""
_NEEDED_NAMES = ("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")

JOINED = {
    "spark.sql.extensions": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
    "spark.jars": ",",
    "spark.redaction.regex": "|",
}
"""Settings whose value is a list: what the user gives comes after ours instead of in its place."""


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
    """Start Spark, or return the session that this process has; `spark.remote` means Spark Connect.

    `drivers` are the jars of databases. `brief` promises that little data will be moved: what Spark and the JVM would
    spend on optimising is then saved. `private` are environment variables that the JVM does not get, `umask` are the
    permissions that files of the JVM and of its workers are made without.
    """
    settings = Settings.of(settings)
    # Imported here: PySpark costs half a second and most verbs never need it.
    from pyspark.sql import SparkSession

    _hush()
    if remote := settings.get("spark.remote"):
        others = {key: value for key, value in settings.items() if key != "spark.remote"}
        address = remote.partition("/;")[0]  # a token may follow
        with _described_as("spark-start", f"Spark Connect at {address} did not answer", "check spark.remote", settings):
            _knock(remote)
            return SparkSession.builder.remote(remote).appName(name).config(map={**others}).getOrCreate()

    java = find_java()
    scratch = own_scratch()
    merged = session_settings(settings, java=java, jars=jar_paths(jar_sets), drivers=drivers, brief=brief)
    merged = with_privacy(merged, scratch.folder, umask)
    hint = "lakesmith doctor --deep"
    with _described_as("spark-start", "Spark did not start", hint, settings), _environment(java, private):
        forget_dead()
        launch({**merged, "spark.app.name": name}, umask=umask, keep_open=scratch.lock)
        session = SparkSession.builder.appName(name).config(map={**merged}).getOrCreate()
    hush_lost_connections(session)
    refuse_foreign(session)
    return session


def refuse_foreign(session: SparkSession) -> None:
    """An error when a session in this process would not commit through Lakesmith's log store."""
    hint = "nothing is lost: start another session and run again"
    with _described_as("spark-failed", "the Spark session does not answer", hint):
        found = {key: session.conf.get(key, None) or "" for key in DELTA}
    for key, value in DELTA.items():
        # What the user adds to a list comes after ours.
        if not found[key].startswith(value):
            what = f"this process runs a Spark that Lakesmith did not start, and its {key} is not {value}"
            raise InfrastructureError(
                "spark-foreign", what, hint="stop that session first, or start it with that setting"
            )


def isolated(session: SparkSession) -> SparkSession:
    """A session of its own settings and temporary views on the same Spark, for one table's writes."""
    # A session of Spark Connect cannot be made empty, only copied; what it then sets is its own all the same.
    make = "newSession" if hasattr(session, "newSession") else "cloneSession"
    own = cast("SparkSession", getattr(session, make)())
    for name in (*_PASSED_OVER, _TOO_OLD, _SUBSTITUTED):
        own.conf.set(name, "false")
    for name in FENCE:
        own.conf.unset(name)
    return own


def close_session(session: SparkSession) -> None:
    """Stop Spark; on Spark Connect, let go of the server."""
    try:
        stop(session)
    finally:
        clear_own_scratch()


def with_privacy(settings: Mapping[str, str], folder: str, umask: int) -> dict[str, str]:
    """The settings with those for files that others must not read: temporary ones, and those that Hadoop makes."""
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
    """Lakesmith's settings with the user's over them."""
    secret = sorted(Settings.of(settings).secrets)
    ours = {
        "spark.master": "local[*]",
        **DELTA,
        "spark.delta.logStore.s3a.impl": S3_LOG_STORE_CLASS,
        "spark.hadoop.io.delta.kernel.logStore.s3a.impl": S3_LOG_STORE_CLASS,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(java_options(java, jars, brief=brief)),
        "spark.databricks.delta.snapshotPartitions": "2",
        # Spark keeps a hundred classes that it has compiled; one step of a history needs more, and each run would
        # compile them all again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.sql.session.timeZone": "UTC",
        # Spark's own default takes twice the room and more time, and has no bounds to skip files by.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Spark writes the sum of each page and does not look at it: a flipped bit would be served as a value.
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
    # Not on the class path: the archive of classes fits only the one that it was made with.
    shipped = drivers
    master = settings.get("spark.master", ours["spark.master"])
    if cores := _local_cores(master):
        ours["spark.sql.shuffle.partitions"] = str(cores)
        ours["spark.driver.memory"] = _memory()
        # Nobody else talks to a local Spark; a name that does not resolve must not stop it.
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
    """What the driver's JVM is started with."""
    configuration = Path(__file__).with_name("log4j2.properties")
    options = [
        # Throughput over short pauses: nobody waits for an answer in the middle of a batch.
        "-XX:+UseParallelGC",
        "-Dfile.encoding=UTF-8",
        f"-Dlog4j2.configurationFile={configuration.as_uri()}",
        f"-Dderby.system.home={cache_folder() / 'spark' / 'derby'}",
    ]
    if brief:
        # The second compiler takes a third of the CPU time of a short run and never earns it back. Without it the JVM
        # keeps so little room for compiled code that it soon spends a third on making room.
        options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"]
    if archive := usable_archive(java, jars):
        # A stale archive is no error: the JVM notices, says so in a log that is off, and starts without it.
        options += [f"-XX:SharedArchiveFile={os.pathsep.join(map(str, archive))}", "-Xshare:auto", "-Xlog:disable"]
    return tuple(f'"{option}"' if " " in option else option for option in options)


def _hush() -> None:
    """PySpark prints every error of a query, with the stack of the JVM, before it raises it: it is ours to tell."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _knock(remote: str) -> None:
    """Fail at once where nobody listens: the client of Spark Connect would go on trying for minutes."""
    address = urlsplit(remote)
    if address.scheme == "sc":
        socket.create_connection((address.hostname or "localhost", address.port or 15002), timeout=10).close()


def _local_cores(master: str) -> int | None:
    """How many cores a local master uses; None for a cluster."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if not found:
        return None
    if found[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(found[1] or 1)


def _memory() -> str:
    """A quarter of the machine's memory, between 1 and 4 GB: a local Spark has one heap for all it does."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return "1g"
    return f"{min(max(machine // 4, 1 << 30), 4 << 30) >> 20}m"


@contextmanager
def _environment(java: JavaHome, private: Collection[str] = ()) -> Iterator[None]:
    """What Spark's launcher reads from the environment, for as long as it starts."""
    unset = [name for name in private if not name.startswith(_NEEDED) and name not in _NEEDED_NAMES]
    wanted = {
        "JAVA_HOME": str(launch_home(java)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Another Spark's scripts and jars do not fit this PySpark.
        "SPARK_HOME": str(spark_home()),
        # The launcher is a JVM of its own that lives for a moment.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # Not removed here: other threads look their secrets up at the same time.
        "LAKESMITH_UNSET": " ".join(sorted(unset)),
    }
    if "UTF" not in (os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG", "")).upper():
        # A JVM in another locale cannot name a file whose name is not plain ASCII.
        wanted["LC_ALL"] = "C.UTF-8"
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
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
    except Exception as error:
        if died := death(error):
            raise died from error
        first = str(error).strip().partition("\n")[0]
        told = f"{what}: {type(error).__name__}: {first}"
        raise InfrastructureError(code, settings.masked(told) if settings else told, hint=hint) from error
