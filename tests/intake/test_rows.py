"""Values are stored in their columns unchanged, or rescued; none is lost or silently cast."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesmith.columns import CORRUPT, ERROR_CODE, RESCUED, ROW_HASH
from lakesmith.intake.rows import SHOWN, Abort, Broken, Target, Unreadable, as_json, fit_rows, hashes, shape_of, shown
from lakesmith.intake.shapes import Number, schema_of, spark_type


def fit(record: Mapping[str, object], columns: Mapping[str, str], **how: Any) -> dict[str, Any]:
    """Return the only row of a record, without NULLs."""
    target = Target(schema=schema_of(columns), **{"surveyed": True, **how})
    batch = fit_rows([record], [b"raw"], target)
    batch.validate(full=True)
    return {name: value for name, value in batch.to_pylist()[0].items() if value is not None and name != ROW_HASH}


def held(value: object, type: str, **how: Any) -> object:
    """Return the stored value; None when it is rescued."""
    row = fit({"x": value}, {"x": type}, **how)
    assert ("x" in row) != (RESCUED in row)
    return row.get("x")


@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        (True, "boolean", True),
        (127, "tinyint", 127),
        (-(2**63), "bigint", -(2**63)),
        (2**53, "double", float(2**53)),
        (2**60, "double", float(2**60)),
        (2**24, "float", float(2**24)),
        (Number("0.1"), "double", 0.1),
        (Number("-0"), "double", 0.0),
        (Number("-0"), "bigint", 0),
        (0.5, "float", 0.5),
        (Decimal("0.5"), "double", 0.5),
        (Decimal("12.3400"), "decimal(5,2)", Decimal("12.34")),
        (Number("12.3400"), "decimal(5,2)", Decimal("12.34")),
        (Number("1e2"), "decimal(5,2)", Decimal("100.00")),
        (Number("0e9999"), "decimal(5,2)", Decimal("0.00")),
        (Number("0e-9999"), "decimal(5,2)", Decimal("0.00")),
        (Number("1." + "0" * 100_000), "decimal(5,2)", Decimal("1.00")),
        (10**36, "decimal(38,1)", Decimal(10**36)),
        ("12.34", "decimal(5,2)", Decimal("12.34")),
        ("2026-01-31", "date", date(2026, 1, 31)),
        (date(2026, 1, 31), "date", date(2026, 1, 31)),
        ("2026-01-31T12:00:00Z", "timestamp", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00.5+02:00", "timestamp", datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00+0200", "timestamp", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T12:00:00.1234560Z", "timestamp", datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-01-31T12:00:00", "timestamp_ntz", datetime(2026, 1, 31, 12)),
        (b"\x00", "binary", b"\x00"),
        ("x", "string", "x"),
        (1, "string", "1"),
        (True, "string", "true"),
        (Number("1.50"), "string", "1.50"),
        (Decimal("1.50"), "string", "1.50"),
        (date(2026, 1, 31), "string", "2026-01-31"),
        ({"a": [Number("1.50"), None]}, "string", '{"a": [1.50, null]}'),
        ({"a": 1}, "map<string,bigint>", [("a", 1)]),
        ([1, None], "array<bigint>", [1, None]),
    ],
)
def test_a_value_that_fits_is_stored(value: object, type: str, expected: object) -> None:
    assert held(value, type) == expected


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (1, "boolean"),
        (True, "bigint"),
        ("1.0", "bigint"),
        ("true", "boolean"),
        ("1,5", "double"),
        (128, "tinyint"),
        (2**63, "bigint"),
        (Number("1.0"), "bigint"),
        (2**53 + 1, "double"),
        (10**400, "double"),
        (Number("1e400"), "double"),
        (2**24 + 1, "float"),
        (Number("1e39"), "float"),
        (0.1, "float"),
        (1e39, "float"),
        (Decimal("0.1"), "double"),
        (Decimal("1e400"), "double"),
        (Number("12.345"), "decimal(5,2)"),
        (1000, "decimal(5,2)"),
        (10**38, "decimal(38,0)"),
        (Number("1e-1"), "decimal(38,0)"),
        ("1e999", "decimal(5,2)"),
        ("NaN", "decimal(5,2)"),
        ("", "decimal(5,2)"),
        ("0000-01-01", "date"),
        ("10000-01-01", "date"),
        ("2026-13-01", "date"),
        ("2026-02-30", "date"),
        ("2026-01-31T00:00:00Z", "date"),
        ("2026-01-31", "timestamp"),
        ("2026-01-31T12:00:00", "timestamp"),
        ("2026-02-30T12:00:00Z", "timestamp"),
        ("0000-01-01T00:00:00Z", "timestamp"),
        ("9999-12-31T23:59:59-01:00", "timestamp"),
        ("0001-01-01T00:00:00+01:00", "timestamp"),
        ("2026-01-31T24:00:00Z", "timestamp"),
        ("2026-01-31T12:00:00.1234567Z", "timestamp"),
        ("2026-01-31T12:00:00+25:00", "timestamp"),
        ("2026-01-31T12:00:00Z", "timestamp_ntz"),
        (datetime(2026, 1, 31), "timestamp"),
        (datetime(2026, 1, 31), "date"),
        (1769860800, "timestamp"),
        ("x", "binary"),
        (b"x", "string"),
        (1, "struct<a:bigint>"),
        ([1], "struct<a:bigint>"),
        ({"a": 1}, "array<bigint>"),
        ("ab", "array<string>"),
        ({"a": 1}, "map<bigint,bigint>"),
        (1, "map<string,bigint>"),
    ],
)
def test_a_value_that_does_not_fit_is_rescued(value: object, type: str) -> None:
    assert held(value, type) is None


def test_a_minus_zero_keeps_its_sign() -> None:
    assert str(held(Number("-0"), "double")) == "-0.0"


def test_a_time_without_a_zone_has_the_zone_of_the_source() -> None:
    found = held("2026-07-01T12:00:00", "timestamp", timezone="Europe/Berlin")
    assert found == datetime(2026, 7, 1, 10, tzinfo=UTC)


def test_a_zone_in_the_value_overrides_that_of_the_source() -> None:
    # The first hour does not exist, and the second occurs twice.
    assert held("2026-03-29T02:30:00", "timestamp", timezone="Europe/Berlin") is None
    twice = held("2026-10-25T02:30:00", "timestamp", timezone="Europe/Berlin")
    assert twice == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    found = held("2026-07-01T12:00:00Z", "timestamp", timezone="Europe/Berlin")
    assert found == datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "type", "expected"),
    [
        (" 12 ", "bigint", 12),
        ("+12", "bigint", 12),
        ("True", "boolean", True),
        (" FALSE", "boolean", False),
        ("1e2", "double", 100.0),
        (".5", "float", 0.5),
        (" 1.50 ", "decimal(5,2)", Decimal("1.50")),
    ],
)
def test_text_is_parsed_as_the_column_s_type_in_text_formats(text: str, type: str, expected: object) -> None:
    assert held(text, type, text=True) == expected


@pytest.mark.parametrize(
    ("text", "type"),
    [
        *(
            ("0x1F", "bigint"),
            ("1_000", "bigint"),
            ("1.0", "bigint"),
            ("", "bigint"),
            ("1" * 500, "bigint"),
            ("١", "bigint"),
        ),
        *(("nan", "double"), ("inf", "double"), ("1e400", "double"), ("9007199254740993", "double"), ("1,5", "double")),
        *(("16777217", "float"), ("1e39", "float"), ("yes", "boolean"), ("1", "boolean"), ("1.555", "decimal(5,2)")),
    ],
)
def test_text_that_does_not_fit_its_type_is_rescued(text: str, type: str) -> None:
    assert held(text, type, text=True) is None


def test_nested_values_that_do_not_fit_are_rescued_under_dotted_names() -> None:
    record = {"n": {"a": "x", "B": 1, "c": 2}, "l": [1, "y"], "m": {"k": "z"}}
    columns = {"n": "struct<a:bigint,b:bigint>", "l": "array<bigint>", "m": "map<string,bigint>"}
    row = fit(record, columns)
    assert row.pop(RESCUED) == '{"n.a": "x", "n.c": 2, "l[1]": "y", "m.k": "z"}'
    assert row == {"n": {"a": None, "b": 1}, "l": [1, None], "m": [("k", None)]}


def test_names_ignore_case() -> None:
    assert fit({"ID": 1}, {"id": "bigint"}) == {"id": 1}


def test_a_new_field_aborts_the_job_without_a_survey() -> None:
    with pytest.raises(Abort) as caught:
        fit({"n": {"new": None}}, {"n": "struct<a:bigint>"}, surveyed=False)
    assert (caught.value.kind, caught.value.detail) == ("new-fields", "n.new")
    assert fit({"n": {"new": 1}}, {"n": "struct<a:bigint>"}) == {"n": {"a": None}, RESCUED: '{"n.new": 1}'}


def test_a_wider_value_aborts_the_job_without_a_survey() -> None:
    columns, huge = {"n": "struct<a:bigint>", "m": "bigint"}, 10**30
    for record, name in (({"n": {"a": huge}}, "n.a"), ({"m": huge}, "m")):
        with pytest.raises(Abort) as caught:
            fit(record, columns, surveyed=False, widening=frozenset(columns))
        assert (caught.value.kind, caught.value.detail) == ("new-fields", name)
    assert fit({"m": huge}, columns, widening=frozenset(columns))[RESCUED] == f'{{"m": {huge}}}'


@pytest.mark.parametrize("value", [3.5, "x", True, 10**40, [1], {"a": 1}])
def test_a_value_that_cannot_widen_a_column_is_rescued(value: object) -> None:
    assert fit({"m": value}, {"m": "bigint"}, surveyed=False, widening=frozenset({"m"}))[RESCUED] is not None


def test_only_undeclared_columns_are_widened() -> None:
    columns = {"free": "struct<a:bigint>", "held": "struct<a:bigint>"}
    row = fit({"held": {"a": 10**30}}, columns, surveyed=False, widening=frozenset({"free"}))
    assert json.loads(row[RESCUED]) == {"held.a": 10**30}


@pytest.mark.parametrize("name", ["two words", "a,b", "_row_hash", "_lakesmith_code", "", "a\x00b"])
def test_a_field_with_an_invalid_column_name_is_rescued(name: str) -> None:
    row = fit({name: 1}, {"id": "bigint"}, surveyed=False)
    assert json.loads(row[RESCUED]) == {name: 1}


def test_an_unreadable_record_is_stored_unchanged() -> None:
    target = Target(schema=schema_of({"id": "bigint"}))
    (row,) = fit_rows([Unreadable("bad", "it is bad")], [b"\xff\x00 a"], target).to_pylist()
    assert row == {
        "id": None,
        ROW_HASH: hashes([b"\xff\x00 a"])[0],
        RESCUED: None,
        CORRUPT: "\\xff\\x00 a",
        ERROR_CODE: "bad: it is bad",
    }


def test_a_shown_record_is_truncated() -> None:
    assert shown(b"a" * (SHOWN + 1)) == "a" * SHOWN + f"… ({SHOWN + 1:,} bytes)"


def test_a_hash_is_128_bits_of_the_bytes() -> None:
    assert hashes([b"", b"a"]) == ["cae66941d9efbd404e4d88758ea67670", "27c35e6e9373877f29e562464e46497e"]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
)


@given(JSON)
def test_values_written_as_json_are_read_back(value: object) -> None:
    assert json.loads(as_json(value)) == value


@given(JSON)
def test_digits_are_stored_as_written(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert as_json(json.loads(text, parse_float=Number)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Number("1.50"), "1.50"),
        (Number("1e400"), "1e400"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
        (Decimal("1.50"), '"1.50"'),
        (date(2026, 1, 31), '"2026-01-31"'),
        (b"\x01\xff", '"01ff"'),
    ],
)
def test_values_without_a_json_type_become_text(value: object, text: str) -> None:
    assert as_json({"x": value}) == f'{{"x": {text}}}'


def test_a_number_can_be_pickled() -> None:
    for again in (pickle.loads(pickle.dumps(Number("1.50"))), copy.deepcopy(Number("1.50"))):
        assert (again, again.text) == (1.5, "1.50")


def test_an_error_can_be_pickled() -> None:
    broken = pickle.loads(pickle.dumps(Broken("gone", "it is gone", passing=True)))
    assert (str(broken), broken.passing) == ("gone: it is gone", True)
    abort = pickle.loads(pickle.dumps(Abort("broken", "a/b", "why")))
    assert (abort.kind, abort.path, abort.detail) == ("broken", "a/b", "why")


def test_an_abort_is_parsed_from_the_text_of_another_error() -> None:
    abort = Abort("new-fields", 'a "b"', "x\ny")
    found = Abort.in_text(f"Job aborted:\n  {abort}\n  at org.apache")
    assert found is not None
    assert (found.kind, found.path, found.detail) == ("new-fields", 'a "b"', "x\ny")
    assert Abort.in_text("Job aborted") is None


def test_the_shape_of_records_omits_unreadable_and_unnamable_fields() -> None:
    found = shape_of([{"a": 1}, Unreadable("bad", ""), {}, {"two words": 1}, {"A": Number("1.5"), "b": None}])
    assert str(spark_type(found)) == "struct<a:double,b:void>"
    assert shape_of([]) == pa.struct([])
