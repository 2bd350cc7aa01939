"""Convert parsed records to Arrow batches: values that fit their column exactly are stored, others are rescued.

No value is silently cast or replaced by NULL: a value that does not fit goes unchanged to `_rescued`, under its dotted
name.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cached_property, lru_cache, reduce
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import types as is_

from lakesmith.columns import CORRUPT, ERROR_CODE, RESCUED, ROW_HASH
from lakesmith.intake.shapes import STRING, Number, exact_as_double, record_type, storable, type_of, wider, widest

if TYPE_CHECKING:
    from lakesmith.intake.split import Records

SHOWN = 65_536
"""How many bytes of an unreadable record are stored."""
_SMALL = 256
"""A block of at most this many records is read one by one when something in it does not fit."""
_ALWAYS_FITS = {STRING: str, pa.bool_(): bool}
"""By column type, the Python class of values that it stores unchanged."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<clock>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(?:(?P<fraction>\.[0-9]{1,6})0*)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
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
    `broken`: a file cannot be read to its end. `unsplit`: a file cannot be read in parts. `left-out`: a file cannot be
    read now, for a reason that is not its content.
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
    texts: list[list[str | None]] = [[None] * count for _ in range(3)]
    rescued, unreadable, codes = texts
    types, places = target.schema.types, target.places
    fitting = [_ALWAYS_FITS.get(type) for type in types]
    fixed = replace(target, widening=frozenset())
    targets = [target if name in target.widening else fixed for name in target.schema.names]
    for number, record in enumerate(records):
        if isinstance(record, Unreadable):
            unreadable[number] = shown(raws[number])
            codes[number] = str(record)
            continue
        unfit: dict[str, object] = {}
        for name, value in record.items():
            place = places.get(name)
            if place is None:
                place = places.get(name.lower())
            if place is None:
                _rescue_field(name, name, value, target, unfit)
            elif value.__class__ is fitting[place]:
                columns[place][number] = value
            else:
                columns[place][number] = _fit(value, types[place], targets[place], name, unfit)
        if unfit:
            rescued[number] = as_json(unfit)
    arrays = [pa.array(values, type=type) for values, type in zip(columns, types, strict=True)]
    return with_hidden_columns(arrays, raws, target, *texts)


