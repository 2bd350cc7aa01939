"""Values of Kafka records: each is read with its writer schema, or is unreadable with a code."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastavro import schemaless_writer

from lakesmith.columns import CORRUPT, ERROR_CODE, RESCUED, ROW_HASH
from lakesmith.intake.avro_values import AvroSchema
from lakesmith.intake.protobuf_values import ProtobufSchema, compile_protobuf
from lakesmith.intake.rows import Abort, Target, Unreadable, hashes
from lakesmith.intake.shapes import schema_of
from lakesmith.intake.values import JsonSchema, ValueDecoder, header, headers, key_texts

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "code", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "either", "type": ["int", "string"]},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}
CODE_OF = UUID("00000000-0000-0000-0000-000000000001")
VALUE = {
    "id": 2**60,
    "amount": Decimal("12.30"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
    "local": datetime(2026, 1, 31, 12),
    "clock": time(7, 30),
    "code": CODE_OF,
    "note": None,
    "either": 5,
    "tags": {"a": 1},
    "next": None,
}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
enum Kind { NONE = 0; BIG = 1; }
message Zebra { string stripes = 1; }
message Order {
  int64 id = 1;
  uint64 large = 2;
  optional string note = 3;
  repeated int32 counts = 4;
  map<string, int64> tags = 5;
  Kind kind = 6;
  google.protobuf.Timestamp at = 7;
  google.protobuf.Int64Value maybe = 8;
  google.protobuf.Struct free = 9;
  Place place = 10;
  bytes raw = 11;
  Order next = 12;
  message Place { string city = 1; }
}
"""


def framed(id: int, body: bytes) -> bytes:
    return b"\x00" + id.to_bytes(4, "big") + body


def avro(schema: Any, value: object, id: int = 7) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, schema, value)
    return framed(id, stream.getvalue())


@pytest.fixture(scope="module")
def order_writer() -> ProtobufSchema:
    return compile_protobuf(PROTO)


def message(writer: ProtobufSchema, name: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message_factory import GetMessages

    return GetMessages(FileDescriptorSet.FromString(writer.files).file)[name]


def test_avro_values_keep_their_logical_types() -> None:
    decoder = ValueDecoder(values="avro", schemas={7: AvroSchema(json.dumps(ORDER))})
    assert decoder.record(avro(ORDER, VALUE)) == {**VALUE, "clock": "07:30:00", "code": str(CODE_OF)}


def test_an_avro_schema_defines_columns_that_fit_its_rows() -> None:
    decoder = ValueDecoder(values="avro", schemas={7: AvroSchema(json.dumps(ORDER))})
    shape = decoder.schema_shape((7, (0,)))
    expected = {
        "id": "bigint",
        "amount": "decimal(12,2)",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "clock": "string",
        "code": "string",
        "note": "string",
        "either": "string",
        "tags": "map<string,int>",
        "next": "string",
    }
    assert pa.schema(list(shape)) == schema_of(expected)
    value = avro(ORDER, {**VALUE, "next": VALUE})
    (row,) = decoder.rows([value], [None], Target(schema=schema_of(expected))).to_pylist()
    assert row["amount"] == Decimal("12.30")
    assert row["either"] == "5"
    assert json.loads(row["next"])["id"] == 2**60
    assert row[RESCUED] is None
    assert row[ROW_HASH] == hashes([value])[0]


def test_an_avro_value_that_is_not_a_record_becomes_the_column_value() -> None:
    decoder = ValueDecoder(values="avro", schemas={1: AvroSchema('"string"')})
    assert decoder.record(avro("string", "hello", 1)) == {"value": "hello"}
    assert decoder.schema_shape((1, (0,))) == pa.struct([("value", pa.string())])


def test_an_avro_schema_can_reference_others() -> None:
    place = {"type": "record", "name": "shop.Place", "fields": [{"name": "city", "type": "string"}]}
    person = {"type": "record", "name": "shop.Person", "fields": [{"name": "home", "type": "shop.Place"}]}
    whole = {**person, "fields": [{"name": "home", "type": place}]}
    decoder = ValueDecoder(values="avro", schemas={7: AvroSchema(json.dumps(person), (json.dumps(place),))})
    assert decoder.record(avro(whole, {"home": {"city": "Ulm"}})) == {"home": {"city": "Ulm"}}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "no-schema-id"),
        (b'{"id": 1}', "no-schema-id"),
        (b"\x00\x00\x00", "no-schema-id"),
        (framed(7, b""), "bad-avro"),
        (framed(7, b"\x02\x02"), "bad-avro"),
        (framed(8, b"\x02"), "unknown-schema"),
        (framed(9, b"{}"), "unknown-schema"),
    ],
)
def test_an_invalid_avro_value_is_unreadable_with_a_code(value: bytes, code: str) -> None:
    schema = {"type": "record", "name": "A", "fields": [{"name": "id", "type": "long"}]}
    decoder = ValueDecoder(values="avro", schemas={7: AvroSchema(json.dumps(schema)), 9: JsonSchema()}, surveyed=True)
    found = decoder.record(value)
    assert isinstance(found, Unreadable)
    assert found.code == code


