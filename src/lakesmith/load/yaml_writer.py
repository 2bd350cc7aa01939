"""Writes declarations as YAML that is read back as what it was: one line a block, quotes only where they are needed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from lakesmith.load.nodes import plain_sort

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def flow(value: object) -> str:
    """The value on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case float():
            return format(Decimal(repr(value)), "f")
        case str():
            return word(value)
        case Mapping():
            return "{" + ", ".join(f"{word(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(map(flow, value)) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as YAML")


def word(text: str) -> str:
    """A text that no reader of YAML takes for something else, and in which no variable is looked for."""
    if _PLAIN.fullmatch(text) and plain_sort(text) == "text":
        return text
    told = text.replace("${", "$${")
    # Regular expressions are read more easily in single quotes, where a backslash is one.
    if told.isprintable() and ("\\" in told or '"' in told):
        return "'" + told.replace("'", "''") + "'"
    return '"' + "".join(map(_letter, told)) + '"'


def remark(text: str) -> str:
    """A text as a comment, which is one line."""
    return "# " + "".join(letter if letter.isprintable() else "�" for letter in text)


def _letter(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
