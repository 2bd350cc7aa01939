"""Read JSON records as rows: in blocks where all records are clean, otherwise one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from lakesmith.intake.arrays import leaves, map_leaves
from lakesmith.intake.rows import Target, Unreadable, as_json, block_rows, is_utf8, shape_of, with_hidden_columns
from lakesmith.intake.shapes import STRING, Number, one_each, storable
from lakesmith.intake.split import Records
from lakesmith.intake.texts import read_texts, surely_exact

Record = Mapping[str, object] | Unreadable
_DEEP = 200
_OPEN, _CLOSE, _OPEN_ARRAY = b"{}["
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def rows(records: Records, target: Target) -> Iterator[pa.RecordBatch]:
    """Yield the rows of JSON texts."""
    return block_rows(records, lambda part: _block(part, target), parse, target)


def shape(records: Records) -> pa.DataType:
    """Return the columns of a block of JSON texts, as a struct."""
    try:
        table = None if _brackets(records) > _DEEP else _read(records, None)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        table = None
    if table is None or _has_similar_names(table.schema):
        return shape_of([parse(raw) for raw in records.raws()])
    return _fields(table.schema)


def parse(raw: bytes) -> Record:
    """Parse one JSON object strictly: unique keys, no NaN, a depth that can be stored."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return Unreadable("not-utf8", f"byte {error.start + 1} of the record is not UTF-8; set encoding: in the source")
    try:
        value = json.loads(
            text, parse_int=_whole, parse_float=Number, parse_constant=_no_constant, object_pairs_hook=_once
        )
    except RecursionError:
        return Unreadable("too-deep", "objects or arrays are nested too deeply")
    except _NotReadable as error:
        return error.problem
    except ValueError as error:
        return Unreadable("nul-byte", "there is a null character") if "\x00" in text else _not_json(text, error)
    if not isinstance(value, dict):
        return Unreadable("not-an-object", f"a row must be a JSON object, and this is {_kind(value)}")
    if raw.count(b"{") + raw.count(b"[") > _DEEP and _depth(value) > _DEEP:
        return Unreadable("too-deep", f"objects or arrays are nested more than {_DEEP} deep")
    if _SURROGATE.search(raw) and _has_lone_surrogate(value):
        return Unreadable("lone-surrogate", "a text contains half of a surrogate pair, which cannot be stored")
    return value


def begins_with_object(text: bytes) -> bool:
    """Whether a text starts with a JSON object, on any number of lines."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _block(records: Records, target: Target) -> pa.RecordBatch | None:
    """Return all records at once; None when any of them must be read by itself."""

    def typed(texts: pa.Array, type: pa.DataType) -> pa.Array:
        return read_texts(texts, type, target.timezone)

    quick = [(field.name, _quick(field.type)) for field in target.schema]
    if not quick or any(type is None for _, type in quick):
        return None
    try:
        table = _read(records, pa.schema(quick))
        if table is None:
            return None
        arrays = (table.column(name).combine_chunks() for name in target.schema.names)
        columns = [map_leaves(*pair, typed) for pair in zip(arrays, target.schema.types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return with_hidden_columns(columns, records.raws(), target)


def _read(records: Records, schema: pa.Schema | None) -> pa.Table | None:
    """Return the block reader's result; None when it may differ from that of `parse`."""
    if not is_utf8(records.data) or not _one_object_each(records):
        return None
    unexpected = "infer" if schema is None else "error"
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    reading = pj.ReadOptions(use_threads=False, block_size=len(records.data) + 1)
    table = pj.read_json(pa.BufferReader(records.data), read_options=reading, parse_options=parsing)
    return table if len(table) == len(records) and _exact(table) else None


def _one_object_each(records: Records) -> bool:
    """Whether each record starts and ends with a brace.

    The block reader crashes on a bare `null`, and it ignores line ends: this check ensures one object per record.
    """
    buffer = np.frombuffer(records.data, dtype=np.uint8)
    return bool((buffer[records.starts] == _OPEN).all() and (buffer[records.text_stops - 1] == _CLOSE).all())


