"""Spark types from the SQL text that declarations and table logs use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField, StructType


# The default formats stop at milliseconds: values that differ below would look the same.
EXACT_JSON = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", 'timeZone', 'UTC')"
)
"""SQL: how `to_json` is to write times."""


def parse_columns(spark: SparkSession, columns: Mapping[str, str]) -> StructType:
    """The schema that `name type, …` spells."""
    from pyspark.sql.types import StructType

    if not columns:
        return StructType([])
    casts = ", ".join(f"CAST(NULL AS {type}) AS {quoted(name)}" for name, type in columns.items())
    return spark.sql(f"SELECT {casts}").schema


def merged(known: StructType, found: Sequence[StructField]) -> StructType:
    """The known fields with their types, then the found ones that are new, at every depth."""
    from pyspark.sql.types import StructField, StructType

    fields = {field.name: field.dataType for field in known.fields}
    lower = {name.lower(): name for name in fields}
    for field in found:
        name = lower.get(field.name.lower(), field.name)
        fields[name] = _merged_type(fields[name], field.dataType) if name in fields else field.dataType
    return StructType([StructField(name, type) for name, type in fields.items()])


def _merged_type(known: DataType, found: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(known, StructType) and isinstance(found, StructType):
        return merged(known, found.fields)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_merged_type(known.elementType, found.elementType))
    return known


def spelt(type: DataType) -> str:
    """A type as Spark SQL reads it, whole: `simpleString` leaves out fields of a wide one."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match type:
        case StructType():
            return f"struct<{', '.join(f'{quoted(each.name)}:{spelt(each.dataType)}' for each in type.fields)}>"
        case ArrayType():
            return f"array<{spelt(type.elementType)}>"
        case MapType():
            return f"map<{spelt(type.keyType)},{spelt(type.valueType)}>"
        case _:
            return str(type.simpleString())
