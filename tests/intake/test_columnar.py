from __future__ import annotations

import io
import json
import math
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any, BinaryIO, cast
from zlib import crc32

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakesmith.columns import CORRUPT, ERROR_CODE, RESCUED, ROW_HASH, SOURCE_ROW
from lakesmith.intake import columnar
from lakesmith.intake.columnar import Format
from lakesmith.intake.rows import Abort, Broken, Target

US = pa.timestamp("us")
UTC_US = pa.timestamp("us", tz="UTC")


def parquet(columns: dict[str, pa.Array] | pa.Table, **options: Any) -> io.BytesIO:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    file.seek(0)
    return file


def orc_file(table: pa.Table, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    orc.write_table(table, file, **options)
    file.seek(0)
    return file


def avro(fields: dict[str, Any], *records: dict[str, Any], **options: Any) -> io.BytesIO:
    schema = {"type": "record", "name": "Row", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    file = io.BytesIO()
    fastavro.writer(file, schema, records, **options)
    file.seek(0)
    return file


def target(columns: dict[str, pa.DataType], **options: Any) -> Target:
    return Target(schema=pa.schema(list(columns.items())), **options)


def rows(file: BinaryIO, columns: dict[str, pa.DataType], format: Format = "parquet", **options: Any) -> list[Any]:
    return [row for batch in columnar.read(file, format, target(columns, **options)) for row in batch.to_pylist()]


def fitted(array: pa.Array, type: pa.DataType, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the stored values of a column of a file, and the rescued ones."""
    found = rows(parquet({"a": array}), {"a": type}, **options)
    return [row["a"] for row in found], [row[RESCUED] and json.loads(row[RESCUED]) for row in found]


def own_shape(file: BinaryIO, format: Format = "parquet") -> dict[str, pa.DataType]:
    found = columnar.shape(file, format)
    return dict(zip(found.names, found.types, strict=True))


def rejected(file: BinaryIO, format: Format = "parquet") -> Broken:
    with pytest.raises(Broken) as raised:
        list(columnar.read(file, format, target({}, surveyed=True)))
    return raised.value


class Stream(io.RawIOBase):
    """A file without random access."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(memoryview(buffer)[:1000])


# Rows of every format


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_rows_come_with_their_number_and_hash(format: Format) -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", None]})
    made = {
        "parquet": lambda: parquet(table),
        "orc": lambda: orc_file(table),
        "avro": lambda: avro({"id": "long", "name": ["null", "string"]}, *table.to_pylist()),
    }
    found = rows(made[format](), {"id": pa.int64(), "name": pa.string()}, format)
    assert [{k: v for k, v in row.items() if k != ROW_HASH} for row in found] == [
        {"id": 1, "name": "a", RESCUED: None, CORRUPT: None, ERROR_CODE: None, SOURCE_ROW: 1},
        {"id": 2, "name": None, RESCUED: None, CORRUPT: None, ERROR_CODE: None, SOURCE_ROW: 2},
    ]
    texts = [b'{"id":1,"name":"a"}', b'{"id":2}']
    assert [row[ROW_HASH] for row in found] == [blake2b(text, digest_size=16).hexdigest() for text in texts]


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_a_file_without_rows_has_no_rows(format: Format) -> None:
    table = pa.table({"id": pa.array([], pa.int64())})
    file = {"parquet": parquet(table), "orc": orc_file(table), "avro": avro({"id": "long"})}[format]
    assert rows(file, {"id": pa.int64()}, format) == []
    file.seek(0)
    assert own_shape(file, format) == {"id": pa.int64()}


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_a_file_without_random_access_is_read(format: Format) -> None:
    table = pa.table({"id": range(5000)})
    file = {"parquet": parquet(table), "orc": orc_file(table), "avro": avro({"id": "long"}, *table.to_pylist())}[format]
    stream = cast(BinaryIO, Stream(file.getvalue()))
    assert [row["id"] for row in rows(stream, {"id": pa.int64()}, format)] == list(range(5000))


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_an_unreachable_file_is_not_reported_as_corrupt(format: Format) -> None:
    class Lost(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 100:
                raise ConnectionResetError("the store answers 503")
            return super().read(size)

    table = pa.table({"id": range(5000)})
    file = {"parquet": parquet(table), "orc": orc_file(table), "avro": avro({"id": "long"}, *table.to_pylist())}[format]
    with pytest.raises(ConnectionResetError):
        rows(Lost(file.getvalue()), {"id": pa.int64()}, format)


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_batches_are_bounded_in_rows(format: Format) -> None:
    table = pa.table({"id": range(50_000)})
    file = {"parquet": parquet(table), "orc": orc_file(table), "avro": avro({"id": "long"}, *table.to_pylist())}[format]
    batches = list(columnar.read(file, format, target({"id": pa.int64()})))
    assert max(len(batch) for batch in batches) <= 21_000
    assert len(batches) <= 4
    assert [n for batch in batches for n in batch.column(SOURCE_ROW).to_pylist()] == list(range(1, 50_001))


def test_batches_of_highly_compressed_data_are_bounded_in_bytes() -> None:
    file = parquet({"a": pa.array(["x" * 500_000] * 200)})
    assert len(file.getvalue()) < 600_000
    batches = list(columnar.read(file, "parquet", target({"a": pa.string()})))
    assert sum(len(batch) for batch in batches) == 200
    assert max(batch.nbytes for batch in batches) < 17 << 20


def test_a_large_row_group_is_not_read_at_once() -> None:
    class Watched(io.BytesIO):
        largest = 0

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            self.largest = max(self.largest, len(data))
            return data

    table = pa.table({"a": range(1_000_000)})
    file = Watched(parquet(table, row_group_size=1_000_000, use_dictionary=False, compression="none").getvalue())
    batches = columnar.read(file, "parquet", target({"a": pa.int64()}))
    assert len(next(batches)) <= 20_000
    assert file.largest < 2 << 20
    assert file.tell() < 4 << 20


def test_the_hash_depends_on_the_record_and_not_on_its_layout() -> None:
    one = parquet({"a": pa.array([1], pa.int8()), "b": ["x"]})
    other = parquet({"b": pa.array(["x"]).dictionary_encode(), "c": pa.nulls(1, US), "a": pa.array([1], pa.int64())})
    columns = {"a": pa.int64(), "b": pa.string(), "c": US}
    assert rows(one, columns)[0][ROW_HASH] == rows(other, columns)[0][ROW_HASH]


def test_the_hash_distinguishes_a_text_from_a_number() -> None:
    texts = pa.array(["1", '1","b":"2', None, "", "\n", "\\n"])
    found = [row[ROW_HASH] for row in rows(parquet({"a": texts}), {"a": pa.string()})]
    found.append(rows(parquet({"a": [1]}), {"a": pa.string()})[0][ROW_HASH])
    assert len(set(found)) == 7


# Columns


def test_columns_are_matched_by_name_ignoring_order_and_case() -> None:
    file = parquet({"B": [1], "a": ["x"]})
    found = rows(file, {"a": pa.string(), "b": pa.int64()})[0]
    assert (found["a"], found["b"], found[RESCUED]) == ("x", 1, None)


def test_a_missing_column_is_null() -> None:
    assert rows(parquet({"a": [1]}), {"a": pa.int64(), "b": pa.list_(pa.string())})[0]["b"] is None


def test_a_new_column_without_a_survey_aborts_the_job() -> None:
    with pytest.raises(Abort) as raised:
        rows(parquet({"a": [1], "new": [2]}), {"a": pa.int64()})
    assert (raised.value.kind, raised.value.detail) == ("new-fields", "new")


def test_a_wider_type_without_a_survey_aborts_the_job() -> None:
    file = parquet({"a": pa.array([{"x": [1]}], pa.struct([("x", pa.list_(pa.int64()))]))})
    known = {"a": pa.struct([("x", pa.list_(pa.int32()))])}
    with pytest.raises(Abort) as raised:
        rows(file, known, widening=frozenset({"a"}))
    assert (raised.value.kind, raised.value.detail) == ("new-fields", "a")
    for options in ({"widening": frozenset({"b"})}, {"widening": frozenset({"a"}), "surveyed": True}):
        assert rows(file, known, **options)[0]["a"] == {"x": [1]}


@pytest.mark.parametrize("found", [pa.float64(), pa.string(), pa.int16(), pa.timestamp("us")])
def test_a_type_that_cannot_widen_a_column_does_not_abort_the_job(found: pa.DataType) -> None:
    file = parquet({"a": pa.array([None], found)})
    assert rows(file, {"a": pa.int32()}, widening=frozenset({"a"}))[0]["a"] is None


def test_a_new_field_in_lists_and_maps_without_a_survey_aborts_the_job() -> None:
    found = pa.list_(pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("y", pa.int64())])))
    known = pa.list_(pa.map_(pa.string(), pa.struct([("x", pa.int64())])))
    with pytest.raises(Abort) as raised:
        rows(parquet({"a": pa.array([], found)}), {"a": known})
    assert raised.value.detail == "a.y"


def test_an_unknown_column_after_a_survey_is_rescued() -> None:
    found = rows(parquet({"a": [1, 2], "new": [{"b": 3}, None]}), {"a": pa.int64()}, surveyed=True)
    assert [row[RESCUED] for row in found] == ['{"new": {"b":3}}', None]


def test_columns_that_a_table_cannot_have_are_rescued_without_a_survey() -> None:
    file = parquet({"a": [1], "_run_id": ["x"], "two words": [2]})
    assert own_shape(file) == {"a": pa.int64()}
    assert rows(file, {"a": pa.int64()})[0][RESCUED] == '{"_run_id": "x", "two words": 2}'


def test_columns_that_differ_only_in_case_are_rejected() -> None:
    broken = rejected(parquet({"id": [1], "ID": [2]}))
    assert (broken.code, "'ID'" in broken.what, "'id'" in broken.what) == ("header-twice", True, True)


def test_a_duplicate_column_is_rejected() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    assert rejected(parquet(table)).code == "header-twice"


def test_fields_that_differ_only_in_case_are_rejected() -> None:
    assert "'a.X'" in rejected(parquet({"a": [[{"x": 1, "X": 2}]]})).what


# Types that disagree


@pytest.mark.parametrize(
    ("array", "type", "values"),
    [
        (pa.array([1, -1], pa.int32()), pa.int64(), [1, -1]),
        (pa.array([1], pa.uint8()), pa.int32(), [1]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
        (pa.array([7], pa.int64()), pa.decimal128(5, 2), [Decimal("7.00")]),
        (pa.array([7, 2**60], pa.int64()), pa.float64(), [7.0, 2.0**60]),
        (pa.array([0.5], pa.float32()), pa.float64(), [0.5]),
        (pa.array([0.5, math.inf], pa.float64()), pa.float32(), [0.5, math.inf]),
        (pa.array([Decimal("0.5")]), pa.float64(), [0.5]),
        (pa.array([Decimal("1.50")], pa.decimal128(30, 2)), pa.decimal128(5, 1), [Decimal("1.5")]),
        (pa.array([Decimal("1.5")], pa.decimal256(60, 1)), pa.decimal128(10, 4), [Decimal("1.5000")]),
        (pa.array([5], pa.int64()), pa.int8(), [5]),
        (pa.array([date(2026, 1, 31)]), pa.date32(), [date(2026, 1, 31)]),
        (pa.array([10**9], pa.timestamp("ns")), US, [datetime(1970, 1, 1, 0, 0, 1)]),
        (pa.array([1], pa.timestamp("ms", tz="Europe/Berlin")), UTC_US, [datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)]),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
        (pa.array([[1]], pa.large_list(pa.int8())), pa.list_(pa.int64()), [[1]]),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), pa.list_(pa.int64()), [[1, 2]]),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), pa.map_(pa.string(), pa.int64()), [[("a", 1)]]),
        (pa.nulls(1), pa.int64(), [None]),
        (pa.array([1.5], pa.float16()), pa.float64(), [1.5]),
    ],
)
def test_values_that_another_type_holds_exactly_are_stored(array: pa.Array, type: pa.DataType, values: Any) -> None:
    assert fitted(array, type) == (values, [None] * len(values))


