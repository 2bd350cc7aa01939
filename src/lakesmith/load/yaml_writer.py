"""Write YAML that every reader reads back unchanged, with quotes only where they are needed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from lakesmith.load.nodes import plain_sort

_PLAIN = re.compile(r"[A-Za-z0-9_][\w.%-]*( [A-Za-z0-9_][\w.%-]*)*", re.ASCII)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def yaml_table(keys: Mapping[str, Any]) -> str:
    """Return a table as YAML: one line per key, column and check."""
    lines: list[str] = []
    for key, value in keys.items():
        if key in ("columns", "checks"):
            lines += yaml_block(key, value)
        else:
            lines.append(f"{key}: {yaml_flow(value)}")
    return "".join(f"{line}\n" for line in lines)


def yaml_block(key: str, items: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines of a block with one line per item, each below its comment."""
    lines = [f"{key}:"]
    for name, item in items.items():
        if comments and name in comments:
            lines.append(f"  {yaml_comment(comments[name])}")
        # A type alone may stand for the block of a column.
        short = item["type"] if key == "columns" and list(item) == ["type"] else item
        lines.append(f"  {yaml_word(name)}: {yaml_flow(short)}")
    return lines


def yaml_flow(value: object) -> str:
    """Return the value on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case float():
            return format(Decimal(repr(value)), "f")
        case Mapping():
            return "{" + ", ".join(f"{yaml_word(str(key))}: {yaml_flow(item)}" for key, item in value.items()) + "}"
        case Sequence() if not isinstance(value, str):
            return "[" + ", ".join(map(yaml_flow, value)) + "]"
        case _:
            return yaml_word(str(value))


def yaml_word(text: str) -> str:
    """Return a text that every YAML reader reads as this text, and in which `load` sees no variable."""
    return _word(text.replace("${", "$${"))


def yaml_document(document: Mapping[str, Any]) -> str:
    """Return a nested document that other tools read: one line per value, and nothing stands for a variable."""
    return "".join(f"{line}\n" for line in _lines(document))


def _lines(value: object) -> list[str]:
    match value:
        case str():
            return [_word(value)]
        case Mapping() if value:
            return [line for key, item in value.items() for line in _below(f"{_word(str(key))}:", item)]
        case Sequence() if value:
            return [line for item in value for line in _below("-", item)]
        case _:
            return [yaml_flow(value)]


def _below(start: str, value: object) -> list[str]:
    first, *rest = _lines(value)
    block = bool(value) and isinstance(value, Mapping | Sequence) and not isinstance(value, str)
    lines = [start, f"  {first}"] if block and start != "-" else [f"{start} {first}"]
    return [*lines, *(f"  {line}" for line in rest)]


def _word(text: str) -> str:
    if _PLAIN.fullmatch(text) and plain_sort(text) == "text":
        return text
    # A regular expression is easier to read in single quotes. The end of a comment has to be escaped in SQL files.
    if text.isprintable() and ("\\" in text or '"' in text) and "*/" not in text:
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_character, text)) + '"'


def yaml_comment(text: str) -> str:
    """Return a text as a comment of one line."""
    return "# " + "".join(letter if letter.isprintable() else "�" for letter in text)


def _character(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
