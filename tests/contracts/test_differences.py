from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.contracts import column, contract

from lakesmith.contracts import Definition, differences
from lakesmith.contracts.differences import Difference, type_differences
from lakesmith.declare import Column
from lakesmith.declare.contract import Compatibility
from lakesmith.errors import Place

BOTH, BACKWARD, FORWARD, NEITHER = (True, True), (True, False), (False, True), (False, False)


def only(*found: Difference) -> Difference:
    (difference,) = found
    return difference


def directions(difference: Difference) -> tuple[bool, bool]:
    return difference.backward, difference.forward


@pytest.mark.parametrize(
    ("old", "new", "kind", "what", "holds"),
    [
        (None, column("b"), "added", "b is new", BOTH),
        (None, column("b", required=True), "added", "b is new and required", FORWARD),
        (column("b"), None, "removed", "b was removed", BACKWARD),
        (column("b", required=True), None, "removed", "b was removed", BACKWARD),
        (column("b", "int"), column("b", "bigint"), "type", "b is bigint, was int", BACKWARD),
        (column("b", "bigint"), column("b", "int"), "type", "b is int, was bigint", FORWARD),
        (column("b", "date"), column("b", "timestamp_ntz"), "type", "b is timestamp_ntz, was date", NEITHER),
        (column("b", None), column("b", "int"), "type", "type of b is int, was not declared", FORWARD),
        (column("b", "int"), column("b", None), "type", "type of b is no longer declared, was int", BACKWARD),
        (column("b"), column("b", required=True), "required", "b is required, was not", FORWARD),
        (column("b", required=True), column("b"), "required", "b is no longer required", BACKWARD),
        (column("b"), column("b", unique=True), "unique", "b is unique, was not", FORWARD),
        (column("b", unique=True), column("b"), "unique", "b is no longer unique", BACKWARD),
        (column("b", currency="EUR"), column("b", currency="USD"), "meaning", "currency of b is USD, was EUR", NEITHER),
        (column("b"), column("b", currency="USD"), "meaning", "currency of b is USD, was not declared", FORWARD),
        (
            column("b", timezone="UTC"),
            column("b"),
            "meaning",
            "timezone of b is no longer declared, was UTC",
            BACKWARD,
        ),
        (
            column("b", timezone="UTC"),
            column("b", timezone="CET"),
            "meaning",
            "timezone of b is CET, was UTC",
            NEITHER,
        ),
        (column("b"), column("b", description="x"), "documentation", "description of b changed", BOTH),
        (column("b"), column("b", tags=("pii",)), "documentation", "tags of b changed", BOTH),
        (column("b"), column("b", deprecated="use a"), "documentation", "deprecated of b changed", BOTH),
        (column("b"), column("b", since="1.1"), "documentation", "since of b changed", BOTH),
    ],
)
def test_a_column_change_is_compatible_in_the_expected_directions(
    old: Column | None, new: Column | None, kind: str, what: str, holds: tuple[bool, bool]
) -> None:
    before = [column("a"), *([old] if old else [])]
    after = [column("a"), *([new] if new else [])]
    found = only(*differences(contract(*before), contract(*after)))
    assert (found.kind, found.path, found.what, directions(found)) == (kind, "b", what, holds)
    assert found.columns == ("b",)


@pytest.mark.parametrize(
    ("old", "new", "path", "holds"),
    [
        ("struct<a:int>", "struct<a:bigint>", "x.a", BACKWARD),
        ("struct<a:int>", "struct<a:int,b:int>", "x.b", BOTH),
        ("struct<a:int,b:int>", "struct<a:int>", "x.b", BACKWARD),
        ("array<float>", "array<double>", "x.element", BACKWARD),
        ("array<struct<a:int>>", "array<struct<a:string>>", "x.element.a", NEITHER),
        ("map<string,int>", "map<string,bigint>", "x.value", BACKWARD),
        ("map<int,int>", "map<bigint,int>", "x.key", BACKWARD),
        ("map<string,array<struct<a:bigint>>>", "map<string,array<struct<a:int>>>", "x.value.element.a", FORWARD),
        ("array<int>", "int", "x", NEITHER),
        ("struct<a:int>", "map<string,int>", "x", NEITHER),
    ],
)
def test_a_change_inside_a_type_is_reported_by_path(old: str, new: str, path: str, holds: tuple[bool, bool]) -> None:
    found = only(*type_differences("x", old, new))
    assert (found.path, directions(found), found.columns) == (path, holds, ("x",))


def test_fields_are_matched_by_name_with_or_without_backticks() -> None:
    assert type_differences("x", "struct<a:int,`b c`:int>", "struct<`a`:int,`b c`:int>") == ()
    found = only(*type_differences("x", "struct<`b``c`:int>", "struct<`b``c`:bigint>"))
    assert (found.path, found.what) == ("x.b`c", "x.b`c is bigint, was int")


