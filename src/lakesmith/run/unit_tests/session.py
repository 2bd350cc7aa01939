"""One local Spark session for all tests, whatever the lake runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakesmith.declare import LakeDeclaration
from lakesmith.errors import LakesmithError
from lakesmith.jvm.process import death
from lakesmith.jvm.session import close_session, open_session
from lakesmith.reports import Event, SparkStarting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ELSEWHERE = ("spark.remote", "spark.master")
_SMALL = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
"""Faster for a handful of rows and a log of two commits."""


@contextmanager
def local_session(
    lake: LakeDeclaration, given: SparkSession | None, on_event: Callable[[Event], None]
) -> Iterator[SparkSession]:
    """Return the given session, or a local one that closes afterwards. Raises JvmDied when its JVM ends."""
    if given is not None:
        with _raise_jvm_death():
            yield given
        return
    on_event(SparkStarting())
    settings = lake.environment.spark.over(_SMALL, without=_ELSEWHERE)
    private, umask = lake.environment.secret_variables, lake.environment.umask
    session = open_session(f"{lake.name} tests", settings, brief=True, private=private, umask=umask)
    try:
        with _raise_jvm_death():
            yield session
    finally:
        close_session(session)


@contextmanager
def _raise_jvm_death() -> Iterator[None]:
    try:
        yield
    except LakesmithError:
        raise
    except Exception as error:
        if died := death(error):
            raise died from error
        raise
