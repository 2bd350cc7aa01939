"""Convert Arrow arrays to columns of a table without loss, and to JSON text for display and comparison."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as is_

from lakesmith.intake.shapes import STRING, exact_as_double, is_any_list, is_union_struct, map_type

_DAYS = (-719_162, 2_932_896)
"""The years 1 to 9999 as days since 1970: the range of dates in tables."""
_SECOND = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""The fraction digits of a second, by unit."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value that does not fit its column."""

    row: int
    name: str
    """The path within the column's value: `.street`, `[3].price`, or empty for the whole value."""
    text: str
    """The value as JSON."""


Fitted = tuple[pa.Array, list[Misfit]]


def fit(array: pa.Array, type: pa.DataType, timezone: str | None) -> Fitted:
    """Return the array as a column of a type: NULL for values that cannot be converted exactly, with their misfits."""
    array = _plain(array)
    source = array.type
    if is_.is_null(source):
        return pa.nulls(len(array), type), []
    if is_union_struct(source):
        branches = [fit(child, type, timezone) for child in array.flatten()]
        return pc.coalesce(*(branch for branch, _ in branches)), [
            misfit for _, misfits in branches for misfit in misfits
        ]
    if is_.is_string(type) and not is_.is_binary(source):
        return text(array), []
    if is_.is_struct(source) and is_.is_struct(type):
        return _fit_struct(array, type, timezone)
    if is_.is_map(source) and is_.is_map(type):
        return _fit_map(array, type, timezone)
    if is_.is_list(source) and is_.is_list(type):
        return _fit_list(array, type, timezone)
    cast = _exact_cast(source, type, timezone)
    if cast is None:
        return pa.nulls(len(array), type), _misfits(array, range(len(array)))
    fitted, rows = _fit_scalars(array, type, cast)
    return fitted, _misfits(array, rows)


def text(array: pa.Array) -> pa.Array:
    """Return texts unchanged, scalars as in JSON but without quotes, and nested values as JSON."""
    array = _plain(array)
    type = array.type
    if is_.is_string(type):
        return array
    if is_.is_temporal(type) or is_.is_interval(type):
        return _moments(array)
    if is_.is_binary(type):
        return pa.array([value and value.hex() for value in array.to_pylist()], STRING)
    if is_.is_nested(type):
        return as_json(array)
    texts = array.cast(STRING)
    if is_.is_floating(type):
        for word, name in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            texts = pc.if_else(pc.equal(texts, word), name, texts)
    return texts


def as_json(array: pa.Array) -> pa.Array:
    """Return each value as canonical JSON: fields sorted by name, without NULL fields."""
    array = _plain(array)
    type = array.type
    if is_.is_null(type):
        return pa.nulls(len(array), STRING)
    if is_union_struct(type):
        return pc.coalesce(*map(as_json, array.flatten()))
    if is_.is_struct(type):
        members = sorted(zip(type.names, array.flatten(), strict=True), key=lambda member: member[0])
        pairs = [_joined(f",{json.dumps(name)}:", as_json(child)) for name, child in members]
        fields = pc.binary_join_element_wise("", *pairs, "", null_handling="skip")  # fields that are NULL
        return _enclosed("{", pc.ascii_ltrim(fields, ","), "}", array)
    if is_.is_map(type):
        offsets, entries = _parts(array)
        keys, items = entries.flatten()
        entries = _joined(_quoted(text(keys)), ":", pc.fill_null(as_json(items), "null"))
        return _enclosed("{", pc.binary_join(pa.ListArray.from_arrays(offsets, entries), ","), "}", array)
    if is_.is_list(type):
        offsets, values = _parts(array)
        items = pa.ListArray.from_arrays(offsets, pc.fill_null(as_json(values), "null"))
        return _enclosed("[", pc.binary_join(items, ","), "]", array)
    if is_.is_boolean(type) or is_.is_integer(type) or is_.is_decimal(type):
        return array.cast(STRING)
    if is_.is_floating(type):
        return pc.if_else(pc.is_finite(array), text(array), _quoted(text(array)))
    return _quoted(text(array))


