from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.contracts.contracts import column, declared

from lakesmith.contracts import compare_stored_table
from lakesmith.declare import Merge
from lakesmith.ports import ColumnFact, TableFacts
from lakesmith.store import folder_at


def stored(**types: str) -> TableFacts:
    return TableFacts(
        folder=folder_at("/w/silver/orders"),
        version=0,
        table_id="t",
        columns=tuple(ColumnFact(name, type) for name, type in types.items()),
        partition_by=(),
        rows=0,
        bytes=0,
        files=0,
        committed_at=datetime(2026, 1, 1, tzinfo=UTC),
        oldest=0,
        sequence=1,
    )


def test_a_stored_table_with_the_declared_columns_agrees() -> None:
    table = declared(column("Id", "bigint"), column("x", "struct<a:int,b:array<string>>"), column("any", None))
    facts = stored(id="bigint", x="struct<`b`:array<string>,`a`:int>", any="double", more="int")
    assert compare_stored_table(table, facts).state == "agrees"


def test_a_table_that_is_not_built_does_not_differ() -> None:
    assert compare_stored_table(declared(column("a")), None).state == "not built"


@pytest.mark.parametrize(
    ("declared_type", "stored_type", "path", "what"),
    [
        ("int", "bigint", "a", "has another type"),
        ("struct<b:int>", "struct<`b`:bigint>", "a.b", "has another type"),
        ("struct<b:int,c:int>", "struct<`b`:int>", "a.c", "is not in the table"),
    ],
)
def test_a_difference_is_reported_by_path(declared_type: str, stored_type: str, path: str, what: str) -> None:
    found = compare_stored_table(declared(column("a", declared_type)), stored(a=stored_type))
    (one,) = found.differences
    assert (found.state, one.column, one.what) == ("differs", path, what)
    assert (one.declared, one.stored) == (declared_type, stored_type)


def test_a_declared_column_that_is_not_stored_is_reported() -> None:
    (one,) = compare_stored_table(declared(column("a"), column("b")), stored(a="int")).differences
    assert (one.column, one.stored, one.what) == ("b", None, "is not in the table")


def test_only_a_strict_contract_rejects_undeclared_columns_except_audit_columns() -> None:
    facts = stored(a="struct<`b`:int>", _run_id="string", gone="boolean", extra="int")
    load = Merge(key=("a",), soft_delete="gone")
    found = compare_stored_table(declared(column("a", "struct<b:int>"), contract="strict", load=load), facts)
    assert [(one.column, one.what) for one in found.differences] == [("extra", "is not in the contract")]
    nested = compare_stored_table(declared(column("a", "struct<c:int>"), contract="strict", load=load), facts)
    assert [one.column for one in nested.differences] == ["a.c", "a.b", "extra"]
