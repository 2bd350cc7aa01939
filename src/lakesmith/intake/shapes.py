"""Arrow types for Spark types, types of values, and common types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any, assert_never

import pyarrow as pa
from pyarrow import types as is_

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
_STORED_TYPES = {
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
"""By Arrow type that no table has, the table's type for its values."""
_UNSTORABLE = re.compile(r"[ ,;{}()=\x00-\x1f]")
_EXACT = 2**53
"""Whole numbers up to here are exact as doubles."""
BRANCH = f"{HIDDEN}branch_"
"""The prefix of field names in a struct for a union: exactly one field is not NULL."""


class Number(float):
    """A JSON number with a fraction, or `-0`: its nearest double, and its written digits."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number

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
    if is_.is_decimal(type):
        return DecimalType(type.precision, type.scale)
    if is_.is_struct(type):
        return StructType(tuple((field.name, spark_type(field.type)) for field in type))
    if is_.is_map(type):
        return MapType(spark_type(type.key_type), spark_type(type.item_type))
    if is_any_list(type):
        return ArrayType(spark_type(type.value_type))
    return spark_type(stored_type(type))


def stored_type(type: pa.DataType) -> pa.DataType:
    """Return the type of a table's column for an Arrow type. Fields whose names no table can have are dropped."""
    if isinstance(type, pa.BaseExtensionType):
        return STRING if type == pa.uuid() else stored_type(type.storage_type)
    if is_.is_dictionary(type) or is_.is_run_end_encoded(type):
        return stored_type(type.value_type)
    if is_union_struct(type):
        return common(stored_type(field.type) for field in type)
    if is_.is_struct(type):
        fields = [(field.name, stored_type(field.type)) for field in type if storable(field.name)]
        return pa.struct(fields) if fields else STRING
    if is_.is_map(type):
        return pa.map_(*(null_types_as_text(stored_type(part)) for part in (type.key_type, type.item_type)))
    if is_any_list(type):
        return pa.list_(stored_type(type.value_type))
    if is_.is_timestamp(type):
        return pa.timestamp("us", tz="UTC" if type.tz else None)
    if is_.is_decimal(type):
        return pa.decimal128(min(type.precision, 38), min(type.scale, 38))
    if is_.is_fixed_size_binary(type):
        return pa.binary()
    return _STORED_TYPES.get(type, type if type in _TYPE_NAMES else STRING)


def is_union_struct(type: pa.DataType) -> bool:
    """Whether a struct represents a union, with a field for each branch."""
    return bool(is_.is_struct(type) and type.num_fields and type.field(0).name.startswith(BRANCH))


def is_any_list(type: pa.DataType) -> bool:
    """Whether a type is a list, in any of Arrow's layouts."""
    return bool(
        is_.is_list(type)
        or is_.is_large_list(type)
        or is_.is_fixed_size_list(type)
        or is_.is_list_view(type)
        or is_.is_large_list_view(type)
    )


