"""Files become batches, each closed by a row with its counts; a corrupt file gives only that row."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from typing import BinaryIO

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.intake.reading import lines, look, read

from lakesmith.columns import FILE_END, FILE_NUMBER, RESCUED
from lakesmith.declare.sources import Files
from lakesmith.errors import InfrastructureError
from lakesmith.intake import head, split, stream
from lakesmith.intake.reader import Reader, Task
from lakesmith.intake.rows import Abort, Target
from lakesmith.intake.shapes import schema_of, spark_type

ID = {"id": "bigint"}
IDS = [{"id": number} for number in range(1, 4)]


def test_files_are_read_in_order() -> None:
    files = {"a": lines(*IDS), "b": b"", "c": lines({"id": 9})}
    target = Target(schema=schema_of(ID))
    made = Reader(source=Files(files="*", format="json"), target=target, open=lambda path: io.BytesIO(files[path]))
    tasks = [Task(number, path, len(data)) for number, (path, data) in enumerate(files.items())]
    found = pa.Table.from_batches(made.read(tasks)).to_pylist()
    assert [(row["id"], row[FILE_NUMBER]) for row in found if row[FILE_END] is None] == [(1, 0), (2, 0), (3, 0), (9, 2)]
    assert [(row[FILE_NUMBER], row[FILE_END]["rows"], row[FILE_END]["bytes"]) for row in found if row[FILE_END]] == [
        (0, 3, len(files["a"])),
        (1, 0, 0),
        (2, 1, len(files["c"])),
    ]


def test_a_reader_can_be_pickled() -> None:
    made = Reader(source=Files(files="*", format="json"), target=Target(schema=schema_of(ID)), open=_nothing)
    assert pickle.loads(pickle.dumps(made)) == made


def _nothing(_: str) -> BinaryIO:
    return io.BytesIO()


def test_a_file_with_a_known_error_is_not_read() -> None:
    made = Reader(source=Files(files="*", format="json"), target=Target(schema=schema_of(ID)), open=_nothing)
    (batch,) = made.read([Task(3, "a", 7, "not-json: it is bad: really")])
    (row,) = batch.to_pylist()
    assert row[FILE_END] == {"rows": 1, "rejected": 1, "rescued": 0, "bytes": 7, "code": "not-json"}
    assert row["_lakesmith_code"] == "not-json: it is bad: really"


@pytest.mark.parametrize("size", [4, 5, 11, 64, 4096])
@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("json", lines(*IDS)),
        ("json", lines(*IDS).rstrip()),
        ("json", lines(*IDS).replace(b"\n", b"\r\n")),
        ("json", lines(*IDS).replace(b"\n", b"\r")),
        ("json", lines(*IDS).replace(b"\n", b"\n\n   \n")),
        ("json", json.dumps(IDS).encode()),
        ("json", json.dumps(IDS, indent=2).encode()),
        ("json", b"\n".join(json.dumps(each, indent=2).encode() for each in IDS)),
        ("json", b'{"id":\n1}\n{"id": 2}\n{"id": 3}'),
        ("csv", b"id\n1\n2\n3\n"),
        ("csv", b"\n\r\nid\n\n1\n2\n\n3"),
        ("csv", b"id\r\n1\r\n2\r\n3\r\n"),
        ("csv", b"id\r1\r2\r3"),
        ("csv", '\ufeff"id"\n"1"\n"2"\n"3"\n'.encode()),
    ],
)
def test_records_are_found_in_any_layout_and_chunking(
    format: str, data: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CHUNK", size)
    found = read(data, ID, format=format)  # type: ignore[arg-type]
    assert found.rows == IDS
    assert not found.codes


@given(
    texts=st.lists(
        st.one_of(st.integers().map(lambda n: f'{{"id": {n}}}'), st.sampled_from(["", "  ", "{", '{"id": "x"}']))
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    pack=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_every_record_is_counted(texts: list[str], end: str, last: bool, pack: bool) -> None:
    data = (end.join(texts) + (end if last else "")).encode()
    found = read(gzip.compress(data) if pack else data, ID)
    records = [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    assert found.end["rows"] == len(records)
    assert sorted([*found.lines, *found.codes]) == [number for number, _ in records]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"id":\n{"id": 1}\n', [1]),
        (b'{"id": 1,\n{"id": 1}\n', [1]),
        (b'{"id":\ngarbage\n{"id": 1}\n', [1]),
        (b'{"id": [\n{"id": 1}\n', [1]),
        (b'garbage\n{"id": 1}\n', [1]),
        (b'null\n{"id": 1}\n', [1]),
    ],
)
def test_an_invalid_first_line_does_not_hide_the_others(data: bytes, expected: list[int]) -> None:
    found = read(data, ID)
    assert [row["id"] for row in found.rows] == expected
    assert len(found.codes) == data.count(b"\n") - 1


def test_an_object_can_have_nested_objects_on_its_second_line() -> None:
    found = read(b'{"items": [\n{"id": 1}\n]}\n{"items": []}', {"items": "array<struct<id:bigint>>"})
    assert found.rows == [{"items": [{"id": 1}]}, {"items": []}]


def test_an_invalid_array_element_rejects_only_itself() -> None:
    data = b'[{"id": 1}, {"id": 1, "id": 2}, {"id": NaN}, null, 5, {"id": }, {"id": 2}]'
    found = read(data, ID)
    assert found.rows == [{"id": 1}, {"id": 2}]
    assert found.codes == {
        2: "duplicate-keys",
        3: "not-a-number",
        4: "not-an-object",
        5: "not-an-object",
        6: "not-json",
    }


def test_rows_have_the_number_of_their_first_line() -> None:
    assert read(b'\n{"id": 1}\n\n\n{"id": 2}\n', ID).lines == [2, 5]
    assert read(b'id,n\n1,"a\nb"\n2,c\n', {**ID, "n": "string"}, format="csv").lines == [2, 4]


def test_text_is_read_by_lines() -> None:
    found = read(b"a\n\n\xff\nb\x00\nc", {"value": "string"}, format="text")
    assert found.rows == [{"value": "a"}, {"value": ""}, {"value": "c"}]
    assert found.codes == {3: "not-utf8", 4: "nul-byte"}


def test_changes_are_unwrapped_from_their_envelope() -> None:
    change = {"op": "u", "before": {"id": 1}, "after": {"id": 2}, "source": {}, "ts_ms": 0}
    found = read(lines(change, {"x": 1}), {**ID, "_op": "string", "_before": "string"}, envelope="debezium")
    assert found.rows == [{"id": 2, "_op": "update", "_before": '{"id": 1}'}]
    assert found.codes == {2: "not-an-envelope"}
    assert str(spark_type(look(lines(change), envelope="debezium").shape)) == "struct<id:bigint>"


def test_a_field_of_a_changed_row_that_is_called_like_an_audit_column_is_not_lost() -> None:
    change = {"op": "c", "after": {"id": 2, "_op": "mine"}, "source": {}, "ts_ms": 0}
    found = read(lines(change), {**ID, "_op": "string"}, envelope="debezium")
    assert found.rows == [{"id": 2, "_op": "insert"}]
    (beside,) = found.rescued
    assert beside is not None
    assert beside["_op (of the row)"] == "mine"


def test_a_new_field_names_its_file() -> None:
    with pytest.raises(Abort) as caught:
        read(lines({"id": 1, "n": {"x": 1}}), {**ID, "n": "struct<a:bigint>"}, path="in/new.json", surveyed=False)
    assert (caught.value.kind, caught.value.path, caught.value.detail) == ("new-fields", "in/new.json", "n.x")


# Hive partitions


def test_partition_folders_are_columns() -> None:
    columns = {**ID, "year": "int", "day": "date", "at": "timestamp", "c": "string", "none": "string"}
    path = "in/year=2026/day=2026-01-31/at=2026-01-31 12%3A00%3A00Z/c=x%20y%2Fz/none=__HIVE_DEFAULT_PARTITION__/f.json"
    (row,) = read(lines({"id": 1}), columns, path=path).rows
    assert (row["id"], row["year"], str(row["day"]), row["c"]) == (1, 2026, "2026-01-31", "x y/z")
    assert row["at"].isoformat() == "2026-01-31T12:00:00+00:00"
    assert "none" not in row


def test_the_file_name_is_not_a_partition() -> None:
    assert Task(0, "a=1/b/c=2.json", 0).partitions == {"a": "1"}


def test_a_partition_value_that_does_not_fit_is_rescued() -> None:
    found = read(lines({"id": 1}, {"id": "x"}), {**ID, "year": "int"}, path="year=abc/f.json")
    assert found.rescued == [{"year": "abc"}, {"id": "x", "year": "abc"}]


def test_a_partition_with_an_invalid_column_name_is_rescued() -> None:
    assert read(lines({"id": 1}), ID, path="the year=2026/f.json").rescued == [{"the year": "2026"}]


def test_a_column_in_path_and_file_has_the_value_of_the_path() -> None:
    data = lines({"id": 1, "year": 2026}, {"id": 2, "year": 2025}, {"id": 3}, {"id": 4, "year": "x"})
    found = read(data, {**ID, "year": "int"}, path="year=2026/f.json", surveyed=False)
    assert [row["year"] for row in found.rows] == [2026] * 4
    assert found.rescued == [None, {"year": 2025}, None, {"year": "x"}]


def test_a_column_in_path_and_csv_file_has_the_value_of_the_path() -> None:
    found = read(b"Year,id\n2025,1\n2026,2\n", {**ID, "year": "int"}, path="YEAR=2026/f.csv", format="csv")
    assert found.rows == [{"id": 1, "year": 2026}, {"id": 2, "year": 2026}]
    assert found.rescued == [{"year": 2025}, None]


def test_a_value_of_the_file_is_used_where_the_path_has_none() -> None:
    path = "year=__HIVE_DEFAULT_PARTITION__/f.json"
    assert read(lines({"id": 1, "year": 5}), {**ID, "year": "int"}, path=path).rescued == [{"year": 5}]


def test_a_new_partition_column_without_a_survey_aborts_the_job() -> None:
    with pytest.raises(Abort) as abort:
        read(lines({"id": 1}), ID, path="year=2026/f.json", surveyed=False)
    assert abort.value.kind == "new-fields"


# Surveys


@pytest.mark.parametrize(
    ("format", "data", "expected"),
    [
        ("json", lines({"a": 1}, {"b": 2.5}, "{", {"A": "x"}), "struct<a:string,b:double>"),
        ("json", b'[{"a": 1},\n {"b": {"c": 1}}]', "struct<a:bigint,b:struct<c:bigint>>"),
        ("json", b'{\n"a": 1\n}', "struct<a:bigint>"),
        ("csv", b"\n b , a\n1,2\n", "struct<b:string,a:string>"),
        ("csv", b"a,two words\n", "struct<a:string>"),
        ("text", b"", "struct<value:string>"),
    ],
)
def test_a_survey_finds_the_columns_of_a_file(format: str, data: bytes, expected: str) -> None:
    found = look(data, format=format)  # type: ignore[arg-type]
    assert (str(spark_type(found.shape)), found.why) == (expected, None)


def test_a_survey_finds_the_columns_of_the_path() -> None:
    assert str(spark_type(look(lines({"id": 1}), path="year=2026/f").shape)) == "struct<id:bigint,year:string>"


@pytest.mark.parametrize(("format", "data"), [("json", b""), ("json", b"\n \n"), ("csv", b""), ("csv", b"\n\n")])
def test_a_file_without_records_has_no_columns(format: str, data: bytes) -> None:
    found = look(data, format=format)  # type: ignore[arg-type]
    assert (found.shape, found.why) == (pa.struct([]), None)


def test_a_survey_reports_why_a_file_is_unreadable() -> None:
    assert look(b'[{"a": 1}').why == "truncated-json: the file ends before its value does: '{\"a\": 1}'"
    assert (
        look(b"a;b\n", format="csv", expected=list("abcdefg")).why
        == "wrong-delimiter: 1 column found, 7 expected; try ';'"
    )


def test_a_survey_skips_a_too_long_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "MAX_RECORD", 40)
    monkeypatch.setattr(stream, "CHUNK", 16)
    monkeypatch.setattr(head, "_HEAD", 16)
    assert str(spark_type(look(lines({"a": "x" * 100}, {"b": 1})).shape)) == "struct<b:bigint>"


# Files that change, or cannot be read


def _denied() -> BinaryIO:
    raise PermissionError(13, "Permission denied")


def _gone() -> BinaryIO:
    raise FileNotFoundError(2, "No such file")


def _unavailable() -> BinaryIO:
    raise InfrastructureError("store-failed", "the store answers 503", hint="")


@pytest.mark.parametrize(
    ("opened", "detail"),
    [
        (_gone, "file-gone: the file was listed, and has been deleted since"),
        (_denied, "permission-denied: this user may not read the file"),
        (_unavailable, "store-failed: the store answers 503"),
    ],
)
def test_an_unopenable_file_is_postponed(opened: object, detail: str) -> None:
    with pytest.raises(Abort) as caught:
        read(opened, ID, size=5)  # type: ignore[arg-type]
    assert (caught.value.kind, caught.value.path, caught.value.detail) == ("left-out", "in/file", detail)
    found = look(opened, size=5)  # type: ignore[arg-type]
    assert (found.why, found.passing) == (detail, True)


class Cut(io.BytesIO):
    """A file that fails after its bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if data := super().read(size):
            return data
        raise OSError(5, "Input/output error")