def test_an_unknown_schema_id_aborts_the_job_for_a_registry_lookup() -> None:
    with pytest.raises(Abort) as raised:
        ValueDecoder(values="avro").record(framed(42, b""))
    assert (raised.value.kind, raised.value.detail) == ("new-fields", "schema 42")


def test_protobuf_values_have_64_bit_numbers_and_unset_fields(order_writer: ProtobufSchema) -> None:
    made = message(order_writer, "shop.Order")(id=2**62, large=2**64 - 1, counts=[1, 2], tags={"a": 1}, kind=1)
    made.at.FromDatetime(datetime(2026, 1, 31, 12))
    made.free.update({"x": 1})
    made.place.city = "Ulm"
    made.next.id = 3
    decoder = ValueDecoder(values="protobuf", schemas={7: order_writer})
    value = framed(7, b"\x02\x02" + made.SerializeToString())
    found = decoder.record(value)
    assert isinstance(found, dict)
    assert (found["id"], found["large"], found["note"], found["maybe"]) == (2**62, 2**64 - 1, None, None)
    assert (found["kind"], found["tags"], found["counts"]) == ("BIG", {"a": 1}, [1, 2])
    assert found["at"] == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert found["place"] == {"city": "Ulm"}
    shape = pa.schema(list(decoder.schema_shape((7, (1,)))))
    expected = {
        "id": "bigint",
        "large": "decimal(20,0)",
        "note": "string",
        "counts": "array<int>",
        "tags": "map<string,bigint>",
        "kind": "string",
        "at": "timestamp",
        "maybe": "bigint",
        "free": "string",
        "place": "struct<city:string>",
        "raw": "binary",
        "next": "string",
    }
    assert shape == schema_of(expected)
    (row,) = decoder.rows([value], [None], Target(schema=shape)).to_pylist()
    assert row["large"] == Decimal(2**64 - 1)
    assert json.loads(row["free"]) == {"x": 1.0}
    assert json.loads(row["next"])["id"] == 3
    assert row[RESCUED] is None


def test_a_single_zero_selects_the_first_protobuf_message(order_writer: ProtobufSchema) -> None:
    made = message(order_writer, "shop.Zebra")(stripes="many")
    decoder = ValueDecoder(values="protobuf", schemas={7: order_writer})
    assert decoder.record(framed(7, b"\x00" + made.SerializeToString())) == {"stripes": "many"}


def test_a_nested_message_is_found_by_its_index(order_writer: ProtobufSchema) -> None:
    made = message(order_writer, "shop.Zebra")(stripes="Ulm")
    decoder = ValueDecoder(values="protobuf", schemas={7: order_writer})
    value = framed(7, b"\x04\x02\x02" + made.SerializeToString())
    # The first nested message is the entry of the map.
    assert decoder.record(value) == {"city": "Ulm"}


def test_a_time_that_no_column_can_store_exactly_is_rescued(order_writer: ProtobufSchema) -> None:
    made = message(order_writer, "shop.Order")()
    made.at.seconds, made.at.nanos = 1, 123_456_789
    decoder = ValueDecoder(values="protobuf", schemas={7: order_writer})
    value = framed(7, b"\x02\x02" + made.SerializeToString())
    target = Target(schema=pa.schema(list(decoder.schema_shape((7, (1,))))))
    (row,) = decoder.rows([value], [None], target).to_pylist()
    assert row["at"] is None
    assert json.loads(row[RESCUED]) == {"at": "1970-01-01T00:00:01.123456789Z"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad-protobuf"),
        (b"\x02\x02\xff", "bad-protobuf"),
        (b"\x02\x63", "bad-protobuf"),
        (b"\x02\x62", "unknown-schema"),
        (b"\x00\x10\x05", "bad-protobuf"),
    ],
)
def test_an_invalid_protobuf_value_is_unreadable_with_a_code(
    order_writer: ProtobufSchema, body: bytes, code: str
) -> None:
    found = ValueDecoder(values="protobuf", schemas={7: order_writer}).record(framed(7, body))
    assert isinstance(found, Unreadable)
    assert found.code == code


