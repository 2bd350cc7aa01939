from __future__ import annotations

from datetime import date

import pytest
from tests.contracts.contracts import NOON, ORDERS, TODAY, column, declared, previous_version, published, terms

from lakesmith.contracts import ContractComparison, PublishedContract, compare_all, diff_report, new_records
from lakesmith.contracts.problems import problems
from lakesmith.declare import Column, Table
from lakesmith.declare.contract import Compatibility
from lakesmith.errors import DeclarationError, Place

A = column("a")
B = column("b", currency="EUR")


def verdict(table: Table, *recorded: PublishedContract) -> ContractComparison:
    return compare_all({table.name: table}, {str(ORDERS): recorded})[ORDERS]


def wrong(table: Table, *recorded: PublishedContract, readers: tuple[str, ...] = ()) -> list[DeclarationError]:
    return problems(verdict(table, *recorded), lambda *_: readers, TODAY)


@pytest.mark.parametrize(("written", "version"), [(None, "1.0.0"), ("2", "2.0.0"), ("4.3.1", "4.3.1")])
def test_the_first_version_is_1_unless_another_is_written(written: str | None, version: str) -> None:
    assert str(verdict(declared(A, terms=terms(written))).version) == version


@pytest.mark.parametrize(
    ("columns", "version"),
    [
        ([A, B], "1.2.3"),
        ([column("a", description="x"), B], "1.2.4"),
        ([A, B, column("c")], "1.3.0"),
        ([column("a", description="x"), B, column("c")], "1.3.0"),
        ([A], "2.0.0"),
    ],
)
def test_descriptions_are_a_patch_compatible_changes_a_minor_and_others_a_major_version(
    columns: list[Column], version: str
) -> None:
    assert str(verdict(declared(*columns), published("1.2.3", A, B)).version) == version


def test_the_declared_compatibility_decides_which_changes_break() -> None:
    wider = column("a", "bigint")
    for word, version in (("forward", "2.0.0"), ("full", "2.0.0"), ("backward", "1.1.0"), ("none", "1.1.0")):
        found = verdict(declared(wider, terms=terms(compatibility=word)), published("1.0.0", A))  # type: ignore[arg-type]
        assert (word, str(found.version)) == (word, version)


def test_a_breaking_change_names_column_direction_readers_and_next_step() -> None:
    (error,) = wrong(
        declared(A, column("b", "string", currency="EUR")), published("1.4.0", A, B), readers=("gold.x.b",)
    )
    assert (error.code, error.at, error.table) == ("breaking-change", Place("silver/orders.sql", 4), "silver.orders")
    assert error.what == (
        "b is string, was int, which breaks backward compatibility (new readers, old data) and forward compatibility "
        "(old readers, new data) of silver.orders 1.4.0; it is read by gold.x.b"
    )
    assert error.hint == (
        'undo it, or acknowledge: add to `contract` of silver.orders: version: "2", '
        'previous: {"1": {until: "2027-05-14"}}, which keeps version 1 as silver.orders_v1 until that date'
    )


def test_a_removed_column_is_reported_at_the_table_with_a_place_for_its_sql() -> None:
    (error,) = wrong(declared(A, contract="strict"), published("1.0.0", A, B))
    assert error.at == Place("silver/orders.sql", 1)
    assert error.what.endswith("of silver.orders 1.0.0; no table of the lake reads it")
    assert error.hint
    written = ': mode: strict, version: "2", previous: {"1": {until: "2027-05-14", columns: {b: "SQL"}}}, which'
    assert written in error.hint


def test_each_breaking_change_is_a_separate_error() -> None:
    found = wrong(declared(column("a", "string")), published("1.0.0", A, B))
    assert [error.what.split(",")[0] for error in found] == ["a is string", "b was removed"]


def test_one_hint_acknowledges_all_breaking_changes_of_a_table() -> None:
    *others, last = wrong(declared(terms=terms(compatibility="full"), contract="strict"), published("1.0.0", A, B))
    assert [error.hint for error in others] == [None]
    assert last.hint == (
        'undo the 2 changes of silver.orders, or acknowledge: add to `contract` of silver.orders: version: "2", '
        'previous: {"1": {until: "2027-05-14", columns: {a: "SQL", b: "SQL"}}}, which keeps version 1 as '
        "silver.orders_v1 until that date"
    )


@pytest.mark.parametrize(
    ("recorded", "now", "effective"),
    [
        ("forward", "none", "forward"),
        ("none", "forward", "forward"),
        ("full", "backward", "full"),
        ("forward", "backward", "full"),
        ("none", "none", "none"),
        ("backward", "backward", "backward"),
    ],
)
def test_the_stricter_of_recorded_and_declared_compatibility_applies(
    recorded: str, now: Compatibility, effective: str
) -> None:
    table = declared(A, terms=terms(compatibility=now))
    assert verdict(table, published("1.0.0", A, compatibility=recorded)).compatibility == effective