def map_leaves(array: pa.Array, type: pa.DataType, leaf: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """Return the array as a type of the same nesting, with its innermost arrays converted by a function."""
    array = _plain(array)
    if array.type == type:
        return array
    if is_.is_struct(type):
        children = [map_leaves(child, field.type, leaf) for child, field in zip(array.flatten(), type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=array.is_null())
    if is_.is_map(type):
        offsets, entries = _parts(array)
        keys, items = entries.flatten()
        made = map_leaves(keys, type.key_type, leaf), map_leaves(items, type.item_type, leaf)
        return pa.MapArray.from_arrays(offsets, *made, type=type, mask=array.is_null())
    if is_.is_list(type):
        offsets, values = _parts(array)
        return pa.ListArray.from_arrays(
            offsets, map_leaves(values, type.value_type, leaf), type=type, mask=array.is_null()
        )
    return leaf(array, type)


def with_bytes(array: pa.Array) -> pa.Array:
    """Return the array with bytes in place of texts, for invalid UTF-8."""
    return map_leaves(array, map_type(array.type, _bytes_type), pa.Array.cast)


def _bytes_type(type: pa.DataType) -> pa.DataType:
    if is_.is_dictionary(type) or is_.is_run_end_encoded(type):
        return map_type(type.value_type, _bytes_type)
    if isinstance(type, pa.BaseExtensionType):
        return STRING if type == pa.uuid() else map_type(type.storage_type, _bytes_type)
    return pa.binary() if is_.is_string(type) or is_.is_large_string(type) or is_.is_string_view(type) else type


def leaves(array: pa.Array) -> Iterable[pa.Array]:
    """Yield the innermost arrays."""
    if is_.is_struct(array.type):
        for child in array.flatten():
            yield from leaves(child)
    elif is_any_list(array.type):
        yield from leaves(array.flatten())
    elif is_.is_map(array.type):
        yield from leaves(_parts(array)[1])
    else:
        yield array


def with_nulls(array: pa.Array, rows: set[int]) -> pa.Array:
    """Return the array with NULL in some rows."""
    return array.take(pa.array([None if row in rows else row for row in range(len(array))], pa.int64()))


def _plain(array: pa.Array) -> pa.Array:
    """Return the array in a normalized layout."""
    type = array.type
    if isinstance(type, pa.BaseExtensionType):
        if type == pa.uuid():
            return pa.array([value and str(UUID(bytes=value)) for value in array.storage.to_pylist()], STRING)
        return _plain(array.storage)
    if is_.is_dictionary(type):
        return _plain(array.dictionary_decode())
    if is_.is_run_end_encoded(type):
        return _plain(pc.run_end_decode(array))
    if is_.is_large_string(type) or is_.is_string_view(type):
        return array.cast(STRING)
    if is_.is_large_binary(type) or is_.is_binary_view(type) or is_.is_fixed_size_binary(type):
        return array.cast(pa.binary())
    if is_any_list(type) and not is_.is_list(type):
        return array.cast(pa.list_(type.value_type))
    return array


def _parts(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the offsets and the values of lists or maps."""
    if is_.is_map(array.type):
        entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        array = array.cast(pa.list_(entry))
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)]), array.flatten()


def _misfits(array: pa.Array, rows: Iterable[int]) -> list[Misfit]:
    """Return misfits for the values of some rows, unless they are NULL."""
    chosen = list(rows)
    texts = as_json(array.take(pa.array(chosen, pa.int64()))).to_pylist() if chosen else []
    return [Misfit(row, "", shown) for row, shown in zip(chosen, texts, strict=True) if shown is not None]


def _fit_struct(array: pa.Array, type: pa.DataType, timezone: str | None) -> Fitted:
    members = {name.lower(): (name, child) for name, child in zip(array.type.names, array.flatten(), strict=True)}
    children, misfits = [], []
    for field in type:
        name, child = members.pop(field.name.lower(), (field.name, None))
        if child is None:
            children.append(pa.nulls(len(array), field.type))
            continue
        fitted, nested = fit(child, field.type, timezone)
        children.append(fitted)
        misfits += [replace(misfit, name=f".{name}{misfit.name}") for misfit in nested]
    for name, child in members.values():
        misfits += [replace(misfit, name=f".{name}") for misfit in _misfits(child, range(len(child)))]
    return pa.StructArray.from_arrays(children, fields=list(type), mask=array.is_null()), misfits


def _fit_list(array: pa.Array, type: pa.DataType, timezone: str | None) -> Fitted:
    offsets, values = _parts(array)
    fitted, nested = fit(values, type.value_type, timezone)
    starts = offsets.to_pylist() if nested else []
    misfits = []
    for misfit in nested:
        row = bisect_right(starts, misfit.row) - 1
        misfits.append(replace(misfit, row=row, name=f"[{misfit.row - starts[row]}]{misfit.name}"))
    return pa.ListArray.from_arrays(offsets, fitted, type=type, mask=array.is_null()), misfits


def _fit_map(array: pa.Array, type: pa.DataType, timezone: str | None) -> Fitted:
    offsets, entries = _parts(array)
    keys, items = entries.flatten()
    fitted_keys, bad_keys = fit(keys, type.key_type, timezone)
    starts = offsets.to_pylist()
    if bad_keys:
        # A map needs every key, so the whole map is rescued.
        rows = {bisect_right(starts, misfit.row) - 1 for misfit in bad_keys}
        fitted, misfits = _fit_map(with_nulls(array, rows), type, timezone)
        return fitted, misfits + _misfits(array, sorted(rows))
    fitted_items, nested = fit(items, type.item_type, timezone)
    names = text(keys).to_pylist() if nested else []
    misfits = [
        replace(misfit, row=bisect_right(starts, misfit.row) - 1, name=f".{names[misfit.row]}{misfit.name}")
        for misfit in nested
    ]
    return pa.MapArray.from_arrays(offsets, fitted_keys, fitted_items, type=type, mask=array.is_null()), misfits


Cast = Callable[[pa.Array], pa.Array]
"""Raises ArrowInvalid when a value would not be the same."""


def _fit_scalars(array: pa.Array, type: pa.DataType, cast: Cast) -> tuple[pa.Array, list[int]]:
    """Return the values that can be cast, and the rows of those that cannot, found by bisection."""
    try:
        return cast(array), []
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, type), [0]
    middle = len(array) // 2
    left, left_rows = _fit_scalars(array.slice(0, middle), type, cast)
    right, right_rows = _fit_scalars(array.slice(middle), type, cast)
    return pa.concat_arrays([left, right]), left_rows + [middle + row for row in right_rows]


def _exact_cast(source: pa.DataType, type: pa.DataType, timezone: str | None) -> Cast | None:
    """Return the cast from one type to another; None when they are unrelated."""
    if is_.is_timestamp(source) and is_.is_timestamp(type):
        return _moment_cast(source, type, timezone)
    if is_.is_date(source) and is_.is_date(type):
        return lambda array: _within(array.cast(type), *_DAYS)
    if source == type:
        return lambda array: array
    if is_.is_floating(type):
        if is_.is_floating(source):
            return lambda array: _narrowed(array, type)
        if is_.is_integer(source):
            return lambda array: _whole_as_float(array, type)
        if is_.is_decimal(source):
            return lambda array: _decimal_as_float(array, type)
    if is_.is_integer(source) and is_.is_decimal(type):
        # Arrow checks the range of the integer type, not the values, unless they are already decimals.
        return lambda array: array.cast(pa.decimal128(20, 0)).cast(type)
    if (is_.is_integer(source) or is_.is_decimal(source)) and (is_.is_integer(type) or is_.is_decimal(type)):
        return lambda array: array.cast(type)
    return None


def _moment_cast(source: pa.DataType, type: pa.DataType, timezone: str | None) -> Cast | None:
    seconds = _DAYS[0] * 86_400, (_DAYS[1] + 1) * 86_400 - 1
    first, last = seconds[0] * 1_000_000, seconds[1] * 1_000_000 + 999_999
    if (source.tz is None) == (type.tz is None):
        return lambda array: _within(array.cast(type), first, last)
    if source.tz is not None or timezone is None:
        return None

    def in_zone(array: pa.Array) -> pa.Array:
        local = _within(array.cast(pa.timestamp("us")), first, last)
        instants = pc.assume_timezone(local, timezone, ambiguous="earliest", nonexistent="earliest")
        # A time skipped by a clock change would convert back to another one.
        return _unless(pc.not_equal(pc.local_timestamp(instants), local), instants.cast(type))

    return in_zone


def _within(array: pa.Array, first: int, last: int) -> pa.Array:
    bounds = pc.min_max(array.view(pa.int32() if is_.is_date32(array.type) else pa.int64())).as_py()
    if bounds["min"] is not None and not (first <= bounds["min"] and bounds["max"] <= last):
        raise pa.ArrowInvalid
    return array


def _narrowed(array: pa.Array, type: pa.DataType) -> pa.Array:
    narrow = array.cast(type)
    if type.bit_width >= array.type.bit_width:
        return narrow
    return _unless(pc.and_(pc.not_equal(narrow.cast(array.type), array), pc.is_finite(array)), narrow)


def _whole_as_float(array: pa.Array, type: pa.DataType) -> pa.Array:
    try:
        return array.cast(type)
    except pa.ArrowInvalid:
        # Arrow rejects every number beyond 2⁵³, even exact ones.
        if len(array) == 1 and is_.is_float64(type) and exact_as_double(array[0].as_py()):
            return pa.array([float(array[0].as_py())], type)
        raise


def _decimal_as_float(array: pa.Array, type: pa.DataType) -> pa.Array:
    values = array.to_pylist()
    if any(value is not None and Decimal(float(value)) != value for value in values):
        raise pa.ArrowInvalid
    return _narrowed(pa.array([None if value is None else float(value) for value in values], pa.float64()), type)


def _unless(wrong: pa.Array, result: pa.Array) -> pa.Array:
    if pc.any(wrong).as_py():
        raise pa.ArrowInvalid
    return result


def _moments(array: pa.Array) -> pa.Array:
    """Return dates and times in ISO 8601, without trailing zeros of a fraction; times with a zone in UTC."""
    type = array.type
    if is_.is_duration(type):
        digits = _SECOND[type.unit]
        counts = array.view(pa.int64()).to_pylist()
        return pa.array([None if n is None else f"PT{Decimal(n).scaleb(-digits):f}S" for n in counts], STRING)
    if is_.is_interval(type):
        texts = [
            value and f"P{value[0]}M{value[1]}DT{Decimal(value[2]).scaleb(-9).normalize():f}S"
            for value in array.to_pylist()
        ]
        return pa.array(texts, STRING)
    if is_.is_timestamp(type) and type.tz is not None:
        array = array.cast(pa.timestamp(type.unit, tz="UTC"))
    texts = array.cast(STRING)
    if is_.is_date(type):
        return texts
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+(Z?)$", r"\1\2")
    texts = pc.replace_substring_regex(texts, r"\.0+(Z?)$", r"\1")
    # Years that Arrow cannot format are shown as the stored number.
    return pc.replace_substring_regex(texts, r"^<.*: (-?[0-9]+)>$", rf"\1 {type.unit} since 1970-01-01")


def _quoted(texts: pa.Array) -> pa.Array:
    quoted = _joined('"', texts, '"')
    special = pc.fill_null(pc.match_substring_regex(texts, r'["\\\x00-\x1f]'), False)
    if not pc.any(special).as_py():
        return quoted
    escaped = [json.dumps(shown, ensure_ascii=False) for shown in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, STRING))


def _enclosed(start: str, content: pa.Array, end: str, array: pa.Array) -> pa.Array:
    """Return the content within brackets; NULL where the array is."""
    return pc.if_else(array.is_valid(), _joined(start, content, end), pa.scalar(None, STRING))


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
