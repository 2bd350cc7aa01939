from __future__ import annotations

import json

from tests.contracts.contracts import NOON, column, contract, declared, published, terms

from lakesmith.contracts import Definition, compare_all, definition_of, new_records, published_from


def test_a_definition_is_unchanged_after_write_and_read() -> None:
    one = contract(column("a", key=True, tags=("pii",), currency="EUR"), column("b", None), mode="strict")
    assert Definition.parse(one.text) == one


def test_a_table_without_declared_columns_has_no_contract() -> None:
    assert compare_all({declared().name: declared()}, {}) == {}


def test_the_hash_depends_only_on_promises() -> None:
    one = definition_of(declared(column("a")))
    for other in (declared(column("a"), owner="sales"), declared(column("a"), terms=terms("3"))):
        assert one.hash == definition_of(other).hash
    for other in (declared(column("a", description="x")), declared(column("a"), contract="strict")):
        assert one.hash != definition_of(other).hash


def test_promises_of_later_lakesmith_versions_are_ignored() -> None:
    stored = json.loads(contract(column("a")).text)
    stored["columns"][0]["moonphase"] = "full"
    assert Definition.parse(json.dumps(stored)) == contract(column("a"))


def test_the_newest_version_comes_first_in_any_storage_order() -> None:
    records = [
        record
        for version in ("1.9.0", "1.10.0", "1.2.0")
        for table in [declared(column("a"), terms=terms(version))]
        for record in new_records(compare_all({table.name: table}, {}).values(), [str(table.name)], "r1", NOON)
    ]
    (versions,) = published_from(records).values()
    assert [str(each.version) for each in versions] == ["1.10.0", "1.9.0", "1.2.0"]


def test_only_new_contracts_of_successful_steps_are_recorded() -> None:
    table = declared(column("a"))
    name = str(table.name)
    (record,) = new_records(compare_all({table.name: table}, {}).values(), [name], "r1", NOON)
    assert (record.version, record.change, record.acknowledged, record.until) == ("1.0.0", "first version", False, None)
    assert new_records(compare_all({table.name: table}, {}).values(), [], "r1", NOON) == []
    there = published_from([record])
    assert new_records(compare_all({table.name: table}, there).values(), [name], "r2", NOON) == []
    wider = declared(column("a"), column("b"))
    (record,) = new_records(compare_all({table.name: wider}, there).values(), [name], "r2", NOON)
    assert (record.version, record.change, record.run_id) == ("1.1.0", "b is new", "r2")


def test_columns_in_another_order_are_the_same_version() -> None:
    table = declared(column("b"), column("a"))
    there = {str(table.name): (published("1.0.0", column("a"), column("b")),)}
    assert new_records(compare_all({table.name: table}, there).values(), [str(table.name)], "r2", NOON) == []
