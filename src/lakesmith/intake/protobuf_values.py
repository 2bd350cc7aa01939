"""Values that were written with a Protobuf schema: compile it, read values, and derive its columns."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from lakesmith.errors import missing_library
from lakesmith.intake.rows import Unreadable, as_json
from lakesmith.intake.shapes import STRING

FIRST: tuple[int, ...] = (0,)
"""The position of the first message of a file."""
_MAIN = "lakesmith_value.proto"
_TIMESTAMP = "google.protobuf.Timestamp"
_FREE = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
_WRAPPERS = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A Protobuf file that values were written with, compiled."""

    files: bytes = field(repr=False)
    """A set of file descriptors."""


@lru_cache(maxsize=256)
def compile_protobuf(text: str, imports: tuple[tuple[str, str], ...] = ()) -> ProtobufSchema:
    """Compile a Protobuf file; raise ValueError when it is invalid."""
    package = find_spec("grpc_tools")
    if package is None or package.origin is None:
        raise missing_library("grpc_tools", "reading Protobuf values", "kafka")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, imported in imports:
            if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
                raise ValueError(f"the import {name!r} points outside of the schema's folder")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(imported, encoding="utf-8")
        (folder / _MAIN).write_text(text, encoding="utf-8")
        output = folder / "files.bin"
        # In a process of its own: the compiler writes its complaints to the terminal.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{Path(package.origin).parent}/_proto"]
        command += ["--include_imports", f"--descriptor_set_out={output}", _MAIN]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if answer.returncode != 0:
            message = answer.stderr.strip().splitlines()
            raise ValueError(
                next((line for line in message if ".proto:" in line and "warning" not in line), message[-1])
            )
        return ProtobufSchema(output.read_bytes())


def read_protobuf(
    writer: ProtobufSchema, value: bytes, place: tuple[int, ...], start: int
) -> Mapping[str, object] | Unreadable:
    """Return the record of a value that begins at `start`."""
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
        symbol = field.enum_type.values_by_number.get(value)
        return symbol.name if symbol else str(value)
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
    """Return a datetime if it is exact, else the time as text, which then does not fit the column."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        return f"{seconds} s {nanos} ns"
    return moment if nanos % 1000 == 0 else f"{moment:%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"


@lru_cache(maxsize=256)
def message_at(writer: ProtobufSchema, place: tuple[int, ...]) -> Any:
    """Return the message at a position of the file; None when there is none."""
    pool, names = _pool(writer)
    try:
        message = pool.FindMessageTypeByName(names[place[0]])
        for index in place[1:]:
            message = message.nested_types[index]
    except IndexError:
        return None
    return message


@lru_cache(maxsize=256)
def _pool(writer: ProtobufSchema) -> tuple[Any, tuple[str, ...]]:
    """Return the descriptors of the files, and the message names of the main file, in order."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
    except ModuleNotFoundError as error:
        raise missing_library("protobuf", "reading Protobuf values", "kafka") from error

    pool = DescriptorPool()
    files = FileDescriptorSet.FromString(writer.files).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    # Its imports come before it.
    prefix = f"{files[-1].package}." if files[-1].package else ""
    return pool, tuple(prefix + message.name for message in files[-1].message_type)


def protobuf_shape(writer: ProtobufSchema, place: tuple[int, ...]) -> pa.DataType:
    """Return the columns of a message, as a struct."""
    descriptor = message_at(writer, place)
    return pa.struct([]) if descriptor is None else _message_type(descriptor, frozenset())


def _message_type(descriptor: Any, above: frozenset[str]) -> pa.DataType:
    inside = above | {descriptor.full_name}
    return pa.struct([(field.name, _field_type(field, inside)) for field in descriptor.fields])


def _field_type(field: Any, above: frozenset[str]) -> pa.DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(single_type(key, above), single_type(value, above))
    type = single_type(field, above)
    return pa.list_(type) if field.is_repeated else type


def single_type(field: Any, above: frozenset[str]) -> pa.DataType:
    """Return the column type of a field, or of one value of a repeated field; `above` are its enclosing messages."""
    if field.message_type is None:
        return _scalar_types()[field.type]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if name in _WRAPPERS:
        return single_type(field.message_type.fields_by_name["value"], above)
    # A recursive message does not fit a column: it is stored as JSON.
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
    """Whether a field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