@pytest.mark.parametrize(
    ("array", "type", "rescued"),
    [
        (pa.array([2**40], pa.int64()), pa.int32(), 2**40),
        (pa.array([2**64 - 1], pa.uint64()), pa.int64(), 2**64 - 1),
        (pa.array([2**53 + 1], pa.int64()), pa.float64(), 2**53 + 1),
        (pa.array([1000], pa.int64()), pa.decimal128(4, 2), 1000),
        (pa.array([0.1]), pa.float32(), 0.1),
        (pa.array([1e300]), pa.float32(), 1e300),
        (pa.array([5.0]), pa.int64(), 5),
        (pa.array([0.5]), pa.decimal128(5, 2), 0.5),
        (pa.array([Decimal("0.1")]), pa.float64(), 0.1),
        (pa.array([Decimal("1.55")]), pa.decimal128(5, 1), 1.55),
        (pa.array([Decimal("1.5")]), pa.int64(), 1.5),
        (pa.array(["12"]), pa.int64(), "12"),
        (pa.array(["2026-01-01"]), pa.date32(), "2026-01-01"),
        (pa.array([True]), pa.int64(), True),
        (pa.array([1]), pa.bool_(), 1),
        (pa.array([1]), pa.binary(), 1),
        (pa.array([b"\x00\xff"]), pa.string(), "00ff"),
        (pa.array([date(2026, 1, 31)]), US, "2026-01-31"),
        (pa.array([datetime(2026, 1, 31, 12)]), pa.date32(), "2026-01-31T12:00:00"),
        (pa.array([1], pa.timestamp("ns")), US, "1970-01-01T00:00:00.000000001"),
        (pa.array([0], pa.timestamp("us")), UTC_US, "1970-01-01T00:00:00"),
        (pa.array([0], pa.timestamp("us", tz="UTC")), US, "1970-01-01T00:00:00Z"),
        (pa.array([2**61], pa.timestamp("ms")), US, f"{2**61} ms since 1970-01-01"),
        (pa.array([2_932_897], pa.date32()), pa.date32(), "10000-01-01"),
        (pa.array([-719_163], pa.date32()), pa.date32(), "0000-12-31"),
        (pa.array([253_402_300_800_000], pa.timestamp("ms")), US, "10000-01-01T00:00:00"),
        (pa.array([{"x": 1}]), pa.int64(), {"x": 1}),
        (pa.array([[1, None]]), pa.struct([("x", pa.int64())]), [1, None]),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), pa.list_(pa.int64()), {"k": 1}),
        (pa.array([math.nan]), pa.int64(), "NaN"),
        (pa.array([-math.inf]), pa.decimal128(5, 2), "-Infinity"),
    ],
)
def test_values_that_would_change_are_rescued(array: pa.Array, type: pa.DataType, rescued: Any) -> None:
    assert fitted(array, type) == ([None], [{"a": rescued}])