def block_rows(
    records: Records,
    block: Callable[[Records], pa.RecordBatch | None],
    parse: Callable[[bytes], Mapping[str, object] | Unreadable],
    target: Target,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of records. `block` reads them at once; where it cannot, ever smaller parts are read."""
    whole = block(records)
    if whole is not None:
        yield whole
    elif len(records) > _SMALL:
        step = -(-len(records) // 8)
        for start in range(0, len(records), step):
            part = records.part(start, min(start + step, len(records)))
            yield from block_rows(part, block, parse, target)
    else:
        raws = records.raws()
        yield fit_rows([parse(raw) for raw in raws], raws, target)


def with_hidden_columns(
    columns: Sequence[pa.Array], raws: Sequence[bytes], target: Target, *texts: Sequence[str | None]
) -> pa.RecordBatch:
    """Return rows with the hash of each record, and three texts: rescued values, unreadable text and error code."""
    hidden = [pa.array(values, STRING) for values in (hashes(raws), *texts)]
    empty = [pa.nulls(len(raws), STRING)] * (4 - len(hidden))
    return pa.RecordBatch.from_arrays([*columns, *hidden, *empty], schema=target.output)


def shape_of(records: Sequence[Mapping[str, object] | Unreadable]) -> pa.DataType:
    """Return the columns of records, as a struct."""
    types = (record_type(record) for record in records if not isinstance(record, Unreadable))
    return reduce(wider, types, pa.struct([]))


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


def _fit(value: object, type: pa.DataType, target: Target, name: str, rescued: dict[str, object]) -> object:
    """Return the value for its column; None when it does not fit and was rescued."""
    if value is None:
        return None
    try:
        return _nested(value, type, target, name, rescued)
    except (ValueError, ArithmeticError):
        if target.widening and not target.surveyed and widest(type, type_of(value)) != type:
            raise Abort("new-fields", "", name) from None
        rescued[name] = value
        return None


def _nested(value: object, type: pa.DataType, target: Target, name: str, rescued: dict[str, object]) -> object:
    if is_.is_struct(type) and isinstance(value, Mapping):
        fields = {field.name.lower(): field for field in type}
        struct: dict[str, object] = {}
        for key, item in value.items():
            field, path = fields.get(key.lower()), f"{name}.{key}"
            if field is None:
                _rescue_field(key, path, item, target, rescued)
            else:
                struct[field.name] = _fit(item, field.type, target, path, rescued)
        return struct
    if is_.is_map(type) and isinstance(value, Mapping):
        keys = [fit_value(key, type.key_type, target) for key in value]
        items = (_fit(item, type.item_type, target, f"{name}.{key}", rescued) for key, item in value.items())
        return list(zip(keys, items, strict=True))
    if is_.is_list(type) and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_fit(item, type.value_type, target, f"{name}[{i}]", rescued) for i, item in enumerate(value)]
    return fit_value(value, type, target)


def _rescue_field(name: str, path: str, value: object, target: Target, rescued: dict[str, object]) -> None:
    """Rescue a field without a column. Raise `Abort` when the table can get a column for it."""
    if not target.surveyed and storable(name):
        raise Abort("new-fields", "", path)
    rescued[path] = value


def fit_value(value: object, type: pa.DataType, target: Target) -> object:
    """Return a scalar converted to a type without loss. Raise ValueError or ArithmeticError when it does not fit."""
    if is_.is_string(type):
        return _as_text(value)
    if isinstance(value, str):
        return _fit_text(value, type, target)
    match value:
        case bool():
            if is_.is_boolean(type):
                return value
        case int() if is_.is_integer(type):
            if -(2 ** (type.bit_width - 1)) <= value < 2 ** (type.bit_width - 1):
                return value
        case Number(text="-0") if is_.is_integer(type):
            return 0
        case int() if is_.is_floating(type):
            if exact_as_double(value) and _nearest(value, type) == value:
                return float(value)
        case Number() if is_.is_floating(type):
            nearest = _nearest(value, type)
            if math.isfinite(nearest):
                return nearest
        case float() | Decimal() if is_.is_floating(type):
            nearest = _nearest(value, type)
            if nearest == value or math.isnan(value):
                return nearest
        case int() | Decimal() | Number() if is_.is_decimal(type):
            return _as_decimal(value.text if isinstance(value, Number) else str(value), type)
        case datetime():
            if is_.is_timestamp(type) and (value.tzinfo is None) == (type.tz is None):
                return value
        case date() if is_.is_date(type):
            return value
        case bytes() if is_.is_binary(type):
            return value
    raise ValueError("the value does not fit")


def _fit_text(text: str, type: pa.DataType, target: Target) -> object:
    """Return a text as a type.

    A number is read by one rule, whether it is quoted in JSON, or is in CSV, XML or the name of a folder. JSON has
    booleans, so a text is one only where all values are text.
    """
    stripped = text.strip()
    if is_.is_decimal(type):
        return _as_decimal(stripped, type)
    if is_.is_integer(type) and _WHOLE.fullmatch(stripped):
        return fit_value(int(stripped), type, target)
    if is_.is_floating(type) and _NUMBER.fullmatch(stripped):
        if _WHOLE.fullmatch(stripped):
            fit_value(int(stripped), type, target)  # raises when a float cannot store it exactly
        return fit_value(Number(stripped), type, target)
    if is_.is_date(type) and _DATE.fullmatch(text):
        return date.fromisoformat(text)
    if is_.is_timestamp(type):
        return _as_moment(stripped, zoned=type.tz is not None, timezone=target.timezone)
    if is_.is_boolean(type) and target.text and stripped in _TRUTH:
        return _TRUTH[stripped]
    raise ValueError("the text does not fit")


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
            raise ValueError("binary data is not text")
        case datetime() | date():
            return value.isoformat()
        case int() | Decimal():
            return str(value)
        case _:
            return as_json(value)


def _as_decimal(text: str, type: pa.DataType) -> object:
    if not _NUMBER.fullmatch(text):
        raise ValueError("the text is not a number")
    return Decimal(text).quantize(Decimal((0, (1,), -type.scale)), context=_exactly(type.precision))


@lru_cache
def _exactly(precision: int) -> Context:
    """Decimal arithmetic that raises an error instead of rounding."""
    return Context(prec=precision, traps=[Inexact, InvalidOperation])


def _as_moment(text: str, *, zoned: bool, timezone: str | None) -> object:
    parts = _MOMENT.fullmatch(text)
    if parts is None or (parts["zone"] if not zoned else not (parts["zone"] or timezone)):
        raise ValueError("the text is not a time, or a zone is missing or not expected")
    moment = datetime.fromisoformat(f"{parts['day']}T{parts['clock']}{parts['fraction'] or ''}")
    if not zoned:
        return moment
    if parts["zone"]:
        return datetime.fromisoformat(f"{moment.isoformat()}{parts['zone']}").astimezone(UTC)
    assert timezone
    instant = moment.replace(tzinfo=ZoneInfo(timezone)).astimezone(UTC)
    # Clocks skip an hour when summer time starts: a time in it does not exist.
    if instant.astimezone(ZoneInfo(timezone)).replace(tzinfo=None) != moment:
        raise ValueError("no clock showed this time")
    return instant
