"""Read Avro files as Arrow batches in the types of their writer schema.

This module reads the blocks, because a file may be truncated, corrupt or made to expand. fastavro reads the records. It
gets the writer schema without the conversions that lose something: times are whole numbers, texts are bytes, and each
branch of a union is a record of its own, which shows the branch.
"""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from io import BytesIO
from lzma import LZMADecompressor, LZMAError
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import types as is_

from lakesmith.errors import missing_library
from lakesmith.intake.arrays import map_leaves
from lakesmith.intake.memory import check_memory
from lakesmith.intake.rows import Broken, reason
from lakesmith.intake.shapes import BRANCH

_MAGIC = b"Obj\x01"
_BLOCK = 128 << 20
"""The maximum size of a block, both compressed and decompressed."""
_ROWS = 20_000
_SIZE = 16 << 20
_PARTS = 20_000
"""The maximum number of parts of a schema with every name expanded."""
_FREE = 2_000_000
"""The maximum number of values in a block that take no bytes, such as nulls and empty records."""
_EXACT = Context(prec=100)
"""More digits than a decimal has: by default Python rounds to 28."""
PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_UNDECODABLE = (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, MemoryError, struct.error)
"""The exceptions of fastavro and Arrow for bytes that do not follow the schema."""


def read(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns of a file, and a lazy iterator over its records."""
    source = _Source(file)
    if (head := source.take(4, whole=False)) != _MAGIC:
        what = f"it begins with {head!r}" if head else "it is empty"
        raise Broken("bad-magic", f"this is not an Avro file: {what}")
    metadata = dict(_metadata(source))
    sync = source.take(16)
    form = _writer_type(metadata)
    if not is_.is_struct(form.type):
        raise Broken("avro-not-records", f"the rows must be records, and these are of type {form.type}")
    codec = metadata.get("avro.codec", b"null").decode("utf-8", errors="replace")
    return pa.schema(list(form.type)), _batches(source, form, codec, sync)


@dataclass(slots=True)
class _Source:
    """The bytes of a file, read in requests of at most one block."""

    file: BinaryIO

    def take(self, size: int, *, whole: bool = True) -> bytes:
        if not 0 <= size <= _BLOCK:
            raise Broken("corrupt", f"the file has a length of {size:,} bytes; the maximum is {_BLOCK:,}")
        data = bytearray()
        while len(data) < size and (more := self.file.read(size - len(data))):
            data += more
        if whole and len(data) < size:
            raise Broken("truncated", f"the Avro file ends {size - len(data):,} bytes too early")
        return bytes(data)

    def number(self, first: bytes = b"") -> int:
        """Read a signed number; its first byte may already have been read."""
        following = (self.take(1)[0] for _ in itertools.count())
        try:
            return signed(varint(itertools.chain(first, following)))
        except ValueError as error:
            raise Broken("corrupt", str(error)) from error


def varint(data: Iterator[int]) -> int:
    """Read an unsigned number of seven bits per byte, the lowest first. Raise ValueError when it has no end."""
    value = 0
    for shift, byte in zip(range(0, 64, 7), data, strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("a number is longer than 64 bits")


def signed(value: int) -> int:
    """Return the number of a zigzag encoding, which has the sign in the lowest bit."""
    return (value >> 1) ^ -(value & 1)


def _metadata(source: _Source) -> Iterator[tuple[str, bytes]]:
    while count := source.number():
        if count < 0:
            source.number()
        for _ in range(abs(count)):
            name = source.take(source.number()).decode("utf-8", errors="replace")
            yield name, source.take(source.number())


@dataclass(frozen=True, slots=True)
class _AvroType:
    """A schema for fastavro, the Arrow type of the values that it returns, and their logical type."""

    schema: Any
    raw: pa.DataType
    type: pa.DataType


def _writer_type(metadata: Mapping[str, bytes]) -> _AvroType:
    fastavro = _fastavro()
    if "avro.schema" not in metadata:
        raise Broken("avro-no-schema", "the Avro file has no writer schema")
    try:
        schema = fastavro.parse_schema(json.loads(metadata["avro.schema"]), _ignore_default_error=True)
        check_bounded(schema)
        form = _TypeBuilder().of(schema)
        return _AvroType(fastavro.parse_schema({"type": "array", "items": form.schema}), form.raw, form.type)
    except RecursionError as error:
        raise Broken("too-deep", "the writer schema is nested too deeply") from error
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, *_UNDECODABLE) as error:
        check_memory(error)
        raise Broken("avro-bad-schema", f"the writer schema cannot be read: {error}") from error


def check_bounded(schema: Any, sizes: dict[str, Size] | None = None) -> None:
    """Raise ValueError for schemas by which a few bytes expand without limit.

    `sizes` are those of types defined elsewhere.
    """
    if _size(schema, {} if sizes is None else sizes).parts > _PARTS:
        raise ValueError(f"it expands to more than {_PARTS:,} parts")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a type is with every name expanded; a recursive reference counts once."""

    parts: int = 1
    free: int = 0
    """How many values without bytes a value of the type contains."""
    nothing: bool = False
    """Whether a value of the type takes no bytes itself."""


def _size(schema: Any, sizes: dict[str, Size]) -> Size:
    match schema:
        case "null" | {"type": "null"} | {"type": "fixed", "size": 0}:
            return Size(free=1, nothing=True)
        case str():
            return sizes.get(schema, Size())
        case list():
            return Size(1 + sum(_size(branch, sizes).parts for branch in schema))
        case {"type": "record" | "error", "name": str(name), "fields": list(members)}:
            sizes[name] = Size()
            fields = [_size(member["type"], sizes) for member in members]
            nothing = all(field.nothing for field in fields)
            free = sum(field.free for field in fields) + nothing
            sizes[name] = Size(1 + sum(field.parts for field in fields), free, nothing)
            return sizes[name]
        case {"type": "array", "items": items}:
            size = _size(items, sizes)
            if size.nothing:
                raise ValueError("an array of values without bytes can have any length")
            return Size(1 + size.parts)
        case {"type": "map", "values": values}:
            return Size(1 + _size(values, sizes).parts)
        case {"type": dict() | list() as inner}:
            return _size(inner, sizes)
        case _:
            return Size()


@dataclass(slots=True)
class _TypeBuilder:
    """Builds the types of a schema's parts. Named types get new names, so that namespaces do not matter."""

    named: dict[str, _AvroType | None] = field(default_factory=dict)
    """By name in the schema, its type; None while it is being built, which detects recursion."""
    names: Iterator[str] = field(default_factory=lambda: (f"{BRANCH}of_{number}" for number in itertools.count()))

    def of(self, schema: Any) -> _AvroType:
        match schema:
            case str():
                return self._word(schema)
            case list():
                return self._union(schema)
            case {"type": dict() | list() as inner}:
                return self.of(inner)
            case {"type": "record" | "error", "name": str(name), "fields": list(members)}:
                return self._record(name, members)
            case {"type": "enum", "name": str(name), "symbols": list(symbols)}:
                return self._defined(name, {"type": "enum", "symbols": symbols}, pa.string(), pa.string())
            case {"type": "fixed", "name": str(name), "size": int(size)}:
                return self._defined(name, {"type": "fixed", "size": size}, pa.binary(), _fixed(schema, size))
            case {"type": "array", "items": items}:
                item = self.of(items)
                return _AvroType({"type": "array", "items": item.schema}, pa.list_(item.raw), pa.list_(item.type))
            case {"type": "map", "values": values}:
                item = self.of(values)
                types = pa.map_(pa.string(), item.raw), pa.map_(pa.string(), item.type)
                return _AvroType({"type": "map", "values": item.schema}, *types)
            case {"type": "bytes", "logicalType": "decimal"}:
                return _AvroType("bytes", pa.binary(), _decimal(schema))
            case {"type": str(word)}:
                plain = self._word(word)
                return _AvroType(plain.schema, plain.raw, _LOGICAL.get((word, schema.get("logicalType")), plain.type))
            case _:
                raise Broken("avro-bad-schema", f"{str(schema)[:60]} is not a type")

    def _word(self, word: str) -> _AvroType:
        if word == "string":
            return _AvroType("bytes", pa.binary(), pa.string())
        if word in PRIMITIVES:
            return _AvroType(word, PRIMITIVES[word], PRIMITIVES[word])
        form = self.named[word]
        if form is None:
            raise Broken("avro-recursive", f"the type {word!r} is recursive, and columns cannot be")
        return form

    def _defined(self, name: str, schema: dict[str, Any], raw: pa.DataType, type: pa.DataType) -> _AvroType:
        own = next(self.names)
        self.named[name] = _AvroType(own, raw, type)
        return _AvroType({**schema, "name": own}, raw, type)

    def _record(self, name: str, members: list[dict[str, Any]]) -> _AvroType:
        self.named[name] = None
        return self._defined(name, *_struct([(member["name"], self.of(member["type"])) for member in members]))

    def _union(self, schemas: list[Any]) -> _AvroType:
        forms = [self.of(schema) for schema in schemas]
        filled = [form for form in forms if form.schema != "null"]
        if len(filled) <= 1:
            only = (filled or forms)[0]
            return _AvroType([form.schema for form in forms], only.raw, only.type)
        labels = [f"{BRANCH}{number}" for number in range(len(filled))]
        _, raw, type = _struct(list(zip(labels, filled, strict=True)))
        branches = (
            {**_struct([(label, form)])[0], "name": next(self.names)}
            for label, form in zip(labels, filled, strict=True)
        )
        return _AvroType(["null" if form.schema == "null" else next(branches) for form in forms], raw, type)


def _struct(members: list[tuple[str, _AvroType]]) -> tuple[dict[str, Any], pa.DataType, pa.DataType]:
    schema = {"type": "record", "fields": [{"name": name, "type": form.schema} for name, form in members]}
    raw = pa.struct([(name, form.raw) for name, form in members])
    return schema, raw, pa.struct([(name, form.type) for name, form in members])


def _fixed(schema: dict[str, Any], size: int) -> pa.DataType:
    match schema.get("logicalType"):
        case "decimal":
            return _decimal(schema)
        case "uuid" if size == 16:
            return pa.uuid()
        case "duration" if size == 12:
            return pa.month_day_nano_interval()
        case _:
            return pa.binary()


def _decimal(schema: dict[str, Any]) -> pa.DataType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and 0 < precision <= 76):
        return pa.binary()
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _batches(source: _Source, form: _AvroType, codec: str, sync: bytes) -> Iterator[pa.RecordBatch]:
    records: list[object] = []
    size = 0
    free = _size(form.schema["items"], {}).free
    for count, data in _blocks(source, codec, sync):
        if count * free > _FREE:
            raise Broken(
                "expands-too-much", f"a block of the Avro file expands to more than {_FREE:,} values without bytes"
            )
        records += _records(count, data, form, one_by_one=free > 0)
        size += len(data)
        if len(records) >= _ROWS or size >= _SIZE:
            yield _batch(records, form)
            records, size = [], 0
    if records:
        yield _batch(records, form)


