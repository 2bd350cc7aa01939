"""Decode Kafka records into rows: each value is read with exactly the schema that it was written with.

A value with a registered schema starts with a zero byte and the id of its schema; in Protobuf the position of its
message in the schema follows. The creator of the `ValueDecoder` fetches the schemas of ids beforehand.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import length_hint
from typing import cast

import numpy as np
import pyarrow as pa

from lakesmith.declare.sources import Envelope, Values
from lakesmith.intake import debezium, json_text
from lakesmith.intake.avro import signed, varint
from lakesmith.intake.avro_values import AvroSchema, avro_shape, read_avro
from lakesmith.intake.protobuf_values import FIRST, ProtobufSchema, protobuf_shape, read_protobuf
from lakesmith.intake.rows import Abort, Target, Unreadable, fit_rows, shape_of, text_record
from lakesmith.intake.shapes import STRING, common, wider
from lakesmith.intake.split import Records

Record = Mapping[str, object] | Unreadable
Header = tuple[int, tuple[int, ...]]
"""The id of a schema, and for Protobuf the position of the message in it."""
_MAGIC = 0
_BRACE = ord("{")
_BASE64 = "base64:"


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A JSON Schema that values were written with. JSON values are read without it."""

    text: str = ""
    imports: tuple[tuple[str, str], ...] = ()
    """By name in `$ref`, the schemas that it references."""


WriterSchema = AvroSchema | ProtobufSchema | JsonSchema
_SCHEMAS: Mapping[Values, type[WriterSchema]] = {"json": JsonSchema, "avro": AvroSchema, "protobuf": ProtobufSchema}


