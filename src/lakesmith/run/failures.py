"""What Spark and Delta raise becomes an error with a code and a next step. Nothing of theirs reaches a user raw."""

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
"""Not java.lang.OutOfMemoryError: that is no worker's."""
_CHANGED_FILES = ("FAILED_READ_FILE.FILE_NOT_EXIST", "FileNotFoundException", "SparkFileNotFoundException")
_OF_LOAD = ("key-twice", "snapshot-shrank", "partition-escaped")
"""Errors that point to the load, which does not hold what it promised."""
_CLEANED_LOG = (
    "DELTA_VERSION_NOT_FOUND",
    "VersionNotFound",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_MISSING_CHANGE_DATA",
)
_DAMAGED = re.compile(
    r"(?:FAILED_READ_FILE\.(?:NO_HINT|CANNOT_READ_FILE_FOOTER)\][^\n]*?file:/*(?P<data>/[^\s]+\.parquet)"
    r"|(?:Checksum error:|checksum size in) file:/*(?P<sealed>/[^\n]+?) at \d+)"
)
"""A file that cannot be read, or that is not what the checksum beside it says."""
_GONE = re.compile(
    r"/([^/\s]+)/([^/\s]+)/(?:_change_data/|batch-\d{8}-[0-9a-f]{8}/)?(?:[^/\s]+=[^/\s]*/)*"
    r"([^/\s]+\.(?:parquet|bin))\.?\s(?:File )?does not exist"
)
"""A file of a table that cannot be found: the table's layer, its name, the file's."""


def is_external(error: Exception) -> bool:
    """Whether Spark, Delta or the machine raised it."""
    if isinstance(error, (OSError, MemoryError)) or any(_is_of(error, *kind) for kind in (_DELTA, _SPARK, _BRIDGE)):
        return True
    return not isinstance(error, LakesmithError) and death(error) is not None


def _is_of(error: Exception, module: str, name: str) -> bool:
    """Whether it is of a kind that lies in a library: one that was never imported has raised nothing."""
    library = sys.modules.get(module)
    return library is not None and isinstance(error, getattr(library, name))


def translate(error: Exception, table: Table) -> LakesmithError:
    """The error as a user should see it; raises anything that is a bug of ours."""
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
    said = first_lines(text)
    name = str(table.name)
    is_spark = any(_is_of(error, *kind) for kind in (_SPARK, _BRIDGE))
    # First of all: the value that is told with it may read like any other failure.
    if is_spark and any(word in text for word in _DATA):
        return DataError(
            "query-raised",
            f"a row made the query fail: {said}",
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
            f"another writer changed the table at the same time: {said}",
            table=name,
            hint="nothing is lost: run again",
        )
    if BROKEN_INTERVALS in text:
        return InfrastructureError(
            "intervals-broken",
            "the intervals of a key would overlap or leave a gap; nothing was written",
            table=name,
            hint=f"this is a fault of Lakesmith; until it is mended: lakesmith run {name} --full-refresh",
        )
    if DUPLICATE_KEY in text or "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW" in text:
        return DataError(
            "key-twice",
            "the query gives two rows with the same key, and nothing says which of them counts",
            at=table.load_at or table.declared_at,
            table=name,
            hint="group by the key, or say order_by: then the latest of them is kept",
        )
    if "OutOfMemoryError" in text:
        return out_of_memory(said, name)
    if is_spark and (ended := stopped()):
        ended.table = name
        return ended
    if isinstance(error, MemoryError) or _WORKER.search(text):
        return InfrastructureError(
            "worker-died",
            "a process that read rows was killed or died, most likely for want of memory; nothing was written",
            table=name,
            hint="`dmesg` tells who killed it; give the machine or the container more memory, or take in less at a "
            "time (max_files, max_bytes), then run again: nothing is lost or doubled",
        )
    if not isinstance(table.origin, Source) and (failure := _source_history_lost(text, name)):
        return failure
    if damaged := _DAMAGED.search(text):
        return InfrastructureError(
            "table-unreadable",
            f"{damaged['sealed'] or damaged['data']} is damaged: {said}",
            table=name,
            hint="put the file back as it was, from a copy of the warehouse, or make its table anew, then run again",
        )
    if any(word in text for word in _CHANGED_FILES):
        return DataError(
            "file-gone",
            f"a file vanished while it was read: {said}",
            table=name,
            hint="a landing zone is append-only: put the file back, or run again without it",
        )
    if _is_of(error, *_ANALYSIS):
        return DeclarationError(
            "query-refused",
            f"Spark cannot run the query: {said}",
            at=table.declared_at,
            table=name,
            hint="correct the query or the columns that it names",
        )
    return InfrastructureError(
        "spark-failed",
        said,
        table=name,
        hint="the table is as it was; `lakesmith doctor --deep` checks Java, jars and storage",
    )


def disk_error(error: Exception) -> InfrastructureError | None:
    """The error for a disk that Spark, Delta or Python found full, locked or failing."""
    text = str(error)
    said = first_lines(text)
    # What a worker raised comes with the whole way to it; its last line tells.
    told = text.strip().splitlines()[-1] if "Traceback" in said else said
    return disk_failure(text, told)


def _source_history_lost(text: str, name: str) -> DataError | None:
    """The error for an input whose past is gone. What it holds now can be read all the same."""
    whole = f"the table is as it was; compute it from all rows once: lakesmith run {name} --full-refresh"
    if any(word in text for word in _CLEANED_LOG):
        what = f"what changed in an input cannot be read any more: {first_lines(text)}"
        return DataError("source-gap", what, table=name, hint=whole)
    found = _GONE.search(text)
    if found is None:
        return None
    layer, source, file = found.groups()
    return DataError(
        "source-vacuumed",
        f"{layer}.{source} has lost {file}, which has to be read: it was vacuumed or deleted",
        table=name,
        hint=f"{whole}; if the file is missing there too, put it back or rebuild {layer}.{source}",
    )


def first_lines(text: str) -> str:
    """What a foreign error says, without its stack and its colours."""
    lines = [line.strip() for line in uncoloured(text).splitlines() if line.strip() and "\tat " not in line]
    return " ".join(lines[:2])[:400]
