"""Reads times and sizes that options are given, as declarations write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakesmith.errors import UsageError
from lakesmith.load.rules import duration, size
from lakesmith.load.unfit import Unfit

T = TypeVar("T")


def seconds(text: str) -> float:
    """A length of time, as `7d` or `12h`."""
    return _read(duration, text)


def bytes_of(text: str) -> int:
    """An amount of memory, as `500MB` or `2GB`."""
    return _read(size, text)


def _read(rule: Callable[[str], T], text: str) -> T:
    try:
        return rule(text)
    except Unfit as unfit:
        raise UsageError(unfit.code, unfit.what, hint=unfit.hint) from None
