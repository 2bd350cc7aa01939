"""Avro files become Arrow batches in the types of their writer schema.

The blocks are taken apart here, because a file may be cut, torn or made to expand, and the records in them by
fastavro, which is given the writer schema without what would lose something: times as the whole numbers they are, texts
as bytes, and each branch of a union in a record of its own, by which it can be told from the others.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from itertools import count
from lzma import LZMADecompressor, LZMAError
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import types as is_

from lakesmith.errors import InfrastructureError
from lakesmith.intake.arrays import BRANCH, rebuilt
from lakesmith.intake.memory import check_memory
from lakesmith.intake.rows import Broken

_MAGIC = b"Obj\x01"
_BLOCK = 128 << 20
"""A block of more bytes, as stored or as it becomes, is not read."""
_ROWS = 20_000
_SIZE = 16 << 20
_PARTS = 20_000
"""How many parts a schema may have when every name in it is written out."""
_FREE = 2_000_000
"""How many values of a block may take no bytes at all, such as nulls and empty records."""
_PRIMITIVES = {
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
"""What fastavro and Arrow raise for bytes that do not follow the schema."""


def read(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of a file, and its records as they are asked for."""
    source = _Source(file)
    if (head := source.take(4, whole=False)) != _MAGIC:
        what = f"it begins with {head!r}" if head else "it is empty"
        raise Broken("bad-magic", f"this is not an Avro file, which tells the schema of its records: {what}")
    told = dict(_metadata(source))
    sync = source.take(16)
    form = _form(told)
    if not is_.is_struct(form.type):
        raise Broken("avro-not-records", f"the rows are records, and these are of type {form.type}")
    codec = told.get("avro.codec", b"null").decode("utf-8", errors="replace")
    return pa.schema(list(form.type)), _batches(source, form, codec, sync)


@dataclass(slots=True)
class _Source:
    """The bytes of a file, of which never more are asked for than a block may have."""

    file: BinaryIO

    def take(self, size: int, *, whole: bool = True) -> bytes:
        if not 0 <= size <= _BLOCK:
            raise Broken("corrupt", f"a length of {size:,} bytes is told, and at most {_BLOCK:,} are read")
        data = bytearray()
        while len(data) < size and (more := self.file.read(size - len(data))):
            data += more
        if whole and len(data) < size:
            raise Broken("truncated", f"the Avro file ends {size - len(data):,} bytes too early")
        return bytes(data)

    def number(self, first: bytes = b"") -> int:
        """A number in Avro's zigzag encoding, of which the first byte may have been taken before."""
        value = shift = 0
        while shift < 64:
            (byte,) = first if first and not shift else self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise Broken("corrupt", "a number is longer than Avro's numbers are")


def _metadata(source: _Source) -> Iterator[tuple[str, bytes]]:
    while told := source.number():
        if told < 0:
            source.number()
        for _ in range(abs(told)):
            name = source.take(source.number()).decode("utf-8", errors="replace")
            yield name, source.take(source.number())


@dataclass(frozen=True, slots=True)
class _Form:
    """A schema as fastavro gets it, the type of what it then gives, and the type that this means."""

    schema: Any
    raw: pa.DataType
    type: pa.DataType


def _form(told: Mapping[str, bytes]) -> _Form:
    fastavro = _fastavro()
    if "avro.schema" not in told:
        raise Broken("avro-no-schema", "the Avro file does not tell the schema that its records were written with")
    try:
        schema = fastavro.parse_schema(json.loads(told["avro.schema"]), _ignore_default_error=True)
        check_bounded(schema)
        form = _Forms().of(schema)
        return _Form(fastavro.parse_schema({"type": "array", "items": form.schema}), form.raw, form.type)
    except RecursionError as error:
        raise Broken("too-deep", "the writer schema is nested too deeply") from error
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, *_UNDECODABLE) as error:
        check_memory(error)
        raise Broken("avro-bad-schema", f"the writer schema cannot be read: {error}") from error


def check_bounded(schema: Any, sizes: dict[str, int] | None = None) -> None:
    """Raise ValueError where a few bytes could become anything: names that stand for many more, arrays of nothing.

    `sizes` are those of types that are defined elsewhere.
    """
    if _unfolded(schema, {} if sizes is None else sizes) > _PARTS:
        raise ValueError(f"it unfolds to more than {_PARTS:,} parts")
    _weight(schema, {})


def _unfolded(schema: Any, known: dict[str, int]) -> int:
    """How many parts a schema has when every name is written out; one that holds itself counts once in itself."""
    match schema:
        case list():
            return 1 + sum(_unfolded(branch, known) for branch in schema)
        case str():
            return known.get(schema, 1)
        case dict():
            name = str(schema.get("name"))
            known[name] = 1
            inner = [schema.get("type"), schema.get("items"), schema.get("values")]
            members = [member.get("type") for member in schema.get("fields") or () if isinstance(member, dict)]
            known[name] = 1 + sum(_unfolded(part, known) for part in (*inner, *members) if part is not None)
            return known[name]
        case _:
            return 1


