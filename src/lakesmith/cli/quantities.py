"""Parses times and sizes in options, with the syntax of declarations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakesmith.errors import UsageError
from lakesmith.load.invalid_text import InvalidText
from lakesmith.load.rules import duration, size

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
    except InvalidText as invalid:
        raise UsageError(invalid.code, invalid.what, hint=invalid.hint) from None
