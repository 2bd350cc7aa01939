"""Each kind of invalid input, tested on a complete file: the file or row goes to quarantine with a code, and everything
else is loaded."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import textwrap
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from tests.intake.reading import lines, look, read

from lakesmith.intake.rows import Abort

ID = {"id": "bigint"}
THREE = {"id": "bigint", "name": "string", "amount": "double"}
SEVEN = dict.fromkeys("abcdefg", "string")
MEGABYTE = 1 << 20

# CSV


def test_a_row_with_missing_or_extra_fields_is_quarantined() -> None:
    found = read(b"id,name,amount\n1,a,1.5\n2,b\n3,c,1,x\n\n4,d,\n", THREE, format="csv")
    assert [row["id"] for row in found.rows] == [1, 4]
    assert found.codes == {3: "csv-fields", 4: "csv-fields"}
    assert found.words == ["2 fields found, 3 expected", "4 fields found, 3 expected"]
    assert found.raws == ["2,b", "3,c,1,x"]


def test_columns_follow_a_reordered_header() -> None:
    found = read(b"amount,id,name\n1.5,1,a\n", THREE, format="csv")
    assert found.rows == [{"id": 1, "name": "a", "amount": 1.5}]


@pytest.mark.parametrize(
    ("data", "bad"),
    [
        (b'1,"a,1\n2,b,2\n3,c,3\n', 2),
        (b'1,a,1\n2,"b,2\n3,c,3\n', 3),
        (b'1,a,1\n2,b,2\n3,"c,3\n', 4),
        (b'1,a,1\n2,b,2\n3,"c,3', 4),
    ],
)
def test_an_unclosed_quote_rejects_only_its_own_row(data: bytes, bad: int) -> None:
    found = read(b"id,name,amount\n" + data, THREE, format="csv")
    assert found.codes == {bad: "unclosed-quote"}
    assert [row["id"] for row in found.rows] == [number for number in (1, 2, 3) if number != bad - 1]


def test_two_stray_quotes_far_apart_do_not_swallow_the_rows_between() -> None:
    rows = [f"{number},n,{number}" for number in range(20_000)]
    rows[10], rows[19_990] = '10,"n,10', '19990,"n,19990'
    found = read("\n".join(["id,name,amount", *rows]).encode(), THREE, format="csv")
    assert found.codes == {12: "unclosed-quote", 19_992: "unclosed-quote"}
    assert len(found.rows) == 19_998


def test_a_stray_quote_does_not_swallow_later_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakesmith.intake.stream.CHUNK", 100)
    monkeypatch.setattr("lakesmith.intake.head._HEAD", 100)
    monkeypatch.setattr("lakesmith.intake.split.MAX_RECORD", 1000)
    rows = [f"{number},n,{number}" for number in range(1000)]
    rows[10] = '10,"n,10'
    found = read("\n".join(["id,name,amount", *rows]).encode(), THREE, format="csv")
    assert found.codes == {12: "unclosed-quote"}
    assert len(found.rows) == 999


def test_the_wrong_delimiter_is_reported_with_the_right_one() -> None:
    data = b"a;b;c;d;e;f;g\n1;2;3;4;5;6;7\n"
    found = read(data, SEVEN, format="csv")
    assert (found.codes, found.words) == ({0: "wrong-delimiter"}, ["1 column found, 7 expected; try ';'"])
    assert found.raws == [data.decode()]
    assert len(read(data, SEVEN, format="csv", delimiter=";").rows) == 1


@pytest.mark.parametrize("header", [b"id,name,id", b"id,ID", b"a,A,b"])
def test_a_header_with_a_duplicate_name_is_rejected(header: bytes) -> None:
    assert read(header + b"\n1,2,3\n", ID, format="csv").codes == {0: "header-twice"}


@pytest.mark.parametrize("header", [b'id,"name', b'id,"na"me'])
def test_an_invalid_header_is_rejected(header: bytes) -> None:
    found = read(header + b"\n1,2\n2,3\n", THREE, format="csv")
    assert (found.rows, found.codes) == ([], {0: "bad-header"})


@pytest.mark.parametrize(
    ("format", "data"), [("csv", b""), ("csv", b"id\n"), ("csv", b"id"), ("json", b""), ("text", b"")]
)
def test_an_empty_file_has_no_rows(format: str, data: bytes) -> None:
    found = read(data, {"id": "bigint", "value": "string"}, format=format)  # type: ignore[arg-type]
    assert (found.rows, found.codes, found.end) == (
        [],
        {},
        {"rows": 0, "rejected": 0, "rescued": 0, "bytes": len(data), "code": None},
    )


def test_a_tab_separated_row_without_values_is_a_row() -> None:
    found = read(b"id\tname\tamount\n\t\t\n1\ta\t2\n", THREE, format="csv", delimiter="\t")
    assert found.rows == [{}, {"id": 1, "name": "a", "amount": 2.0}]


# Encodings


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_sets_the_encoding(encoding: str) -> None:
    assert read("id,name\r\n1,é\r\n".encode(encoding), THREE, format="csv").rows == [{"id": 1, "name": "é"}]
    assert read('{"id": 1, "name": "é"}'.encode(encoding), THREE).rows == [{"id": 1, "name": "é"}]
    assert read('[{"id": 1, "name": "é"}]'.encode(encoding), THREE).rows == [{"id": 1, "name": "é"}]


def test_latin_1_rows_are_quarantined_until_the_encoding_is_set() -> None:
    data = "id,name\n1,a\n2,é\n3,c\n".encode("latin-1")
    found = read(data, THREE, format="csv")
    assert [row["id"] for row in found.rows] == [1, 3]
    assert (found.codes, found.raws) == ({3: "not-utf8"}, ["2,\\xe9"])
    assert read(data, THREE, format="csv", encoding="latin-1").rows[1] == {"id": 2, "name": "é"}


def test_json_can_have_another_encoding() -> None:
    data = '{"id": 1, "name": "é"}\n{"id": 2, "name": "ß"}'
    expected = [{"id": 1, "name": "é"}, {"id": 2, "name": "ß"}]
    assert read(data.encode("cp1252"), THREE, encoding="cp1252").rows == expected
    assert read(data.encode("utf-16-be"), THREE, encoding="utf-16-be").rows == expected


def test_utf_16_without_a_byte_order_mark_is_reported() -> None:
    found = read("id,name\n1,a\n".encode("utf-16-le"), THREE, format="csv")
    assert (found.codes, found.words) == (
        {0: "nul-byte"},
        ["the header has null characters; is it UTF-16? set encoding: …"],
    )


def test_invalid_utf8_rejects_only_its_row() -> None:
    found = read(b'{"id": 1}\n{"id": 2, "name": "\xc3("}\n{"id": 3}\n', THREE)
    assert (found.rows, found.codes) == ([{"id": 1}, {"id": 3}], {2: "not-utf8"})
    assert found.raws == ['{"id": 2, "name": "\\xc3("}']


def test_invalid_utf8_in_an_array_rejects_only_its_element() -> None:
    found = read(b'[{"id": 1}, {"name": "\xff"}, {"id": 3}]', THREE)
    assert (found.rows, found.codes) == ([{"id": 1}, {"id": 3}], {2: "not-utf8"})


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_null_byte_rejects_only_its_row(format: str) -> None:
    data = b"id,name\n1,a\n2,\x00\n3,c\n" if format == "csv" else lines({"id": 1}, b'{"id": 2}\x00', {"id": 3})
    found = read(data, THREE, format=format)  # type: ignore[arg-type]
    assert [row["id"] for row in found.rows] == [1, 3]
    assert list(found.codes.values()) == ["nul-byte"]


# JSON


def test_truncated_json_rejects_only_its_line() -> None:
    found = read(lines({"id": 1}, '{"id": 2, "na', {"id": 3}, '{"id":').rstrip(), ID)
    assert (found.rows, found.codes) == ([{"id": 1}, {"id": 3}], {2: "truncated-json", 4: "truncated-json"})


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_truncated_array_is_rejected(cut: int) -> None:
    found = read(json.dumps([{"id": 1}, {"id": 2}]).encode()[:-cut], ID)
    assert (found.rows, found.codes) == ([], {0: "truncated-json"})


def test_a_duplicate_key_rejects_only_its_row() -> None:
    data = lines({"id": 1}, '{"id": 2, "id": 2}', '{"id": 3, "ID": 4}', '{"id": 5, "n": {"a": 1, "A": 1}}', {"id": 6})
    found = read(data, {"id": "bigint", "n": "struct<a:bigint>"})
    assert (found.rows, set(found.codes.values())) == ([{"id": 1}, {"id": 6}], {"duplicate-keys"})


@pytest.mark.parametrize("opening", ['{"n":', "["])
def test_json_nested_ten_thousand_deep_rejects_only_its_row(opening: str) -> None:
    closing = "}" if opening[0] == "{" else "]"
    deep = '{"n":' + opening * 10_000 + "1" + closing * 10_000 + "}"
    data = lines({"id": 1}, deep, {"id": 3})
    found = read(data, {"id": "bigint", "n": "struct<n:bigint>"})
    assert (found.rows, found.codes) == ([{"id": 1}, {"id": 3}], {2: "too-deep"})
    assert look(data).why is None
    array = read(f'[{{"id": 1}}, {deep}, {{"id": 3}}]'.encode(), ID)
    assert (array.rows, array.codes) == ([{"id": 1}, {"id": 3}], {2: "too-deep"})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_invalid_json_numbers_reject_only_their_row(number: str) -> None:
    found = read(lines({"amount": 1}, f'{{"amount": {number}}}'), THREE)
    assert (found.rows, found.codes) == ([{"amount": 1.0}], {2: "not-a-number"})


def test_a_value_of_another_type_is_rescued() -> None:
    columns = {"id": "bigint", "n": "struct<a:bigint>"}
    data = lines(
        {"id": {"a": 1}}, {"n": 5}, {"id": "x7"}, {"id": 1.5}, {"id": [1]}, {"id": True}, {"id": 9, "n": {"a": 1}}
    )
    found = read(data, columns)
    assert found.rescued == [{"id": {"a": 1}}, {"n": 5}, {"id": "x7"}, {"id": 1.5}, {"id": [1]}, {"id": True}, None]
    assert found.rows[-1] == {"id": 9, "n": {"a": 1}}
    assert found.rows[:-1] == [{}] * 6


def test_too_large_numbers_are_rescued_with_all_digits() -> None:
    columns = {"i": "int", "l": "bigint", "d": "decimal(5,2)", "x": "double", "f": "float"}
    text = (
        '{"i": 2147483648, "l": 9223372036854775808, "d": 1000.00, "x": 9007199254740993, "f": 16777217}',
        '{"i": 1e2, "l": 1.0, "d": 12.345, "x": 1e400, "f": 1e39}',
    )
    found = read(lines(*text), columns)
    assert [row["_rescued"] for row in found.every[:2]] == list(text)


def test_a_decimal_is_never_rounded() -> None:
    found = read(lines('{"d": 1.005}', '{"d": 1.0050}', '{"d": 1.00}', '{"d": "1.005"}'), {"d": "decimal(9,2)"})
    assert found.rows == [{}, {}, {"d": Decimal("1.00")}, {}]
    assert found.every[1]["_rescued"] == '{"d": 1.0050}'
    csv = read(b"d,x\n1.005,\n1.00,\n", {"d": "decimal(9,2)", "x": "string"}, format="csv")
    assert (csv.rows, csv.rescued) == ([{}, {"d": Decimal("1.00")}], [{"d": "1.005"}, None])


@pytest.mark.parametrize("text", ["0000-01-01", "10000-01-01", "2026-13-01", "2026-02-30", "-2026-01-01", "2026-1-1"])
def test_invalid_dates_are_rescued(text: str) -> None:
    columns = {"id": "bigint", "day": "date", "at": "timestamp"}
    data = {"id": 1, "day": text, "at": f"{text}T00:00:00Z"}
    good = {"id": 2, "day": "9999-12-31", "at": "9999-12-31T23:59:59Z"}
    expected = {"id": 2, "day": date(9999, 12, 31), "at": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)}
    found = read(lines(data, good), columns)
    assert (found.rows, found.rescued[0]) == ([{"id": 1}, expected], {"day": text, "at": f"{text}T00:00:00Z"})
    csv = read(f"id,day,at\n1,{text},{text}T00:00:00Z\n".encode(), columns, format="csv")
    assert (csv.rows, csv.rescued) == ([{"id": 1}], [{"day": text, "at": f"{text}T00:00:00Z"}])


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_time_without_a_zone_gets_the_source_s_zone(format: str) -> None:
    data = b"at,x\n2026-07-01T12:00:00,\n" if format == "csv" else lines({"at": "2026-07-01T12:00:00"})
    columns = {"at": "timestamp", "x": "string"}
    found = read(data, columns, format=format)  # type: ignore[arg-type]
    assert (found.rows, found.rescued) == ([{}], [{"at": "2026-07-01T12:00:00"}])
    report = read(data, columns, format=format, timezone="Europe/Berlin")  # type: ignore[arg-type]
    assert report.rows == [{"at": datetime(2026, 7, 1, 10, tzinfo=UTC)}]


def test_a_number_of_five_thousand_digits_rejects_at_most_its_row() -> None:
    whole, fraction = "9" * 5000, "0." + "9" * 5000
    found = read(lines({"id": 1}, f'{{"id": {whole}}}', f'{{"name": {fraction}}}'), THREE)
    assert (found.rows, found.codes) == ([{"id": 1}, {"name": fraction}], {2: "number-too-long"})
    csv = read(f"id,name\n{whole},a\n".encode(), THREE, format="csv")
    assert (csv.rows, csv.rescued) == ([{"name": "a"}], [{"id": whole}])


def test_a_lone_surrogate_rejects_only_its_row() -> None:
    found = read(lines({"id": 1}, '{"name": "\\ud800"}', '{"\\udc00": 1}', '{"name": "\\ud83d\\ude00"}'), THREE)
    assert (found.rows, set(found.codes.values())) == ([{"id": 1}, {"name": "\U0001f600"}], {"lone-surrogate"})


# Compression


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_truncated_gzip_is_rejected(format: str) -> None:
    data = gzip.compress(lines({"id": 1}) if format == "json" else b"id\n1\n")
    assert read(data, ID, format=format, path="in/a.json").rows == [{"id": 1}]  # type: ignore[arg-type]
    for cut in range(1, len(data) - 3):
        found = read(data[:-cut], ID, format=format)  # type: ignore[arg-type]
        assert (found.rows, found.codes) == ([], {0: "truncated"})


def test_a_gzip_bomb_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakesmith.intake.stream._FREE", 8 * MEGABYTE)
    bomb = gzip.compress(lines({"id": 1, "name": "x" * MEGABYTE}) * 20)
    found = read(bomb, THREE)
    assert (found.rows, found.codes) == ([], {0: "expands-too-much"})
    with pytest.raises(Abort) as caught:
        read(bomb, THREE, held=MEGABYTE)
    assert (caught.value.kind, caught.value.detail.split(":")[0]) == ("broken", "expands-too-much")


def test_memory_stays_bounded_for_any_input() -> None:
    """Two hundred megabytes in one line, in a bomb of one line, and in an element of an array."""
    script = """
        import gzip, io, resource, zlib
        from tests.intake.reading import read

        class Made(io.RawIOBase):
            def __init__(self, head, tail, size=200 << 20):
                self.parts, self.left, self.tail = [head], size, tail

            def read(self, size=-1):
                if self.parts:
                    return self.parts.pop()
                given = b"x" * min(size, self.left)
                self.left -= len(given)
                if not given and self.tail:
                    given, self.tail = self.tail, b""
                return given

        def size(head, tail):
            return len(head) + (200 << 20) + len(tail)

        warm = read(b'{"id": 1}', {"id": "bigint"})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        head, tail = b'{"id": 1}\\n{"name": "', b'"}\\n{"id": 3}\\n'
        found = read(lambda: Made(head, tail), {"id": "bigint", "name": "string"}, size=size(head, tail))
        assert found.rows == [{"id": 1}, {"id": 3}], found.rows
        assert found.codes == {2: "record-too-long"}, found.codes
        assert len(found.raws[0]) < 100_000

        head, tail = b'id,name\\n1,a\\n2,"', b'\\n3,c\\n'
        found = read(lambda: Made(head, tail), {"id": "bigint", "name": "string"}, size=size(head, tail), format="csv")
        assert [row["id"] for row in found.rows] == [1, 3], found.rows
        assert found.codes == {3: "record-too-long"}, found.codes

        head, tail = b'[{"id": 1}, {"name": "', b'"}]'
        found = read(lambda: Made(head, tail), {"id": "bigint", "name": "string"}, size=size(head, tail))
        assert found.codes == {0: "record-too-long"}, found.codes

        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        bomb = b"".join(packer.compress(b"x" * (1 << 20)) for _ in range(300)) + packer.flush()
        found = read(bomb, {"id": "bigint"})
        assert found.codes == {0: "expands-too-much"}, found.codes
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 250 << 10, f"{grown >> 10} MB"
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
