"""Conversions between Spark types and their SQL text, as declarations and table logs write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakesmith.declare.spark_type import SparkType, read_schema
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField, StructType


# The default formats cut off below milliseconds, so different values would look equal.
EXACT_JSON = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", 'timeZone', 'UTC')"
)
"""SQL: options for `to_json` and `from_json` that preserve microseconds."""


_EXACT = frozenset(
    {
        "binary",
        "boolean",
        "byte",
        "date",
        "decimal",
        "double",
        "float",
        "integer",
        "long",
        "short",
        "timestamp",
        "timestamp_ntz",
    }
)


def parse_columns(spark: SparkSession, columns: Mapping[str, object]) -> StructType:
    """Return the Spark schema of columns that are given as name and SQL type."""
    from pyspark.sql.types import StructType

    if not columns:
        return StructType([])
    casts = ", ".join(f"CAST(NULL AS {type}) AS {quoted(name)}" for name, type in columns.items())
    return spark.sql(f"SELECT {casts}").schema


def merge_fields(known: StructType, found: Sequence[StructField]) -> StructType:
    """Return the existing fields with their types, then the new fields, at every depth."""
    from pyspark.sql.types import StructField, StructType

    fields = {field.name: field.dataType for field in known.fields}
    lower = {name.lower(): name for name in fields}
    for field in found:
        name = lower.get(field.name.lower(), field.name)
        fields[name] = _merge_types(fields[name], field.dataType) if name in fields else field.dataType
    return StructType([StructField(name, type) for name, type in fields.items()])


def _merge_types(known: DataType, found: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(known, StructType) and isinstance(found, StructType):
        return merge_fields(known, found.fields)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_merge_types(known.elementType, found.elementType))
    return known


def is_exact_in_arrow(type: DataType) -> bool:
    """Whether values of the type come back from Arrow and from Parquet by Arrow as they were."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    match type:
        case ArrayType():
            return is_exact_in_arrow(type.elementType)
        case MapType():
            return is_exact_in_arrow(type.keyType) and is_exact_in_arrow(type.valueType)
        case StructType():
            distinct = len(set(type.names)) == len(type.names)
            return bool(type.fields) and distinct and all(is_exact_in_arrow(field.dataType) for field in type.fields)
        case StringType():
            return type.simpleString() == "string"
        case _:
            return type.typeName() in _EXACT


def sql_type(type: DataType) -> SparkType:
    """Return a type as a value that prints as complete SQL text. `simpleString` truncates structs with many fields."""
    return read_schema(type.jsonValue())
