"""What a lake's session needs besides the table format: jars, and the settings of its stores."""

from __future__ import annotations

import re
from pathlib import Path

from lakesmith.declare import Jdbc, Kafka, LakeDeclaration, OtherTable, Settings
from lakesmith.jvm.drivers import driver_jars
from lakesmith.jvm.jars import DEFAULT_SETS
from lakesmith.ports import Store
from lakesmith.sources import connection

_REDACTION = "spark.redaction.regex"
_OBJECT_STORE = {
    # Version 1 renames each file once more, and an object store copies it to rename it.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}


def jars_of(lake: LakeDeclaration) -> tuple[str, ...]:
    """The jar sets of a lake. Default sets come first, so that lakes without other sets share a class path."""
    origins = [table.origin for table in lake.tables.values()]
    scheme = lake.environment.warehouse.partition("://")[0].lower()
    more = {
        "kafka": any(isinstance(origin, Kafka) for origin in origins),
        "s3": scheme in ("s3", "s3a"),
        "azure": scheme in ("az", "abfs", "abfss"),
        "iceberg": any(isinstance(origin, OtherTable) and origin.format == "iceberg" for origin in origins),
    }
    return (*DEFAULT_SETS, *(name for name, needed in more.items() if needed))


def drivers_of(lake: LakeDeclaration) -> tuple[Path, ...]:
    """The jars of the databases' drivers. Raises when one is missing on this machine."""
    tables = [table for table in lake.tables.values() if isinstance(table.origin, Jdbc) and table.enabled]
    jars = [jar for table in tables for jar in driver_jars(connection(table, lake.environment))]
    return tuple(dict.fromkeys(jars))


def settings_of(lake: LakeDeclaration, warehouse: Store) -> Settings:
    """The settings of a lake's session, with those of the warehouse's store.

    A server of Spark Connect has its own: it would show those that a client sends.
    """
    given = lake.environment.spark
    if "spark.remote" in given:
        return given
    ours = dict(warehouse.engine("spark").settings)
    if not ours:
        return given
    # Spark's UI and logs show them as redacted, whatever their names are.
    hidden = [re.escape(key.removeprefix("spark.hadoop.")) for key in sorted(ours)]
    redacted = "|".join([*hidden, *([given[_REDACTION]] if _REDACTION in given else [])])
    return given.over({**ours, **_OBJECT_STORE}).over({}, without=[_REDACTION]).over({_REDACTION: redacted})
