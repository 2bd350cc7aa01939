"""The jars that a lake's tables need besides those of the table format."""

from __future__ import annotations

from pathlib import Path

from lakesmith.declare import Jdbc, Kafka, LakeDeclaration, OtherTable
from lakesmith.jvm.drivers import driver_jars
from lakesmith.jvm.jars import DEFAULT_SETS
from lakesmith.sources import connection


def jars_of(lake: LakeDeclaration) -> tuple[str, ...]:
    """The jar sets of a lake. Default sets come first, so that lakes without other sets share a class path."""
    origins = [table.origin for table in lake.tables.values()]
    more = {
        "kafka": any(isinstance(origin, Kafka) for origin in origins),
        "iceberg": any(isinstance(origin, OtherTable) and origin.format == "iceberg" for origin in origins),
    }
    return (*DEFAULT_SETS, *(name for name, needed in more.items() if needed))


def drivers_of(lake: LakeDeclaration) -> tuple[Path, ...]:
    """The jars of the databases' drivers. Raises when one is missing on this machine."""
    tables = [table for table in lake.tables.values() if isinstance(table.origin, Jdbc) and table.enabled]
    jars = [jar for table in tables for jar in driver_jars(connection(table, lake.environment))]
    return tuple(dict.fromkeys(jars))
