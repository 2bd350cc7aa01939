"""Files that are read in parts give the rows, lines and counts of the whole file."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.intake.reading import Found, lines, look, read

from lakesmith.columns import FILE_END, SOURCE_ROW
from lakesmith.declare.sources import FileFormat, Files
from lakesmith.intake import head, parts, split, stream
from lakesmith.intake.parts import Layout, Part, Section, file_layout, parts_of, read_section, section_bounds
from lakesmith.intake.reader import Reader, Task, survey
from lakesmith.intake.rows import Abort, Target
from lakesmith.intake.shapes import schema_of, wider

COLUMNS = {"id": "bigint", "name": "string"}
MARK = b"\xef\xbb\xbf"
FIELDS = st.lists(st.sampled_from(["a", "é", " ", "{d}", "{n}", '""', "x" * 40]), max_size=5).map("".join)
GOOD = FIELDS.map(lambda text: f'{{number}}{{d}}"{text}"')
BARE = st.sampled_from(["{number}{d}plain", "{number}{d}", "{number}{d}é", "x{d}y"])
BAD = st.sampled_from(
    [
        "",
        "{number}",
        "{number}{d}a{d}b",
        '"',
        '"{d}"',
        '""{d}""',
        '{number}{d}5" pipe',
        '{number}{d}"open',
        '{number}{d}"a"b',
    ]
)
LINES = ['{"id": 1}', '{"id": 2, "name": "é\\n"}', "", "  ", "{", '{"id": "x"}', '"', '{"id": 1.5, "b": 2}']
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("xy", max_size=2),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from("de"), st.integers(), max_size=2),
)
CUTS = st.lists(st.integers(0, 1000), max_size=4)


@st.composite
def csv_files(draw: st.DrawFn) -> tuple[bytes, str]:
    """Return CSV with any delimiter and line end, and its delimiter."""
    delimiter, newline = draw(st.sampled_from(",;\t|")), draw(st.sampled_from(["\n", "\r\n", "\r"]))
    rows = draw(st.lists(st.one_of(GOOD, BARE, BAD), max_size=25))
    header = draw(st.sampled_from(["id{d}name", '"id"{d}"name"', "{n}id{d}name"]))
    texts = [row.replace("{number}", str(number)) for number, row in enumerate([header, *rows])]
    text = newline.join(texts).replace("{d}", delimiter).replace("{n}", newline)
    text += draw(st.sampled_from(["", newline, newline * 2]))
    return draw(st.sampled_from([b"", MARK])) + text.encode() + draw(st.sampled_from([b"", b"\xff"])), delimiter


def layout_of(data: bytes, source: Files) -> Layout | None:
    return file_layout(io.BytesIO(data), len(data), source)


def parts_by(data: bytes, cuts: Sequence[int], source: Files) -> list[Part] | None:
    """Return the parts of a file with sections that end at `cuts`; None when it must be read as a whole."""
    layout = layout_of(data, source)
    if layout is None:
        return None
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    sections = [read_section(io.BytesIO(data), start, stop, layout) for start, stop in pairwise(bounds)]
    return parts_of(len(data), layout, sections)


def parts_at(data: bytes, layout: Layout, starts: Sequence[int]) -> list[Part]:
    """Return parts that start at given places, where records may or may not start."""
    bounds = [*sorted({0, *starts} - {len(data)}), len(data)]
    sections = [Section(start, data.count(layout.newline, start, stop), start, 0) for start, stop in pairwise(bounds)]
    return parts_of(len(data), layout, sections)


def read_parts(data: bytes, source: Files, found: Sequence[Part]) -> Found | None:
    """Read the parts of a file; None when one of them refuses."""
    assert sum(part.size for part in found) == len(data)
    target = Target(schema=schema_of(COLUMNS), timezone=source.timezone, surveyed=True)
    each = Reader(source=source, target=target, open=lambda _: io.BytesIO(data))
    # In another order than that of the file, as Spark may read them.
    tasks = [Task(0, "in/file", len(data), part=part) for part in reversed(found)]
    try:
        return Found(list(each.read(tasks)))
    except Abort as abort:
        if (abort.kind, abort.path) != ("unsplit", "in/file"):
            raise
        return None


def is_read_in_parts(data: bytes, cuts: Sequence[int], *, format: FileFormat = "csv", **source: Any) -> bool:
    """Read a file in parts and as a whole, and compare; False when it must be read as a whole."""
    declared = Files(files="in/*", format=format, **source)
    divided = parts_by(data, cuts, declared)
    found = None if divided is None else read_parts(data, declared, divided)
    if found is None:
        return False
    assert_same(read(data, COLUMNS, format=format, **source), found)
    return True


def assert_same(whole: Found, found: Found) -> None:
    assert sorted_rows(found) == sorted_rows(whole)
    markers = [row[FILE_END] for row in found.every if row[FILE_END] is not None]
    total = {name: sum(end[name] for end in markers) for name in ("rows", "rejected", "rescued", "bytes")}
    assert {**total, "code": None} == whole.end


def sorted_rows(found: Found) -> list[dict[str, Any]]:
    rows = [row for row in found.every if row[FILE_END] is None]
    return sorted(rows, key=lambda row: int(row[SOURCE_ROW]))


def starts_of_records(data: bytes, delimiter: str, newline: bytes) -> list[int]:
    """Return where the records behind the header start."""
    starts = [len(data) - len(data.removeprefix(MARK))]
    for piece in split.split([data.removeprefix(MARK)], delimiter=delimiter, newline=newline):
        assert isinstance(piece, split.Records)
        starts += (starts[-1] + piece.stops).tolist()
    return [start for start in starts[1:] if data[:start].strip(MARK + b"\r\n")]


def orders(count: int, name: str = '"Smith, {n}\n""J"""') -> bytes:
    return ("id,name\n" + "".join(f"{n},{name.replace('{n}', str(n))}\n" for n in range(count))).encode()


