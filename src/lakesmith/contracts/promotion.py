"""Which types a reader can read as other types, by Avro's rules."""

from __future__ import annotations

from lakesmith.declare.spark_type import SimpleType, SparkType, SparkTypeError, parse_type
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


def read_type(text: str) -> SparkType:
    """Parse the type of a declaration or a table's log; a type that Spark's grammar does not have is one word."""
    try:
        return parse_type(text)
    except SparkTypeError:
        return SimpleType(text)


def can_read(reader: str, writer: str) -> bool:
    """Whether a reader of the one simple type can read values that were written as the other."""
    return reader == writer or reader in _PROMOTED.get(writer, ()) or widens(writer, reader)
