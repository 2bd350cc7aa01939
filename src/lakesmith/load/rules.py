"""Validation rules for texts in declarations, each with its part of the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from lakesmith.declare.forms import Form
from lakesmith.declare.names import TableName, is_identifier, is_table_identifier
from lakesmith.load.invalid_text import InvalidText
from lakesmith.load.spark_types import normalized_type


@dataclass(frozen=True, slots=True)
class Rule:
    """How a text is validated, and its JSON Schema."""

    read: Callable[[str], object]
    schema: Mapping[str, Any]


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,62}")
_QUANTITY = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*([a-z]+)")
_VERSION = re.compile(r"[1-9][0-9]{0,4}(\.[0-9]{1,5}){0,2}")
_CURRENCY = re.compile(r"[A-Z]{3}")
_BYTES = {"mb": 10**6, "gb": 10**9, "tb": 10**12, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_UMASK = re.compile(r"0[0-7]{2}")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _some(text: str) -> str:
    if not text.strip():
        raise InvalidText("empty-text", "the text is empty", "write a value, or remove the key")
    return text


def _column(text: str) -> str:
    if not is_identifier(text):
        raise _bad(text, "names here consist of letters, digits and underscores")
    if text.lower() in ("_change_type", "_commit_version", "_commit_timestamp"):
        raise _bad(text, "Delta's change data feed uses this name; choose another")
    return text


def _low(text: str) -> str:
    if not is_table_identifier(text):
        raise _bad(text, f"names here consist of lower-case letters, digits and underscores{_proposed(text)}")
    return text


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise _bad(text, "variable names consist of letters, digits and underscores")
    return text


def _tag(text: str) -> str:
    if not _TAG.fullmatch(text):
        raise _bad(text, "tags consist of letters, digits and . : / - _, so that `tag:` can select them")
    return text


def _reference(text: str) -> str:
    layer_and_table, _, column = text.rpartition(".")
    if TableName.parse(layer_and_table) is None or not is_identifier(column):
        raise _bad(text, "write layer.table.column, such as silver.orders.day")
    return text


def duration(text: str) -> float:
    hint = "write a number and a unit, such as 30m, 1h or 2d (units: s, m, h, d, w)"
    return _quantity(text, _SECONDS, InvalidText("bad-duration", f"'{text[:40]}' is not a duration", hint))


def size(text: str) -> int:
    hint = "write a number and a unit, such as 500MB or 2GB (units: MB, GB, TB, MiB, GiB, TiB)"
    return int(_quantity(text.lower(), _BYTES, InvalidText("bad-size", f"'{text[:40]}' is not a memory size", hint)))


def _quantity(text: str, units: Mapping[str, int], invalid: InvalidText) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units or float(match[1]) == 0:
        raise invalid
    return float(match[1]) * units[match[2]]


def _umask(text: str) -> int:
    if not _UMASK.fullmatch(text):
        hint = 'write three octal digits in quotes, the first of them 0: "077" (user only) or "027" (group may read)'
        raise InvalidText("bad-umask", f"'{text[:20]}' is not a valid umask", hint)
    return int(text, 8)


def _delimiter(text: str) -> str:
    if len(text) != 1 or text in "\r\n\x00":
        hint = 'write one character in quotes, such as ";" or "\\t"'
        raise InvalidText("bad-delimiter", f"'{text[:20]}' is not a single character", hint)
    return text


def _bad(text: str, hint: str) -> InvalidText:
    shown = text if len(text) <= 60 else text[:57] + "…"
    return InvalidText("bad-identifier", f"{shown!r} is not a name", hint)


def _proposed(text: str) -> str:
    proposal = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
    return f"; for example '{proposal}'" if is_table_identifier(proposal) else ""


def _table_reference(text: str) -> TableName:
    name = TableName.parse(text)
    if name is None:
        raise _bad(text, "write layer.table, such as silver.orders")
    return name


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise InvalidText("bad-version", f"'{text[:40]}' is not a version", 'write it in quotes: "2" or "2.1.0"')
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ValueError, OSError, LookupError):
        what = f"'{text[:40]}' is not a time zone"
        raise InvalidText("unknown-timezone", what, "for example UTC or Europe/Oslo") from None
    return text


def _currency(text: str) -> str:
    if not is_currency(text) and not is_identifier(text):
        hint = "write three capital letters, such as EUR, or the column with the code"
        raise InvalidText("bad-currency", f"'{text[:40]}' is neither a currency code nor a column", hint)
    return text


def is_currency(text: str) -> bool:
    """Whether the text has the form of an ISO 4217 code."""
    return _CURRENCY.fullmatch(text) is not None


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidText("bad-day", f"'{text[:40]}' is not a date", 'write it in quotes: "2027-06-30"') from None


RULES: Mapping[Form, Rule] = {
    Form.TEXT: Rule(_some, {"minLength": 1}),
    Form.COLUMN: Rule(_column, {"pattern": r"^[^\W\d]\w*$"}),
    Form.COLUMN_REFERENCE: Rule(_reference, {"pattern": r"^(bronze|silver|gold)\.[a-z][a-z0-9_]*\.\w+$"}),
    Form.TABLE: Rule(_table_reference, {"pattern": r"^(bronze|silver|gold)\.[a-z][a-z0-9_]*$"}),
    Form.LOW_NAME: Rule(_low, {"pattern": "^[a-z][a-z0-9_]{0,62}$"}),
    Form.VARIABLE: Rule(_variable, {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,62}$"}),
    Form.TAG: Rule(_tag, {"pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,62}$"}),
    Form.TYPE: Rule(normalized_type, {"examples": ["bigint", "string", "decimal(12,2)", "timestamp"]}),
    Form.DURATION: Rule(duration, {"type": "string", "pattern": r"^[0-9.]+\s*[smhdw]$"}),
    Form.DAY: Rule(_day, {"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
    Form.ZONE: Rule(_zone, {"minLength": 1, "examples": ["UTC", "Europe/Oslo"]}),
    Form.CURRENCY: Rule(_currency, {"pattern": r"^[^\W\d]\w*$"}),
    Form.VERSION: Rule(_version, {"pattern": r"^[1-9][0-9]*(\.[0-9]+){0,2}$"}),
    Form.SIZE: Rule(size, {"type": "string", "pattern": r"^[0-9.]+\s*[MGT]i?B$"}),
    Form.UMASK: Rule(_umask, {"type": "string", "pattern": "^0[0-7]{2}$"}),
    Form.DELIMITER: Rule(_delimiter, {"minLength": 1, "maxLength": 1}),
}
"""The rules of the forms that are texts."""