def test_only_the_values_that_do_not_fit_are_rescued() -> None:
    values = [n if n % 1000 else 2**40 + n for n in range(5000)]
    stored, rescued = fitted(pa.array(values), pa.int32())
    assert stored == [n if n < 2**31 else None for n in values]
    assert rescued == [None if n < 2**31 else {"a": n} for n in values]


def test_null_fits_every_type() -> None:
    assert fitted(pa.array([None, "x"]), pa.int64()) == ([None, None], [None, {"a": "x"}])


def test_a_field_of_a_struct_is_rescued_under_its_dotted_name() -> None:
    array = pa.array([{"b": {"c": "x", "d": 1}}, None, {"b": None}])
    type = pa.struct([("b", pa.struct([("c", pa.int64()), ("d", pa.int64())]))])
    assert fitted(array, type) == (
        [{"b": {"c": None, "d": 1}}, None, {"b": None}],
        [{"a.b.c": "x"}, None, None],
    )


def test_a_list_item_is_rescued_under_its_index() -> None:
    array = pa.array([[{"p": 1}], None, [], [{"p": 2}, {"p": 300}, None]])
    assert fitted(array, pa.list_(pa.struct([("p", pa.int8())]))) == (
        [[{"p": 1}], None, [], [{"p": 2}, {"p": None}, None]],
        [None, None, None, {"a[1].p": 300}],
    )


