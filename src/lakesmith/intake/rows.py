"""Convert parsed records to Arrow batches: values that fit their column exactly are stored, others are rescued.

No value is silently cast or replaced by NULL: a value that does not fit goes unchanged to `_rescued`, under its dotted
name.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cached_property, lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from lakesmith.columns import CORRUPT, ERROR_CODE, RESCUED, ROW_HASH
from lakesmith.intake.shapes import STRING, Number, common, exact_as_double, record_type, storable, type_of, widest

SHOWN = 65_536
"""How many bytes of an unreadable record are stored."""
_MISFIT: Final = object()
_ALWAYS_FITS = {STRING: str, pa.bool_(): bool}
"""By column type, the Python class of values that it stores unchanged."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,6})0*)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_TRUTH = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be read: a code and a message."""

    code: str
    what: str

    def __str__(self) -> str:
        return f"{self.code}: {self.what}"


class Broken(Exception):
    """A file that cannot be read, or not to its end. None of its rows are ingested."""

    def __init__(self, code: str, what: str, passing: bool = False) -> None:
        super().__init__(code, what, passing)
        self.code = code
        self.what = what
        self.passing = passing
        """Whether the cause is temporary and not the file's content: the next run may be able to read it."""

    def __str__(self) -> str:
        return f"{self.code}: {self.what}"


class Abort(Exception):
    """Raised in a worker to end the job before its commit: the batch must be planned again.

    `new-fields`: a field has no column in the target, or only a narrower one that can be widened.
    `broken`: a file cannot be read to its end. `left-out`: a file cannot be read now, for a reason that is not its
    content.
    """

    MARK: Final = "lakesmith-abort"
    SEPARATOR: Final = "\0"
    """The separator of paths: the only character that no path can contain."""

    def __init__(self, kind: str, path: str, detail: str) -> None:
        super().__init__(kind, path, detail)
        self.kind, self.path, self.detail = kind, path, detail

    def __str__(self) -> str:
        # Only this text comes back from a worker. It is encoded, because a file name may contain the mark too.
        encoded = b64encode(json.dumps([self.kind, self.path, self.detail]).encode()).decode()
        return f"{self.MARK}{encoded}{self.MARK}"

    @classmethod
    def in_text(cls, text: str) -> Abort | None:
        """Return the abort in an error's text, if there is one."""
        found = re.search(f"{cls.MARK}([A-Za-z0-9+/=]+){cls.MARK}", text)
        return cls(*json.loads(b64decode(found[1]))) if found else None


@dataclass(frozen=True, kw_only=True)
class Target:
    """The columns to read rows for."""

    schema: pa.Schema
    timezone: str | None = None
    """The time zone of times without one; without this, they do not fit a timestamp."""
    text: bool = False
    """All values are text, booleans too, as in CSV and XML."""
    surveyed: bool = False
    """Whether all files were surveyed: fields that are not in the schema cannot be columns of a table."""
    widening: frozenset[str] = frozenset()
    """The columns that may be widened for values that do not fit."""

    @cached_property
    def places(self) -> Mapping[str, int]:
        """By exact and by lower-case name, the index of the column."""
        lower = {name.lower(): place for place, name in enumerate(self.schema.names)}
        return lower | {name: place for place, name in enumerate(self.schema.names)}

    @property
    def output(self) -> pa.Schema:
        """The columns of the batches of `fit_rows`."""
        hidden = [(name, STRING) for name in (ROW_HASH, RESCUED, CORRUPT, ERROR_CODE)]
        return pa.schema([*self.schema, *hidden])


def fit_rows(
    records: Sequence[Mapping[str, object] | Unreadable], raws: Sequence[bytes], target: Target
) -> pa.RecordBatch:
    """Return the rows of records: the target's columns, then the hash, rescued values, and unreadable text."""
    count = len(records)
    columns: list[list[object]] = [[None] * count for _ in target.schema]
    rescued: list[str | None] = [None] * count
    unreadable: list[str | None] = [None] * count
    codes: list[str | None] = [None] * count
    types, places = target.schema.types, target.places
    fitting = [_ALWAYS_FITS.get(type) for type in types]
    fixed = replace(target, widening=frozenset())
    held_to = [target if name in target.widening else fixed for name in target.schema.names]
    for number, record in enumerate(records):
        if isinstance(record, Unreadable):
            unreadable[number] = shown(raws[number])
            codes[number] = str(record)
            continue
        beside: dict[str, object] = {}
        for name, value in record.items():
            place = places.get(name)
            if place is None:
                place = places.get(name.lower())
            if place is None:
                _without_column(name, value, target, beside)
            elif value.__class__ is fitting[place]:
                columns[place][number] = value
            else:
                columns[place][number] = _fit(value, types[place], held_to[place], name, beside)
        if beside:
            rescued[number] = as_json(beside)
    arrays = [pa.array(values, type=type) for values, type in zip(columns, types, strict=True)]
    return with_hidden_columns(arrays, raws, target, rescued, unreadable, codes)


