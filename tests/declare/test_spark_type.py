"""Spark types are parsed and printed in one way, for any field names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesmith.declare.spark_type import (
    ArrayType,
    DecimalType,
    MapType,
    SimpleType,
    SparkType,
    SparkTypeError,
    StructType,
    parse_type,
)

INT = SimpleType("int")
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
types: st.SearchStrategy[SparkType] = st.recursive(
    st.one_of(
        st.sampled_from(["int", "string", "timestamp_ntz", "void"]).map(SimpleType),
        st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: DecimalType(digits, scale))),
    ),
    lambda inner: st.one_of(
        inner.map(ArrayType),
        st.tuples(inner, inner).map(lambda pair: MapType(*pair)),
        st.lists(st.tuples(names, inner), min_size=1, max_size=3).map(lambda fields: StructType(tuple(fields))),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("struct<`a`:int>", StructType((("a", INT),))),
        ("struct<`a b`:int,`c``d`:array<int>>", StructType((("a b", INT), ("c`d", ArrayType(INT))))),
        ("struct<````:int>", StructType((("`", INT),))),
        ("struct<`a,b>`:int>", StructType((("a,b>", INT),))),
        ("STRUCT<array: INTEGER, b decimal>", StructType((("array", INT), ("b", DecimalType(10, 0))))),
        ("map<string,numeric(5)>", MapType(SimpleType("string"), DecimalType(5, 0))),
        ("variant", SimpleType("variant")),
    ],
)
def test_a_type_is_parsed_with_backticks_unescaped(text: str, parsed: SparkType) -> None:
    assert parse_type(text) == parsed


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (StructType((("a", INT), ("größe", INT))), "struct<a:int,`größe`:int>"),
        (StructType((("a b", INT), ("c`d", INT), ("1", INT))), "struct<`a b`:int,`c``d`:int,`1`:int>"),
    ],
)
def test_names_are_printed_in_backticks_only_where_spark_needs_them(type: SparkType, text: str) -> None:
    assert str(type) == text


@given(types)
def test_every_printed_type_is_parsed_back(type: SparkType) -> None:
    assert parse_type(str(type)) == type


@pytest.mark.parametrize(
    "text", ["", "struct<`a:int>", "struct<``:int>", "struct<`a`>", "array<" * 251 + "int" + ">" * 251, "`a`"]
)
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(SparkTypeError):
        parse_type(text)


def test_the_deepest_allowed_type_is_parsed_and_printed() -> None:
    text = "struct<a:" * 200 + "int" + ">" * 200
    assert str(parse_type(text)) == text
