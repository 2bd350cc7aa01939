"""What many tests share. Nothing here imports PySpark before a test asks for Spark: pure tests do without."""

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
    # Lakes sync every commit. In memory that costs nothing, and the tests of disks mount disks of their own.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)

_SERVERS = ("shared", "azure", "http", "kafka", "postgresql", "proxy", "http_proxy", "registry", "s3", "sftp")

pytest_plugins = ["tests.durations", *(f"tests.servers.{name}" for name in _SERVERS)]


@pytest.fixture(scope="session")
def shared_spark() -> Iterator[SparkSession]:
    """One Spark for all tests of a process."""
    # Many small batches and nothing long: the optimising compiler would cost more than it gives.
    session = open_session("tests", {}, ("delta", "kafka", "iceberg", "postgresql"), brief=True)
    yield session
    close_session(session)


@pytest.fixture
def spark(shared_spark: SparkSession) -> SparkSession:
    """A session of the test's own on the shared Spark: its settings and views do not reach the next test."""
    return isolated(shared_spark)