def with_hidden_columns(
    columns: Sequence[pa.Array], raws: Sequence[bytes], target: Target, *texts: Sequence[str | None]
) -> pa.RecordBatch:
    """Return rows with the hash of each record, and three texts: rescued values, unreadable text and error code."""
    hidden = [pa.array(values, STRING) for values in (hashes(raws), *texts)]
    empty = [pa.nulls(len(raws), STRING)] * (4 - len(hidden))
    return pa.RecordBatch.from_arrays([*columns, *hidden, *empty], schema=target.output)


def shape_of(records: Sequence[Mapping[str, object] | Unreadable]) -> pa.DataType:
    """Return the columns of records, as a struct."""
    found = common(record_type(record) for record in records if not isinstance(record, Unreadable))
    return pa.struct([]) if pa.types.is_null(found) else found


def hashes(raws: Sequence[bytes]) -> list[str]:
    """Return 128-bit hashes of records."""
    return [blake2b(raw, digest_size=16).hexdigest() for raw in raws]


def is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_record(raw: bytes, what: str, advice: str = "") -> dict[str, object] | Unreadable:
    """Return a text as the only field of a record."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return Unreadable("not-utf8", f"byte {error.start + 1} of the {what} is not UTF-8{advice}")
    return Unreadable("nul-byte", "there is a null character") if "\x00" in text else {"value": text}


def reason(error: BaseException) -> str:
    """Return the first line of a library's message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def shown(raw: bytes) -> str:
    """Return bytes as text, with invalid bytes escaped, cut to the size of a cell."""
    text = raw[:SHOWN].decode("utf-8", errors="backslashreplace").replace("\x00", "\\x00")
    return text if len(raw) <= SHOWN else f"{text}… ({len(raw):,} bytes)"


def as_json(value: object) -> str:
    """Return a parsed value as JSON text, with the original digits of numbers."""
    match value:
        case Number():
            return value.text
        case str():
            return encode_basestring(value)
        case Mapping():
            fields = (f"{encode_basestring(str(name))}: {as_json(item)}" for name, item in value.items())
            return f"{{{', '.join(fields)}}}"
        case list() | tuple():
            return f"[{', '.join(map(as_json, value))}]"
        case float() if not math.isfinite(value):
            return f'"{json.dumps(value)}"'
        case datetime() | date():
            return encode_basestring(value.isoformat())
        case bytes():
            return encode_basestring(value.hex())
        case _:
            return json.dumps(value, default=str)


def _without_column(name: str, value: object, target: Target, beside: dict[str, object], *, prefix: str = "") -> None:
    if not target.surveyed and storable(name):
        raise Abort("new-fields", "", f"{prefix}{name}")
    beside[f"{prefix}{name}"] = value


def _fit(value: object, type: pa.DataType, target: Target, name: str, beside: dict[str, object]) -> object:
    """Return the value for its column; None when it does not fit and was rescued."""
    if value is None:
        return None
    made = _nested(value, type, target, name, beside)
    if made is _MISFIT:
        if target.widening and not target.surveyed and widest(type, type_of(value)) != type:
            raise Abort("new-fields", "", name)
        beside[name] = value
        return None
    return made


def _nested(value: object, type: pa.DataType, target: Target, name: str, beside: dict[str, object]) -> object:
    is_ = pa.types
    if is_.is_struct(type):
        if not isinstance(value, Mapping):
            return _MISFIT
        fields = {field.name.lower(): field for field in type}
        made: dict[str, object] = {}
        for key, item in value.items():
            field = fields.get(key.lower())
            if field is None:
                _without_column(key, item, target, beside, prefix=f"{name}.")
            else:
                made[field.name] = _fit(item, field.type, target, f"{name}.{key}", beside)
        return made
    if is_.is_map(type):
        if not isinstance(value, Mapping):
            return _MISFIT
        keys = [fit_value(key, type.key_type, target) for key in value]
        if _MISFIT in keys:
            return _MISFIT
        items = (_fit(item, type.item_type, target, f"{name}.{key}", beside) for key, item in value.items())
        return list(zip(keys, items, strict=True))
    if is_.is_list(type):
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return _MISFIT
        return [_fit(item, type.value_type, target, f"{name}[{i}]", beside) for i, item in enumerate(value)]
    return fit_value(value, type, target)