@given(file=csv_files(), cuts=CUTS, chunk=st.sampled_from([7, 64, 4096]))
@settings(max_examples=100, deadline=None)
def test_csv_is_read_in_parts_like_the_whole_or_not_at_all(
    file: tuple[bytes, str], cuts: list[int], chunk: int
) -> None:
    data, delimiter = file
    with mock.patch.object(stream, "CHUNK", chunk):
        event("in parts" if is_read_in_parts(data, cuts, delimiter=delimiter) else "as a whole")


@given(file=csv_files(), picks=CUTS)
@settings(max_examples=100, deadline=None)
def test_a_part_that_does_not_start_with_a_record_is_noticed(file: tuple[bytes, str], picks: list[int]) -> None:
    data, delimiter = file
    source = Files(files="in/*", format="csv", delimiter=delimiter)
    layout = layout_of(data, source)
    if layout is None:
        return
    places = [at + 1 for at, byte in enumerate(data) if byte == layout.newline[0]] or [0]
    found = read_parts(data, source, parts_at(data, layout, [places[pick % len(places)] for pick in picks]))
    event("as a whole" if found is None else "in parts")
    if found is not None:
        assert_same(read(data, COLUMNS, format="csv", delimiter=delimiter), found)


@given(file=csv_files(), picks=CUTS)
@settings(max_examples=100, deadline=None)
def test_parts_that_start_with_records_are_never_refused(file: tuple[bytes, str], picks: list[int]) -> None:
    data, delimiter = file
    source = Files(files="in/*", format="csv", delimiter=delimiter)
    layout = layout_of(data, source)
    if layout is None:
        return
    starts = [start for start in starts_of_records(data, delimiter, layout.newline) if start < len(data)]
    chosen = [starts[pick % len(starts)] for pick in picks if starts]
    found = read_parts(data, source, parts_at(data, layout, chosen))
    assert found is not None
    assert_same(read(data, COLUMNS, format="csv", delimiter=delimiter), found)