@pytest.mark.parametrize(
    ("reader", "writer", "holds"),
    [
        ("bigint", "int", True),
        ("bigint", "tinyint", True),
        ("smallint", "tinyint", True),
        ("float", "int", True),
        ("double", "bigint", True),
        ("double", "float", True),
        ("float", "double", False),
        ("int", "bigint", False),
        ("int", "double", False),
        ("string", "binary", True),
        ("binary", "string", True),
        ("string", "int", False),
        ("decimal(12,2)", "decimal(10,2)", True),
        ("decimal(12,4)", "decimal(10,2)", True),
        ("decimal(10,4)", "decimal(10,2)", False),
        ("decimal(10,2)", "decimal(12,2)", False),
        ("decimal(20,0)", "bigint", True),
        ("timestamp_ntz", "date", False),
        ("timestamp", "timestamp_ntz", False),
        ("int", "date", False),
        ("string", "boolean", False),
    ],
)
def test_readers_accept_avro_promotions_and_wider_types(reader: str, writer: str, holds: bool) -> None:
    found = only(*type_differences("x", writer, reader))
    assert found.backward is holds


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("", "a", FORWARD),
        ("a", "", BACKWARD),
        ("a", "ab", BACKWARD),
        ("ab", "a", FORWARD),
        ("a", "b", NEITHER),
    ],
)
def test_a_key_with_more_columns_is_a_weaker_contract(old: str, new: str, holds: tuple[bool, bool]) -> None:
    def keyed(key: str) -> list[Column]:
        return [column(name, required=True, key=name in key) for name in "ab"]

    found = only(*differences(contract(*keyed(old)), contract(*keyed(new))))
    assert (found.kind, directions(found)) == ("key", holds)
    assert set(found.columns) == set(old) ^ set(new)


def test_a_key_is_required_even_if_not_declared_so() -> None:
    found = differences(contract(column("a", required=True)), contract(column("a", key=True)))
    assert [each.kind for each in found] == ["key"]
    found = differences(contract(column("a")), contract(column("a", key=True)))
    assert [each.kind for each in found] == ["required", "key"]


def test_the_order_of_columns_does_not_matter() -> None:
    assert differences(contract(column("a"), column("b")), contract(column("b"), column("a"))) == ()


def test_changes_of_other_terms_are_reported_as_compatible() -> None:
    found = only(*differences(contract(column("a"), mode="open"), contract(column("a"), mode="strict")))
    assert (found.kind, found.what, directions(found)) == ("terms", "mode is strict, was open", BOTH)
    assert found.columns == ()


@pytest.mark.parametrize(
    ("backward", "forward", "breaks"),
    [
        (True, True, set()),
        (True, False, {"forward", "full"}),
        (False, True, {"backward", "full"}),
        (False, False, {"backward", "forward", "full"}),
    ],
)
def test_the_promised_compatibility_decides_which_changes_break(
    backward: bool, forward: bool, breaks: set[str]
) -> None:
    found = Difference(kind="type", path="a", what="", backward=backward, forward=forward)
    assert {word for word in get_args(Compatibility) if found.breaks(word)} == breaks


LEAVES = st.sampled_from(
    ["int", "bigint", "float", "double", "string", "binary", "date", "decimal(10,2)", "decimal(12,2)", "boolean"]
)
TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(LEAVES, inner).map(lambda t: f"map<{t[0]},{t[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: f"struct<{','.join(f'f{number}:{t}' for number, t in enumerate(types))}>"
        ),
    ),
    max_leaves=5,
)
WORDS = st.none() | st.sampled_from(["EUR", "USD"])


def columns(name: str) -> st.SearchStrategy[Column]:
    return st.builds(
        Column,
        name=st.just(name),
        type=st.none() | TYPES,
        required=st.booleans(),
        key=st.booleans(),
        unique=st.booleans(),
        currency=WORDS,
        timezone=WORDS,
        description=WORDS,
        declared_at=st.just(Place("")),
    )


CONTRACTS = st.sets(st.sampled_from("abc")).flatmap(
    lambda names: st.tuples(*(columns(name) for name in sorted(names))).map(lambda found: contract(*found))
)


@given(CONTRACTS)
def test_a_contract_does_not_differ_from_itself(one: Definition) -> None:
    assert differences(one, one) == ()


@given(CONTRACTS, CONTRACTS)
def test_contracts_without_differences_are_equal(one: Definition, other: Definition) -> None:
    if differences(one, other) == ():
        assert differences(other, one) == ()


@given(CONTRACTS, CONTRACTS)
def test_backward_compatibility_is_forward_compatibility_reversed(one: Definition, other: Definition) -> None:
    """Except for columns: a query that names a removed column fails, and a new column breaks no query."""

    def summary(found: tuple[Difference, ...], *, turned: bool) -> set[tuple[str, ...]]:
        return {
            (each.kind, each.path, str(each.forward if turned else each.backward))
            for each in found
            if each.kind not in ("added", "removed")
            # The columns of a key are listed in the order of the older contract.
            and each.kind != "key"
        }

    there, back = differences(one, other), differences(other, one)
    assert summary(there, turned=False) == summary(back, turned=True)
    assert {each.path for each in there if each.kind == "added"} == {e.path for e in back if e.kind == "removed"}
    keys = [[each for each in found if each.kind == "key"] for found in (there, back)]
    assert [each.backward for each in keys[0]] == [each.forward for each in keys[1]]


@given(CONTRACTS, CONTRACTS)
def test_a_removed_column_always_fails_old_readers_and_never_new_ones(one: Definition, other: Definition) -> None:
    for each in differences(one, other):
        if each.kind == "removed":
            assert directions(each) == BACKWARD
