"""Convert whole columns of text at once, where the result surely equals that of `rows` for each value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_DAY = r"^[12]\d{3}-\d\d-\d\d"
"""Other years are rare, and near the limits of a column."""
_MOMENT = _DAY + r"[T ]\d\d:\d\d:\d\d(\.\d{1,6})?"
_EXACT = {64: float(2**53), 32: float(2**24)}
"""By the width of floats: whole numbers below are exact."""
_ZONE = r"(Z|[+-](0\d|1\d|2[0-3]):?[0-5]\d)"


def read_texts(texts: pa.Array, type: pa.DataType, timezone: str | None) -> pa.Array:
    """Convert texts. Raise `ArrowInvalid` when any of them must be converted by itself."""
    is_ = pa.types
    if is_.is_timestamp(type):
        return _moments(texts, type, timezone)
    if is_.is_date(type) and not _all_like(texts, _DAY + "$"):
        raise pa.ArrowInvalid("not plain dates")
    return pc.cast(texts, type)


def surely_exact(numbers: pa.Array) -> bool:
    """Whether no float may be an inexact whole number, NaN or infinite."""
    return bool(pc.all(pc.less(pc.abs(numbers), _EXACT[numbers.type.bit_width]), min_count=0).as_py())


def _moments(texts: pa.Array, type: pa.DataType, timezone: str | None) -> pa.Array:
    if _all_like(texts, _MOMENT + (_ZONE if type.tz else "") + "$"):
        return pc.cast(texts, type)
    if type.tz and timezone and _all_like(texts, _MOMENT + "$"):
        return pc.assume_timezone(pc.cast(texts, pa.timestamp("us")), timezone).cast(type)
    raise pa.ArrowInvalid("not plain times, or not all with a zone")


def _all_like(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())
