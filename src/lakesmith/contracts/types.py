"""Spark SQL types as trees, so that two of them can be compared part by part."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesmith.plan.widening import widens

_TOKEN = re.compile(r"decimal\(\d+,\d+\)|`(?:[^`]|``)*`|\w+|[<>,:]")
_PROMOTED = {
    "tinyint": ("float", "double"),
    "smallint": ("float", "double"),
    "int": ("float", "double"),
    "bigint": ("float", "double"),
    "string": ("binary",),
    "binary": ("string",),
}
"""What Avro lets a reader promote, beside what is a wider type of the same kind."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A type without parts."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one type."""

    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Values by key."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields by name; each may be without a value."""

    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{type}' for name, type in self.fields)}>"


Type = Leaf | Array | Map | Struct


def read_type(text: str) -> Type:
    """The tree of a type that is spelt as `load.spark_types` or a table's log spells it."""
    words = _TOKEN.findall(text)
    return _read(words, 0)[0] if "".join(words) == text else Leaf(text)


def _read(words: list[str], at: int) -> tuple[Type, int]:
    word, opened = words[at], at + 1 < len(words) and words[at + 1] == "<"
    if not opened:
        return Leaf(word), at + 1
    at += 2
    if word == "array":
        element, at = _read(words, at)
        return Array(element), at + 1
    if word == "map":
        key, at = _read(words, at)
        value, at = _read(words, at + 1)
        return Map(key, value), at + 1
    fields: list[tuple[str, Type]] = []
    while True:
        name = words[at].strip("`")
        type, at = _read(words, at + 2)
        fields.append((name, type))
        if words[at] == ">":
            return Struct(tuple(fields)), at + 1
        at += 1


def reads(reader: str, writer: str) -> bool:
    """Whether a reader that expects the one type without parts takes values that were written as the other."""
    return reader == writer or reader in _PROMOTED.get(writer, ()) or widens(writer, reader)
