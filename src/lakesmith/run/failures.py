"""Translates errors of Spark and Delta into errors with a code and a next step. None reaches a user raw."""

from __future__ import annotations

import re
import sys

from lakesmith.columns import BROKEN_INTERVALS, DUPLICATE_KEY
from lakesmith.declare import Source, Table
from lakesmith.disk import disk_failure
from lakesmith.errors import DataError, DeclarationError, InfrastructureError, LakesmithError, uncoloured
from lakesmith.jvm.process import death, out_of_memory, stopped

_DELTA = ("deltalake.exceptions", "DeltaError")
_SPARK = ("pyspark.errors", "PySparkException")
_ANALYSIS = ("pyspark.errors", "AnalysisException")
_BRIDGE = ("py4j.protocol", "Py4JError")
_CONFLICTS = (
    "ConcurrentTransaction",
    "ConcurrentAppend",
    "ConcurrentWrite",
    "ConcurrentDelete",
    "CONCURRENT",
    "MetadataChanged",
    "METADATA_CHANGED",
    "ProtocolChanged",
    "PROTOCOL_CHANGED",
)
_DATA = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "ARITHMETIC_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "NUMERIC_VALUE_OUT_OF_RANGE",
)
_WORKER = re.compile(
    r"Python worker exited unexpectedly|Python worker faulthandler|(?<![A-Za-z])(?:(?:Arrow)?MemoryError|NoMemory)\b"
)
"""Not java.lang.OutOfMemoryError, which is not raised by a worker."""
_NOT_IN_WORKER = re.compile(r"^(?:ModuleNotFoundError|ImportError|PySparkImportError): (.*)", re.MULTILINE)
_OTHER_PYTHON = "PYTHON_VERSION_MISMATCH"
_TRACEBACK = "Traceback (most recent call last):"
_CHANGED_FILES = ("FAILED_READ_FILE.FILE_NOT_EXIST", "FileNotFoundException", "SparkFileNotFoundException")
_OF_LOAD = ("key-twice", "snapshot-shrank", "partition-escaped")
"""Errors that are reported at the `load` of a table."""
_CLEANED_LOG = (
    "DELTA_VERSION_NOT_FOUND",
    "VersionNotFound",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_MISSING_CHANGE_DATA",
)
_CORRUPT = re.compile(
    r"(?:FAILED_READ_FILE\.(?:NO_HINT|CANNOT_READ_FILE_FOOTER)\][^\n]*?file:/*(?P<data>/[^\s]+\.parquet)"
    r"|(?:Checksum error:|checksum size in) file:/*(?P<checked>/[^\n]+?) at \d+)"
)
"""A file that cannot be read, or that does not match its checksum."""
_GONE = re.compile(
    r"/([^/\s]+)/([^/\s]+)/(?:_change_data/|batch-\d{8}-[0-9a-f]{8}/)?(?:[^/\s]+=[^/\s]*/)*"
    r"([^/\s]+\.(?:parquet|bin))\.?\s(?:File )?does not exist"
)
"""A file of a table that cannot be found: the table's layer, its name, the file's."""


_CALL = re.compile(r"An error occurred while calling \S+\s*: ")
_WRAPPER = re.compile(r"\S+: Exception thrown in awaitResult")
_CLASS = re.compile(r"\A[\w.$]+: (?=\[)")
_TASK = re.compile(r"\A\S+: Job aborted due to stage failure: .* executor \S+: (?=\S)")


def is_external(error: Exception) -> bool:
    """Whether Spark, Delta or the machine raised it."""
    if isinstance(error, (OSError, MemoryError)) or any(_is_of(error, *kind) for kind in (_DELTA, _SPARK, _BRIDGE)):
        return True
    return not isinstance(error, LakesmithError) and death(error) is not None


def _is_of(error: Exception, module: str, name: str) -> bool:
    """Whether the error is of a class of a library; a library that was never imported has raised nothing."""
    library = sys.modules.get(module)
    return library is not None and isinstance(error, getattr(library, name))


