"""The bytes of Kafka records become rows: each value is read by exactly the schema that it was written with.

A value that comes by way of a registry begins with a zero byte and the id of its schema; in Protobuf the place of its
message in the schema follows. Which schema an id means is asked before, by whoever makes the `Decoder`.
"""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, cast
from uuid import UUID

import numpy as np
import pyarrow as pa

from lakesmith.declare.sources import Envelope, Values
from lakesmith.errors import InfrastructureError
from lakesmith.intake import debezium, json_text
from lakesmith.intake.avro import check_bounded
from lakesmith.intake.rows import Abort, Target, Unreadable, as_json, fit_rows, shape_of
from lakesmith.intake.shapes import STRING, common, wider
from lakesmith.intake.split import Records

Record = Mapping[str, object] | Unreadable
Header = tuple[int, tuple[int, ...]]
"""The id of a schema, and for Protobuf the place of the message in it."""
FIRST: tuple[int, ...] = (0,)
_MARK = 0
_BRACE = ord("{")
_MAX_DIGITS = 38
_MAIN = "lakesmith_value.proto"
_BASE64 = "base64:"


@dataclass(frozen=True, slots=True)
class AvroWriter:
    """An Avro schema that values were written with."""

    text: str
    imports: tuple[str, ...] = ()
    """The schemas that it refers to, those that are needed first coming first."""


@dataclass(frozen=True, slots=True)
class ProtobufWriter:
    """A Protobuf file that values were written with, compiled."""

    files: bytes = field(repr=False)
    """A set of file descriptors."""


@dataclass(frozen=True, slots=True)
class JsonWriter:
    """A JSON Schema that values were written with. JSON tells by itself what it holds."""

    text: str = ""
    imports: tuple[tuple[str, str], ...] = ()
    """By the name that it has in `$ref`, the schemas that it refers to."""