def test_loosening_compatibility_in_the_same_edit_does_not_hide_a_breaking_change() -> None:
    table = declared(A, terms=terms(compatibility="none"))
    (error,) = wrong(table, published("1.0.0", A, B, compatibility="forward"))
    assert error.code == "breaking-change"
    assert error.hint
    assert error.hint.endswith("compatibility: none applies to later changes, after a run has recorded it")
    assert wrong(table, published("1.0.0", A, B, compatibility="none")) == []


def test_declaring_no_columns_removes_every_promise() -> None:
    found = wrong(declared(), published("1.0.0", A, B))
    assert [error.what.split(",")[0] for error in found] == ["a was removed", "b was removed"]
    assert wrong(declared(terms=terms("2")), published("1.0.0", A, B)) == []


@pytest.mark.parametrize("written", ["2", "2.0", "2.0.0", "3"])
def test_a_higher_major_version_acknowledges_a_breaking_change(written: str) -> None:
    table = declared(A, terms=terms(written))
    found = verdict(table, published("1.4.0", A, B))
    assert found.acknowledged
    assert str(found.version) == f"{written[0]}.0.0"
    assert wrong(table, published("1.4.0", A, B)) == []


@pytest.mark.parametrize("written", ["1", "1.5", "1.5.0"])
def test_no_other_version_acknowledges_a_breaking_change(written: str) -> None:
    (error,) = wrong(declared(A, terms=terms(written)), published("1.4.0", A, B))
    assert error.code == "breaking-change"


def test_versions_continue_after_an_acknowledged_change() -> None:
    table = declared(A, column("c"), terms=terms("2"))
    found = verdict(table, published("2.0.0", A), published("1.4.0", A, B))
    assert (str(found.version), found.acknowledged) == ("2.1.0", False)
    assert wrong(table, published("2.0.0", A)) == []


def test_a_version_may_be_raised_without_a_change() -> None:
    found = verdict(declared(A, terms=terms("2")), published("1.0.0", A))
    assert (str(found.version), found.is_new, found.change) == ("2.0.0", True, "only the version")


@pytest.mark.parametrize(
    ("written", "recorded", "what"),
    [
        ("1", "2.0.0", "says version 1, but 2.0.0 is already published"),
        ("2.1.0", "2.1.1", "says version 2.1.0, but 2.1.1 is already published"),
        ("1.0.5", "1.0.4", "says version 1.0.5, but its changes make it 1.1.0: b is new"),
        ("1.0", "1.0.4", "says version 1.0, but its changes make it 1.1.0: b is new"),
    ],
)
def test_a_version_below_the_recorded_one_is_an_error(written: str, recorded: str, what: str) -> None:
    now = (A,) if "published" in what else (A, B)
    (error,) = wrong(declared(*now, terms=terms(written)), published(recorded, A))
    assert (error.code, error.what) == ("version-behind", f"the contract of silver.orders {what}")
    assert error.hint
    assert 'version: "' in error.hint


def test_a_new_major_version_can_keep_the_previous_one() -> None:
    old = published("2.0.0", A, B)
    assert wrong(declared(A, terms=terms("3")), old) == []
    assert wrong(declared(A, terms=terms("3", previous=(previous_version(1), previous_version(2)))), old) == []
    (error,) = wrong(declared(A, terms=terms("3", previous=(previous_version(1),))), old)
    assert (error.code, error.at) == ("previous-missing", Place("silver/orders.sql", 2))
    assert error.hint == 'write previous: {"2": {until: "2027-05-14"}} too, or remove previous'


@pytest.mark.parametrize(("written", "recorded"), [("2", ()), (None, ("2.3.0",)), (None, ()), ("3", ("2.0.0",))])
def test_a_previous_version_has_to_be_earlier(written: str | None, recorded: tuple[str, ...]) -> None:
    table = declared(A, terms=terms(written, previous=(previous_version(3), previous_version(1))))
    errors = wrong(table, *(published(version, A) for version in recorded))
    assert {(error.code, error.at) for error in errors} == {("bad-version", Place("silver/orders.sql", 2))}
    assert errors[0].what.startswith("silver.orders keeps version 3 as a previous one, but its own version is ")


def test_until_is_recorded_with_the_next_version() -> None:
    day = date(2027, 6, 30)
    found = verdict(declared(A, terms=terms("2", previous=(previous_version(1, day),))), published("1.0.0", A, B))
    (record,) = new_records([found], [str(ORDERS)], "r2", NOON)
    assert (record.until, record.acknowledged, record.change) == ("2027-06-30", True, "b was removed")


def test_the_report_lists_each_change_with_the_version_that_it_requires() -> None:
    found = diff_report(
        verdict(declared(column("a", "bigint", tags=("x",)), B), published("1.0.0", A, B)), lambda *_: ("gold.x.a",)
    )
    assert (found.recorded, found.version, found.compatibility) == ("1.0.0", "2.0.0", "forward")
    assert [(each.what, each.breaking, each.version, each.consumers) for each in found.changes] == [
        ("a is bigint, was int", True, "2.0.0", ("gold.x.a",)),
        ("tags of a changed", False, "1.0.1", ()),
    ]
