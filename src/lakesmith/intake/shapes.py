"""Arrow types for Spark types, types of values, and common types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, assert_never

import pyarrow as pa

from lakesmith.columns import AUDIT, HIDDEN
from lakesmith.declare.spark_type import (
    ArrayType,
    DecimalType,
    MapType,
    SimpleType,
    SparkType,
    StructType,
    digits,
    read_type,
)
from lakesmith.plan.widening import whole_digits, widens

STRING = pa.string()
_SIMPLE = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "string": STRING,
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "float": pa.float32(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "void": pa.null(),
}
_TYPE_NAMES = {type: name for name, type in _SIMPLE.items()}
_UNSTORABLE = re.compile(r"[ ,;{}()=\x00-\x1f]")
_EXACT = 2**53
"""Whole numbers up to here are exact as doubles."""


class Number(float):
    """A JSON number with a fraction, or `-0`: its nearest double, and its written digits."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __reduce__(self) -> tuple[Any, ...]:
        return Number, (self.text,)


def arrow_type(type: SparkType | str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type, such as `struct<a:bigint,b:array<string>>`."""
    match type:
        case str():
            return arrow_type(read_type(type))
        case SimpleType():
            return _SIMPLE[type.name]
        case DecimalType():
            return pa.decimal128(type.precision, type.scale)
        case ArrayType():
            return pa.list_(arrow_type(type.element))
        case MapType():
            return pa.map_(arrow_type(type.key), arrow_type(type.value))
        case StructType():
            return pa.struct([(name, arrow_type(each)) for name, each in type.fields])
        case _:
            assert_never(type)


def spark_type(type: pa.DataType) -> SparkType:
    """Return the Spark SQL type that fits every value of an Arrow type without loss."""
    if type in _TYPE_NAMES:
        return SimpleType(_TYPE_NAMES[type])
    if pa.types.is_decimal(type):
        return DecimalType(type.precision, type.scale)
    if pa.types.is_struct(type):
        return StructType(tuple((field.name, spark_type(field.type)) for field in type))
    if pa.types.is_map(type):
        return MapType(spark_type(type.key_type), spark_type(type.item_type))
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        return ArrayType(spark_type(type.value_type))
    return spark_type(stored_type(type))


def stored_type(type: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a table's column for values of this type."""
    is_ = pa.types
    match type:
        case _ if is_.is_unsigned_integer(type):
            return (
                pa.decimal128(20, 0) if type.bit_width == 64 else _SIMPLE["bigint" if type.bit_width == 32 else "int"]
            )
        case _ if is_.is_timestamp(type):
            return pa.timestamp("us", tz="UTC" if type.tz else None)
        case _ if is_.is_date(type):
            return pa.date32()
        case _ if is_.is_float16(type):
            return pa.float32()
        case _ if (
            is_.is_binary(type)
            or is_.is_large_binary(type)
            or is_.is_fixed_size_binary(type)
            or is_.is_binary_view(type)
        ):
            return pa.binary()
        case _ if is_.is_decimal(type):
            return pa.decimal128(min(type.precision, 38), min(type.scale, 38))
        case _ if is_.is_struct(type):
            return pa.struct([(field.name, stored_type(field.type)) for field in type])
        case _ if is_.is_map(type):
            return pa.map_(stored_type(type.key_type), stored_type(type.item_type))
        case _ if is_.is_list(type) or is_.is_large_list(type) or is_.is_fixed_size_list(type):
            return pa.list_(stored_type(type.value_type))
        case _ if is_.is_dictionary(type):
            return stored_type(type.value_type)
        case _ if is_.is_null(type) or type in _TYPE_NAMES:
            return type
        case _:
            return STRING


def type_of(value: object) -> pa.DataType:
    """Return the type of a parsed JSON value. Text stays text: only a declaration gives it another type."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(2**63) <= value < 2**63 else _whole(value)
        case Number(text="-0"):
            return pa.int64()
        case Decimal() | float():
            return pa.float64()
        case dict():
            made = record_type(value)
            # An empty object has no type; one without any field that a struct can have becomes text.
            return made if len(made) else STRING if value else pa.null()
        case list():
            return pa.list_(common(type_of(item) for item in value))
        case _:
            return STRING


def record_type(record: Mapping[str, object]) -> pa.DataType:
    """Return the struct of a record's fields that a table can have."""
    return pa.struct([(name, type_of(item)) for name, item in record.items() if storable(name)])


def _whole(value: int) -> pa.DataType:
    return pa.decimal128(38, 0) if abs(value) < 10**38 else STRING


def common(types: Iterable[pa.DataType]) -> pa.DataType:
    """Return the narrowest type that fits the values of all types; text when they have nothing in common."""
    found = pa.null()
    for type in types:
        found = wider(found, type)
    return found


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the narrowest type that fits the values of both; text when they have nothing in common."""
    is_ = pa.types
    if one == other or is_.is_null(other):
        return one
    if is_.is_null(one):
        return other
    if is_.is_struct(one) and is_.is_struct(other):
        return one_each([*one, *other])
    if is_.is_list(one) and is_.is_list(other):
        return pa.list_(wider(one.value_type, other.value_type))
    if is_.is_map(one) and is_.is_map(other):
        key = wider(one.key_type, other.key_type)
        # Keys that are text in one and numbers in the other are different keys.
        alike = one.key_type == other.key_type or not is_.is_string(key)
        return pa.map_(key, wider(one.item_type, other.item_type)) if alike else STRING
    numbers = [type for type in (one, other) if is_.is_integer(type) or is_.is_floating(type) or is_.is_decimal(type)]
    if len(numbers) < 2:
        return STRING
    if any(is_.is_floating(type) for type in numbers):
        return pa.float64()
    if all(is_.is_integer(type) for type in numbers):
        return max(numbers, key=lambda type: type.bit_width)
    sized = [size for type in numbers if (size := digits(spark_type(type)))]
    scale = max(scale for _, scale in sized)
    return pa.decimal128(min(38, max(precision - own for precision, own in sized) + scale), scale)


def one_each(fields: Iterable[pa.Field]) -> pa.DataType:
    """Return a struct in which fields that differ only in case are merged."""
    names: dict[str, str] = {}
    types: dict[str, pa.DataType] = {}
    for field in fields:
        name = names.setdefault(field.name.lower(), field.name)
        types[name] = wider(types[name], field.type) if name in types else field.type
    return pa.struct(list(types.items()))


def null_types_as_text(type: pa.DataType) -> pa.DataType:
    """Return the type with text in place of the null type, for fields without any value."""
    if pa.types.is_null(type):
        return STRING
    if pa.types.is_struct(type):
        return pa.struct([(field.name, null_types_as_text(field.type)) for field in type])
    if pa.types.is_list(type):
        return pa.list_(null_types_as_text(type.value_type))
    return type


def with_new_fields(known: pa.DataType, found: pa.DataType) -> pa.DataType:
    """Return a known type with the new fields of a found one, at every depth; known fields keep their type."""
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        fields = {field.name: field.type for field in known}
        names = {name.lower(): name for name in fields}
        for field in one_each(found):
            name = names.get(field.name.lower(), field.name)
            fields[name] = (
                with_new_fields(fields[name], field.type) if name in fields else null_types_as_text(field.type)
            )
        return pa.struct(list(fields.items()))
    if pa.types.is_list(known) and pa.types.is_list(found):
        return pa.list_(with_new_fields(known.value_type, found.value_type))
    return known


def widest(known: pa.DataType, found: pa.DataType) -> pa.DataType:
    """Return a known type as wide as a found one, at every depth, where a stored column can be widened."""
    is_ = pa.types
    if is_.is_struct(known) and is_.is_struct(found):
        found_types = {field.name.lower(): field.type for field in found}
        return pa.struct(
            [(each.name, widest(each.type, found_types.get(each.name.lower(), each.type))) for each in known]
        )
    if is_.is_list(known) and is_.is_list(found):
        return pa.list_(widest(known.value_type, found.value_type))
    if is_.is_map(known) and is_.is_map(found):
        return pa.map_(widest(known.key_type, found.key_type), widest(known.item_type, found.item_type))
    if is_.is_nested(known) or is_.is_nested(found) or is_.is_floating(known) != is_.is_floating(found):
        return known
    made = wider(known, found)
    if is_.is_integer(known) and is_.is_decimal(made):
        whole = max(made.precision - made.scale, whole_digits(spark_type(known)) or 0)
        made = pa.decimal128(min(38, whole + made.scale), made.scale)
    return made if widens(spark_type(known), spark_type(made)) else known


def widened(known: pa.Schema, target: pa.Schema) -> tuple[str, ...]:
    """Return the fields, at every depth, that are wider in `target` than in `known`: `name: int → bigint`."""
    return tuple(_widened(pa.struct(list(known)), pa.struct(list(target)), ""))


def _widened(known: pa.DataType, target: pa.DataType, name: str) -> list[str]:
    is_ = pa.types
    if is_.is_list(known) and is_.is_list(target):
        return _widened(known.value_type, target.value_type, name)
    if is_.is_map(known) and is_.is_map(target):
        keys = _widened(known.key_type, target.key_type, name)
        return [*keys, *_widened(known.item_type, target.item_type, name)]
    if is_.is_struct(known) and is_.is_struct(target):
        now = {field.name: field.type for field in target}
        pairs = ((field, now[field.name]) for field in known if field.name in now)
        return [line for each, type in pairs for line in _widened(each.type, type, f"{name}.{each.name}".lstrip("."))]
    before, after = spark_type(known), spark_type(target)
    return [f"{name}: {before} → {after}"] if widens(before, after) else []


def added(known: pa.Schema, target: pa.Schema) -> tuple[str, ...]:
    """Return the fields, at every depth, that `target` has and `known` does not."""
    return tuple(_added(pa.struct(list(known)), pa.struct(list(target)), ""))


def _added(known: pa.DataType, target: pa.DataType, prefix: str) -> list[str]:
    if pa.types.is_list(known) and pa.types.is_list(target):
        return _added(known.value_type, target.value_type, prefix)
    if not (pa.types.is_struct(known) and pa.types.is_struct(target)):
        return []
    before = {field.name: field.type for field in known}
    names: list[str] = []
    for field in target:
        if field.name not in before:
            names.append(prefix + field.name)
        else:
            names += _added(before[field.name], field.type, f"{prefix}{field.name}.")
    return names


def storable(name: str) -> bool:
    """Whether a table can have a column of this name, which Lakesmith does not reserve."""
    return (
        bool(name) and not _UNSTORABLE.search(name) and name.lower() not in (*AUDIT, "_metadata") and HIDDEN not in name
    )


def exact_as_double(value: int) -> bool:
    return abs(value) <= _EXACT or int(float(value)) == value if abs(value) < 2**1000 else False


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Return the schema of columns with Spark SQL types."""
    return pa.schema([(name, arrow_type(type)) for name, type in columns.items()])
