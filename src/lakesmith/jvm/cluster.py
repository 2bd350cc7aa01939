"""Checks of a Spark that runs on other machines: what its executors reach, and what its Python workers have."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from lakesmith.errors import InfrastructureError
from lakesmith.jvm.connect import is_connect
from lakesmith.jvm.process import death, spark_errors
from lakesmith.jvm.session import S3_LOG_STORE_CLASS, local_cores, refuse_foreign
from lakesmith.ledger.staged import remove_files
from lakesmith.ports import Store, StoreCapability, TableFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_S3 = ("s3", "s3a")
_TASKS = 8
"""Enough to reach several executors."""


@dataclass(frozen=True, slots=True, order=True)
class WorkerPython:
    """The Python of a worker."""

    host: str
    python: str
    pyarrow: str
    numpy: str


def is_local(session: SparkSession) -> bool:
    """Whether the session runs all its tasks in this machine's JVM. A server may be anywhere."""
    return not is_connect(session) and local_cores(session.conf.get("spark.master") or "") is not None


def refuse_unsafe(session: SparkSession, warehouse: Store) -> None:
    """Raise when the session commits without a safe log store, or its executors do not share the warehouse."""
    scheme = warehouse.engine("spark").url.partition("://")[0]
    refuse_foreign(session, {f"spark.delta.logStore.{scheme}.impl": S3_LOG_STORE_CLASS} if scheme in _S3 else {})
    if StoreCapability.SHARED not in warehouse.capabilities and not is_local(session):
        _refuse_unshared(session, warehouse)


def _refuse_unshared(session: SparkSession, warehouse: Store) -> None:
    """Write files from tasks, and look for them here. Executors with a folder of their own write where nobody reads."""
    folder = TableFolder(warehouse, f"_lakesmith/probe-{uuid4().hex}")
    why = None
    try:
        session.range(0, _TASKS, 1, _TASKS).write.parquet(folder.engine_url("spark"))
    except spark_errors() as error:
        if died := death(error):
            raise died from error
        why = str(error).strip().partition("\n")[0]
    found = sum(file.key.endswith(".parquet") for file in folder.list())
    remove_files(folder)
    if found < _TASKS:
        raise InfrastructureError(
            "warehouse-not-shared",
            f"the executors of Spark do not share the warehouse {warehouse.url}: of {_TASKS} files that tasks wrote "
            f"there, this machine sees {found}{f' ({why})' if why else ''}",
            hint="mount the same folder at this path on all machines, or move the warehouse to an object store; "
            "no table was changed",
        )


def worker_pythons(session: SparkSession) -> list[WorkerPython]:
    """The Python of the workers that some tasks reach."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy
        import pyarrow

        for _ in batches:
            pass
        version = ".".join(map(str, sys.version_info[:3]))
        found = [[socket.gethostname()], [version], [pyarrow.__version__], [numpy.__version__]]
        yield pyarrow.RecordBatch.from_arrays(
            list(map(pyarrow.array, found)), names=["host", "python", "pyarrow", "numpy"]
        )

    columns = "host string, python string, pyarrow string, numpy string"
    rows = session.range(0, _TASKS, 1, _TASKS).mapInArrow(look, columns).distinct().collect()
    return sorted(WorkerPython(*row) for row in rows)
