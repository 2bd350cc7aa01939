"""Test files become tests; their errors are reported with a place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.load.conftest import write

from lakesmith.declare import TableName
from lakesmith.declare.tests import TableTest, Word
from lakesmith.errors import LakesmithError, Problems
from lakesmith.load import load_lake, load_tests

LAKE = {
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
    "silver/orders.sql": "SELECT order_id, amount FROM bronze.orders\n",
    "gold/sales.sql": "SELECT sum(amount) AS amount FROM silver.orders\n",
}
BRONZE, SILVER, GOLD = TableName("bronze", "orders"), TableName("silver", "orders"), TableName("gold", "sales")


def loaded(folder: Path, files: dict[str, str]) -> tuple[TableTest, ...]:
    write(folder, {**LAKE, **files})
    lake = load_lake(folder)
    return load_tests(lake.path, lake.tables)


def rejected(folder: Path, files: dict[str, str]) -> list[str]:
    with pytest.raises(LakesmithError) as caught:
        loaded(folder, files)
    errors = caught.value.errors if isinstance(caught.value, Problems) else (caught.value,)
    return [f"{error.at}: {error.code}" for error in errors]


def texts(test: TableTest, table: TableName) -> list[dict[str, object]]:
    return [
        {name: value.text if isinstance(value, Word) else value for name, value in row.values.items()}
        for row in test.given[table]
    ]


def test_a_test_file_beside_a_declaration_tests_its_table(tmp_path: Path) -> None:
    (test,) = loaded(
        tmp_path,
        {
            "silver/orders.test.yml": (
                "one:\n  given:\n    bronze.orders:\n      - {order_id: 1, note: ~}\n  expect: []\n"
            )
        },
    )
    assert (test.name, test.table, str(test.declared_at)) == ("one", SILVER, "silver/orders.test.yml:1")
    assert texts(test, BRONZE) == [{"order_id": "1", "note": None}]
    assert test.expect == ()
    assert test.quarantine is None


def test_files_below_tests_name_their_table(tmp_path: Path) -> None:
    (test,) = loaded(tmp_path, {"tests/money/sales.yml": "none:\n  table: gold.sales\n  expect: []\n"})
    assert (test.table, test.declared_at.file) == (GOLD, "tests/money/sales.yml")


def test_a_quoted_number_is_a_text_and_a_plain_one_can_be_a_number(tmp_path: Path) -> None:
    (test,) = loaded(
        tmp_path, {"silver/orders.test.yml": 'a: {given: {bronze.orders: [{x: "5", y: 5}]}, expect: []}\n'}
    )
    x, y = (test.given[BRONZE][0].values[name] for name in "xy")
    assert isinstance(x, Word)
    assert isinstance(y, Word)
    assert (x.plain, y.plain) == (False, True)


def test_rows_can_be_in_a_csv_file_without_nulls(tmp_path: Path) -> None:
    (test,) = loaded(
        tmp_path,
        {
            "silver/orders.test.yml": "a: {given: {bronze.orders: in.csv}, expect: in.csv}\n",
            "silver/in.csv": 'order_id,note\n1,"a, b"\n2,\n',
        },
    )
    assert texts(test, BRONZE) == [{"order_id": "1", "note": "a, b"}, {"order_id": "2", "note": None}]
    assert str(test.given[BRONZE][1].at) == "silver/in.csv:3"


def test_nested_values_later_batches_and_rules_are_read(tmp_path: Path) -> None:
    (test,) = loaded(
        tmp_path,
        {
            "silver/orders.test.yml": (
                "a:\n"
                "  given: {bronze.orders: [{lines: [{sku: a}], to: {city: Bonn}}]}\n"
                "  then:\n    - bronze.orders: [{order_id: 2}]\n"
                "  quarantine:\n    - {order_id: 2, rules: [amount.check, amount.type]}\n    - {order_id: 3}\n"
            )
        },
    )
    row = test.given[BRONZE][0].values
    assert isinstance(row["lines"], tuple)
    assert isinstance(row["to"], dict)
    assert [list(batch) for batch in test.then] == [[BRONZE]]
    assert test.quarantine is not None
    assert [each.rules for each in test.quarantine] == [("amount.check", "amount.type"), None]
    assert test.expect is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a:\n  gven: {}\n  expect: []\n", "silver/orders.test.yml:2: unknown-key"),
        ("a: {expect: []}\na: {expect: []}\n", "silver/orders.test.yml:2: duplicate-key"),
        ("a:\n  given: {}\n", "silver/orders.test.yml:1: missing-key"),
        ("a:\n  given:\n    bronze.ordres: []\n  expect: []\n", "silver/orders.test.yml:3: unknown-table"),
        ("a:\n  table: gold.slaes\n  expect: []\n", "silver/orders.test.yml:2: unknown-table"),
        ("a:\n  table: bronze.orders\n  expect: []\n", "silver/orders.test.yml:2: not-testable"),
        ("a:\n  expect: many\n", "silver/orders.test.yml:2: wrong-type"),
        ("a:\n  expect:\n", "silver/orders.test.yml:2: wrong-type"),
        ("a:\n  expect:\n    - 5\n", "silver/orders.test.yml:3: wrong-type"),
        ("a:\n  expect:\n    - {x: 1, X: 2}\n", "silver/orders.test.yml:3: duplicate-key"),
        ("a:\n  expect: none.csv\n", "silver/orders.test.yml:2: bad-csv"),
        ("a:\n  quarantine:\n    - {rules: {a: 1}}\n", "silver/orders.test.yml:3: wrong-type"),
        ("", "silver/orders.test.yml:1: empty-file"),
    ],
)
def test_an_invalid_test_is_reported_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    assert rejected(tmp_path, {"silver/orders.test.yml": text}) == [problem]


def test_a_test_without_a_declaration_beside_it_must_name_its_table(tmp_path: Path) -> None:
    assert rejected(tmp_path, {"silver/ordres.test.yml": "a: {expect: []}\n"}) == [
        "silver/ordres.test.yml:1: missing-key"
    ]


def test_a_line_of_csv_with_another_number_of_values_is_reported(tmp_path: Path) -> None:
    files = {"silver/orders.test.yml": "a: {expect: out.csv}\n", "silver/out.csv": "a,b\n1,2\n1,2,3\n"}
    assert rejected(tmp_path, files) == ["silver/out.csv:3: bad-csv"]


def test_a_file_that_no_test_names_is_an_unknown_file(tmp_path: Path) -> None:
    write(tmp_path, {**LAKE, "silver/orders.test.yml": "a: {expect: out.csv}\n", "silver/other.csv": "a\n"})
    with pytest.raises(LakesmithError) as caught:
        load_lake(tmp_path)
    assert (caught.value.code, str(caught.value.at)) == ("unknown-file", "silver/other.csv:1")