def test_a_map_value_is_rescued_under_its_key() -> None:
    array = pa.array([[("k", 1), ("l", 300)], None, []], pa.map_(pa.string(), pa.int64()))
    assert fitted(array, pa.map_(pa.string(), pa.int8())) == (
        [[("k", 1), ("l", None)], None, []],
        [{"a.l": 300}, None, None],
    )


def test_a_map_with_an_unfit_key_is_rescued_completely() -> None:
    array = pa.array([[(1, "x"), (300, "y")], [(2, "z")], None], pa.map_(pa.int64(), pa.string()))
    assert fitted(array, pa.map_(pa.int8(), pa.string())) == (
        [None, [(2, "z")], None],
        [{"a": {"1": "x", "300": "y"}}, None, None],
    )


def test_every_value_can_be_stored_as_text() -> None:
    table: dict[str, pa.Array] = {
        "whole": pa.array([1]),
        "double": pa.array([math.nan]),
        "truth": pa.array([True]),
        "decimal": pa.array([Decimal("1.50")]),
        "day": pa.array([date(2026, 1, 31)]),
        "moment": pa.array([1_500_000], UTC_US),
        "clock": pa.array([time(1, 2, 3, 500_000)]),
        "length": pa.array([timedelta(seconds=90, milliseconds=500)]),
        "nested": pa.array([{"b": [1, None], "a": 'say "ü"\n', "none": None}]),
        "id": pa.array([uuid.UUID(int=1).bytes], pa.uuid()),
    }
    (found,) = rows(parquet(table), dict.fromkeys(table, pa.string()))
    assert {name: found[name] for name in table} == {
        "whole": "1",
        "double": "NaN",
        "truth": "true",
        "decimal": "1.50",
        "day": "2026-01-31",
        "moment": "1970-01-01T00:00:01.5Z",
        "clock": "01:02:03.5",
        "length": "PT90.500000S",
        "nested": '{"a":"say \\"ü\\"\\n","b":[1,null]}',
        "id": "00000000-0000-0000-0000-000000000001",
    }


def test_times_and_durations_become_text_columns() -> None:
    table = {"clock": pa.array([time(1)]), "length": pa.array([timedelta(1)]), "id": pa.array([b"1" * 16], pa.uuid())}
    assert own_shape(parquet(table)) == dict.fromkeys(table, pa.string())


def test_the_shape_has_only_table_types() -> None:
    struct = pa.struct([("x", pa.uint32()), ("two words", pa.int8())])
    table = pa.table(
        {
            "u": pa.array([], pa.uint64()),
            "d": pa.array([], pa.dictionary(pa.int32(), pa.string())),
            "n": pa.array([], pa.timestamp("ns", tz="UTC")),
            "m": pa.array([], pa.map_(pa.string(), struct)),
            "l": pa.array([], pa.large_list(struct)),
            "b": pa.array([], pa.binary(3)),
            "x": pa.array([], pa.decimal256(50, 3)),
        }
    )
    inner = pa.struct([("x", pa.int64())])
    assert own_shape(parquet(table)) == {
        "u": pa.decimal128(20, 0),
        "d": pa.string(),
        "n": UTC_US,
        "m": pa.map_(pa.string(), inner),
        "l": pa.list_(inner),
        "b": pa.binary(),
        "x": pa.decimal128(38, 3),
    }