@dataclass(frozen=True, slots=True)
class _Weight:
    """How many values take no bytes where one of a type is read, and whether it takes none itself."""

    free: int = 0
    nothing: bool = False


def _weight(schema: Any, known: dict[str, _Weight]) -> _Weight:
    match schema:
        case "null" | {"type": "null"} | {"type": "fixed", "size": 0}:
            return _Weight(1, True)
        case str():
            return known.get(schema, _Weight())
        case list():
            for branch in schema:
                _weight(branch, known)
            return _Weight()
        case {"type": "record" | "error", "name": str(name), "fields": list(members)}:
            known[name] = _Weight()
            inner = [_weight(member["type"], known) for member in members]
            nothing = all(each.nothing for each in inner)
            known[name] = _Weight(sum(each.free for each in inner) + nothing, nothing)
            return known[name]
        case {"type": "array", "items": items}:
            if _weight(items, known).nothing:
                raise ValueError("an array of values that take no bytes may be of any length")
            return _Weight()
        case {"type": "map", "values": values}:
            _weight(values, known)
            return _Weight()
        case {"type": dict() | list() as inner}:
            return _weight(inner, known)
        case _:
            return _Weight()


@dataclass(slots=True)
class _Forms:
    """Makes the forms of a schema's parts. Types get names of their own, so that no namespace has to be minded."""

    named: dict[str, _Form | None] = field(default_factory=dict)
    """How to refer to a type, by its name in the schema; None while it is being made and would hold itself."""
    names: Iterator[str] = field(default_factory=lambda: (f"{BRANCH}of_{number}" for number in count()))

    def of(self, schema: Any) -> _Form:
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
                return _Form({"type": "array", "items": item.schema}, pa.list_(item.raw), pa.list_(item.type))
            case {"type": "map", "values": values}:
                item = self.of(values)
                types = pa.map_(pa.string(), item.raw), pa.map_(pa.string(), item.type)
                return _Form({"type": "map", "values": item.schema}, *types)
            case {"type": "bytes", "logicalType": "decimal"}:
                return _Form("bytes", pa.binary(), _decimal(schema))
            case {"type": str(word)}:
                plain = self._word(word)
                return _Form(plain.schema, plain.raw, _LOGICAL.get((word, schema.get("logicalType")), plain.type))
            case _:
                raise Broken("avro-bad-schema", f"{str(schema)[:60]} is not a type")

    def _word(self, word: str) -> _Form:
        if word == "string":
            return _Form("bytes", pa.binary(), pa.string())
        if word in _PRIMITIVES:
            return _Form(word, _PRIMITIVES[word], _PRIMITIVES[word])
        form = self.named[word]
        if form is None:
            raise Broken("avro-recursive", f"the type {word!r} holds itself, and columns cannot")
        return form

    def _defined(self, name: str, schema: dict[str, Any], raw: pa.DataType, type: pa.DataType) -> _Form:
        own = next(self.names)
        self.named[name] = _Form(own, raw, type)
        return _Form({**schema, "name": own}, raw, type)

    def _record(self, name: str, members: list[dict[str, Any]]) -> _Form:
        self.named[name] = None
        return self._defined(name, *_struct([(member["name"], self.of(member["type"])) for member in members]))

    def _union(self, schemas: list[Any]) -> _Form:
        forms = [self.of(schema) for schema in schemas]
        filled = [form for form in forms if form.schema != "null"]
        if len(filled) <= 1:
            known = (filled or forms)[0]
            return _Form([form.schema for form in forms], known.raw, known.type)
        labels = [f"{BRANCH}{number}" for number in range(len(filled))]
        _, raw, type = _struct(list(zip(labels, filled, strict=True)))
        branches = (
            {**_struct([(label, form)])[0], "name": next(self.names)}
            for label, form in zip(labels, filled, strict=True)
        )
        return _Form(["null" if form.schema == "null" else next(branches) for form in forms], raw, type)


def _struct(members: list[tuple[str, _Form]]) -> tuple[dict[str, Any], pa.DataType, pa.DataType]:
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


