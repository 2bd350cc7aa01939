"""CSV records become rows by the names of their header, equally in a block and one by one."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.intake.reading import as_records, legible

from lakesmith.columns import ERROR_CODE, RESCUED, ROW_HASH
from lakesmith.intake import csv_text
from lakesmith.intake.csv_text import Header, parse, read_header, rows, split_misquoted
from lakesmith.intake.rows import Abort, Broken, Target, fit_rows, hashes
from lakesmith.intake.shapes import schema_of
from lakesmith.intake.split import Records, split

COLUMNS = {
    "id": "bigint",
    "tiny": "tinyint",
    "name": "string",
    "price": "decimal(9,2)",
    "ratio": "double",
    "narrow": "float",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "ok": "boolean",
    "lots": "array<bigint>",
}
SCHEMA = schema_of(COLUMNS)
VALUES = [
    *(
        "",
        "1",
        "-1",
        "+1",
        " 1",
        "1 ",
        "\t1",
        "01",
        "1_0",
        "0x1F",
        "0X1f",
        "1.0",
        "1e2",
        ".5",
        "5.",
        "-0",
        "-0.0",
        "128",
    ),
    *("nan", "NaN", "inf", "-inf", "Infinity", "1e400", "1e-400", "9007199254740993", "9007199254740992", "16777217"),
    *("9223372036854775807", "9223372036854775808", "12.34", "12.345", "12.340", "1e39", "3.4028236e38", "0.1", "1f"),
    *("1,5", "true", "True", "TRUE", "tRue", " true", "false", "t", "yes", "0", "NULL", "null", "a", "é", "\U0001f600"),
    *(
        "\xa01",
        "\ufeffx",
        "\ufeff1",
        "a\rb",
        "a\nb",
        "a\r\nb",
        'a"b',
        '"',
        '""',
        "a;b",
        " ",
        "\x0b1",
        "1e9999",
        "0e9999",
    ),
    *("2026-01-31", "2026-1-31", " 2026-01-31", "2026-02-30", "0000-01-01", "0999-01-01", "9999-12-31", "10000-01-01"),
    *(
        "20260131",
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00.5",
        "2026-01-31T12:00:00.1234567Z",
    ),
    *("2026-01-31T12:00:00+02:00", "2026-01-31T12:00:00-0530", "2026-01-31T12:00:00+02", "2026-01-31T12:00"),
    *(
        "2026-01-31T24:00:00",
        "2026-01-31T23:59:60Z",
        "2026-03-29T02:30:00",
        "2026-10-25T02:30:00",
        "1" * 60,
        "0." + "1" * 60,
    ),
]


def quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def target(columns: Mapping[str, str] = COLUMNS, **how: Any) -> Target:
    return Target(schema=schema_of(columns), text=True, **{"surveyed": True, **how})


def by_itself(text: bytes, header: Header, target: Target) -> dict[str, str]:
    (raw,) = as_records([text]).raws()
    return legible(fit_rows([parse(raw, header)], [raw], target))[0]


def read(data: bytes, names: str, columns: Mapping[str, str], **how: Any) -> list[dict[str, Any]]:
    """Return the rows of some records, without NULLs."""
    header = read_header(names.encode(), ",")
    made = [
        row
        for piece in split([data], delimiter=",")
        if isinstance(piece, Records)
        for batch in rows(split_misquoted(piece, header), header, target(columns, **how))
        for row in batch.to_pylist()
    ]
    return [{name: v for name, v in row.items() if v is not None and name != ROW_HASH} for row in made]


@pytest.mark.parametrize("timezone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("name", COLUMNS)
def test_each_value_is_the_same_in_a_block_and_by_itself(name: str, timezone: str | None) -> None:
    header, wanted = Header((name, "x"), ","), target({name: COLUMNS[name], "x": "string"}, timezone=timezone)
    for value in VALUES:
        for field in {quoted(value), value.replace("\n", " ").replace(",", " ")}:
            text = f"{field},x".encode()
            found = [row for batch in rows(as_records([text]), header, wanted) for row in legible(batch)]
            assert found == [by_itself(text, header, wanted)], text


FIELDS = st.one_of(
    st.sampled_from(VALUES).map(quoted),
    st.sampled_from([value for value in VALUES if not set(value) & set('\n,"')]),
    st.sampled_from(["1", "2", "a", "", '""', 'a"', '"a', '"a"b', 'a"b"c', "\x00"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\n,"), max_size=4),
)
RECORDS = st.lists(FIELDS, min_size=1, max_size=4).map(lambda fields: ",".join(fields).encode())


@given(texts=st.lists(RECORDS.filter(lambda text: text.strip(b"\r\n")), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_a_record_becomes_the_same_row_in_a_block_and_by_itself(texts: list[bytes]) -> None:
    header, wanted = Header(("name", "id", "at"), ","), target(timezone="Europe/Berlin")
    found = [row for batch in rows(as_records(texts), header, wanted) for row in legible(batch)]
    assert found == [by_itself(text, header, wanted) for text in texts]


@given(
    fields=st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\x00"))), min_size=2)
)
@settings(max_examples=150, deadline=None)
def test_values_written_as_csv_are_read_back(fields: list[str | None]) -> None:
    text = ",".join("" if field is None else quoted(field) for field in fields).encode()
    header = Header(tuple(f"c{number}" for number in range(len(fields))), ",")
    assert parse(text, header) == dict(zip(header.names, fields, strict=True))
    (batch,) = rows(as_records([text]), header, target(dict.fromkeys(header.names, "string")))
    assert list(batch.to_pylist()[0].values())[: len(fields)] == fields


def test_a_block_reads_all_types_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_text, "parse", None)
    data = b'1,2,"a\nb",1.50,0.5,0.5,2026-01-31,2026-01-31T12:00:00+02:00,2026-01-31 12:00:00,TRUE\n'
    (row,) = read(data, ",".join(list(COLUMNS)[:10]), dict(list(COLUMNS.items())[:10]))
    assert row["name"] == "a\nb"
    assert row["at"] == datetime(2026, 1, 31, 10, tzinfo=UTC)


def test_one_invalid_record_among_many_rejects_only_itself() -> None:
    texts = [f"{number},x".encode() for number in range(3000)]
    texts[1234] = b"1234"
    found = pa.Table.from_batches(rows(as_records(texts), Header(("id", "name"), ","), target()))
    assert found.column("id").to_pylist() == [None if number == 1234 else number for number in range(3000)]
    assert [number for number, code in enumerate(found.column(ERROR_CODE).to_pylist()) if code] == [1234]
    assert found.column(ROW_HASH).to_pylist() == hashes(texts)


def test_columns_are_matched_by_name_in_any_order() -> None:
    columns = {"id": "bigint", "name": "string", "later": "double"}
    assert read(b"a,1\n", "NAME,id", columns) == [{"id": 1, "name": "a"}]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"1\n", "csv-fields: 1 fields found, 3 expected"),
        (b"1,2,3,4\n", "csv-fields: 4 fields found, 3 expected"),
        (b'1,"b,3\n', "unclosed-quote: a quote is opened and not closed"),
        (b'1,"b""\n', "unclosed-quote: a quote is opened and not closed"),
        (b'1,"b"c,3\n', "bad-quote: text follows a closing quote"),
        (b"1,\xff,3\n", "not-utf8: the record is not UTF-8; set encoding: in the source"),
        (b"1,\x00,3\n", "nul-byte: there is a null character"),
    ],
)
def test_a_record_that_cannot_be_read_has_a_code(data: bytes, code: str) -> None:
    (row,) = read(data, "a,b,c", dict.fromkeys("abc", "string"))
    assert row[ERROR_CODE] == code


def test_an_empty_field_is_null_and_empty_quotes_are_an_empty_text() -> None:
    assert read(b'1,,""\n', "a,b,c", dict.fromkeys("abc", "string")) == [{"a": "1", "c": ""}]


def test_a_quote_within_a_field_is_a_quote() -> None:
    assert read(b'1,5" pipe\n2,b\n3,7" nail\n', "a,b", dict.fromkeys("ab", "string")) == [
        {"a": "1", "b": '5" pipe'},
        {"a": "2", "b": "b"},
        {"a": "3", "b": '7" nail'},
    ]


def test_a_return_within_a_record_does_not_end_it() -> None:
    assert read(b"1,x\r2,y\n", "a,b,c", dict.fromkeys("abc", "string")) == [{"a": "1", "b": "x\r2", "c": "y"}]


def test_a_byte_order_mark_is_removed_only_at_the_start_of_a_file() -> None:
    assert read("\ufeffa,1\n".encode(), "a,b", dict.fromkeys("ab", "string")) == [{"a": "\ufeffa", "b": "1"}]


@pytest.mark.parametrize("text", ["0x1F", "1.0", "1_000", "one", "9223372036854775808"])
def test_a_text_that_is_not_an_integer_is_rescued(text: str) -> None:
    assert read(f"{text},x\n".encode(), "id,name", COLUMNS) == [{"name": "x", RESCUED: f'{{"id": "{text}"}}'}]


@pytest.mark.parametrize(("type", "text"), [("double", "9007199254740993"), ("float", "16777217"), ("float", "1e39")])
def test_a_number_outside_its_column_s_range_is_rescued(type: str, text: str) -> None:
    assert read(f"{text},x\n".encode(), "n,x", {"n": type, "x": "string"}) == [
        {"x": "x", RESCUED: f'{{"n": "{text}"}}'}
    ]


def spans(data: bytes, names: str = "a,b") -> list[tuple[int, bytes]]:
    """Return the line and the text of each record."""
    header = read_header(names.encode(), ",")
    pieces = [piece for piece in split([data], delimiter=",") if isinstance(piece, Records)]
    found = [split_misquoted(piece, header) for piece in pieces]
    return [(line, raw) for piece in found for line, raw in zip(piece.lines.tolist(), piece.raws(), strict=True)]


def test_a_record_may_span_lines() -> None:
    data = b'1,"x\ny"\n2,z\n3,"\n"\n'
    assert spans(data) == [(1, b'1,"x\ny"'), (3, b"2,z"), (4, b'3,"\n"')]


def test_two_stray_quotes_do_not_swallow_the_rows_between() -> None:
    data = b'1,"x\n2,y\n3,z\n4,"w\n5,v\n'
    assert spans(data) == [(1, b'1,"x'), (2, b"2,y"), (3, b"3,z"), (4, b'4,"w'), (5, b"5,v")]


def test_a_multi_line_record_with_too_many_fields_is_split() -> None:
    data = b'0,"a\nb"\n1,"x\n2,y\n3,z",4\n5,"c\nd"\n'
    assert spans(data) == [(1, b'0,"a\nb"'), (3, b'1,"x'), (4, b"2,y"), (5, b'3,z",4'), (6, b'5,"c\nd"')]


def test_returns_and_line_feeds_within_quotes_are_kept() -> None:
    assert spans(b'1,"x\r\ny"\r\n2,z\r\n') == [(1, b'1,"x\r\ny"'), (3, b"2,z")]


@given(st.lists(st.lists(st.text(st.sampled_from('ab"\n\r,é'), max_size=5), min_size=2, max_size=2), min_size=1))
@settings(max_examples=150, deadline=None)
def test_valid_records_are_never_split(written: list[list[str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(written)
    for data in (out.getvalue().encode(), out.getvalue().encode()[:-1]):
        found = [parse(raw, Header(("a", "b"), ",")) for _, raw in spans(data)]
        assert found == [{"a": a, "b": b} for a, b in written]


def test_a_header_can_have_spaces_around_names() -> None:
    assert read_header(b' id , "a,b" ', ",").names == ("id", '"a', 'b"')
    assert read_header(b'id,"a,b"', ",").names == ("id", "a,b")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"id,\xff", "not-utf8"),
        ("id,n".encode("utf-16-le"), "nul-byte"),
        (b'id,"n', "bad-header"),
        (b'id,"n"x', "bad-header"),
    ],
)
def test_an_unreadable_header_rejects_the_file(raw: bytes, code: str) -> None:
    with pytest.raises(Broken) as caught:
        read_header(raw, ",")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("raw", "expected", "code", "what"),
    [
        (b"a;b;c;d;e;f;g", "abcdefg", "wrong-delimiter", "1 column found, 7 expected; try ';'"),
        (b"a\tb", "", "wrong-delimiter", "1 column found, 2 with another delimiter; try '\\t'"),
        (b"a,b,a", "", "header-twice", "the header has 'a' more than once, ignoring case"),
        (b"a,A", "", "header-twice", "the header has 'a' and 'A' more than once, ignoring case"),
        (b" , ", "", "header-twice", "the header has '' more than once, ignoring case"),
        (b'""', "", "no-header", "the first line has no names"),
    ],
)
def test_an_unusable_header_rejects_the_file(raw: bytes, expected: str, code: str, what: str) -> None:
    with pytest.raises(Broken) as caught:
        read_header(raw, ",").check(list(expected))
    assert (caught.value.code, caught.value.what) == (code, what)


def test_a_single_column_is_accepted() -> None:
    read_header(b"value", ",").check(["value"])


def test_a_new_name_without_a_survey_aborts_the_job() -> None:
    with pytest.raises(Abort) as caught:
        read(b"1,2\n", "id,new", {"id": "bigint"}, surveyed=False)
    assert (caught.value.kind, caught.value.detail) == ("new-fields", "new")


def test_an_invalid_column_name_is_rescued() -> None:
    assert read(b"1,2\n", "id,two words", {"id": "bigint"}, surveyed=False) == [
        {"id": 1, RESCUED: '{"two words": "2"}'}
    ]


def test_a_text_for_an_array_column_is_rescued() -> None:
    assert read(b"1,[1]\n", "id,lots", COLUMNS) == [{"id": 1, RESCUED: '{"lots": "[1]"}'}]