def test_times_without_a_zone_have_the_declared_zone() -> None:
    array = pa.array([datetime(2026, 7, 1, 12), datetime(2026, 3, 29, 2, 30)])
    assert fitted(array, UTC_US, timezone="Europe/Berlin") == (
        [datetime(2026, 7, 1, 10, tzinfo=UTC), None],  # 02:30 does not exist on that day
        [None, {"a": "2026-03-29T02:30:00"}],
    )


def test_a_row_with_a_text_that_is_not_utf8_is_unreadable_and_the_others_are_read() -> None:
    texts = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    nested = pa.StructArray.from_arrays([pa.array([["x"], ["y"], ["z"]])], names=["b"])
    found = rows(parquet({"n": [1, 2, 3], "s": texts, "t": nested}), {"n": pa.int64(), "s": pa.string()}, surveyed=True)
    assert [(row["n"], row["s"]) for row in found] == [(1, "a"), (None, None), (3, "c")]
    assert found[1][CORRUPT] == '{"n":2,"s":"ff","t":{"b":["y"]}}'
    assert found[1][ERROR_CODE].startswith("not-utf8: the value of 's' is not valid")
    assert [row[RESCUED] for row in found] == ['{"t": {"b":["x"]}}', None, '{"t": {"b":["z"]}}']
    assert len({row[ROW_HASH] for row in found}) == 3


def test_a_nested_text_that_is_not_utf8_makes_only_its_row_unreadable() -> None:
    texts = pa.array([b"a", b"b", b"\xff", b"c"]).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), texts)
    found = rows(parquet({"l": lists}), {"l": pa.list_(pa.string())})
    assert [row["l"] for row in found] == [["a"], None, ["c"]]
    assert found[1][CORRUPT] == '{"l":["62","ff"]}'


# Parquet's first format of times

_PLAIN: dict[str, Any] = {"use_dictionary": False, "compression": "none", "write_statistics": False}


def test_int96_times_outside_the_nanosecond_range_are_read() -> None:
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    table = {"t": pa.array(moments, US), "n": pa.array([[{"t": m}] for m in moments])}
    file = parquet(table, use_deprecated_int96_timestamps=True)
    columns = {"t": UTC_US, "n": pa.list_(pa.struct([("t", UTC_US)]))}
    assert own_shape(file) == columns
    found = rows(file, columns)
    instants = [moment and moment.replace(tzinfo=UTC) for moment in moments]
    assert [row["t"] for row in found] == instants
    assert [row["n"] for row in found] == [[{"t": instant}] for instant in instants]


def test_int96_times_outside_every_range_are_rejected() -> None:
    whole = parquet({"t": pa.array([1, 0], pa.timestamp("ns"))}, use_deprecated_int96_timestamps=True, **_PLAIN)
    far = parquet({"t": pa.array([datetime(1, 1, 1)] * 2, US)}, use_deprecated_int96_timestamps=True, **_PLAIN)
    epoch, first = (day.to_bytes(4, "little") for day in (2_440_588, 1_721_426))
    assert first in far.getvalue()
    mixed = (bytes(8) + first).join(whole.getvalue().rsplit(bytes(8) + epoch, 1))
    assert rejected(io.BytesIO(mixed)).code == "int96-range"


def test_int96_times_finer_than_a_microsecond_are_rescued() -> None:
    file = parquet({"t": pa.array([1, 1000], pa.timestamp("ns"))}, use_deprecated_int96_timestamps=True)
    found = rows(file, {"t": UTC_US})
    assert [row["t"] for row in found] == [None, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]
    assert found[0][RESCUED] == '{"t": "1970-01-01T00:00:00.000000001Z"}'


# Invalid files


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("data", [b"", b"x", b'{"a": 1}\n' * 100, b"PAR0" + b"\x00" * 100])
def test_a_file_of_another_format_is_detected_by_its_first_bytes(format: Format, data: bytes) -> None:
    assert rejected(io.BytesIO(data), format).code == "bad-magic"


@pytest.mark.parametrize("keep", [4, 5, 100, -1, -9, -1000])
def test_a_truncated_parquet_file_is_reported(keep: int) -> None:
    data = parquet({"a": range(10_000)}).getvalue()
    assert rejected(io.BytesIO(data[:keep])).code == "truncated"


def test_a_parquet_file_with_a_corrupt_footer_is_reported() -> None:
    data = parquet({"a": range(100)}).getvalue()
    assert rejected(io.BytesIO(data[:-200] + b"\xff" * 150 + data[-50:])).code == "corrupt"


