"""Text becomes records, for any chunks of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.intake.reading import as_records

from lakesmith.intake import split as module
from lakesmith.intake.rows import Broken
from lakesmith.intake.split import Oversized, Records, split, split_json

TEXTS = st.lists(st.sampled_from(['"', "\n", "\r\n", ",", "a", "é", " "]), max_size=30).map(
    lambda parts: "".join(parts).encode()
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.sampled_from('a"\\{}[],\né'), max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


def pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    start = 0
    for size in sizes:
        if data[start : start + size]:
            yield data[start : start + size]
        start += size
    if data[start:]:
        yield data[start:]


def cut(
    data: bytes, sizes: list[int], *, delimiter: str | None = None, newline: bytes = b"\n"
) -> list[tuple[int, bytes]]:
    found = list(split(pieces(data, sizes), delimiter=delimiter, newline=newline))
    assert all(isinstance(piece, Records) for piece in found)
    records = [piece for piece in found if isinstance(piece, Records)]
    assert b"".join(piece.data for piece in records).removesuffix(newline) == data.removesuffix(newline)
    return [(line, raw) for piece in records for line, raw in zip(piece.lines.tolist(), piece.raws(), strict=True)]


@given(data=TEXTS, sizes=st.lists(st.integers(1, 5)))
@settings(max_examples=200, deadline=None)
def test_lines_do_not_depend_on_chunks(data: bytes, sizes: list[int]) -> None:
    lines = data.decode().split("\n")
    expected = [(number, line.removesuffix("\r")) for number, line in enumerate(lines, start=1)]
    expected = expected if lines[-1] else expected[:-1]
    assert cut(data, sizes) == [(number, line.encode()) for number, line in expected]


@given(data=TEXTS, sizes=st.lists(st.integers(1, 5)))
@settings(max_examples=200, deadline=None)
def test_quoted_records_do_not_depend_on_chunks(data: bytes, sizes: list[int]) -> None:
    assert cut(data, sizes, delimiter=",") == cut(data, [], delimiter=",")


def test_a_quoted_line_end_does_not_end_a_record() -> None:
    assert cut(b'a,"b\nc"\nd\n', [], delimiter=",") == [(1, b'a,"b\nc"'), (3, b"d")]


def test_an_unclosed_quote_rejects_only_its_line() -> None:
    assert cut(b'a\nb"\nc\nd', [], delimiter=",") == [(1, b"a"), (2, b'b"'), (3, b"c"), (4, b"d")]


def test_lines_can_end_with_carriage_returns() -> None:
    assert cut(b"a\rb\r\rc", [2], newline=b"\r") == [(1, b"a"), (2, b"b"), (3, b""), (4, b"c")]


def test_a_too_long_record_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORD", 10)
    monkeypatch.setattr(module, "SHOWN", 4)
    found = list(split([b"a\n", b"b" * 8, b"c" * 8, b"d\ne\n"]))
    assert [piece.lines.tolist() if isinstance(piece, Records) else piece.line for piece in found] == [[1], 2, [3]]
    long = found[1]
    assert isinstance(long, Oversized)
    assert (long.head, str(long.problem)) == (
        b"bbbb",
        "record-too-long: the record is 18 bytes long; at most 10 are read",
    )


def test_a_too_long_record_can_be_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORD", 10)
    assert [type(piece) for piece in split([b"b" * 8, b"c" * 8], delimiter=",")] == [Oversized]


def test_a_quote_not_closed_within_the_record_limit_rejects_only_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_RECORD", 10)
    found = list(split([b'"a\nbbbb\n', b"cccc\ndddd\n"], delimiter=","))
    assert [raw for piece in found if isinstance(piece, Records) for raw in piece.raws()] == [
        b'"a',
        b"bbbb",
        b"cccc",
        b"dddd",
    ]


def test_a_part_contains_only_its_own_bytes() -> None:
    records = as_records([b"a", b"bb", b"ccc"])
    part = records.part(1, 3)
    assert (part.raws(), part.lines.tolist(), part.data) == ([b"bb", b"ccc"], [2, 3], b"bb\nccc\n")
    assert len(records.part(1, 1)) == 0


def test_blank_records_are_omitted_and_line_numbers_kept() -> None:
    records = as_records([b"", b"a", b" \t ", b"bbb", b"\r"])
    remaining = records.without_blank(b" \t\r\n")
    assert (remaining.raws(), remaining.lines.tolist()) == ([b"a", b"bbb"], [2, 4])


def test_blankness_does_not_depend_on_other_records() -> None:
    assert as_records([b"    ", b"long enough"]).without_blank(b" \r\n").raws() == [b"long enough"]


def test_delimiters_are_not_blank() -> None:
    assert as_records([b"\t\t", b""]).without_blank(b"\r\n").raws() == [b"\t\t"]


def texts(data: bytes, sizes: list[int]) -> list[bytes]:
    return [raw for piece in split_json(pieces(data, sizes)) for raw in piece.raws()]


@given(values=st.lists(VALUES, max_size=5), sizes=st.lists(st.integers(1, 7)), indent=st.sampled_from([None, 1]))
@settings(max_examples=200, deadline=None)
def test_elements_of_an_array_do_not_depend_on_chunks(
    values: list[object], sizes: list[int], indent: int | None
) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=False).encode()
    assert [json.loads(text) for text in texts(data, sizes)] == values


@given(
    values=st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 7)),
)
@settings(max_examples=100, deadline=None)
def test_multi_line_objects_do_not_depend_on_chunks(values: list[object], sizes: list[int]) -> None:
    data = b"\r\n".join(json.dumps(value, indent=2).encode() for value in values)
    assert [json.loads(text) for text in texts(data, sizes)] == values


def test_elements_are_numbered() -> None:
    found = [piece.lines.tolist() for piece in split_json([b"[{}, {}", b", {}]"])]
    assert [number for part in found for number in part] == [1, 2, 3]


def test_an_invalid_element_does_not_affect_the_others() -> None:
    assert texts(b'[{"a": 1}, {"b" 2}, nope, {"c": 3}]', []) == [b'{"a": 1}', b'{"b" 2}', b"nope", b'{"c": 3}']


def test_several_arrays_may_follow_each_other() -> None:
    assert texts(b'[{"a": 1}]\n[{"b": 2}]', []) == [b'{"a": 1}', b'{"b": 2}']


def test_an_empty_array_has_no_elements() -> None:
    assert texts(b" [ ] ", []) == []


@pytest.mark.parametrize(
    "data", [b'[{"a": 1}', b'[{"a": 1},', b'[{"a": "x', b'{"a": {\n"b": 1}', b"[", b'[{"a": 1}] x']
)
def test_a_truncated_text_is_rejected(data: bytes) -> None:
    with pytest.raises(Broken, match="truncated-json"):
        texts(data, [])


def test_an_extra_bracket_is_rejected() -> None:
    with pytest.raises(Broken, match="not-json: a bracket is closed that was not opened"):
        texts(b'{"a":\n1}}', [])


def test_a_too_long_element_rejects_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORD", 10)
    with pytest.raises(Broken, match="record-too-long: record 2 is longer than 10 bytes"):
        texts(b'[{"a": 1}, {"b": "' + b"x" * 20, [])


@given(
    rows=st.lists(
        st.sampled_from(['{n},"a\n{n}"', '{n},"a\r\n""b"" {n}"', "{n},x", '{n},"{n}"', '{n},"x', '{n},5" pipe']),
        max_size=12,
    ),
    sizes=st.lists(st.integers(1, 9)),
)
@settings(max_examples=200, deadline=None)
def test_stray_quotes_reject_only_their_own_row(rows: list[str], sizes: list[int]) -> None:
    written = [row.format(n=number).encode() for number, row in enumerate(rows)]
    found = [raw for _, raw in cut(b"\n".join(written), sizes, delimiter=",")]
    good = [row for row in written if row.count(b'"') % 2 == 0]
    assert [raw for raw in found if raw in good] == good


def test_a_too_long_line_with_an_open_quote_takes_no_other_line_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORD", 10)
    found = list(split([b'"' + b"a" * 12 + b"\nb\nc\n", b"d\n"], delimiter=","))
    assert [piece.lines.tolist() if isinstance(piece, Records) else (piece.line, piece.size) for piece in found] == [
        (1, 14),
        [2, 3],
        [4],
    ]


def test_a_too_long_last_line_with_an_open_quote_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORD", 10)
    assert [type(piece) for piece in split([b'"' + b"a" * 9], delimiter=",")] == [Oversized]