Writer = AvroWriter | ProtobufWriter | JsonWriter
_WRITES: Mapping[Values, type[Writer]] = {"json": JsonWriter, "avro": AvroWriter, "protobuf": ProtobufWriter}


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Reads the values of one topic."""

    values: Values
    envelope: Envelope | None = None
    writers: Mapping[int, Writer] = field(default_factory=dict)
    """By the registry's id, also those of keys."""
    surveyed: bool = False
    """The registry was asked for every id that comes: an id without a writer has none."""

    def rows(self, values: Sequence[bytes | None], keys: Sequence[bytes | None], target: Target) -> pa.RecordBatch:
        """The rows of some records, in their order."""
        if self.values == "json" and self.envelope is None:
            return self._json_rows(values, target)
        records = self.records(values, keys)
        return fit_rows(records, [value or b"" for value in values], target)

    def records(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> list[Record]:
        """The records one by one, with their envelopes opened."""
        if self.envelope is None:
            # Without an envelope a tombstone is a row of nothing but its key.
            return [{} if value is None else self.record(value) for value in values]
        return [self._change(value, key) for value, key in zip(values, keys, strict=True)]

    def record(self, value: bytes) -> Record:
        """One value as a record."""
        if self.values == "text":
            return _text_record(value)
        if self.values == "json" and value[:1] != b"\x00":
            return json_text.parse(value)
        found = header(value, self.values)
        if isinstance(found, Unreadable):
            return found
        (id, place), start = found
        writer = self.writers.get(id)
        if writer is None and not self.surveyed:
            raise Abort("new-fields", "", f"schema {id}")
        if writer is None:
            return Unreadable("unknown-schema", f"the registry has no schema {id}, which the value names")
        if not self.reads(writer):
            return Unreadable("unknown-schema", f"schema {id}, which the value names, is not one of {self.values}")
        return _read(writer, value, place, start)

    def shape(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> pa.DataType:
        """What some values bring, as a struct: of JSON what is in them, of others what their schemas say."""
        if self.values in ("avro", "protobuf"):
            return common([pa.struct([]), *(self.schema_shape(found) for found in headers(values, self.values))])
        # What JSON holds does not depend on its schema, which may still have to be asked for.
        bare = [value[5:] if self.values == "json" and value and value[0] == _MARK else value for value in values]
        if self.values == "text" or self.envelope:
            return shape_of(self.records(bare, keys))
        lines = [value for value in bare if value is not None and _is_line(value)]
        others = [value for value in bare if value is not None and not _is_line(value)]
        found = json_text.shape(_lines(lines)) if lines else pa.struct([])
        return wider(found, shape_of([self.record(value) for value in others]))

    def schema_shape(self, of: Header) -> pa.DataType:
        """The columns that a schema brings, as a struct; none when the schema is not known."""
        writer = self.writers.get(of[0])
        if writer is None or isinstance(writer, JsonWriter):
            return pa.struct([])
        found = _avro_shape(writer) if isinstance(writer, AvroWriter) else _protobuf_shape(writer, of[1])
        return debezium.row_type(found) if self.envelope else found

    def reads(self, writer: Writer) -> bool:
        """Whether values of the topic can have been written so."""
        return isinstance(writer, _WRITES[self.values])

    def _json_rows(self, values: Sequence[bytes | None], target: Target) -> pa.RecordBatch:
        """The rows of JSON values: those that are one line as a block, which is many times faster."""
        lines = _all_lines(values)
        if lines is not None:
            return _one(json_text.rows(lines, target))
        quick = [number for number, value in enumerate(values) if value is not None and _is_line(value)]
        slow = sorted(set(range(len(values))).difference(quick))
        batches = list(json_text.rows(_lines([values[n] or b"" for n in quick]), target)) if quick else []
        records = self.records([values[n] for n in slow], [None] * len(slow))
        batches.append(fit_rows(records, [values[n] or b"" for n in slow], target))
        return _one(batches).take(pa.array(np.argsort(np.array([*quick, *slow], dtype=np.int64))))

    def _change(self, value: bytes | None, key: bytes | None) -> Record:
        record = None if value is None else self.record(value)
        if isinstance(record, Unreadable):
            return record
        return debezium.flat(record, self._key(key))

    def _key(self, key: bytes | None) -> object:
        """A key as a record, where it is one."""
        if key is None:
            return None
        if key[:1] != b"\x00":
            found: Record = json_text.parse(key)
        else:
            told = header(key, self.values)
            if isinstance(told, Unreadable) or (writer := self.writers.get(told[0][0])) is None:
                return None
            found = _read(writer, key, told[0][1], told[1])
        return None if isinstance(found, Unreadable) else found


def header(value: bytes, values: Values) -> tuple[Header, int] | Unreadable:
    """Which schema a value was written with, and where it begins."""
    if len(value) < 5 or value[0] != _MARK:
        return Unreadable("no-schema-id", "the value does not begin with a zero byte and the id of a schema")
    id = int.from_bytes(value[1:5], "big")
    if values != "protobuf":
        return (id, FIRST), 5
    try:
        count, at = _varint(value, 5)
        place = []
        for _ in range(count):
            index, at = _varint(value, at)
            place.append(index)
    except (IndexError, ValueError):
        return Unreadable("bad-protobuf", "the value ends before it says which message it is")
    return (id, tuple(place) or FIRST), at


def headers(values: Sequence[bytes | None], kind: Values) -> set[Header]:
    """The different schemas that values were written with."""
    found = (header(value, kind) for value in values if value is not None and value[:1] == b"\x00")
    return {told[0] for told in found if not isinstance(told, Unreadable)}


def key_texts(keys: pa.Array) -> pa.Array:
    """Keys as text: as they are where they are UTF-8, else as `base64:…`. No two keys become the same text."""
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


@lru_cache(maxsize=256)
def protobuf_writer(text: str, imports: tuple[tuple[str, str], ...] = ()) -> ProtobufWriter:
    """Compile a Protobuf file; a ValueError tells what is wrong with it."""
    package = find_spec("grpc_tools")
    if package is None or package.origin is None:
        raise missing("grpc_tools", "to read Protobuf values")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, imported in imports:
            if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
                raise ValueError(f"the import {name!r} lies outside the schema")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(imported, encoding="utf-8")
        (folder / _MAIN).write_text(text, encoding="utf-8")
        output = folder / "files.bin"
        # In a process of its own: the compiler writes its complaints to the terminal.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{Path(package.origin).parent}/_proto"]
        command += ["--include_imports", f"--descriptor_set_out={output}", _MAIN]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if answer.returncode != 0:
            said = answer.stderr.strip().splitlines()
            raise ValueError(next((line for line in said if ".proto:" in line and "warning" not in line), said[-1]))
        return ProtobufWriter(output.read_bytes())


def missing(library: str, purpose: str) -> InfrastructureError:
    what = f"{purpose}, the library {library} is needed"
    return InfrastructureError("missing-library", what, hint="pip install 'lakesmith[kafka]'")


def _is_line(value: bytes) -> bool:
    return value[:1] == b"{" and b"\n" not in value and b"\r" not in value


def _lines(values: Sequence[bytes]) -> Records:
    data = b"\n".join(values) + b"\n"
    ends = np.cumsum(np.fromiter(map(len, values), dtype=np.int64, count=len(values)) + 1)
    return Records(data, ends, np.arange(1, len(values) + 1))


def _all_lines(values: Sequence[bytes | None]) -> Records | None:
    """All values as lines of one text; None when there are none, or one of them is no line."""
    if not values or None in values:
        return None
    lines = _lines(cast(Sequence[bytes], values))
    if lines.data.count(b"\n") != len(values) or b"\r" in lines.data:
        return None
    begins = np.frombuffer(lines.data, dtype=np.uint8)[lines.starts]
    return lines if bool((begins == _BRACE).all()) else None


def _one(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    some = list(batches)
    return some[0] if len(some) == 1 else pa.concat_batches(some)


def _text_record(value: bytes) -> Record:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        return Unreadable("not-utf8", f"byte {error.start + 1} of the value is not UTF-8")
    return Unreadable("nul-byte", "there is a null character") if "\x00" in text else {"value": text}


def _read(writer: Writer, value: bytes, place: tuple[int, ...], start: int) -> Record:
    match writer:
        case AvroWriter():
            return _read_avro(writer, value, start)
        case ProtobufWriter():
            return _read_protobuf(writer, value, place, start)
        case JsonWriter():
            return json_text.parse(value[start:])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A whole number as Avro and Kafka write it: seven bits a byte, the sign in the lowest bit."""
    shift = number = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            break
        if shift > 35:
            raise ValueError("too long")
    made = number >> 1 ^ -(number & 1)
    if made < 0:
        raise ValueError("negative")
    return made, at


def _read_avro(writer: AvroWriter, value: bytes, start: int) -> Record:
    from fastavro import schemaless_reader

    schema, _ = parsed_avro(writer)
    stream = io.BytesIO(value)
    stream.seek(start)
    try:
        found: object = schemaless_reader(stream, schema, None)
    # The library tells of bytes that do not fit in whatever way they happen not to.
    except Exception as error:  # noqa: BLE001
        return Unreadable("bad-avro", f"the value does not fit its schema: {type(error).__name__} {error}".strip())
    if stream.tell() != len(value):
        return Unreadable("bad-avro", f"{len(value) - stream.tell():,} bytes are left over after the value")
    if '"uuid"' in writer.text or '"time-' in writer.text or writer.imports:
        found = _as_texts(found)
    return found if isinstance(found, dict) and _is_record(schema) else {"value": found}


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def _as_texts(value: object) -> object:
    """Without the kinds of value that no column has."""
    match value:
        case dict():
            return {name: _as_texts(item) for name, item in value.items()}
        case list():
            return [_as_texts(item) for item in value]
        case UUID():
            return str(value)
        case time():
            return value.isoformat()
        case _:
            return value


def avro_writer(text: str, imports: tuple[str, ...] = ()) -> AvroWriter:
    """The writer of an Avro schema. Raises ValueError when the schema cannot be read."""
    writer = AvroWriter(text, imports)
    try:
        schema, _ = parsed_avro(writer)
        sizes: dict[str, int] = {}
        for each in map(json.loads, imports):
            check_bounded(each, sizes)
        check_bounded(schema, sizes)
        _avro_shape(writer)
    except InfrastructureError:
        raise
    # The library tells of a schema that is none in whatever way it comes upon it.
    except Exception as error:
        raise ValueError(f"{type(error).__name__} {error}".strip()) from error
    return writer


@lru_cache(maxsize=256)
def parsed_avro(writer: AvroWriter) -> tuple[Any, Mapping[str, Any]]:
    """The schema, and by their names those that are in it or that it refers to."""
    try:
        from fastavro import parse_schema
    except ModuleNotFoundError as error:
        raise missing("fastavro", "to read Avro values") from error

    named: dict[str, Any] = {}
    for text in writer.imports:
        parse_schema(json.loads(text), named_schemas=named)
    return parse_schema(json.loads(writer.text), named_schemas=named), named


def _avro_shape(writer: AvroWriter) -> pa.DataType:
    schema, named = parsed_avro(writer)
    found = avro_type(schema, named, frozenset())
    return found if _is_record(schema) else pa.struct([("value", found)])


_AVRO = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": STRING,
    "enum": STRING,
}
_AVRO_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "time-millis": STRING,
    "time-micros": STRING,
    "uuid": STRING,
}


def avro_type(schema: Any, named: Mapping[str, Any], above: frozenset[str]) -> pa.DataType:
    """The column of a part of a schema; `above` are the records that it is in."""
    if isinstance(schema, list):
        branches = [avro_type(branch, named, above) for branch in schema if branch != "null"]
        # Which of several records or lists it was would be lost in one column for all of them.
        mixed = len(branches) > 1 and any(pa.types.is_nested(branch) for branch in branches)
        return STRING if mixed else common(branches)
    if isinstance(schema, str):
        if schema in _AVRO:
            return _AVRO[schema]
        # A record within itself has no end that a column could have: it is kept as JSON.
        return STRING if schema in above else avro_type(named[schema], named, above)
    logical = schema.get("logicalType")
    if logical == "decimal":
        precision = schema["precision"]
        return pa.decimal128(precision, schema.get("scale", 0)) if precision <= _MAX_DIGITS else STRING
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    match schema["type"]:
        case "record":
            inside = above | {schema["name"]}
            return pa.struct([(f["name"], avro_type(f["type"], named, inside)) for f in schema["fields"]])
        case "array":
            return pa.list_(avro_type(schema["items"], named, above))
        case "map":
            return pa.map_(STRING, avro_type(schema["values"], named, above))
        case inner:
            return avro_type(inner, named, above)


_TIMESTAMP = "google.protobuf.Timestamp"
_FREE = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
_WRAPPERS = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)


def _read_protobuf(writer: ProtobufWriter, value: bytes, place: tuple[int, ...], start: int) -> Record:
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass
    from google.protobuf.unknown_fields import UnknownFieldSet

    descriptor = message_at(writer, place)
    if descriptor is None:
        return Unreadable("unknown-schema", f"the schema has no message at {'.'.join(map(str, place))}")
    message = GetMessageClass(descriptor)()
    try:
        message.ParseFromString(value[start:])
    except DecodeError as error:
        return Unreadable("bad-protobuf", f"the value does not fit its schema: {error}")
    for unknown in UnknownFieldSet(message):
        return Unreadable("bad-protobuf", f"the value has a field {unknown.field_number}, and its schema has none")
    return _message(message)


def _message(message: Any) -> dict[str, object]:
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> object:
    value = getattr(message, field.name)
    if field.is_repeated:
        if is_map(field):
            item = field.message_type.fields_by_name["value"]
            return {key: _single(value[key], item) for key in value}
        return [_single(item, field) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(value, field)


def _single(value: Any, field: Any) -> object:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return _protobuf_moment(value.seconds, value.nanos)
    if name in _WRAPPERS:
        return value.value
    if name in _FREE:
        from google.protobuf.json_format import MessageToDict

        return as_json(MessageToDict(value))
    return _message(value)


def _protobuf_moment(seconds: int, nanos: int) -> object:
    """A datetime where it holds the time exactly, else its text, which then does not fit the column."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        return f"{seconds} s {nanos} ns"
    return moment if nanos % 1000 == 0 else f"{moment:%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"


@lru_cache(maxsize=256)
def message_at(writer: ProtobufWriter, place: tuple[int, ...]) -> Any:
    """The message at a place of the file; None when there is none."""
    pool, names = _pool(writer)
    try:
        found = pool.FindMessageTypeByName(names[place[0]])
        for index in place[1:]:
            found = found.nested_types[index]
    except IndexError:
        return None
    return found


@lru_cache(maxsize=256)
def _pool(writer: ProtobufWriter) -> tuple[Any, tuple[str, ...]]:
    """What is in the files, and the names of the messages of the file that was asked for, in its order."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
    except ModuleNotFoundError as error:
        raise missing("protobuf", "to read Protobuf values") from error

    pool = DescriptorPool()
    files = FileDescriptorSet.FromString(writer.files).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    # What it imports comes before it.
    prefix = f"{files[-1].package}." if files[-1].package else ""
    return pool, tuple(prefix + message.name for message in files[-1].message_type)


def _protobuf_shape(writer: ProtobufWriter, place: tuple[int, ...]) -> pa.DataType:
    descriptor = message_at(writer, place)
    return pa.struct([]) if descriptor is None else _message_type(descriptor, frozenset())


def _message_type(descriptor: Any, above: frozenset[str]) -> pa.DataType:
    inside = above | {descriptor.full_name}
    return pa.struct([(field.name, _field_type(field, inside)) for field in descriptor.fields])


def _field_type(field: Any, above: frozenset[str]) -> pa.DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(single_type(key, above), single_type(value, above))
    found = single_type(field, above)
    return pa.list_(found) if field.is_repeated else found


def single_type(field: Any, above: frozenset[str]) -> pa.DataType:
    """The column of a field, or of one of its values where it has many; `above` are the messages that it is in."""
    if field.message_type is None:
        return _scalar_types()[field.type]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if name in _WRAPPERS:
        return single_type(field.message_type.fields_by_name["value"], above)
    # A message within itself has no end that a column could have: it is kept as JSON.
    if name in _FREE or name in above:
        return STRING
    return _message_type(field.message_type, above)


@lru_cache
def _scalar_types() -> Mapping[int, pa.DataType]:
    from google.protobuf.descriptor import FieldDescriptor as Of

    return {
        **dict.fromkeys((Of.TYPE_INT32, Of.TYPE_SINT32, Of.TYPE_SFIXED32), pa.int32()),
        **dict.fromkeys((Of.TYPE_INT64, Of.TYPE_SINT64, Of.TYPE_SFIXED64), pa.int64()),
        **dict.fromkeys((Of.TYPE_UINT32, Of.TYPE_FIXED32), pa.int64()),
        **dict.fromkeys((Of.TYPE_UINT64, Of.TYPE_FIXED64), pa.decimal128(20, 0)),
        Of.TYPE_FLOAT: pa.float32(),
        Of.TYPE_DOUBLE: pa.float64(),
        Of.TYPE_BOOL: pa.bool_(),
        Of.TYPE_STRING: STRING,
        Of.TYPE_ENUM: STRING,
        Of.TYPE_BYTES: pa.binary(),
    }


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