def test_a_corrupt_page_is_detected_by_its_checksum() -> None:
    data = parquet({"a": range(10_000)}, write_page_checksum=True, use_dictionary=False, compression="none").getvalue()
    broken = rejected(io.BytesIO(flipped(data, 20_000)))
    assert broken.code == "corrupt"
    assert "CRC" in broken.what


def test_rows_before_a_corrupt_page_are_returned_first() -> None:
    table = pa.table({"a": range(100_000)})
    data = parquet(table, row_group_size=25_000, write_page_checksum=True, use_dictionary=False).getvalue()
    batches = columnar.read(io.BytesIO(flipped(data, len(data) * 3 // 4)), "parquet", target({"a": pa.int64()}))
    assert next(batches).column("a").to_pylist()[:2] == [0, 1]
    with pytest.raises(Broken):
        list(batches)


@pytest.mark.parametrize("keep", [3, 100, -1, -30])
def test_a_truncated_orc_file_is_reported(keep: int) -> None:
    data = orc_file(pa.table({"a": range(10_000)})).getvalue()
    assert rejected(io.BytesIO(data[:keep]), "orc").code in ("truncated", "corrupt")


def test_stripes_of_an_orc_file_are_read_one_by_one() -> None:
    table = pa.table({"a": range(100_000), "s": [str(n) for n in range(100_000)]})
    file = orc_file(table, stripe_size=64 << 10, batch_size=1024)
    assert orc.ORCFile(file).nstripes > 1
    found = rows(file, {"a": pa.int64(), "s": pa.string()}, "orc")
    assert [(row["a"], row["s"]) for row in found] == [(n, str(n)) for n in range(100_000)]


def test_types_of_orc_files_are_read() -> None:
    table = pa.table(
        {
            "t": pa.array([datetime(2026, 1, 1, 0, 0, 0, 1)], pa.timestamp("ns")),
            "d": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "l": pa.array([[{"x": 1}]]),
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    file = orc_file(table)
    shape = own_shape(file, "orc")
    assert shape["t"] == US
    file.seek(0)
    (found,) = rows(file, shape, "orc")
    assert [found[name] for name in table.column_names] == [
        datetime(2026, 1, 1, 0, 0, 0, 1),
        Decimal("1.50"),
        [{"x": 1}],
        [("a", 1)],
    ]


# Avro


def test_logical_types_of_avro_are_read() -> None:
    def logical(type: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": type, "logicalType": name, **more}

    fields = {
        "day": logical("int", "date"),
        "milli": logical("long", "timestamp-millis"),
        "micro": logical("long", "timestamp-micros"),
        "local": logical("long", "local-timestamp-micros"),
        "clock": logical("int", "time-millis"),
        "price": logical("bytes", "decimal", precision=38, scale=2),
        "small": {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 1},
        "id": logical("string", "uuid"),
        "span": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
    }
    moment = datetime(2026, 1, 31, 12, 0, 0, 5000, UTC)
    record = {
        "day": date(2026, 1, 31),
        "milli": moment,
        "micro": moment,
        "local": moment.replace(tzinfo=None),
        "clock": time(1, 2, 3),
        "price": Decimal("-123456789012345678901234567890123456.78"),
        "small": Decimal("1.5"),
        "id": str(uuid.UUID(int=1)),
        "span": (1).to_bytes(4, "little") + (2).to_bytes(4, "little") + (3500).to_bytes(4, "little"),
    }
    file = avro(fields, record)
    shape = own_shape(file, "avro")
    assert shape == {
        "day": pa.date32(),
        "milli": UTC_US,
        "micro": UTC_US,
        "local": US,
        "clock": pa.string(),
        "price": pa.decimal128(38, 2),
        "small": pa.decimal128(5, 1),
        "id": pa.string(),
        "span": pa.string(),
    }
    file.seek(0)
    (found,) = rows(file, shape, "avro")
    assert {name: found[name] for name in fields} == record | {"clock": "01:02:03", "span": "P1M2DT3.5S"}


def test_years_beyond_9999_in_avro_are_rescued() -> None:
    schema = LONGS.replace(b'"long"', b'{"type": "long", "logicalType": "timestamp-micros"}')
    file = container({}, block(2, long(253_402_300_800_000_000) + long(0)), schema=schema)
    found = rows(file, {"a": UTC_US}, "avro")
    assert [row["a"] for row in found] == [None, datetime(1970, 1, 1, tzinfo=UTC)]
    assert found[0][RESCUED] == '{"a": "10000-01-01T00:00:00Z"}'


def test_nested_types_of_avro_are_read() -> None:
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    fields = {
        "one": point,
        "many": {"type": "array", "items": ["null", "geo.Point"]},
        "by_name": {"type": "map", "values": "geo.Point"},
        "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
        "again": ["null", "Kind"],
        "raw": {"type": "fixed", "name": "Two", "size": 2},
    }
    record = {
        "one": {"x": 1},
        "many": [None, {"x": 2}],
        "by_name": {"a": {"x": 3}},
        "kind": "A",
        "again": "B",
        "raw": b"\x00\x01",
    }
    file = avro(fields, record)
    shape = own_shape(file, "avro")
    file.seek(0)
    (found,) = rows(file, shape, "avro")
    assert {name: found[name] for name in fields} == record | {"by_name": [("a", {"x": 3})]}


def test_a_union_is_stored_by_the_type_of_each_value() -> None:
    day = b'{"type": "int", "logicalType": "date"}'
    moment = b'{"type": "long", "logicalType": "timestamp-micros"}'
    schema = LONGS.replace(b'"long"', b'["null", "string", %b, %b]' % (day, moment))
    # The number of its branch precedes each value.
    data = long(2) + long(20_454) + long(0) + long(1) + b"\x02x" + long(3) + long(20_454 * 86_400_000_000)
    file = container({}, block(4, data), schema=schema)
    assert own_shape(file, "avro") == {"a": pa.string()}
    file.seek(0)
    as_text = [row["a"] for row in rows(file, {"a": pa.string()}, "avro")]
    assert as_text == ["2026-01-01", None, "x", "2026-01-01T00:00:00Z"]
    file.seek(0)
    found = rows(file, {"a": pa.date32()}, "avro")
    assert [row["a"] for row in found] == [date(2026, 1, 1), None, None, None]
    assert [row[RESCUED] for row in found] == [None, None, '{"a": "x"}', '{"a": "2026-01-01T00:00:00Z"}']


def test_a_union_of_numbers_has_the_widest_type() -> None:
    file = avro({"a": ["null", "int", "long"]}, {"a": 1}, {"a": 2**40}, {"a": None})
    assert own_shape(file, "avro") == {"a": pa.int64()}
    file.seek(0)
    assert [row["a"] for row in rows(file, {"a": pa.int64()}, "avro")] == [1, 2**40, None]


def test_a_union_of_records_has_the_fields_of_all() -> None:
    def record(name: str, field: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": field, "type": "int"}]}

    file = avro({"a": [record("X", "x"), record("Y", "y")]}, {"a": {"x": 1}}, {"a": {"y": 2}})
    shape = own_shape(file, "avro")
    assert shape == {"a": pa.struct([("x", pa.int32()), ("y", pa.int32())])}
    file.seek(0)
    assert [row["a"] for row in rows(file, shape, "avro")] == [{"x": 1, "y": None}, {"x": None, "y": 2}]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs_of_avro_are_read(codec: str) -> None:
    file = avro({"a": "long"}, *({"a": n} for n in range(30_000)), codec=codec)
    assert [row["a"] for row in rows(file, {"a": pa.int64()}, "avro")] == list(range(30_000))


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("zstandard", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
        ("snappy", lambda data: pa.compress(data, codec="snappy", asbytes=True) + crc32(data).to_bytes(4, "big")),
    ],
)
def test_codecs_without_a_bundled_library_are_read(codec: str, packed: Callable[[bytes], bytes]) -> None:
    file = container({"avro.codec": codec.encode()}, block(3, packed(bytes([2, 4, 6]))))
    assert [row["a"] for row in rows(file, {"a": pa.int64()}, "avro")] == [1, 2, 3]


SYNC = b"0123456789abcdef"
LONGS = b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'


def container(metadata: dict[str, bytes], *blocks: bytes, schema: bytes | None = LONGS) -> io.BytesIO:
    """Build an Avro file from bytes."""
    avro_header = metadata | ({"avro.schema": schema} if schema is not None else {})
    file = io.BytesIO()
    fastavro.schemaless_writer(file, {"type": "map", "values": "bytes"}, avro_header)
    return io.BytesIO(b"Obj\x01" + file.getvalue() + SYNC + b"".join(blocks))


def block(count: int, data: bytes, *, sync: bytes = SYNC, size: int | None = None) -> bytes:
    return long(count) + long(len(data) if size is None else size) + data + sync


def long(value: int) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "long", value)
    return file.getvalue()


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (container({}, schema=None), "avro-no-schema"),
        (container({}, schema=b"{"), "avro-bad-schema"),
        (container({}, schema=b'{"type": "recrod"}'), "avro-bad-schema"),
        (container({}, schema=b"[" * 100_000), "too-deep"),
        (container({}, schema=b'"long"'), "avro-not-records"),
        (container({"avro.codec": b"brotli"}, block(1, b"\x02")), "avro-codec"),
        (container({}, block(1, b"\x02", sync=b"x" * 16)), "corrupt"),
        (container({}, block(1, b"\x02\x02")), "corrupt"),
        (container({}, block(2, b"\x02")), "corrupt"),
        (container({}, block(10**9, b"\x02")), "corrupt"),
        (container({}, block(-1, b"\x02")), "corrupt"),
        (container({}, block(1, b"\x02", size=-5)), "corrupt"),
        (container({}, block(1, b"\x02", size=2**60)), "corrupt"),
        (container({}, block(1, b"\xff" * 20)), "corrupt"),
        (container({"avro.codec": b"deflate"}, block(1, b"\x02")), "corrupt"),
        (container({"avro.codec": b"snappy"}, block(1, b"\x01\x00\x02\x00\x00\x00\x00")), "corrupt"),
        (container({}, block(1, b"\x02")[:-1]), "truncated"),
        (container({}, block(1, b"\x02", size=100)), "truncated"),
    ],
)
def test_an_invalid_avro_file_is_reported(file: io.BytesIO, code: str) -> None:
    assert rejected(file, "avro").code == code


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_an_avro_file_truncated_anywhere_is_reported(at: int) -> None:
    data = avro({"a": "string"}, *({"a": "x" * 50} for _ in range(100))).getvalue()
    assert rejected(io.BytesIO(data[: len(data) - 1 - at]), "avro").code == "truncated"


def test_an_avro_block_that_expands_too_much_is_reported() -> None:
    packed = pa.compress(bytes(200 << 20), codec="zstd", asbytes=True)
    assert rejected(container({"avro.codec": b"zstandard"}, block(1, packed)), "avro").code == "expands-too-much"


def test_a_recursive_type_is_rejected() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    broken = rejected(avro({"a": node}, {"a": {"next": {"next": None}}}), "avro")
    assert broken.code == "avro-recursive"
    assert "'Node'" in broken.what


def test_a_text_in_avro_that_is_not_utf8_makes_only_its_row_unreadable() -> None:
    schema = LONGS.replace(b'"long"', b'"string"')
    file = container({}, block(3, b"\x02a\x02\xff\x02c"), schema=schema)
    found = rows(file, {"a": pa.string()}, "avro")
    assert [row["a"] for row in found] == ["a", None, "c"]
    assert found[1][ERROR_CODE].startswith("not-utf8")


# Values that pyarrow writes

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_MOMENT = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
_SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), _TEXT),
    (pa.binary(), st.binary(max_size=5)),
    (pa.date32(), st.dates()),
    (US, _MOMENT),
    (UTC_US, _MOMENT.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.decimal128(38, 5), st.decimals(-(10**30), 10**30, places=5)),
]


