"""JSON texts become rows, equally in a block and one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from ctypes import c_float
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.intake.reading import as_records, legible

from lakesmith.columns import ERROR_CODE, RESCUED, ROW_HASH
from lakesmith.intake import json_text
from lakesmith.intake.json_text import parse, rows, shape
from lakesmith.intake.rows import Abort, Target, Unreadable, as_json, fit_rows, hashes
from lakesmith.intake.shapes import Number, schema_of, spark_type, wider

COLUMNS = {
    "id": "bigint",
    "small": "smallint",
    "name": "string",
    "price": "decimal(9,2)",
    "ratio": "double",
    "narrow": "float",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "ok": "boolean",
    "nest": "struct<a:bigint,at:timestamp,price:decimal(5,1),deep:struct<b:string>>",
    "items": "array<bigint>",
    "lots": "array<struct<sku:string,n:double>>",
}
SCHEMA = schema_of(COLUMNS)
NUMBERS = [
    *(
        "0",
        "-0",
        "-0.0",
        "1",
        "-1",
        "1.0",
        "1.5",
        "1e2",
        "1E+2",
        "1e-2",
        "12.345",
        "12.340",
        "0.1",
        "32768",
        "16777217",
    ),
    *("9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775807", "9223372036854775808"),
    *(
        "32768",
        "16777217",
        "1e15",
        "9999999.99",
        "99999999.99",
        "1e39",
        "1e400",
        "-1e400",
        "1e-400",
        "0e9999",
        "1" * 5000,
    ),
    *(
        "123456789012345678901234567890.5",
        "1e-400",
        "0." + "3" * 50,
        "3.4028236e38",
        "NaN",
        "Infinity",
        "-Infinity",
        "01",
    ),
]
TEXTS = [
    *(
        "",
        "a",
        "é",
        "\U0001f600",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud800",
        "\\udc00x",
        "\\u0000",
        "tab\\t",
        "a\\\\",
        "\x01",
    ),
    *(
        "1",
        "12.34",
        " 12.34 ",
        "+5",
        "1e2",
        "12.345",
        "true",
        "null",
        "x\\",
        "\\x",
        "2026-01-31",
        "2026-02-30",
        "0000-01-01",
    ),
    *("9999-12-31", "10000-01-01", "2026-1-1", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00"),
    *("2026-01-31T12:00:00+02:00", "2026-01-31T12:00:00-0530", "2026-01-31T12:00:00+25:00", "0000-01-01T00:00:00Z"),
    *("9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2026-01-31T24:00:00Z", "2026-01-31T23:59:60Z"),
    *("2026-01-31T12:00:00.1234567Z", "2026-01-31T12:00:00.1234560Z", "2026-01-31T12:00Z", "2026-01-31T12:00:00z"),
    *(
        "2026-01-31 12:00:00.5Z",
        "2026-03-29T02:30:00",
        "2026-10-25T02:30:00",
        "2026-13-01T00:00:00Z",
        "2026-01-31T12:00:00 Z",
    ),
]
SCALARS = st.sampled_from([*NUMBERS, *(f'"{text}"' for text in TEXTS), "null", "true", "false", "nul", "", "{}", "[]"])
GOOD: Mapping[str, st.SearchStrategy[str]] = {
    "id": st.integers(-(2**63), 2**63 - 1).map(str),
    "small": st.integers(-100, 100).map(str),
    "name": st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    "price": st.decimals(-9999, 9999, places=2).map(str),
    "ratio": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "narrow": st.floats(-1e6, 1e6, width=32).map(repr),
    "day": st.dates().map(lambda day: f'"{day}"'),
    "at": st.datetimes().map(lambda at: f'"{at.isoformat()}Z"'),
    "local": st.datetimes().map(lambda at: f'"{at.isoformat(sep=" ")}"'),
    "ok": st.booleans().map(lambda ok: str(ok).lower()),
    "nest": st.sampled_from(['{"a": 1}', '{"at": "2026-01-31T12:00:00Z", "deep": {"b": "x"}}', "{}", '{"price": 1.5}']),
    "items": st.lists(st.integers(0, 9)).map(json.dumps),
    "lots": st.sampled_from(["[]", '[{"sku": "a", "n": 1}, null]', '[{"n": 1.5}]']),
}


def _fields(name: str) -> st.SearchStrategy[str]:
    dirty = st.one_of(
        SCALARS,
        SCALARS.map(lambda text: f"[{text}]"),
        SCALARS.map(lambda text: f'{{"a": {text}}}'),
        SCALARS.map(lambda text: f'{{"at": {text}, "price": {text}, "deep": {{"b": {text}}}}}'),
        SCALARS.map(lambda text: f'[{{"sku": "s", "n": {text}}}]'),
    )
    return st.one_of(*([GOOD[name]] * 8), dirty).map(lambda text: f'"{name}": {text}')


def _record(names: list[str]) -> st.SearchStrategy[bytes]:
    return st.tuples(*map(_fields, names)).map(lambda fields: f"{{{', '.join(fields)}}}".encode())


RECORDS = st.one_of(
    *([st.lists(st.sampled_from(list(COLUMNS)), unique=True, max_size=5).flatmap(_record)] * 12),
    st.sampled_from(
        [
            *(b"null", b"[]", b"1", b'"x"', b"{", b"}", b"{}", b'{"id": 1} {"id": 2}', b'{"id": 1}{"id": 2}', b"{} {}"),
            *(b'{"id": 1, "id": 2}', b'{"id": 1, "ID": 2}', b'{"ID": 1}', b'{"nest": {"a": 1, "A": 2}}', b'{"id": 1,}'),
            *(
                b'\xef\xbb\xbf{"id": 1}',
                b'{"id": 1}\x00',
                b'{"name": "\xff"}',
                b' {"id": 1} ',
                b'{"id": 1}\r',
                b'{"id":',
            ),
            *(
                b'{"new": 1}',
                b'{"nest": {"new": 1}}',
                b'{"two words": 1}',
                b'{"": 1}',
                b'{"\\u0069d": 1}',
                b"{'id': 1}",
            ),
            b'{"nest": ' + b"[" * 300 + b"]" * 300 + b"}",
        ]
    ),
)


def by_itself(text: bytes, target: Target) -> dict[str, Any]:
    raw = as_records([text]).raws()[0]
    return legible(fit_rows([parse(raw)], [raw], target))[0]


def read(record: object, columns: Mapping[str, str], **how: Any) -> dict[str, Any]:
    """Return the only row of a record, without NULLs."""
    text = record if isinstance(record, bytes) else json.dumps(record).encode()
    target = Target(schema=schema_of(columns), surveyed=True, **how)
    (batch,) = rows(as_records([text]), target)
    return {name: value for name, value in batch.to_pylist()[0].items() if value is not None and name != ROW_HASH}


@pytest.mark.parametrize("timezone", [None, "Europe/Berlin"])
@given(texts=st.lists(RECORDS, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_record_becomes_the_same_row_in_a_block_and_by_itself(timezone: str | None, texts: list[bytes]) -> None:
    target = Target(schema=SCHEMA, surveyed=True, timezone=timezone)
    found = [row for batch in rows(as_records(texts), target) for row in legible(batch)]
    assert found == [by_itself(text, target) for text in texts]


@pytest.mark.parametrize("timezone", [None, "America/New_York"])
@pytest.mark.parametrize("name", COLUMNS)
def test_each_value_is_the_same_in_a_block_and_by_itself(name: str, timezone: str | None) -> None:
    target = Target(schema=pa.schema([SCHEMA.field(name)]), surveyed=True, timezone=timezone)
    inside = {"nest": ('{"a": %s}', '{"at": %s}', '{"price": %s}', '{"deep": {"b": %s}}'), "items": ("[1, %s]",)}
    values = [*NUMBERS, *(f'"{text}"' for text in TEXTS), "null", "true", "nul", "{}", "[]", "[null]", '{"b": 1}']
    for form in ("%s", *inside.get(name, ()), *(('[{"sku": "a", "n": %s}]',) if name == "lots" else ())):
        for value in values:
            text = f'{{"{name}": {form % value}}}'.encode()
            (batch,) = rows(as_records([text]), target)
            assert legible(batch) == [by_itself(text, target)], text


@given(texts=st.lists(RECORDS, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_every_value_is_in_its_column_or_rescued(texts: list[bytes]) -> None:
    target = Target(schema=SCHEMA, surveyed=True, timezone="Europe/Berlin")
    made = [row for batch in rows(as_records(texts), target) for row in batch.to_pylist()]
    for text, row in zip(texts, made, strict=True):
        record = parse(as_records([text]).raws()[0])
        if isinstance(record, Unreadable):
            assert row[ERROR_CODE] is not None
            continue
        beside = json.loads(row[RESCUED] or "{}", parse_float=Decimal)
        for name, value in record.items():
            column = next((row[known] for known in COLUMNS if known == name.lower()), None)
            assert not list(_lost(value, column, name, beside)), (text, name)


def _lost(value: object, stored: object, name: str, beside: Mapping[str, object]) -> Iterator[str]:
    """Return the dotted names of values that are neither stored nor rescued."""
    if value is None or name in beside:
        return
    if isinstance(value, dict) and isinstance(stored, dict):
        folded = {known.lower(): item for known, item in stored.items()}
        for key, item in value.items():
            yield from _lost(item, folded.get(key.lower()), f"{name}.{key}", beside)
    elif isinstance(value, list) and isinstance(stored, list):
        assert len(value) == len(stored)
        for place, item in enumerate(value):
            yield from _lost(item, stored[place], f"{name}[{place}]", beside)
    elif value not in ({}, []) and not _equal(value, stored):
        yield name


def _equal(value: object, stored: object) -> bool:
    match stored:
        case None:
            return False
        case bool():
            return value is stored
        case int():
            return stored == (Decimal(value.strip()) if isinstance(value, str) else value)
        case float():
            # Also the nearest value of a 32-bit column. Numbers in texts are read as numbers.
            number = float(value) if isinstance(value, str) else value
            return isinstance(number, int | float) and stored in (number, c_float(number).value)
        case Decimal():
            return Decimal(value.text if isinstance(value, Number) else str(value).strip()) == stored
        case datetime():
            assert isinstance(value, str)
            moment = datetime.fromisoformat(value)
            if not stored.tzinfo:
                return stored == moment
            # In UTC: for Python, a repeated hour is unequal to any time of another zone.
            local = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo("Europe/Berlin"))
            return stored == local.astimezone(UTC)
        case date():
            return value == stored.isoformat()
        case _:
            return stored == (value if isinstance(value, str) else as_json(value))


def test_a_block_reads_more_than_a_few_records_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "parse", None)
    target = Target(schema=SCHEMA, timezone="Europe/Berlin")
    record = {
        "id": 1,
        "small": 2,
        "name": "é",
        "price": 12.34,
        "ratio": 0.5,
        "narrow": 0.5,
        "day": "2026-01-31",
        "at": "2026-01-31T12:00:00",
        "local": "2026-01-31 12:00:00.5",
        "ok": True,
        "items": [1],
        "lots": None,
        "nest": {"a": 1, "at": "2026-01-31T12:00:00", "price": 1.5, "deep": {"b": "x"}},
    }
    (batch,) = rows(as_records([json.dumps(record).encode()] * 3), target)
    assert batch.column("at")[2].as_py() == datetime(2026, 1, 31, 11, tzinfo=UTC)
    assert batch.column("nest")[0].as_py()["at"] == datetime(2026, 1, 31, 11, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Z", "+02:00", "-0530"])
def test_a_block_reads_times_with_offsets(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "parse", None)
    (batch,) = rows(as_records([f'{{"at": "2026-01-31T12:00:00{zone}"}}'.encode()]), _target(at="timestamp"))
    assert batch.column("at")[0].as_py() == datetime.fromisoformat(f"2026-01-31T12:00:00{zone}")


def _target(**columns: str) -> Target:
    return Target(schema=schema_of(columns), surveyed=True)


def test_one_invalid_record_among_many_rejects_only_itself() -> None:
    texts = [f'{{"id": {number}}}'.encode() for number in range(3000)]
    texts[1234] = b'{"id": 1, "id": 2}'
    found = pa.Table.from_batches(rows(as_records(texts), _target(id="bigint")))
    assert found.column("id").to_pylist() == [None if number == 1234 else number for number in range(3000)]
    assert [number for number, code in enumerate(found.column(ERROR_CODE).to_pylist()) if code] == [1234]
    assert found.column(ROW_HASH).to_pylist() == hashes(texts)


@pytest.mark.parametrize("lone", [b"null", b"[]", b"1"])
def test_a_line_that_is_not_an_object_does_not_crash_the_block_reader(lone: bytes) -> None:
    found = pa.Table.from_batches(rows(as_records([b'{"id": 1}', lone, b'{"id": 2}']), _target(id="bigint")))
    assert found.column("id").to_pylist() == [1, None, 2]
    assert [code and code.split(":")[0] for code in found.column(ERROR_CODE).to_pylist()] == [
        None,
        "not-an-object",
        None,
    ]


def test_two_objects_in_one_line_are_not_two_records() -> None:
    texts = [b'{"id": 1} {"id": 2}', b'{"id":', b"3}"]
    found = pa.Table.from_batches(rows(as_records(texts), _target(id="bigint")))
    assert found.column("id").to_pylist() == [None, None, None]
    assert None not in found.column(ERROR_CODE).to_pylist()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_an_invalid_number_stays_invalid_among_valid_ones(text: str) -> None:
    texts = [b'{"x": 1.5}', f'{{"x": {text}}}'.encode(), b'{"x": null}']
    found = pa.Table.from_batches(rows(as_records(texts), _target(x="double")))
    assert found.column("x").to_pylist() == [1.5, None, None]
    assert found.column(ERROR_CODE)[1].as_py() == f"not-a-number: {text} is not JSON"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"a": 1, "a": 2}', "duplicate-keys"),
        (b'{"a": 1, "A": 2}', "duplicate-keys"),
        (b'{"x": [{"a": 1, "a": 1}]}', "duplicate-keys"),
        (b'{"a":', "truncated-json"),
        (b'{"a": 1', "truncated-json"),
        (b'{"a": 1]', "not-json"),
        (b'{"a": 01}', "not-json"),
        (b'{"a": "\xff"}', "not-utf8"),
        (b'{"a": "\x00"}', "nul-byte"),
        (b'{"a": 1}\x00', "nul-byte"),
        (b'{"a": "\\ud800"}', "lone-surrogate"),
        (b'{"\\udfff": 1}', "lone-surrogate"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number-too-long"),
        (b'{"a": ' + b"[" * 201 + b"]" * 201 + b"}", "too-deep"),
        (b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too-deep"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "too-deep"),
        (b"[]", "not-an-object"),
    ],
)
def test_a_record_that_cannot_be_read_has_a_code(text: bytes, code: str) -> None:
    found = parse(text)
    assert isinstance(found, Unreadable)
    assert found.code == code
    assert read(text, {"a": "string"})[ERROR_CODE].startswith(f"{code}: ")


def test_a_surrogate_pair_is_a_character() -> None:
    assert parse(rb'{"a": "\ud83d\ude00"}') == {"a": "\U0001f600"}


def test_many_brackets_on_one_level_are_not_deep() -> None:
    assert parse(json.dumps({"a": [[]] * 500}).encode()) == {"a": [[]] * 500}


def test_an_escaped_null_character_is_a_character() -> None:
    assert read(rb'{"a": "x\u0000y"}', {"a": "string"}) == {"a": "x\x00y"}


def test_a_number_stored_as_text_keeps_its_digits() -> None:
    text = b'{"a": 1.50, "b": {"c": [1e400, 0.1000000000000000055, -0]}}'
    assert read(text, {"a": "string", "b": "string"}) == {"a": "1.50", "b": '{"c": [1e400, 0.1000000000000000055, -0]}'}


def test_a_rescued_number_keeps_its_digits() -> None:
    found = read(b'{"a": 1.2300000000000000000000001, "b": 1e400}', {"a": "decimal(5,2)", "b": "double"})
    assert found == {RESCUED: '{"a": 1.2300000000000000000000001, "b": 1e400}'}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([b'{"a": 1}', b'{"a": 2.5}'], "struct<a:double>"),
        ([b'{"a": 1}', b'{"b": "x"}'], "struct<a:bigint,b:string>"),
        ([b'{"a": {}}'], "struct<a:void>"),
        ([b'{"a": {}}', b'{"a": {"b": 1}}'], "struct<a:struct<b:bigint>>"),
        ([b'{"a": [{}]}', b'{"a": [{"b": 1}]}'], "struct<a:array<struct<b:bigint>>>"),
        ([b'{"a": {"x y": 1}}'], "struct<a:string>"),
        ([b'{"a": {"x y": 1, "z": 1}}'], "struct<a:struct<z:bigint>>"),
        ([b'{"x y": 1, "_row_hash": "h", "a": 1}'], "struct<a:bigint>"),
        ([b'{"x y": 1}', b'{"a": 1}'], "struct<a:bigint>"),
        ([b'{"a": 1}', b'{"A": 2.5}'], "struct<a:double>"),
        ([b'{"n": {"a": 1}}', b'{"n": {"A": 2.5}}'], "struct<n:struct<a:double>>"),
        ([b'{"a": 1, "A": 2}'], None),
        ([b'{"b": 1}', b'{"n": [{"a": 1, "A": 2}]}'], "struct<b:bigint>"),
        ([b'{"a": "2026-01-31"}'], "struct<a:string>"),
        ([b'{"a": "2026-01-31T00:00:00Z"}'], "struct<a:string>"),
        ([b'{"a": 9223372036854775808}'], "struct<a:decimal(38,0)>"),
        ([b'{"a": 1}', b'{"a": "x"}'], "struct<a:string>"),
        ([b'{"a": 1}', b'{"a": {"b": 1}}'], "struct<a:string>"),
        ([b'{"a": null}'], "struct<a:void>"),
        ([b'{"a": []}'], "struct<a:array<void>>"),
        ([b'{"a": 1}', b"null"], "struct<a:bigint>"),
        ([b'{"a": 1}', b'{"b": NaN}'], "struct<a:bigint>"),
        ([b"null"], None),
        ([b"{}"], None),
        ([b'{"a":' * 30_000 + b"1" + b"}" * 30_000], None),
        ([b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"], None),
    ],
)
def test_a_survey_returns_the_type_that_fits_all_values(texts: list[bytes], expected: str | None) -> None:
    found = shape(as_records(texts))
    assert (str(spark_type(found)) if len(found) else None) == expected


@given(texts=st.lists(RECORDS, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_survey_finds_the_same_in_a_block_and_one_by_one(texts: list[bytes]) -> None:
    each = reduce(wider, (shape(as_records([text])) for text in texts))
    assert str(spark_type(shape(as_records(texts)))) == str(spark_type(each))


def test_a_new_field_without_a_survey_aborts_the_job() -> None:
    target = Target(schema=schema_of({"id": "bigint", "nest": "struct<a:bigint>"}))
    for text, name in ((b'{"id": 1, "new": 2}', "new"), (b'{"nest": {"a": 1, "b": 2}}', "nest.b")):
        with pytest.raises(Abort) as caught:
            list(rows(as_records([text]), target))
        assert (caught.value.kind, caught.value.detail) == ("new-fields", name)