def _brackets(records: Records) -> int:
    """Return the maximum number of open brackets in a record; the block reader crashes on deep nesting."""
    buffer = np.frombuffer(records.data, dtype=np.uint8)
    opened = np.flatnonzero((buffer == _OPEN) | (buffer == _OPEN_ARRAY))
    return int(np.diff(np.searchsorted(opened, records.stops), prepend=0).max())


def _quick(type: pa.DataType) -> pa.DataType | None:
    """Return the block reader's type for a column: times are read as text, which is then validated."""
    is_ = pa.types
    if is_.is_timestamp(type) or is_.is_date(type):
        return STRING
    if is_.is_struct(type):
        fields = [(field.name, _quick(field.type)) for field in type]
        return None if any(found is None for _, found in fields) else pa.struct(fields)
    if is_.is_list(type):
        item = _quick(type.value_type)
        return None if item is None else pa.list_(item)
    return None if is_.is_map(type) or is_.is_binary(type) else type


def _exact(table: pa.Table) -> bool:
    """Whether all numbers are surely exact: the block reader ignores digits beyond the precision of a decimal."""
    for array in (leaf for column in table.columns for chunk in column.chunks for leaf in leaves(chunk)):
        if pa.types.is_decimal(array.type):
            array.validate(full=True)
        elif pa.types.is_floating(array.type) and not surely_exact(array):
            return False
    return True


def _fields(found: Iterable[pa.Field]) -> pa.DataType:
    return one_each(pa.field(field.name, _as_json_type(field.type)) for field in found if storable(field.name))


def _has_similar_names(fields: Iterable[pa.Field]) -> bool:
    """Whether two names of an object differ only in case. If one record has both, `parse` rejects it."""
    found = tuple(fields)
    return len({field.name.lower() for field in found}) < len(found) or any(
        _has_similar_names(_nested_fields(field.type)) for field in found
    )


def _nested_fields(type: pa.DataType) -> Sequence[pa.Field]:
    while pa.types.is_list(type):
        type = type.value_type
    return list(type) if pa.types.is_struct(type) else ()


def _as_json_type(type: pa.DataType) -> pa.DataType:
    """Return the type as `type_of` does. The block reader infers times for some texts; they stay texts."""
    if pa.types.is_struct(type):
        made = _fields(type)
        return made if len(made) else STRING if len(type) else pa.null()
    if pa.types.is_list(type):
        return pa.list_(_as_json_type(type.value_type))
    return STRING if pa.types.is_temporal(type) else type


def _has_lone_surrogate(value: object) -> bool:
    try:
        as_json(value).encode()
    except UnicodeEncodeError:
        return True
    return False


def _whole(text: str) -> object:
    # An int has no -0, a double does.
    return Number(text) if text == "-0" else int(text)


class _NotReadable(Exception):
    def __init__(self, problem: Unreadable) -> None:
        super().__init__(problem)
        self.problem = problem


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len({name.lower() for name in made}) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if [n.lower() for n in names].count(name.lower()) > 1)
        raise _NotReadable(Unreadable("duplicate-keys", f"the key {twice!r} occurs more than once"))
    return made


def _no_constant(name: str) -> object:
    raise _NotReadable(Unreadable("not-a-number", f"{name} is not JSON"))


def _not_json(text: str, error: ValueError) -> Unreadable:
    if isinstance(error, json.JSONDecodeError):
        truncated = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        code = "truncated-json" if truncated else "not-json"
        return Unreadable(code, f"{error.msg} at character {error.pos + 1}")
    return Unreadable("number-too-long", "a number has more digits than can be read")


def _depth(value: object) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [
            item
            for each in level
            for item in (each.values() if isinstance(each, dict) else each)  # type: ignore[attr-defined]
            if isinstance(item, dict | list)
        ]
    return deepest


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case _:
            return "an array"
