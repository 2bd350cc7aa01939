"""Types of Spark and Arrow, of values, and common types of several."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesmith.intake.shapes import (
    added,
    arrow_type,
    exact_as_double,
    null_types_as_text,
    record_type,
    schema_of,
    spark_type,
    storable,
    stored_type,
    type_of,
    widened,
    wider,
    widest,
    with_new_fields,
)

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=4).filter(storable)
SIMPLE = st.sampled_from(
    [
        *("bigint", "int", "smallint", "tinyint", "string", "boolean", "double", "float", "date", "timestamp"),
        *("timestamp_ntz", "binary", "decimal(10,2)", "decimal(38,0)"),
    ]
).map(arrow_type)
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda item: pa.map_(pa.string(), item)),
        st.dictionaries(NAMES.map(str.lower), inner, min_size=1, max_size=3).map(
            lambda found: pa.struct(list(found.items()))
        ),
    ),
    max_leaves=6,
)


@given(TYPES)
@settings(max_examples=200, deadline=None)
def test_a_printed_type_is_parsed_back(type: pa.DataType) -> None:
    assert arrow_type(str(spark_type(type))) == type
    assert stored_type(type) == type


@given(TYPES, TYPES)
@settings(max_examples=200, deadline=None)
def test_the_wider_of_two_types_does_not_depend_on_their_order(one: pa.DataType, other: pa.DataType) -> None:
    found = wider(one, other)
    assert _sorted(found) == _sorted(wider(other, one))
    assert wider(found, one) == found


def _sorted(type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type):
        return pa.struct(sorted(((field.name, _sorted(field.type)) for field in type), key=lambda field: field[0]))
    if pa.types.is_map(type):
        return pa.map_(type.key_type, _sorted(type.item_type))
    return pa.list_(_sorted(type.value_type)) if pa.types.is_list(type) else type


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "double", "double"),
        ("float", "float", "float"),
        ("float", "int", "double"),
        ("bigint", "decimal(5,2)", "decimal(21,2)"),
        ("decimal(5,2)", "decimal(5,0)", "decimal(7,2)"),
        ("decimal(38,0)", "decimal(38,10)", "decimal(38,10)"),
        ("bigint", "string", "string"),
        ("bigint", "boolean", "string"),
        ("date", "timestamp", "string"),
        ("struct<a:int>", "string", "string"),
        ("struct<a:int>", "struct<A:bigint,b:string>", "struct<a:bigint,b:string>"),
        ("struct<n:struct<a:int>>", "struct<N:struct<B:int>>", "struct<n:struct<a:int,B:int>>"),
        ("array<int>", "array<double>", "array<double>"),
        ("array<int>", "int", "string"),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>"),
        ("map<int,int>", "map<bigint,string>", "map<bigint,string>"),
        ("map<int,int>", "map<string,int>", "string"),
        ("void", "array<int>", "array<int>"),
    ],
)
def test_the_wider_of_two_types(one: str, other: str, expected: str) -> None:
    assert str(spark_type(wider(arrow_type(one), arrow_type(other)))) == expected


def test_names_that_differ_only_in_case_are_one_column() -> None:
    found = pa.struct([("a", pa.int64()), ("A", pa.float64())])
    assert str(spark_type(wider(pa.struct([]), found))) == "struct<a:double>"
    assert str(spark_type(with_new_fields(pa.struct([]), found))) == "struct<a:double>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "void"),
        (True, "boolean"),
        (2**63 - 1, "bigint"),
        (2**63, "decimal(38,0)"),
        (10**38, "string"),
        (1.5, "double"),
        ("2026-01-31", "string"),
        ({}, "void"),
        ({"a": {}}, "struct<a:void>"),
        ({"two words": 1}, "string"),
        ([], "array<void>"),
        ([1, 2.5], "array<double>"),
        ([{}, {"a": 1}], "array<struct<a:bigint>>"),
    ],
)
def test_the_type_of_a_value(value: object, expected: str) -> None:
    assert str(spark_type(type_of(value))) == expected


def test_an_empty_record_is_a_struct_without_fields() -> None:
    assert record_type({}) == record_type({"two words": 1}) == pa.struct([])


def test_a_known_type_only_gets_new_fields() -> None:
    known = arrow_type("struct<a:bigint,n:struct<x:int>,l:array<struct<p:int>>>")
    found = arrow_type("struct<A:string,n:struct<x:string,y:void>,l:array<struct<q:int>>,new:array<void>>")
    expected = "struct<a:bigint,n:struct<x:int,y:string>,l:array<struct<p:int,q:int>>,new:array<string>>"
    assert str(spark_type(with_new_fields(known, found))) == expected


def test_added_fields_are_reported_by_their_dotted_names() -> None:
    known = schema_of({"a": "bigint", "n": "struct<x:int>", "l": "array<struct<p:int>>"})
    target = schema_of({"a": "bigint", "n": "struct<x:int,y:int>", "l": "array<struct<p:int,q:int>>", "b": "string"})
    assert added(known, target) == ("n.y", "l.q", "b")


def test_unknown_types_become_text() -> None:
    assert str(spark_type(null_types_as_text(arrow_type("struct<a:void,b:array<struct<c:void>>>")))) == (
        "struct<a:string,b:array<struct<c:string>>>"
    )


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (pa.uint8(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.timestamp("ns", tz="Europe/Berlin"), "timestamp"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.date64(), "date"),
        (pa.float16(), "float"),
        (pa.large_binary(), "binary"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.time64("us"), "string"),
        (pa.large_list(pa.uint8()), "array<int>"),
    ],
)
def test_every_arrow_type_has_a_table_type(type: pa.DataType, expected: str) -> None:
    assert str(spark_type(type)) == expected


@pytest.mark.parametrize("value", [0, 2**53, -(2**53), 2**53 + 2, 2**900])
def test_integers_that_a_double_stores_exactly(value: int) -> None:
    assert exact_as_double(value)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**900 + 1, 10**400])
def test_integers_that_no_double_stores_exactly(value: int) -> None:
    assert not exact_as_double(value)


@pytest.mark.parametrize(
    ("known", "found", "expected"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("float", "double", "double"),
        ("double", "float", "double"),
        ("float", "bigint", "float"),
        ("bigint", "double", "bigint"),
        ("decimal(10,2)", "decimal(8,4)", "decimal(12,4)"),
        ("decimal(5,2)", "int", "decimal(12,2)"),
        ("decimal(38,0)", "decimal(10,5)", "decimal(38,0)"),
        ("decimal(10,2)", "double", "decimal(10,2)"),
        ("smallint", "decimal(5,2)", "decimal(12,2)"),
        ("bigint", "decimal(38,0)", "decimal(38,0)"),
        ("bigint", "decimal(38,19)", "bigint"),
        ("bigint", "string", "bigint"),
        ("date", "timestamp", "date"),
        ("struct<a:int,b:int>", "struct<B:bigint,c:int>", "struct<a:int,b:bigint>"),
        ("array<struct<x:smallint>>", "array<struct<x:int>>", "array<struct<x:int>>"),
        ("map<int,int>", "map<bigint,bigint>", "map<bigint,bigint>"),
        ("struct<a:int>", "map<string,bigint>", "struct<a:int>"),
    ],
)
def test_a_column_is_widened_as_far_as_possible(known: str, found: str, expected: str) -> None:
    assert str(spark_type(widest(arrow_type(known), arrow_type(found)))) == expected


@given(TYPES, TYPES)
@settings(max_examples=300, deadline=None)
def test_widening_twice_by_the_same_type_changes_nothing(one: pa.DataType, other: pa.DataType) -> None:
    found = widest(one, other)
    assert widest(found, other) == found
    changes = widened(pa.schema([("c", one)]), pa.schema([("c", found)]))
    assert bool(changes) == (found != one)


def test_widened_fields_are_reported_by_name_at_every_depth() -> None:
    known = schema_of({"a": "int", "s": "struct<x:int,y:string>", "l": "array<struct<z:float>>", "same": "int"})
    target = schema_of({"s": "struct<x:bigint,y:string,n:int>", "a": "int", "l": "array<struct<z:double>>"})
    assert widened(known, target) == ("s.x: int → bigint", "l.z: float → double")