def _blocks(source: _Source, codec: str, sync: bytes) -> Iterator[tuple[int, bytes]]:
    number = 0
    while first := source.take(1, whole=False):
        number += 1
        count = source.number(first)
        data = _decompressed(source.take(source.number()), codec, number)
        if source.take(16) != sync:
            raise Broken("corrupt", f"block {number} of the Avro file does not end with the sync marker")
        if not 0 <= count <= max(len(data), _ROWS):
            raise Broken("corrupt", f"block {number} of the Avro file claims {count:,} records in {len(data):,} bytes")
        yield count, data


def _records(count: int, data: bytes, form: _AvroType, *, one_by_one: bool) -> list[object]:
    """Return the records of a block, which is encoded like an array without count and end.

    Where records have values without bytes, left-over bytes must not be read as the count of another array block.
    """
    fastavro, length = _fastavro(), BytesIO()
    fastavro.schemaless_writer(length, "long", count)
    buffer = BytesIO(data if one_by_one else length.getvalue() + data + b"\x00" if count else b"\x00")
    read = fastavro.schemaless_reader
    try:
        records: list[object] = (
            [read(buffer, form.schema["items"], None) for _ in range(count)]
            if one_by_one
            else read(buffer, form.schema, None)
        )
    except _UNDECODABLE as error:
        check_memory(error)
        raise Broken("corrupt", f"a block of the Avro file does not follow its schema: {reason(error)}") from error
    if buffer.tell() != len(buffer.getvalue()):
        raise Broken("corrupt", "a block of the Avro file is longer than its records")
    return records