def test_a_file_that_fails_while_it_is_read_is_postponed() -> None:
    with pytest.raises(Abort) as caught:
        read(lambda: Cut(lines(*IDS)), ID, size=1000)
    assert caught.value.kind == "left-out"
    assert caught.value.detail == "unreadable-file: reading stopped after 30 bytes: Input/output error"


@pytest.mark.parametrize(
    "data", [lines(*IDS), json.dumps(IDS).encode()[:-4], gzip.compress(lines(*IDS), mtime=0)[:-4], b"[[["]
)
@pytest.mark.parametrize("more", [-1, 1])
def test_a_file_with_another_size_than_listed_is_postponed(data: bytes, more: int) -> None:
    with pytest.raises(Abort) as caught:
        read(data, ID, size=len(data) + more)
    assert caught.value.kind == "left-out"
    assert caught.value.detail.startswith("changed-while-read: ")
    assert look(data, size=len(data) + more).passing


@pytest.mark.parametrize("data", [json.dumps(IDS).encode()[:-4], gzip.compress(lines(*IDS), mtime=0)[:-4]])
def test_no_row_of_a_corrupt_file_is_ingested(data: bytes) -> None:
    found = read(data, ID)
    assert not found.rows
    assert list(found.codes) == [0]
    assert found.end["rows"] == 1


def test_a_corrupt_file_with_released_rows_aborts_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "CHUNK", 10_000)
    data = json.dumps([{"id": number} for number in range(10_000)]).encode()[:-3]
    with pytest.raises(Abort) as caught:
        read(data, ID, held=10_000)
    assert (caught.value.kind, caught.value.path) == ("broken", "in/file")
    assert caught.value.detail.startswith("truncated-json: ")


def test_many_rows_are_released_before_the_end_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "CHUNK", 10_000)
    found = read(lines(*({"id": number} for number in range(10_000))), ID, held=10_000)
    assert [row["id"] for row in found.rows] == list(range(10_000))
    assert len(found.batches) > 5


def test_a_file_without_a_readable_head_is_read() -> None:
    data = [b"[", None]

    def opened() -> BinaryIO:
        first = data.pop(0)
        if first is None:
            raise FileNotFoundError
        return io.BytesIO(first)

    found = read(opened, ID, size=1)
    assert (found.codes, found.raws) == ({0: "truncated-json"}, [""])
    assert found.every[0][RESCUED] is None