def _batches(source: _Source, form: _Form, codec: str, sync: bytes) -> Iterator[pa.RecordBatch]:
    records: list[object] = []
    size = 0
    free = _weight(form.schema["items"], {}).free
    for told, data in _blocks(source, codec, sync):
        if told * free > _FREE:
            raise Broken("expands-too-much", f"a block of the Avro file becomes more than {_FREE:,} values of no bytes")
        records += _records(told, data, form, one_by_one=free > 0)
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
        told = source.number(first)
        data = _decompressed(source.take(source.number()), codec, number)
        if source.take(16) != sync:
            raise Broken("corrupt", f"block {number} of the Avro file is not followed by the sync marker")
        if not 0 <= told <= max(len(data), _ROWS):
            raise Broken("corrupt", f"block {number} of the Avro file tells of {told:,} records in {len(data):,} bytes")
        yield told, data


def _records(told: int, data: bytes, form: _Form, *, one_by_one: bool) -> list[object]:
    """The records of a block, which is an array but for the number in front and the end.

    Where records have values without bytes, what is left over must not be taken for the number of more of them.
    """
    buffer = BytesIO(data if one_by_one else _zigzag(told) + data + b"\x00" if told else b"\x00")
    read = _fastavro().schemaless_reader
    try:
        records: list[object] = (
            [read(buffer, form.schema["items"], None) for _ in range(told)]
            if one_by_one
            else read(buffer, form.schema, None)
        )
    except _UNDECODABLE as error:
        check_memory(error)
        raise Broken("corrupt", f"a block of the Avro file does not follow its schema: {_said(error)}") from error
    if buffer.tell() != len(buffer.getvalue()):
        raise Broken("corrupt", "a block of the Avro file is longer than its records")
    return records


def _zigzag(value: int) -> bytes:
    value <<= 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _decompressed(data: bytes, codec: str, number: int) -> bytes:
    try:
        match codec:
            case "null":
                return data
            case "deflate":
                inflated = zlib.decompressobj(-zlib.MAX_WBITS)
                made = inflated.decompress(data, _BLOCK + 1)
                if len(made) <= _BLOCK and not inflated.eof:
                    raise Broken("corrupt", f"block {number} of the Avro file is cut")
            case "bzip2" | "zstandard":
                name = "bz2" if codec == "bzip2" else "zstd"
                made = pa.CompressedInputStream(pa.BufferReader(data), name).read(_BLOCK + 1)
            case "xz":
                made = LZMADecompressor().decompress(data, _BLOCK + 1)
            case "snappy":
                made = _unsnapped(data)
            case _:
                raise Broken("avro-codec", f"the codec {codec!r} cannot be read")
    except (zlib.error, OSError, EOFError, ValueError, LZMAError, pa.ArrowException) as error:
        check_memory(error)
        raise Broken("corrupt", f"block {number} of the Avro file cannot be decompressed: {_said(error)}") from error
    if len(made) > _BLOCK:
        raise Broken("expands-too-much", f"block {number} of the Avro file becomes more than {_BLOCK:,} bytes")
    return bytes(made)


def _unsnapped(data: bytes) -> bytes:
    length = shift = 0
    for byte in data[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > _BLOCK:
        raise Broken("expands-too-much", f"a block of the Avro file becomes more than {_BLOCK:,} bytes")
    made: bytes = pa.decompress(data[:-4], decompressed_size=length, codec="snappy", asbytes=True)
    if zlib.crc32(made).to_bytes(4, "big") != data[-4:]:
        raise Broken("corrupt", "a block of the Avro file does not have its checksum")
    return made


def _batch(records: list[object], form: _Form) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_struct_array(rebuilt(pa.array(records, form.raw), form.type, _meant))
    except _UNDECODABLE as error:
        check_memory(error)
        raise Broken("corrupt", f"the Avro file has values that its schema does not allow: {_said(error)}") from error


def _meant(array: pa.Array, type: pa.DataType) -> pa.Array:
    if is_.is_string(type):
        return array.view(type)
    if is_.is_decimal(type):
        # The default context would round to 28 digits.
        values = array.to_pylist()
        numbers = [v if v is None else int.from_bytes(v, "big", signed=True) for v in values]
        return pa.array([n if n is None else _scaled(n, type.scale) for n in numbers], type)
    if is_.is_interval(type):
        parts = [v if v is None else struct.unpack("<3I", v) for v in array.to_pylist()]
        return pa.array([p and pa.MonthDayNano((p[0], p[1], p[2] * 1_000_000)) for p in parts], type)
    if type == pa.uuid():
        return pa.ExtensionArray.from_storage(type, array.cast(type.storage_type))
    return array.cast(type)


def _scaled(number: int, scale: int) -> Decimal:
    sign = 1 if number < 0 else 0
    return Decimal((sign, tuple(map(int, str(abs(number)))), -scale))


def _said(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _fastavro() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ImportError:
        what = "Avro files are read with fastavro, which is not installed"
        raise InfrastructureError("missing-library", what, hint="pip install 'lakesmith[avro]'") from None
    return fastavro