def map_type(type: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type of the same nesting, with its innermost types converted by a function."""
    if is_.is_struct(type):
        return pa.struct([field.with_type(map_type(field.type, leaf)) for field in type])
    if is_.is_map(type):
        return pa.map_(map_type(type.key_type, leaf), map_type(type.item_type, leaf))
    if is_any_list(type):
        return pa.list_(map_type(type.value_type, leaf))
    return leaf(type)


def type_of(value: object) -> pa.DataType:
    """Return the type of a parsed JSON value. Text stays text: only a declaration gives it another type."""
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int() if -(2**63) <= value < 2**63:
            return pa.int64()
        case int() if abs(value) < 10**38:
            return pa.decimal128(38, 0)
        case Number(text="-0"):
            return pa.int64()
        case Decimal() | float():
            return pa.float64()
        case dict():
            fields = record_type(value)
            # An empty object has no type; one without any field that a struct can have becomes text.
            return fields if len(fields) else STRING if value else pa.null()
        case list():
            return pa.list_(common(type_of(item) for item in value))
        case _:
            return STRING


def record_type(record: Mapping[str, object]) -> pa.DataType:
    """Return the struct of a record's fields that a table can have."""
    return pa.struct([(name, type_of(item)) for name, item in record.items() if storable(name)])


def common(types: Iterable[pa.DataType]) -> pa.DataType:
    """Return the narrowest type that fits the values of all types; text when they have nothing in common."""
    return reduce(wider, types, pa.null())


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the narrowest type that fits the values of both; text when they have nothing in common."""
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


def one_each(
    fields: Iterable[pa.Field], merge: Callable[[pa.DataType, pa.DataType], pa.DataType] = wider
) -> pa.DataType:
    """Return a struct in which fields that differ only in case are merged."""
    merged: dict[str, pa.Field] = {}
    for field in fields:
        first = merged.setdefault(field.name.lower(), field)
        if first is not field:
            merged[field.name.lower()] = first.with_type(merge(first.type, field.type))
    return pa.struct(list(merged.values()))


def null_types_as_text(type: pa.DataType) -> pa.DataType:
    """Return the type with text in place of the null type, for fields without any value."""
    return map_type(type, lambda leaf: STRING if is_.is_null(leaf) else leaf)


def with_new_fields(stored: pa.DataType, incoming: pa.DataType) -> pa.DataType:
    """Return a stored type with the new fields of an incoming one, at every depth; stored fields keep their type."""
    if is_.is_struct(stored) and is_.is_struct(incoming):
        fields = {field.name.lower(): field for field in stored}
        for new in one_each(incoming):
            old = fields.get(new.name.lower())
            type = null_types_as_text(new.type) if old is None else with_new_fields(old.type, new.type)
            fields[new.name.lower()] = (old or new).with_type(type)
        return pa.struct(list(fields.values()))
    if is_.is_list(stored) and is_.is_list(incoming):
        return pa.list_(with_new_fields(stored.value_type, incoming.value_type))
    return stored


def widest(stored: pa.DataType, incoming: pa.DataType) -> pa.DataType:
    """Return a stored type, widened at every depth for the values of an incoming one, as far as columns can be."""
    if is_.is_struct(stored) and is_.is_struct(incoming):
        types = {field.name.lower(): field.type for field in incoming}
        return pa.struct([(each.name, widest(each.type, types.get(each.name.lower(), each.type))) for each in stored])
    if is_.is_list(stored) and is_.is_list(incoming):
        return pa.list_(widest(stored.value_type, incoming.value_type))
    if is_.is_map(stored) and is_.is_map(incoming):
        return pa.map_(widest(stored.key_type, incoming.key_type), widest(stored.item_type, incoming.item_type))
    if is_.is_nested(stored) or is_.is_nested(incoming) or is_.is_floating(stored) != is_.is_floating(incoming):
        return stored
    type = wider(stored, incoming)
    if is_.is_integer(stored) and is_.is_decimal(type):
        whole = max(type.precision - type.scale, whole_digits(spark_type(stored)) or 0)
        type = pa.decimal128(min(38, whole + type.scale), type.scale)
    return type if widens(spark_type(stored), spark_type(type)) else stored


def widened(stored: pa.Schema, target: pa.Schema) -> tuple[str, ...]:
    """Return the fields, at every depth, that are wider in `target` than in `stored`: `name: int → bigint`."""
    fields = _innermost_fields(pa.struct(list(stored)), pa.struct(list(target)))
    types = ((name, spark_type(before), spark_type(after)) for name, before, after in fields if before is not None)
    return tuple(f"{name}: {before} → {after}" for name, before, after in types if widens(before, after))


def added(stored: pa.Schema, target: pa.Schema) -> tuple[str, ...]:
    """Return the fields, at every depth, that `target` has and `stored` does not."""
    fields = _innermost_fields(pa.struct(list(stored)), pa.struct(list(target)))
    return tuple(name for name, before, _ in fields if before is None)


def _innermost_fields(
    stored: pa.DataType, target: pa.DataType, name: str = ""
) -> Iterator[tuple[str, pa.DataType | None, pa.DataType]]:
    """Yield the dotted name of each innermost field of `target`, its type in `stored` (None if new), and its type."""
    if is_.is_list(stored) and is_.is_list(target):
        yield from _innermost_fields(stored.value_type, target.value_type, name)
    elif is_.is_map(stored) and is_.is_map(target):
        yield from _innermost_fields(stored.key_type, target.key_type, name)
        yield from _innermost_fields(stored.item_type, target.item_type, name)
    elif is_.is_struct(stored) and is_.is_struct(target):
        stored_types = {field.name.lower(): field.type for field in stored}
        for field in target:
            path = f"{name}.{field.name}" if name else field.name
            if field.name.lower() in stored_types:
                yield from _innermost_fields(stored_types[field.name.lower()], field.type, path)
            else:
                yield path, None, field.type
    else:
        yield name, stored, target


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
