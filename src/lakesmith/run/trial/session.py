"""One local Spark for all that is tried out, whatever the lake runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakesmith.declare import LakeDeclaration
from lakesmith.jvm.session import close_session, open_session
from lakesmith.reports import Event, SparkStarting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ELSEWHERE = ("spark.remote", "spark.master")
_SMALL = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
"""A handful of rows is sorted and a log of two commits read faster in one piece."""


@contextmanager
def local_session(
    lake: LakeDeclaration, given: SparkSession | None, tell: Callable[[Event], None]
) -> Iterator[SparkSession]:
    """The session that was given, or one that lasts as long as this."""
    if given is not None:
        yield given
        return
    tell(SparkStarting())
    settings = lake.environment.spark.over(_SMALL, without=_ELSEWHERE)
    private, umask = lake.environment.secret_variables, lake.environment.umask
    session = open_session(f"{lake.name} tests", settings, brief=True, private=private, umask=umask)
    try:
        yield session
    finally:
        close_session(session)
