"""Converts result values to Python: exact in every type, at any depth; as text where Python has no such value."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from lakesmith.query.names import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType

_AS_TEXT = frozenset(("uhugeint", "bignum", "bit", "interval", "time with time zone", "time_ns", "variant", "type"))
"""Types that Arrow or Python cannot hold without loss; they are returned as text."""
_NESTED = frozenset(("list", "array", "struct", "tuple", "map", "union"))
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The calendar repeats after this many years and days."""
_DAY = 86_400
_ENDLESS_DAY, _ENDLESS_TICKS = 2**31 - 1, 2**63 - 1
"""What DuckDB stores for `infinity`."""


def text_type(sql_type: DuckDBPyType) -> str | None:
    """Return the SQL type to cast a column to before a fetch, or None."""
    text = _type_text(sql_type)
    return None if text == str(sql_type) else text


def _type_text(sql_type: DuckDBPyType) -> str:
    """Return the type with VARCHAR in place of types that only text can hold."""
    if sql_type.id in _AS_TEXT:
        return "VARCHAR"
    if sql_type.id not in _NESTED or not any(each.id in _AS_TEXT for each in _leaves(sql_type)):
        return str(sql_type)
    inner = [(name, _type_text(each)) for name, each in _children(sql_type)]
    match sql_type.id:
        case "list":
            return f"{inner[0][1]}[]"
        case "array":
            return f"{inner[0][1]}[{dict(sql_type.children)['size']}]"
        case "map" | "tuple":
            return f"{sql_type.id}({', '.join(text for _, text in inner)})"
        case _:
            fields = ", ".join(f"{quoted(name)} {text}" for name, text in inner)
            return f"{sql_type.id}({fields})"


def _children(sql_type: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    """Return the child types by name. DuckDB lists the tag of a union and the size of an array among them."""
    from duckdb.sqltypes import DuckDBPyType

    children = [(name, child) for name, child in sql_type.children if isinstance(child, DuckDBPyType)]
    return children[1:] if sql_type.id == "union" else children


def _leaves(sql_type: DuckDBPyType) -> Iterator[DuckDBPyType]:
    if sql_type.id not in _NESTED:
        yield sql_type
    else:
        for _, each in _children(sql_type):
            yield from _leaves(each)


def python_values(array: pa.Array, sql_type: DuckDBPyType) -> Sequence[object]:
    """Return one Python value for each value of the array."""
    import pyarrow.compute as pc

    match sql_type.id:
        case "date":
            return [None if days is None else _date(days) for days in array.cast("int32").to_pylist()]
        case "time":
            return [None if ticks is None else _time(ticks) for ticks in array.cast("int64").to_pylist()]
        case name if name.startswith("timestamp"):
            unit, zone = array.type.unit, array.type.tz is not None
            ticks = array.cast("int64").to_pylist()
            return [None if each is None else _timestamp(each, unit, zone) for each in ticks]
        case "hugeint":
            return [None if number is None else int(str(number)) for number in array.to_pylist()]
        case "list" | "array":
            [(_, inner)] = _children(sql_type)
            values = iter(python_values(array.flatten(), inner))
            lengths = pc.list_value_length(array).to_pylist()
            return [None if length is None else [next(values) for _ in range(length)] for length in lengths]
        case "struct" | "tuple":
            names = [array.type.field(number).name for number in range(array.type.num_fields)]
            # `flatten` would crash the process at a nested union.
            columns = [python_values(array.field(number), each) for number, (_, each) in enumerate(_children(sql_type))]
            valid = array.is_valid().to_pylist()
            # A struct may have no fields, and then no column has the number of rows.
            rows = zip(*columns, strict=True) if columns else [()] * len(valid)
            pairs = zip(valid, rows, strict=True)
            return [dict(zip(names, row, strict=True)) if present else None for present, row in pairs]
        case "map":
            return _maps(array, sql_type)
        case "union":
            columns = [python_values(array.field(number), each) for number, (_, each) in enumerate(_children(sql_type))]
            return [columns[code][row] for row, code in enumerate(array.type_codes.to_pylist())]
        case _:
            plain: list[object] = array.to_pylist()
            return plain


def _maps(array: pa.MapArray, sql_type: DuckDBPyType) -> list[object]:
    """Return a dict for each map; a list of pairs where keys are lists or structs, which a dict cannot hold."""
    (_, key), (_, value) = _children(sql_type)
    pairs = list(zip(python_values(array.keys, key), python_values(array.items, value), strict=True))
    bounds, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    container: type = list if key.id in _NESTED else dict
    return [container(pairs[bounds[row] : bounds[row + 1]]) if present else None for row, present in enumerate(valid)]


def _date(days: int) -> date | str:
    if abs(days) == _ENDLESS_DAY:
        return "infinity" if days > 0 else "-infinity"
    ordinal = days + _EPOCH_DAY
    if 1 <= ordinal <= date.max.toordinal():
        return date.fromordinal(ordinal)
    return _distant_day(days)


def _distant_day(days: int) -> str:
    """Format a day beyond Python's calendar, with year 0 for 1 BC, as in ISO 8601."""
    cycles, ordinal = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    day = date.fromordinal(ordinal + 1)
    year = day.year + cycles * _CYCLE_YEARS
    return f"{'-' if year < 0 else ''}{abs(year):04}-{day:%m-%d}"


def _time(ticks: int) -> time | str:
    # DuckDB has the time 24:00:00, which Python has not.
    return "24:00:00" if ticks == _DAY * 1_000_000 else (_EPOCH + timedelta(microseconds=ticks)).time()


def _timestamp(ticks: int, unit: str, zone: bool) -> datetime | str:
    if abs(ticks) == _ENDLESS_TICKS:
        return "infinity" if ticks > 0 else "-infinity"
    per_second = _PER_SECOND[unit]
    seconds, fraction = divmod(ticks, per_second)
    nanoseconds = fraction * (1_000_000_000 // per_second)
    if nanoseconds % 1_000 == 0:
        try:
            moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1_000)
        except OverflowError:
            pass
        else:
            return moment.replace(tzinfo=UTC) if zone else moment
    days, second = divmod(seconds, _DAY)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    digits = len(str(per_second)) - 1
    return f"{_distant_day(days)} {clock}{f'.{fraction:0{digits}}' if digits else ''}{'Z' if zone else ''}"


def size_of(rows: Sequence[tuple[object, ...]]) -> int:
    """Estimate the bytes that the rows use in Python, from a sample of them."""
    some = rows[:: max(len(rows) // 32, 1)]
    return sum(map(_deep_size, some)) * len(rows) // max(len(some), 1)


def _deep_size(value: object) -> int:
    match value:
        case list() | tuple():
            return sys.getsizeof(value) + sum(map(_deep_size, value))
        case dict():
            return sys.getsizeof(value) + sum(map(_deep_size, value)) + sum(map(_deep_size, value.values()))
        case _:
            return sys.getsizeof(value)
