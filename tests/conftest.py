"""Shared fixtures. They import PySpark only when a test needs Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakesmith.jvm.session import close_session, isolated, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEMORY = "/dev/shm"
_ENOUGH = 8 << 30
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
    # Lakes sync every commit, which costs nothing in memory. Tests of disks mount their own disks.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)

_SERVERS = (
    "shared",
    "azure",
    "connect",
    "gcs",
    "http",
    "kafka",
    "postgresql",
    "proxy",
    "http_proxy",
    "registry",
    "s3",
    "sftp",
)

pytest_plugins = ["tests.durations", *(f"tests.servers.{name}" for name in _SERVERS)]


@pytest.fixture(scope="session")
def shared_spark() -> Iterator[SparkSession]:
    """One Spark for all tests of a process."""
    # Tests run many small batches, for which the optimising compiler costs more time than it saves.
    session = open_session("tests", {}, ("delta", "kafka", "iceberg", "postgresql", "s3"), brief=True)
    yield session
    close_session(session)


@pytest.fixture
def spark(shared_spark: SparkSession) -> SparkSession:
    """A separate session on the shared Spark, so that settings and views do not reach the next test."""
    return isolated(shared_spark)
