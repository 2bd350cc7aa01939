"""Sessions on a server of Spark Connect: what the client may set, and what the server must have."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakesmith.errors import InfrastructureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLIENT = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's default takes twice the space and more time, and has no statistics for data skipping.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings that a client sends to the server for its session."""


def connect(remote: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    """Open a session on a server. Fails at once when packages are missing or nothing listens there."""
    _check_packages()
    _check_listening(remote)
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(remote).appName(name).config(map={**CLIENT, **settings}).getOrCreate()


def is_connect(session: SparkSession) -> bool:
    """Whether a server runs the session."""
    return not hasattr(session, "newSession")


def _check_packages() -> None:
    """Raise when a package of the client is missing."""
    try:
        from pyspark.sql.connect.utils import check_dependencies

        check_dependencies(__name__)
    except ImportError as error:
        what = f"the client of Spark Connect cannot be used: {str(error).strip().partition(chr(10))[0]}"
        raise InfrastructureError("connect-packages", what, hint="pip install 'lakesmith[connect]'") from error


def _check_listening(remote: str) -> None:
    """Raise when nothing listens. The client would retry for minutes."""
    address = urlsplit(remote)
    if address.scheme == "sc":
        socket.create_connection((address.hostname or "localhost", address.port or 15002), timeout=10).close()