@dataclass(frozen=True, kw_only=True)
class ValueDecoder:
    """Decodes the values of one topic."""

    values: Values
    envelope: Envelope | None = None
    schemas: Mapping[int, WriterSchema] = field(default_factory=dict)
    """By registry id, the schemas of values and keys."""
    surveyed: bool = False
    """Whether every id was looked up in the registry: an id without a schema is unknown there."""

    def rows(self, values: Sequence[bytes | None], keys: Sequence[bytes | None], target: Target) -> pa.RecordBatch:
        """Return the rows of records, in their order."""
        if self.values == "json" and self.envelope is None:
            return self._json_rows(values, target)
        records = self.records(values, keys)
        return fit_rows(records, [value or b"" for value in values], target)

    def records(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> list[Record]:
        """Return the single records, with their envelopes unwrapped."""
        if self.envelope is None:
            # Without an envelope, a tombstone is a row with only its key.
            return [{} if value is None else self.record(value) for value in values]
        return [self._change(value, key) for value, key in zip(values, keys, strict=True)]

    def record(self, value: bytes) -> Record:
        """Return one value as a record."""
        if self.values == "text":
            return text_record(value, "value")
        if self.values == "json" and value[:1] != b"\x00":
            return json_text.parse(value)
        found = header(value, self.values)
        if isinstance(found, Unreadable):
            return found
        (id, place), start = found
        writer = self.schemas.get(id)
        if writer is None and not self.surveyed:
            raise Abort("new-fields", "", f"schema {id}")
        if writer is None:
            return Unreadable("unknown-schema", f"the value has schema id {id}, which the registry does not have")
        if not self.reads(writer):
            return Unreadable(
                "unknown-schema", f"the value has schema id {id}, which is not a schema for {self.values}"
            )
        return _read(writer, value, place, start)

    def shape(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> pa.DataType:
        """Return the columns of values, as a struct: for JSON from the values, else from schemas."""
        if self.values in ("avro", "protobuf"):
            return common([pa.struct([]), *(self.schema_shape(found) for found in headers(values, self.values))])
        # The content of JSON does not depend on its schema, which may not be fetched yet.
        bare = [value[5:] if self.values == "json" and value and value[0] == _MAGIC else value for value in values]
        if self.values == "text" or self.envelope:
            return shape_of(self.records(bare, keys))
        lines = [value for value in bare if value is not None and _is_line(value)]
        others = [value for value in bare if value is not None and not _is_line(value)]
        found = json_text.shape(_lines(lines)) if lines else pa.struct([])
        return wider(found, shape_of([self.record(value) for value in others]))

    def schema_shape(self, of: Header) -> pa.DataType:
        """Return the columns of a schema, as a struct; empty when the schema is unknown."""
        writer = self.schemas.get(of[0])
        if writer is None or isinstance(writer, JsonSchema):
            return pa.struct([])
        type = avro_shape(writer) if isinstance(writer, AvroSchema) else protobuf_shape(writer, of[1])
        return debezium.row_type(type) if self.envelope else type

    def reads(self, writer: WriterSchema) -> bool:
        """Whether the schema is of the topic's format."""
        return isinstance(writer, _SCHEMAS[self.values])

    def _json_rows(self, values: Sequence[bytes | None], target: Target) -> pa.RecordBatch:
        """Return the rows of JSON values; single-line ones are read as a block, which is many times faster."""
        lines = _all_lines(values)
        if lines is not None:
            return _concat(json_text.rows(lines, target))
        quick = [number for number, value in enumerate(values) if value is not None and _is_line(value)]
        slow = sorted(set(range(len(values))).difference(quick))
        batches = list(json_text.rows(_lines([values[n] or b"" for n in quick]), target)) if quick else []
        records = self.records([values[n] for n in slow], [None] * len(slow))
        batches.append(fit_rows(records, [values[n] or b"" for n in slow], target))
        return _concat(batches).take(pa.array(np.argsort(np.array([*quick, *slow], dtype=np.int64))))

    def _change(self, value: bytes | None, key: bytes | None) -> Record:
        record = None if value is None else self.record(value)
        if isinstance(record, Unreadable):
            return record
        return debezium.flat(record, self._key(key))

    def _key(self, key: bytes | None) -> object:
        """Return a key as a record; None when it cannot be decoded."""
        if key is None:
            return None
        if key[:1] != b"\x00":
            found: Record = json_text.parse(key)
        else:
            parsed = header(key, self.values)
            if isinstance(parsed, Unreadable) or (writer := self.schemas.get(parsed[0][0])) is None:
                return None
            found = _read(writer, key, parsed[0][1], parsed[1])
        return None if isinstance(found, Unreadable) else found


def header(value: bytes, values: Values) -> tuple[Header, int] | Unreadable:
    """Return the schema header of a value, and the offset of its content."""
    if len(value) < 5 or value[0] != _MAGIC:
        return Unreadable("no-schema-id", "the value does not start with a zero byte and a schema id")
    id = int.from_bytes(value[1:5], "big")
    if values != "protobuf":
        return (id, FIRST), 5
    rest = iter(value[5:])
    try:
        place = tuple(_index(rest) for _ in range(_index(rest)))
    except ValueError:
        return Unreadable("bad-protobuf", "the value ends within the position of its message")
    return (id, place or FIRST), len(value) - length_hint(rest)


def _index(data: Iterator[int]) -> int:
    index = signed(varint(data))
    if index < 0:
        raise ValueError("a position is negative")
    return index


def headers(values: Sequence[bytes | None], format: Values) -> set[Header]:
    """Return the distinct schema headers of values."""
    parsed_headers = (header(value, format) for value in values if value is not None and value[:1] == b"\x00")
    return {parsed[0] for parsed in parsed_headers if not isinstance(parsed, Unreadable)}


def key_texts(keys: pa.Array) -> pa.Array:
    """Return keys as text: unchanged if UTF-8, else as `base64:…`. Different keys have different texts."""
    try:
        text = keys.cast(STRING)
    except pa.ArrowInvalid:
        text = None
    raws = keys.to_pylist()
    if text is not None and not any(raw and (b"\x00" in raw or raw.startswith(b"base64:")) for raw in raws):
        return text
    return pa.array([_key_text(raw) for raw in raws], STRING)


def _key_text(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if "\x00" in text or text.startswith(_BASE64):
        return _BASE64 + base64.b64encode(raw).decode()
    return text


def _is_line(value: bytes) -> bool:
    return value[:1] == b"{" and b"\n" not in value and b"\r" not in value


def _lines(values: Sequence[bytes]) -> Records:
    data = b"\n".join(values) + b"\n"
    stops = np.cumsum(np.fromiter(map(len, values), dtype=np.int64, count=len(values)) + 1)
    return Records(data, stops, np.arange(1, len(values) + 1))


def _all_lines(values: Sequence[bytes | None]) -> Records | None:
    """Return all values as lines of one text; None when there are none, or one of them is not a single line."""
    if not values or None in values:
        return None
    lines = _lines(cast(Sequence[bytes], values))
    if lines.data.count(b"\n") != len(values) or b"\r" in lines.data:
        return None
    begins = np.frombuffer(lines.data, dtype=np.uint8)[lines.starts]
    return lines if bool((begins == _BRACE).all()) else None


def _concat(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    several = list(batches)
    return several[0] if len(several) == 1 else pa.concat_batches(several)


def _read(writer: WriterSchema, value: bytes, place: tuple[int, ...], start: int) -> Record:
    match writer:
        case AvroSchema():
            return read_avro(writer, value, start)
        case ProtobufSchema():
            return read_protobuf(writer, value, place, start)
        case JsonSchema():
            return json_text.parse(value[start:])
