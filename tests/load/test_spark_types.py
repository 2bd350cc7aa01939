"""Types are parsed like Spark SQL, and printed like Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesmith.load.invalid_text import InvalidText
from lakesmith.load.spark_types import normalized_type


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("bigint", "bigint"),
        ("LONG", "bigint"),
        ("Integer", "int"),
        ("decimal", "decimal(10,0)"),
        ("numeric( 5 )", "decimal(5,0)"),
        ("DECIMAL(38, 38)", "decimal(38,38)"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("array<string>", "array<string>"),
        ("map<string, array<int>>", "map<string,array<int>>"),
        ("struct<a: int, Größe: struct<c string>>", "struct<a:int,`Größe`:struct<c:string>>"),
        ("struct<`a`: int>", "struct<a:int>"),
    ],
)
def test_a_type_is_normalized_to_spark_s_form(written: str, shown: str) -> None:
    assert normalized_type(written) == shown


@pytest.mark.parametrize(
    "written",
    [
        "",
        "array",
        "array<",
        "array<int>>",
        "map<int>",
        "struct<>",
        "struct<a>",
        "struct<a: int, A: int>",
        "int int",
        "decimal(0)",
        "decimal(5,6)",
        "decimal(x)",
        "decimal(²)",
        "bigint; drop",
        "struct<1a: int>",
        "array<" * 30,
        "array<" * 21 + "int" + ">" * 21,
        "struct<`a b`: int>",
    ],
)
def test_an_invalid_type_is_rejected(written: str) -> None:
    with pytest.raises(InvalidText) as caught:
        normalized_type(written)
    assert caught.value.code == "bad-type"


@given(st.text(alphabet="abint<>(),: 0123456789struc decimal", max_size=60))
def test_any_text_is_a_type_or_rejected(text: str) -> None:
    try:
        shown = normalized_type(text)
    except InvalidText:
        return
    assert normalized_type(shown) == shown