def _decompressed(data: bytes, codec: str, number: int) -> bytes:
    try:
        match codec:
            case "null":
                return data
            case "deflate":
                inflated = zlib.decompressobj(-zlib.MAX_WBITS)
                content = inflated.decompress(data, _BLOCK + 1)
                if len(content) <= _BLOCK and not inflated.eof:
                    raise Broken("corrupt", f"block {number} of the Avro file is truncated")
            case "bzip2" | "zstandard":
                name = "bz2" if codec == "bzip2" else "zstd"
                content = pa.CompressedInputStream(pa.BufferReader(data), name).read(_BLOCK + 1)
            case "xz":
                content = LZMADecompressor().decompress(data, _BLOCK + 1)
            case "snappy":
                content = _unsnapped(data)
            case _:
                raise Broken("avro-codec", f"the codec {codec!r} is not supported")
    except (zlib.error, OSError, EOFError, ValueError, LZMAError, pa.ArrowException) as error:
        check_memory(error)
        raise Broken("corrupt", f"block {number} of the Avro file cannot be decompressed: {reason(error)}") from error
    if len(content) > _BLOCK:
        raise Broken("expands-too-much", f"block {number} of the Avro file expands to more than {_BLOCK:,} bytes")
    return bytes(content)


def _unsnapped(data: bytes) -> bytes:
    length = varint(iter(data))
    if length > _BLOCK:
        raise Broken("expands-too-much", f"a block of the Avro file expands to more than {_BLOCK:,} bytes")
    content: bytes = pa.decompress(data[:-4], decompressed_size=length, codec="snappy", asbytes=True)
    if zlib.crc32(content).to_bytes(4, "big") != data[-4:]:
        raise Broken("corrupt", "a block of the Avro file does not match its checksum")
    return content


def _batch(records: list[object], form: _AvroType) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_struct_array(map_leaves(pa.array(records, form.raw), form.type, _logical))
    except _UNDECODABLE as error:
        check_memory(error)
        raise Broken("corrupt", f"the Avro file has values that its schema does not allow: {reason(error)}") from error


def _logical(array: pa.Array, type: pa.DataType) -> pa.Array:
    if is_.is_string(type):
        return array.view(type)
    if is_.is_decimal(type):
        values = array.to_pylist()
        numbers = [v if v is None else int.from_bytes(v, "big", signed=True) for v in values]
        scaled = [n if n is None else Decimal(n).scaleb(-type.scale, _EXACT) for n in numbers]
        return pa.array(scaled, type)
    if is_.is_interval(type):
        parts = [v if v is None else struct.unpack("<3I", v) for v in array.to_pylist()]
        return pa.array([p and pa.MonthDayNano((p[0], p[1], p[2] * 1_000_000)) for p in parts], type)
    if type == pa.uuid():
        return pa.ExtensionArray.from_storage(type, array.cast(type.storage_type))
    return array.cast(type)


def _fastavro() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ImportError:
        raise missing_library("fastavro", "reading Avro files", "avro") from None
    return fastavro
