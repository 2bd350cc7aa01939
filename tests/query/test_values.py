"""Every type of DuckDB with its extreme values, at every depth: each is returned and can be printed."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from click.testing import CliRunner

from lakesmith.cli import app
from lakesmith.query import DuckDB

NESTED_TYPES = {"LIST", "ARRAY", "STRUCT", "TUPLE", "MAP", "UNION"}


class Leaf(NamedTuple):
    """A value in SQL and in Python."""

    type: str
    sql: str
    value: Any


LEAVES = [
    Leaf("DATE", "DATE '2026-01-01'", date(2026, 1, 1)),
    Leaf("DATE", "DATE '0001-01-01'", date.min),
    Leaf("DATE", "DATE '9999-12-31'", date.max),
    Leaf("DATE", "DATE '10000-01-01'", "10000-01-01"),
    Leaf("DATE", "DATE '0001-12-31 (BC)'", "0000-12-31"),
    Leaf("DATE", "DATE '0044-03-15 (BC)'", "-0043-03-15"),
    Leaf("DATE", "DATE '5881580-07-10'", "5881580-07-10"),
    Leaf("DATE", "DATE 'infinity'", "infinity"),
    Leaf("DATE", "DATE '-infinity'", "-infinity"),
    Leaf("TIMESTAMP", "TIMESTAMP '2026-01-01 01:02:03.5'", datetime(2026, 1, 1, 1, 2, 3, 500_000)),
    Leaf("TIMESTAMP", "TIMESTAMP '1969-12-31 23:59:59.999999'", datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    Leaf("TIMESTAMP", "TIMESTAMP '10000-01-01 01:02:03'", "10000-01-01 01:02:03.000000"),
    Leaf("TIMESTAMP", "TIMESTAMP '0044-03-15 (BC) 00:00:00'", "-0043-03-15 00:00:00.000000"),
    Leaf("TIMESTAMP", "TIMESTAMP '294247-01-10 04:00:54.775806'", "294247-01-10 04:00:54.775806"),
    Leaf("TIMESTAMP", "TIMESTAMP 'infinity'", "infinity"),
    Leaf("TIMESTAMP", "TIMESTAMP '-infinity'", "-infinity"),
    Leaf("TIMESTAMP_S", "TIMESTAMP_S '10000-01-01'", "10000-01-01 00:00:00"),
    Leaf("TIMESTAMP_S", "TIMESTAMP_S 'infinity'", "infinity"),
    Leaf("TIMESTAMP_MS", "TIMESTAMP_MS '10000-01-01'", "10000-01-01 00:00:00.000"),
    Leaf("TIMESTAMP_MS", "TIMESTAMP_MS '-infinity'", "-infinity"),
    Leaf("TIMESTAMP_NS", "TIMESTAMP_NS '2026-01-01 00:00:00.123456'", datetime(2026, 1, 1, 0, 0, 0, 123_456)),
    Leaf("TIMESTAMP_NS", "TIMESTAMP_NS '2026-01-01 00:00:00.123456789'", "2026-01-01 00:00:00.123456789"),
    Leaf("TIMESTAMP_NS", "TIMESTAMP_NS 'infinity'", "infinity"),
    Leaf("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ '2026-01-01 02:00:00+02'", datetime(2026, 1, 1, tzinfo=UTC)),
    Leaf("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ '10000-01-01 00:00:00+00'", "10000-01-01 00:00:00.000000Z"),
    Leaf("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ '40000-01-01 00:00:00+00'", "40000-01-01 00:00:00.000000Z"),
    Leaf("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ 'infinity'", "infinity"),
    Leaf("TIMESTAMPTZ_NS", "'2026-01-01 00:00:00.000000001+00'::TIMESTAMPTZ_NS", "2026-01-01 00:00:00.000000001Z"),
    Leaf("TIME", "TIME '12:00:00.5'", time(12, 0, 0, 500_000)),
    Leaf("TIME", "TIME '24:00:00'", "24:00:00"),
    Leaf("TIME_NS", "TIME_NS '12:00:00.123456789'", "12:00:00.123456789"),
    Leaf("TIME WITH TIME ZONE", "TIMETZ '12:00:00+05'", "12:00:00+05"),
    Leaf("INTERVAL", "INTERVAL 1 MONTH", "1 month"),
    Leaf("INTERVAL", "INTERVAL '1000000 years'", "1000000 years"),
    Leaf("HUGEINT", f"{2**127 - 1}::HUGEINT", 2**127 - 1),
    Leaf("HUGEINT", f"'{-(2**127)}'::HUGEINT", -(2**127)),
    Leaf("UHUGEINT", f"{2**128 - 1}::UHUGEINT", str(2**128 - 1)),
    Leaf("BIGNUM", f"'{10**60}'::BIGNUM", str(10**60)),
    Leaf("DECIMAL", f"'{'9' * 38}'::DECIMAL(38,0)", Decimal("9" * 38)),
    Leaf("DECIMAL", f"'-0.{'9' * 38}'::DECIMAL(38,38)", Decimal(f"-0.{'9' * 38}")),
    Leaf("DOUBLE", "'NaN'::DOUBLE", math.nan),
    Leaf("DOUBLE", "'-inf'::DOUBLE", -math.inf),
    Leaf("FLOAT", "'inf'::FLOAT", math.inf),
    Leaf("BIT", "'101'::BIT", "101"),
    Leaf("BLOB", "'\\xAA'::BLOB", b"\xaa"),
    Leaf("VARIANT", "(DATE 'infinity')::VARIANT", "infinity"),
    Leaf("GEOMETRY", "'POINT (1 2)'::GEOMETRY", bytes.fromhex("0101000000000000000000f03f0000000000000040")),
    Leaf("ENUM", "'a'::ENUM('a', 'b')", "a"),
    Leaf("UUID", "'00000000-0000-0000-0000-00000000000a'::UUID", "00000000-0000-0000-0000-00000000000a"),
    Leaf("TYPE", "get_type(1)", "INTEGER"),
    Leaf("VARCHAR", "'\u202etext\n'", "\u202etext\n"),
    Leaf("BOOLEAN", "true", True),
    Leaf("TINYINT", "(-128)::TINYINT", -128),
    Leaf("SMALLINT", "(-32768)::SMALLINT", -32768),
    Leaf("INTEGER", "(-2147483648)::INTEGER", -(2**31)),
    Leaf("BIGINT", "'-9223372036854775808'::BIGINT", -(2**63)),
    Leaf("UTINYINT", "255::UTINYINT", 255),
    Leaf("USMALLINT", "65535::USMALLINT", 65535),
    Leaf("UINTEGER", "4294967295::UINTEGER", 2**32 - 1),
    Leaf("UBIGINT", "18446744073709551615::UBIGINT", 2**64 - 1),
    Leaf("NULL", "NULL", None),
]

TEXT_PATTERNS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "alone": ("{}", lambda value: value),
    "in a list": ("[{0}, NULL, {0}]", lambda value: [value, None, value]),
    "in an array": ("array_value({0}, {0})", lambda value: [value, value]),
    "in a struct": ("{{'a \"b\"': {}, 'n': 1}}", lambda value: {'a "b"': value, "n": 1}),
    "in a tuple": ("row({}, 1)", lambda value: {"element1": value, "element2": 1}),
    "in a map": ("MAP {{'k': {}}}", lambda value: {"k": value}),
    "as a key": ("MAP {{{}: 1}}", lambda value: {value: 1}),
    "in a union": ("union_value(k := {})", lambda value: value),
    "in a list of lists": ("[[{}], [], NULL]", lambda value: [[value], [], None]),
    "in a list of structs of lists": ("[{{'a': [{}]}}, NULL]", lambda value: [{"a": [value]}, None]),
    "in a map of maps": ("MAP {{'k': MAP {{'j': [{}]}}}}", lambda value: {"k": {"j": [value]}}),
    "in a struct of unions": ("{{'u': union_value(k := {})}}", lambda value: {"u": value}),
    "in a key that is a list": ("MAP {{[{}]: 1}}", lambda value: [([value], 1)]),
    "in a key that is a struct": ("MAP {{{{'a': {}}}: 1}}", lambda value: [({"a": value}, 1)]),
}

CASES = [
    (form, leaf)
    for form in TEXT_PATTERNS
    for leaf in LEAVES
    # DuckDB has no NULL keys and no unions without a type.
    if not (leaf.type == "NULL" and form in ("as a key", "in a union", "in a struct of unions"))
    # DuckDB has no list of types as values.
    if not (leaf.type == "TYPE" and form != "alone")
]
COLUMNS = ", ".join(TEXT_PATTERNS[form][0].format(leaf.sql) for form, leaf in CASES)


def same(found: Any, expected: Any) -> bool:
    """Return whether two values are equal in value and type; NaN equals NaN."""
    return repr(found) == repr(expected)


def test_every_type_of_duckdb_has_a_test_value() -> None:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT DISTINCT logical_type FROM duckdb_types()").fetchall()
    assert {kind for (kind,) in found} == {leaf.type for leaf in LEAVES} | NESTED_TYPES


def test_every_value_is_returned_exactly_at_every_depth() -> None:
    [row] = DuckDB().query(f"SELECT {COLUMNS}", {}).rows
    wrong = {
        f"{leaf.sql} {form}": (found, expected)
        for (form, leaf), found in zip(CASES, row, strict=True)
        if not same(found, expected := TEXT_PATTERNS[form][1](leaf.value))
    }
    assert wrong == {}


def test_rows_with_nulls_between_keep_their_order() -> None:
    sql = (
        "SELECT x, [x], MAP {'k': x} FROM (VALUES (DATE 'infinity'), (NULL), (DATE '2026-01-01')) AS v(x) "
        "UNION ALL SELECT NULL, NULL, NULL"
    )
    assert DuckDB().query(sql, {}).rows == (
        ("infinity", ["infinity"], {"k": "infinity"}),
        (None, [None], {"k": None}),
        (date(2026, 1, 1), [date(2026, 1, 1)], {"k": date(2026, 1, 1)}),
        (None, None, None),
    )


def test_a_struct_without_fields_is_returned_at_every_depth() -> None:
    sql = "SELECT x, [x], {'k': x}, MAP {1: x}, union_value(k := [x]) FROM (VALUES ({}), (NULL)) AS v(x)"
    assert DuckDB().query(sql, {}).rows == (
        ({}, [{}], {"k": {}}, {1: {}}, [{}]),
        (None, [None], {"k": None}, {1: None}, [None]),
    )


def test_a_comment_after_the_semicolon_does_not_affect_values_as_text() -> None:
    assert DuckDB().query("SELECT INTERVAL 1 DAY; -- done", {}).rows == (("1 day",),)


@pytest.mark.parametrize("shape", ["table", "markdown", "csv", "json"])
def test_every_value_can_be_printed_in_every_format(shape: str, tmp_path: Path) -> None:
    (tmp_path / "lakesmith.yml").write_text("name: shop\n")
    result = CliRunner().invoke(
        app, ["query", "-", "--lake", str(tmp_path), "--format", shape], input=f"SELECT {COLUMNS}"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    if shape == "json":
        # NaN and Infinity are not JSON.
        cells = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(word))["rows"][0]
    elif shape == "csv":
        cells = list(csv.reader(io.StringIO(result.stdout)))[1]
    else:
        lines = result.stdout.splitlines()
        assert len(lines) == (2 if shape == "table" else 3)
        return
    by_case = dict(zip(((form, leaf.sql) for form, leaf in CASES), cells, strict=True))
    far = "10000-01-01"
    in_list: object = [far, None, far]
    assert by_case["alone", "DATE '10000-01-01'"] == far
    assert by_case["in a list", "DATE '10000-01-01'"] == (in_list if shape == "json" else json.dumps(in_list))
    key = {"2026-01-01T00:00:00Z": 1}
    found = by_case["as a key", "TIMESTAMPTZ '2026-01-01 02:00:00+02'"]
    assert found == (key if shape == "json" else json.dumps(key))