def translate(error: Exception, table: Table) -> LakesmithError:
    """Return the error as a user should see it; raise anything that is a bug of Lakesmith."""
    if isinstance(error, LakesmithError):
        if error.code in _OF_LOAD and error.at is None:
            error.at = table.load_at or table.declared_at
        return error
    if died := death(error):
        died.table = str(table.name)
        return died
    if not is_external(error):
        raise error
    text = str(error)
    summary = first_lines(text)
    name = str(table.name)
    is_spark = any(_is_of(error, *kind) for kind in (_SPARK, _BRIDGE))
    # First of all: the value in the message may read like any other failure.
    if is_spark and any(word in text for word in _DATA):
        return DataError(
            "query-raised",
            f"a row made the query fail: {summary}",
            at=table.declared_at,
            table=name,
            hint="use try_cast / try_divide, or declare the column's type and let bad rows go to quarantine",
        )
    if of_disk := disk_error(error):
        of_disk.table = str(table.name)
        return of_disk
    if _is_of(error, *_DELTA):
        return InfrastructureError(
            "table-unreadable",
            f"the table's log cannot be read or written: {first_lines(str(error))}",
            table=str(table.name),
            hint="look at the files in its _delta_log; when another run is writing it, run again",
        )
    if any(word in text for word in _CONFLICTS):
        return InfrastructureError(
            "commit-conflict",
            f"another writer changed the table at the same time: {summary}",
            table=name,
            hint="nothing is lost: run again",
        )
    if BROKEN_INTERVALS in text:
        return InfrastructureError(
            "intervals-broken",
            "the intervals of a key would overlap or leave a gap; nothing was written",
            table=name,
            hint=f"this is a bug in Lakesmith; until it is fixed, rebuild: lakesmith run {name} --full-refresh",
        )
    if DUPLICATE_KEY in text or "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW" in text:
        return DataError(
            "key-twice",
            "the query returns two rows with the same key, and no order decides between them",
            at=table.load_at or table.declared_at,
            table=name,
            hint="group by the key, or set order_by to load the latest row",
        )
    if "OutOfMemoryError" in text:
        return out_of_memory(summary, name)
    if is_spark and (ended := stopped()):
        ended.table = name
        return ended
    if isinstance(error, MemoryError) or _WORKER.search(text):
        return InfrastructureError(
            "worker-died",
            "a process that read rows was killed or died, probably for lack of memory; nothing was written",
            table=name,
            hint="`dmesg` shows what killed it; give the machine or the container more memory, or ingest less at a "
            "time (max_files, max_bytes), then run again: nothing is lost or duplicated",
        )
    if is_spark and (_NOT_IN_WORKER.search(text) or _OTHER_PYTHON in text):
        return InfrastructureError(
            "worker-python",
            f"a Python worker cannot run Lakesmith's reader or the table's function: {summary}",
            table=name,
            hint="install the package for the workers' Python, or set spark.pyspark.python to another one; "
            "`lakesmith doctor --deep` shows the workers",
        )
    if not isinstance(table.origin, Source) and (failure := _source_history_lost(text, name)):
        return failure
    if corrupt := _CORRUPT.search(text):
        return InfrastructureError(
            "table-unreadable",
            f"{corrupt['checked'] or corrupt['data']} is corrupt: {summary}",
            table=name,
            hint="restore the file from a copy of the warehouse, or rebuild its table, then run again",
        )
    if any(word in text for word in _CHANGED_FILES):
        return DataError(
            "file-gone",
            f"a file disappeared while it was read: {summary}",
            table=name,
            hint="a landing folder is append-only: restore the file, or run again without it",
        )
    if _is_of(error, *_ANALYSIS):
        return DeclarationError(
            "query-rejected",
            f"Spark cannot run the query: {summary}",
            at=table.declared_at,
            table=name,
            hint="fix the query or the columns that it names",
        )
    return InfrastructureError(
        "spark-failed",
        summary,
        table=name,
        hint="the table is unchanged; `lakesmith doctor --deep` checks Java, jars and storage",
    )


def disk_error(error: Exception) -> InfrastructureError | None:
    """Return the error when Spark, Delta or Python found a disk full, locked or failing."""
    text = str(error)
    summary = first_lines(text)
    # An error of a worker comes with its traceback; the last line is the message.
    return disk_failure(text, text.strip().splitlines()[-1] if "Traceback" in summary else summary)


def _source_history_lost(text: str, name: str) -> DataError | None:
    """Return the error for an input that lost earlier versions. Its current rows can still be read."""
    rebuild = f"the table is unchanged; rebuild it from all rows: lakesmith run {name} --full-refresh"
    if any(word in text for word in _CLEANED_LOG):
        what = f"changes of an input can no longer be read: {first_lines(text)}"
        return DataError("source-gap", what, table=name, hint=rebuild)
    found = _GONE.search(text)
    if found is None:
        return None
    layer, source, file = found.groups()
    return DataError(
        "source-vacuumed",
        f"{layer}.{source} has lost {file}, which this run reads: it was vacuumed or deleted",
        table=name,
        hint=f"{rebuild}; if that misses the file too, restore the file or rebuild {layer}.{source}",
    )


def first_lines(text: str) -> str:
    """Return the message of an external error, without its stack and its colours."""
    text = _cause(text)
    if _TRACEBACK in text:
        text = _message_of_worker(text)
    lines = [line.strip() for line in uncoloured(text).splitlines() if line.strip() and "\tat " not in line]
    return " ".join(lines[:2])[:400]


def _cause(text: str) -> str:
    """Return the part of a Java error that says more than that a call or a job failed."""
    first, *causes = text.split("\nCaused by: ")
    if not _CALL.match(first):
        return text
    parts = (part for part in (_CALL.sub("", first), *causes) if not _WRAPPER.match(part))
    return _CLASS.sub("", _TASK.sub("", next(parts, text)))


def _message_of_worker(text: str) -> str:
    """Return the message of a Python worker's error, which follows the frames of its stack."""
    *_, last = uncoloured(text).split(_TRACEBACK)
    lines = last.splitlines()[1:]
    message = next((number for number, line in enumerate(lines) if line.strip() and not line.startswith(" ")), None)
    return text.replace(_TRACEBACK, "") if message is None else "\n".join(lines[message:])