def test_the_error_of_an_invalid_protobuf_schema_has_a_reason() -> None:
    with pytest.raises(ValueError, match="Expected"):
        compile_protobuf("message {")
    with pytest.raises(ValueError, match="outside"):
        compile_protobuf('syntax = "proto3";', (("../x.proto", ""),))


def test_json_values_keep_their_order_among_other_values() -> None:
    values = [b'{"id": 1}', None, b'{"id":\n 2}', b"broken", b'{"id": 3}', framed(5, b'{"id": 4}')]
    decoder = ValueDecoder(values="json", schemas={5: JsonSchema()})
    found = decoder.rows(values, [None] * 6, Target(schema=schema_of({"id": "bigint"}))).to_pylist()
    assert [row["id"] for row in found] == [1, None, 2, None, 3, 4]
    assert [row[CORRUPT] for row in found] == [None, None, None, "broken", None, None]
    assert str(found[3][ERROR_CODE]).startswith("not-json: ")
    assert [row[ROW_HASH] for row in found] == hashes([value or b"" for value in values])


def test_json_values_define_columns_with_and_without_a_schema() -> None:
    decoder = ValueDecoder(values="json")
    shape = decoder.shape([b'{"id": 1}', None, framed(5, b'{"name": "a"}'), b'{"id":\n 1.5}'], [None] * 4)
    assert shape == pa.struct([("id", pa.float64()), ("name", pa.string())])


def test_a_change_without_a_row_does_not_remove_columns() -> None:
    decoder = ValueDecoder(values="json", envelope="debezium")
    values = [b'{"op": "c", "after": {"id": 1}}', b'{"ddl": "DROP TABLE x"}', b'{"op": "t"}', None, b"poison"]
    assert decoder.shape(values, [None] * 5) == pa.struct([("id", pa.int64())])


def test_no_records_at_all_are_an_empty_batch() -> None:
    assert len(ValueDecoder(values="json").rows([], [], Target(schema=schema_of({"id": "bigint"})))) == 0


def test_text_values_are_the_column_value() -> None:
    decoder = ValueDecoder(values="text")
    records = decoder.records(["ä".encode(), b"\xff", b"a\x00b", None], [None] * 4)
    assert records[0] == {"value": "ä"}
    assert [record.code for record in records[1:3] if isinstance(record, Unreadable)] == ["not-utf8", "nul-byte"]
    assert records[3] == {}


def test_an_avro_envelope_is_unwrapped_and_its_tombstone_has_the_key_fields() -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }
    key = {**row, "name": "Key"}
    schemas = {7: AvroSchema(json.dumps(schema)), 8: AvroSchema(json.dumps(key))}
    decoder = ValueDecoder(values="avro", envelope="debezium", schemas=schemas)
    assert decoder.schema_shape((7, (0,))) == pa.struct([("id", pa.int64())])
    value = avro(schema, {"after": {"id": 1}, "op": "c", "ts_ms": 5})
    first, second = decoder.records([value, None], [avro(key, {"id": 1}, 8)] * 2)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["id"], first["_op"], second["id"], second["_op"]) == (1, "insert", 1, "tombstone")


def test_the_schemas_of_values_are_reported_without_reading_them() -> None:
    values = [framed(7, b"\x00"), framed(7, b"\x02\x02"), framed(8, b"\x00x"), None, b"", b"{}"]
    assert headers(values, "protobuf") == {(7, (0,)), (7, (1,)), (8, (0,))}
    assert header(framed(7, b"\x02\x02ab"), "protobuf") == ((7, (1,)), 7)


def test_keys_become_text_if_possible_and_stay_unique() -> None:
    keys = [b"plain", None, b"\xff\x00", b"base64:/wA=", b"a\x00", "ä".encode(), b""]
    found = key_texts(pa.array(keys, pa.binary())).to_pylist()
    assert found[0] == "plain"
    assert found[1] is None
    assert found[2] == "base64:/wA="
    assert found[5:] == ["ä", ""]
    assert len(set(found)) == len(keys)
