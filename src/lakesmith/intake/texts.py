"""Whole columns at once, where it is sure that each value is what `rows` would make of it by itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_DAY = r"^[12]\d{3}-\d\d-\d\d"
"""Other years are rare, and near the ends of what a column holds."""
_MOMENT = _DAY + r"[T ]\d\d:\d\d:\d\d(\.\d{1,6})?"
_EXACT = {64: float(2**53), 32: float(2**24)}
"""By the width of floating numbers: whole numbers below are held without a loss."""
_ZONE = r"(Z|[+-](0\d|1\d|2[0-3]):?[0-5]\d)"


def read_texts(texts: pa.Array, type: pa.DataType, timezone: str | None) -> pa.Array:
    """The values of texts. Raises `ArrowInvalid` when any of them has to be looked at by itself."""
    is_ = pa.types
    if is_.is_timestamp(type):
        return _moments(texts, type, timezone)
    if is_.is_date(type) and not _all_like(texts, _DAY + "$"):
        raise pa.ArrowInvalid("not plain dates")
    return pc.cast(texts, type)


def surely_exact(numbers: pa.Array) -> bool:
    """Whether no floating number may stand for a whole number that it cannot hold, for NaN or for an infinity."""
    return bool(pc.all(pc.less(pc.abs(numbers), _EXACT[numbers.type.bit_width]), min_count=0).as_py())


def _moments(texts: pa.Array, type: pa.DataType, timezone: str | None) -> pa.Array:
    if _all_like(texts, _MOMENT + (_ZONE if type.tz else "") + "$"):
        return pc.cast(texts, type)
    if type.tz and timezone and _all_like(texts, _MOMENT + "$"):
        return pc.assume_timezone(pc.cast(texts, pa.timestamp("us")), timezone).cast(type)
    raise pa.ArrowInvalid("not plain times, or not all with a zone")


def _all_like(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())
