"""One local Spark for all that is tried out, whatever the lake runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakesmith.declare import LakeDeclaration
from lakesmith.errors import LakesmithError
from lakesmith.reports import Event, SparkStarting
from lakesmith.spark.jvm import death
from lakesmith.spark.session import close_session, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ELSEWHERE = ("spark.remote", "spark.master")
_SMALL = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
"""A handful of rows is sorted and a log of two commits read faster in one piece."""


@contextmanager
def local_session(
    lake: LakeDeclaration, given: SparkSession | None, tell: Callable[[Event], None]
) -> Iterator[SparkSession]:
    """The session that was given, or one that lasts as long as this. Raises JvmDied where its JVM ends meanwhile."""
    if given is not None:
        with _death_told():
            yield given
        return
    tell(SparkStarting())
    settings = lake.environment.spark.over(_SMALL, without=_ELSEWHERE)
    private, umask = lake.environment.secret_variables, lake.environment.umask
    session = open_session(f"{lake.name} tests", settings, brief=True, private=private, umask=umask)
    try:
        with _death_told():
            yield session
    finally:
        close_session(session)


@contextmanager
def _death_told() -> Iterator[None]:
    try:
        yield
    except LakesmithError:
        raise
    except Exception as error:
        if died := death(error):
            raise died from error
        raise
