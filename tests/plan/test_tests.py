"""Unit tests are checked against the lake before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesmith.declare import TableName
from lakesmith.errors import Problems, UsageError
from lakesmith.lake import Lake
from lakesmith.load import load_tests
from lakesmith.plan.tests import chosen_tests, untested

FILES = {
    "lakesmith.yml": "name: shop\n",
    "bronze/codes.yml": "source: {files: landing/codes/*.json}\ncontract: strict\ncolumns: {code: string, size: int}\n",
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
    "silver/orders.sql": "SELECT id, amount FROM bronze.orders\n",
    "gold/sizes.sql": (
        "/* lakesmith\nload: {scd2: {key: code, order_by: size}}\n*/\nSELECT code, size FROM bronze.codes\n"
    ),
}


def lake(folder: Path, **tests: str) -> Lake:
    written = {f"tests/{name}.yml": text for name, text in tests.items()}
    for name, text in {**FILES, **written}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Lake.open(folder)


def errors_of(folder: Path, text: str) -> list[tuple[str, str]]:
    """Return the errors of `Lake.test` before it starts Spark."""
    with pytest.raises(Problems) as caught:
        lake(folder, a=text).test()
    return [(error.code, str(error.at)) for error in caught.value.errors]


def test_missing_columns_and_tables_are_reported_with_their_place(tmp_path: Path) -> None:
    text = (
        "a:\n  table: gold.sizes\n  given:\n    bronze.codes:\n      - {cod: x, _source_file: a}\n"
        "    bronze.orders: [{anything: 1}]\n  expect:\n    - {code: 1, valid_from: 2026-01-01, siez: 1}\n"
    )
    assert errors_of(tmp_path, text) == [
        ("unknown-column", "tests/a.yml:5"),
        ("not-testable", "tests/a.yml:6"),
        ("unknown-column", "tests/a.yml:8"),
    ]


def test_rows_of_the_tested_table_cannot_come_later(tmp_path: Path) -> None:
    text = "a:\n  table: silver.orders\n  then:\n    - silver.orders: [{id: 1}]\n    - bronze.codes: []\n  expect: []\n"
    assert errors_of(tmp_path, text) == [("not-testable", "tests/a.yml:4"), ("not-testable", "tests/a.yml:1")]


def test_tests_are_chosen_by_table_and_by_a_part_of_their_name(tmp_path: Path) -> None:
    orders, sizes = TableName("silver", "orders"), TableName("gold", "sizes")
    opened = lake(
        tmp_path,
        a="Late_rows: {table: silver.orders, expect: []}\nno_rows: {table: silver.orders, expect: []}\n",
        b="late_codes: {table: gold.sizes, expect: []}\n",
    )
    tests = load_tests(opened.declaration.path, opened.tables)
    assert [test.name for test in chosen_tests(tests, frozenset((orders, sizes)), "late")] == [
        "Late_rows",
        "late_codes",
    ]
    assert [test.name for test in chosen_tests(tests, frozenset((orders,)), None)] == ["Late_rows", "no_rows"]
    with pytest.raises(UsageError, match="no test has 'codes' in its name"):
        chosen_tests(tests, frozenset((orders,)), "codes")


def test_bronze_tables_need_no_tests(tmp_path: Path) -> None:
    opened = lake(tmp_path, a="a: {table: silver.orders, expect: []}\n")
    tests = load_tests(opened.declaration.path, opened.tables)
    assert untested(tests, frozenset(opened.tables), opened.tables) == ("gold.sizes",)


def test_a_lake_without_tests_starts_nothing(tmp_path: Path) -> None:
    report = lake(tmp_path).test(on_event=lambda _: pytest.fail("Spark was started"))
    assert (report.results, report.untested) == ((), ("gold.sizes", "silver.orders"))
