"""Nodes of a declaration with their places: the common form of YAML, SQL headers and Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesmith.declare.python import Written
from lakesmith.errors import Place

Sort = Literal["text", "boolean", "number", "null", "date", "other"]

BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@dataclass(frozen=True, slots=True)
class Scalar:
    """One scalar, and how its language reads it."""

    text: str
    sort: Sort
    at: Place
    size: int = 1


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    at: Place
    size: int = 1


@dataclass(frozen=True, slots=True)
class Entries:
    """Keys with values, in order. The decoder reports duplicate keys."""

    entries: tuple[tuple[Scalar, Node], ...]
    at: Place
    size: int = 1

    def get(self, key: str) -> Node | None:
        return next((value for scalar, value in self.entries if scalar.text == key), None)


Node = Scalar | Items | Entries

_STARTS = frozenset("~nNyYtTfFoO0123456789+-.=<")
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEAN = re.compile(r"(yes|no|true|false|on|off)", re.IGNORECASE)
_NUMBER = re.compile(
    r"""[-+]?(
        0b[01_]+ | 0x[0-9a-fA-F_]+ | 0o[0-7_]+
      | [0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?
      | \.[0-9][0-9_]*([eE][-+]?[0-9]+)?
      | [0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?
      | \.(inf|Inf|INF)
    ) | \.(nan|NaN|NAN)""",
    re.VERBOSE,
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")


def plain_sort(text: str) -> Sort:
    """Return how some YAML parser reads an unquoted word: YAML 1.1 and 1.2 differ, and people expect either."""
    if not text:
        return "null"
    if text[0] not in _STARTS:
        return "text"
    if text in _NULL:
        return "null"
    if _BOOLEAN.fullmatch(text):
        return "boolean"
    if _NUMBER.fullmatch(text):
        return "number"
    if _DATE.fullmatch(text):
        return "date"
    return "other" if text in ("=", "<<") else "text"


def from_python(value: object, at: Place, relative: Callable[[Place], Place]) -> Node:
    """Return the node for a value of a Python declaration."""
    match value:
        case Written():
            at = relative(value.at)
            return from_python({k: v for k, v in value.keys.items() if v is not None}, at, relative)
        case str():
            return Scalar(value, "text", at)
        case bool():
            return Scalar(str(value).lower(), "boolean", at)
        case int() | float():
            return Scalar(repr(value), "number", at)
        case None:
            return Scalar("None", "null", at)
        case Mapping():
            return Entries(tuple((_key(key, at), from_python(item, at, relative)) for key, item in value.items()), at)
        case Sequence() if any(isinstance(item, Written) and item.name is not None for item in value):
            return Entries(tuple(_named(item, at, relative) for item in value), at)
        case Sequence():
            return Items(tuple(from_python(item, at, relative) for item in value), at)
        case _:
            return Scalar(f"a {type(value).__name__}", "other", at)


def _key(key: object, at: Place) -> Scalar:
    return Scalar(key, "text", at) if isinstance(key, str) else Scalar(repr(key), "other", at)


def _named(item: object, at: Place, relative: Callable[[Place], Place]) -> tuple[Scalar, Node]:
    if isinstance(item, Written) and item.name is not None:
        return _key(item.name, relative(item.at)), from_python(item, at, relative)
    return Scalar(f"a {type(item).__name__}", "other", at), from_python(item, at, relative)