def fit_value(value: object, type: pa.DataType, target: Target) -> object:
    """Return a scalar converted to a type without loss, or a mark that it does not fit."""
    is_ = pa.types
    if is_.is_string(type):
        return _as_text(value)
    if isinstance(value, str):
        return _fit_text(value, type, target)
    match value:
        case bool():
            return value if is_.is_boolean(type) else _MISFIT
        case int() if is_.is_integer(type):
            return value if -(2 ** (type.bit_width - 1)) <= value < 2 ** (type.bit_width - 1) else _MISFIT
        case Number(text="-0") if is_.is_integer(type):
            return 0
        case int() if is_.is_floating(type):
            return float(value) if exact_as_double(value) and _nearest(value, type) == value else _MISFIT
        case Number() if is_.is_floating(type):
            nearest = _nearest(value, type)
            return nearest if math.isfinite(nearest) else _MISFIT
        case float() | Decimal() if is_.is_floating(type):
            nearest = _nearest(value, type)
            return nearest if nearest == value or math.isnan(value) else _MISFIT
        case int() | Decimal() | Number() if is_.is_decimal(type):
            return _as_decimal(value.text if isinstance(value, Number) else str(value), type)
        case datetime() if is_.is_timestamp(type):
            return value if (value.tzinfo is None) == (type.tz is None) else _MISFIT
        case date() if is_.is_date(type) and not isinstance(value, datetime):
            return value
        case bytes() if is_.is_binary(type):
            return value
        case _:
            return _MISFIT


def _fit_text(text: str, type: pa.DataType, target: Target) -> object:
    """Text as a type. A number is read by one rule, whether it is quoted in JSON or stands in CSV, XML or a folder's
    name. JSON has booleans, so that a text is one only where all values are text."""
    is_ = pa.types
    if is_.is_decimal(type):
        return _as_decimal(text.strip(), type)
    if is_.is_integer(type):
        return fit_value(int(text), type, target) if _WHOLE.fullmatch(text.strip()) else _MISFIT
    if is_.is_floating(type):
        if not _NUMBER.fullmatch(text.strip()):
            return _MISFIT
        if _WHOLE.fullmatch(text.strip()) and fit_value(int(text), type, target) is _MISFIT:
            return _MISFIT
        return fit_value(Number(text.strip()), type, target)
    if is_.is_date(type):
        return _as_date(text)
    if is_.is_timestamp(type):
        return _as_moment(text, zoned=type.tz is not None, timezone=target.timezone)
    if is_.is_boolean(type) and target.text:
        return _TRUTH.get(text.strip(), _MISFIT)
    return _MISFIT


def _nearest(value: float | Decimal, type: pa.DataType) -> float:
    """Return the value of a number in a float column of this width."""
    return c_float(float(value)).value if type.bit_width == 32 else float(value)


def _as_text(value: object) -> object:
    match value:
        case str():
            return value
        case Number():
            return value.text
        case bool():
            return "true" if value else "false"
        case bytes():
            return _MISFIT
        case datetime() | date():
            return value.isoformat()
        case int() | Decimal():
            return str(value)
        case _:
            return as_json(value)


def _as_decimal(text: str, type: pa.DataType) -> object:
    if not _NUMBER.fullmatch(text):
        return _MISFIT
    try:
        return Decimal(text).quantize(Decimal((0, (1,), -type.scale)), context=_exactly(type.precision))
    except (Inexact, InvalidOperation):
        return _MISFIT


@lru_cache
def _exactly(precision: int) -> Context:
    """Decimal arithmetic that raises an error instead of rounding."""
    return Context(prec=precision, traps=[Inexact, InvalidOperation])


def _as_date(text: str) -> object:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else _MISFIT
    except ValueError:
        return _MISFIT


def _as_moment(text: str, *, zoned: bool, timezone: str | None) -> object:
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return _MISFIT
    day, clock, fraction, zone = found.groups()
    if zoned and zone is None and timezone is None:
        return _MISFIT
    if not zoned and zone is not None:
        return _MISFIT
    try:
        moment = datetime.fromisoformat(
            f"{day}T{clock}.{(fraction or '0'):0<6}" if clock.count(":") == 2 else f"{day}T{clock}"
        )
        if not zoned:
            return moment
        if zone is None:
            assert timezone
            made = moment.replace(tzinfo=_zone(timezone)).astimezone(UTC)
            # Clocks skip an hour when summer time starts: a time in it does not exist.
            return made if made.astimezone(_zone(timezone)).replace(tzinfo=None) == moment else _MISFIT
        if zone == "Z":
            return moment.replace(tzinfo=UTC)
        return datetime.fromisoformat(f"{moment.isoformat()}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return _MISFIT


@lru_cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