def _nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    def listed(kind: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        return pa.list_(kind[0]), st.lists(st.none() | kind[1], max_size=3)

    def mapped(kind: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        pairs = st.dictionaries(_TEXT, st.none() | kind[1], max_size=3)
        return pa.map_(pa.string(), kind[0]), pairs.map(lambda found: list(found.items()))

    def held(kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        fields = {f"f{number}": kind for number, kind in enumerate(kinds)}
        values = st.fixed_dictionaries({name: st.none() | made for name, (_, made) in fields.items()})
        return pa.struct([(name, type) for name, (type, _) in fields.items()]), values

    return inner.map(listed) | inner.map(mapped) | st.lists(inner, min_size=1, max_size=3).map(held)


_KINDS = st.recursive(st.sampled_from(_SCALARS), _nested, max_leaves=4)


@st.composite
def _tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(_KINDS, min_size=1, max_size=3))
    count = draw(st.integers(0, 6))
    columns = {
        f"c{number}": pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), type)
        for number, (type, values) in enumerate(kinds)
    }
    return pa.table(columns)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_tables(), st.booleans(), st.sampled_from(["none", "snappy", "zstd"]))
def test_values_written_to_parquet_are_read_back(table: pa.Table, dictionary: bool, compression: str) -> None:
    file = parquet(table, use_dictionary=dictionary, compression=compression, row_group_size=4)
    assert columnar.shape(file, "parquet").equals(table.schema)
    batches = list(columnar.read(file, "parquet", Target(schema=table.schema)))
    found = pa.Table.from_batches(batches) if batches else table.slice(0, 0)
    assert found.select(table.column_names).to_pylist() == table.to_pylist()
    for batch in batches:
        batch.validate(full=True)
        assert batch.column(RESCUED).null_count == len(batch)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_tables())
def test_values_without_a_column_are_rescued_as_json(table: pa.Table) -> None:
    for batch in columnar.read(parquet(table), "parquet", target({}, surveyed=True)):
        for row, rescued in zip(table.to_pylist(), batch.column(RESCUED).to_pylist(), strict=True):
            filled = [name for name, value in row.items() if value is not None]
            assert list(json.loads(rescued)) == filled if filled else rescued is None


@settings(max_examples=100, deadline=None)
@given(st.data())
@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_corrupt_files_are_read_completely_or_reported(format: Format, data: st.DataObject) -> None:
    table = pa.table({"a": range(200), "s": [f"text {n % 7}" for n in range(200)]})
    whole = (
        parquet(table) if format == "parquet" else avro({"a": "long", "s": "string"}, *table.to_pylist())
    ).getvalue()
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :]
    with suppress(Broken):
        assert len(rows(io.BytesIO(damaged), {"a": pa.int64(), "s": pa.string()}, format, surveyed=True)) == 200