@given(
    texts=st.lists(st.sampled_from(LINES)),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    last=st.booleans(),
    cuts=CUTS,
    chunk=st.sampled_from([5, 64, 4096]),
)
@settings(max_examples=100, deadline=None)
def test_json_lines_are_read_in_parts_like_the_whole(
    texts: list[str], end: str, last: bool, cuts: list[int], chunk: int
) -> None:
    data = (end.join(texts) + (end if last else "")).encode()
    with mock.patch.object(stream, "CHUNK", chunk):
        assert is_read_in_parts(data, cuts, format="json") or not data or head.spans_lines(data)


@given(
    texts=st.lists(st.text("abc é", max_size=30)),
    cuts=CUTS,
    encoding=st.sampled_from(["utf-8", "latin-1", "cp1252", "ascii"]),
)
@settings(max_examples=60, deadline=None)
def test_text_is_read_in_parts_like_the_whole(texts: list[str], cuts: list[int], encoding: str) -> None:
    data = "\n".join(texts).encode(encoding, errors="replace")
    assert is_read_in_parts(data, cuts, format="text", encoding=encoding) or not data


@given(
    sizes=st.lists(st.integers(1, 90), max_size=12),
    field=st.sampled_from(['"' + "y\n" * 40 + '"', "y" * 90, '5" pipe' + "y" * 90]),
    cuts=CUTS,
    chunk=st.integers(4, 20),
)
@settings(max_examples=150, deadline=None)
def test_records_that_are_too_long_are_read_in_parts_like_the_whole_or_not_at_all(
    sizes: list[int], field: str, cuts: list[int], chunk: int
) -> None:
    data = "\n".join(["id,name", *(f"{number},{field[:size]}" for number, size in enumerate(sizes)), "9,z"]).encode()
    with (
        mock.patch.object(split, "MAX_RECORD", 40),
        mock.patch.object(stream, "CHUNK", chunk),
        mock.patch.object(head, "_HEAD", 1),  # or the first chunk would be longer
    ):
        event("in parts" if is_read_in_parts(data, cuts) else "as a whole")


@pytest.mark.parametrize("name", ['"Smith, {n}\n""J"""', "plain {n}", '"{n}"', '"a\n\n{n}"'])
def test_quoted_line_ends_do_not_prevent_parts(name: str) -> None:
    data = orders(2000, name)
    source = Files(files="in/*", format="csv")
    with mock.patch.object(parts, "_WINDOW", 500):
        assert is_read_in_parts(data, range(0, len(data), 700))
        assert len(parts_by(data, range(0, len(data), 700), source) or ()) == -(-len(data) // 700)


def test_stray_quotes_do_not_prevent_parts() -> None:
    data = orders(500) + b'501,5" pipe\n' + orders(500)[8:] + b'502,6" pipe\n' + orders(900)[8:]
    assert is_read_in_parts(data, range(0, len(data), 2000))


def test_the_records_of_a_part_may_depend_on_what_follows_it() -> None:
    first, second = orders(20, "plain") + b'21,5" pipe\n22,plain\n', orders(20, "plain")[8:] + b'40,"quoted"\n'
    source = Files(files="in/*", format="csv")
    layout = layout_of(first + second, source)
    assert layout is not None
    found = read_parts(first + second, source, parts_at(first + second, layout, [len(first)]))
    assert found is not None
    assert_same(read(first + second, COLUMNS, format="csv"), found)


def test_a_wrong_guess_within_a_long_quoted_field_is_noticed() -> None:
    data = b'id,name\n1,"' + b"x\n" * 500 + b'"\n2,y\n'
    with mock.patch.object(parts, "_WINDOW", 100):
        assert not is_read_in_parts(data, [400])


class Pipe(io.BytesIO):
    """A stream that cannot seek."""

    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("data", "source"),
    [
        (gzip.compress(orders(5), mtime=0), {}),
        (orders(5).decode().encode("utf-16"), {}),
        (orders(5).decode().encode("utf-16-le"), {"encoding": "utf-16-le"}),
        (orders(5), {"encoding": "gb18030"}),
        (b"", {}),
        (b'"id', {"delimiter": ";"}),
        (b"id,ID\n1,2\n", {}),
        (b"id\xff,name\n1,2\n", {}),
        (b'[{"id": 1}]', {"format": "json"}),
        (b'{"id":\n1}\n', {"format": "json"}),
        (b"<a/>", {"format": "xml", "row_tag": "a"}),
        (b"PAR1", {"format": "parquet"}),
    ],
)
def test_a_file_that_only_the_reader_of_the_whole_understands_has_no_parts(data: bytes, source: dict[str, Any]) -> None:
    assert layout_of(data, Files(files="in/*", **{"format": "csv", **source})) is None


