"""Which types a reader can read as other types, by Avro's rules."""

from __future__ import annotations

from lakesmith.declare.spark_type import SparkType
from lakesmith.plan.widening import widens

_PROMOTED = {
    "tinyint": ("float", "double"),
    "smallint": ("float", "double"),
    "int": ("float", "double"),
    "bigint": ("float", "double"),
    "string": ("binary",),
    "binary": ("string",),
}
"""What Avro lets a reader promote, besides a wider type of the same kind."""


def can_read(reader: SparkType, writer: SparkType) -> bool:
    """Whether a reader of the one simple type can read values that were written as the other."""
    return reader == writer or str(reader) in _PROMOTED.get(str(writer), ()) or widens(writer, reader)