def test_a_stream_that_cannot_seek_has_no_parts() -> None:
    assert file_layout(Pipe(orders(5)), len(orders(5)), Files(files="in/*", format="csv")) is None


def test_a_text_in_another_encoding_is_left_to_the_reader_of_the_whole() -> None:
    assert not is_read_in_parts(orders(100, "plain") + b"7,\x81\n", [200, 700], encoding="cp1252")


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_with_another_size_than_listed_is_postponed(change: int) -> None:
    data, source = orders(50), Files(files="in/*", format="csv")
    found = parts_by(data, [500], source)
    assert found is not None
    changed = data[:-1] if change < 0 else data + b"x"
    each = Reader(source=source, target=Target(schema=schema_of(COLUMNS)), open=lambda _: io.BytesIO(changed))
    with pytest.raises(Abort) as caught:
        list(each.read([Task(0, "in/file", len(data), part=found[-1])]))
    assert (caught.value.kind, caught.value.path) == ("left-out", "in/file")
    assert caught.value.detail.startswith("changed-while-read: ")


def test_a_file_that_was_truncated_is_postponed_by_each_part() -> None:
    data, source = orders(50), Files(files="in/*", format="csv")
    each = Reader(source=source, target=Target(schema=schema_of(COLUMNS)), open=lambda _: io.BytesIO(data[:100]))
    for part in parts_by(data, [500], source) or ():
        with pytest.raises(Abort) as caught:
            list(each.read([Task(0, "in/file", len(data), part=part)]))
        assert caught.value.kind == "left-out"


@given(records=st.lists(st.dictionaries(st.sampled_from("abc"), VALUES), min_size=1, max_size=12), cuts=CUTS)
@settings(max_examples=100, deadline=None)
def test_the_columns_of_the_parts_are_those_of_the_whole(records: list[dict[str, object]], cuts: list[int]) -> None:
    data, source = lines(*records), Files(files="in/*", format="json")
    tasks = [Task(0, "f", len(data), part=part) for part in parts_by(data, cuts, source) or ()]
    shapes = [survey(source, lambda _: io.BytesIO(data), (), task).shape for task in tasks]
    assert not tasks or reduce(wider, shapes) == look(data).shape


def test_the_columns_of_csv_are_those_of_its_header() -> None:
    data, source = orders(100), Files(files="in/*", format="csv")
    for part in parts_by(data, [300, 800], source) or ():
        found = survey(source, lambda _: io.BytesIO(data), (), Task(0, "f", len(data), part=part))
        assert found == look(data, format="csv")


def test_sections_end_shortly_before_chunks() -> None:
    size = 3 * parts.SECTION + 1
    bounds = section_bounds(size)
    assert [start for start, _ in bounds[1:]] == [stop for _, stop in bounds[:-1]]
    assert (bounds[0][0], bounds[-1][1]) == (0, size)
    assert {-stop % stream.CHUNK for _, stop in bounds[:-1]} == {parts._WINDOW}
    assert section_bounds(10) == [(0, 10)]
